"""`einsum` as a built-in function: repeated calls run natively, all others in Python.

A call that comes a second time is written down as a CallProgram: the kernels it runs, on which
arguments, into which new arrays. The native dispatcher finds it by the call's signature from then
on. What the program of a call may depend on must all be in its signature: subscripts, options,
threads, dtypes, sizes, strides and alignment. Whatever depends on the numbers in arrays stays with
Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from loopwright import options
from loopwright.calls import einsum as roads
from loopwright.calls.einsum_call import EinsumCall, Scaling, read_options
from loopwright.calls.einsum_contraction import kernel_arrays, plan_contraction
from loopwright.diagnostics import LoopwrightError
from loopwright.ir.call_dispatch import MOST_OPERANDS, OPTIONS
from loopwright.kernels import Unproven, dispatcher
from loopwright.runtime.array_arguments import Array
from loopwright.runtime.call_table import CallProgram, array_words
from loopwright.runtime.code_memory import bounded
from loopwright.runtime.native_dispatch import Dispatcher
from loopwright.tracebacks import hide_frames

__all__ = ["einsum"]

_SIGNATURE = (
    "einsum(subscripts=None, *operands, semiring='plus_times', out=None, dtype=None, order='K', "
    "casting=None, optimize=False, accumulate=False, alpha=1, beta=0, accum_dtype=None, "
    "threads=None, plan=None, tune=None)\n--\n\n"
)
_NAMES = frozenset(OPTIONS)
_OUTS = (np.ndarray, type(None))
_BRIEF = 5e3  # predicted cycles up to which a call keeps the GIL


def _otherwise(*args: Any, **named: Any) -> Any:
    """A call without a record: Python runs it, and may write it down for the next time."""
    try:
        result = roads.einsum(*args, **named)
    except LoopwrightError as error:
        hide_frames(error)
        raise
    if _is_candidate(args, named):
        found = dispatcher()
        assert found is not None
        found.settle()
        if not options.current().careful:
            _remember(found, args, named)
    return result


def _is_candidate(args: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Whether there may be a record of a call: a string, arrays of NumPy, options by name."""
    if not 2 <= len(args) < 2 + MOST_OPERANDS or type(args[0]) is not str:
        return False
    arrays = all(type(x) is np.ndarray for x in args[1:])
    return arrays and named.keys() <= _NAMES and type(named.get("out")) in _OUTS


def _remember(here: Dispatcher, args: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Write down a call that came before."""
    words = _signature(here, args, named)
    table = here.einsum_calls
    scratch = table.scratch_of(words)
    if scratch is None and table.is_repeated(words):
        program = _program(args[0], args[1:], named)
        if program is not None:
            program.kept += [args[0], here.text(args[0]), *named.values()]
            program.kept += [here.text(x) for x in named.values() if type(x) is str]
            program.kept += [x.dtype for x in (*args[1:], named.get("out")) if x is not None]
            scratch = table.add(words, program)
        if scratch is None:
            table.refuse(words)
    if scratch is not None:
        here.offer(scratch)


def _signature(here: Dispatcher, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[int, ...]:
    """The words of a call as the dispatcher writes them."""
    subscripts, *operands = args
    out = named.get("out")
    arrays = operands if out is None else [*operands, out]
    form = len(args) | (out is not None) << 8
    chosen = []
    for number, name in enumerate(OPTIONS[1:], 1):
        if name in named:
            value = named[name]
            form |= 1 << number + 8
            chosen.append(id(here.text(value) if type(value) is str else value))
    first = id(here.text(subscripts)), form, here.threads, *chosen
    return (*first, *(word for x in arrays for word in array_words(x)))


def _program(
    subscripts: str, operands: Sequence[Array], named: dict[str, Any]
) -> CallProgram | None:
    """What a call does; None where that is not known beforehand."""
    # Views of their own: an array that is given twice may be two arrays the next time.
    operands = [x[...] for x in operands]
    given = {name: value for name, value in named.items() if value is not None}
    out = given.get("out")
    asked = read_options(
        *(given.get(name) for name in ("optimize", "dtype", "order", "casting")),
    )
    scaling = roads.scaling_of(
        given.get("alpha", 1), given.get("beta", 0), given.get("accumulate", False)
    )
    if len(operands) == 1 and out is None and "accum_dtype" not in given and scaling == Scaling():
        view = roads.view_of(subscripts, operands[0], asked)
        if view is not None:
            return _view_program(operands[0], view)
    ring, threads = given.get("semiring", "plus_times"), given.get("threads")
    made = roads.prepared(
        subscripts, operands, ring, out, scaling, given.get("accum_dtype"), threads, asked
    )
    call = made.call
    is_plain = all(a is b for a, b in zip(call.arrays, operands, strict=True))
    is_whole = call.out.size and all(a.size for a in call.arrays)
    if not is_plain or not is_whole or (made.target is not None and made.target is not call.out):
        return None
    if made.target is None and not call.out.flags.c_contiguous:
        return None
    steps: list[EinsumCall] | None = [call]
    if len(operands) > 2:
        from loopwright.calls.einsum_path import pairs_unread  # lazy: most calls have two

        steps = pairs_unread(call, asked.path)
    try:
        return None if steps is None else _launches(steps, operands, call.out, made.target)
    except Unproven:
        return None


def _launches(
    steps: list[EinsumCall], operands: Sequence[Array], out: Array, target: Array | None
) -> CallProgram:
    """The kernels of contractions, one after another; the last writes the result."""
    program = CallProgram()
    numbers: dict[int, int] = {}
    cycles = 0.0
    places = {id(x): place for place, x in enumerate(operands, 1)}

    def number(array: Array) -> int:
        if id(array) not in numbers:
            if array is out:
                made = program.new(out.shape, out.dtype) if target is None else program.argument(0)
            elif id(array) in places:
                made = program.argument(places[id(array)])
            elif any(array is step.out for step in steps):
                made = program.temporary(array.nbytes)
            else:
                made = program.constant(array)
            numbers[id(array)] = made
        return numbers[id(array)]

    arrays = []
    for step in steps:
        choice, bound = plan_contraction(step)
        arrays.append(kernel_arrays(step, choice))
        program.launch(bound, *map(number, arrays[-1]))
        cycles += choice.cycles
    program.releases = cycles > _BRIEF
    program.give(numbers[id(out)])
    if target is not None:
        program.writes(0)
        for place, operand in enumerate(operands, 1):
            program.apart(0, target, place, operand)
    return program


def _view_program(operand: Array, view: Any) -> CallProgram | None:
    """A view from the first element of the operand on."""
    if type(view) is not np.ndarray or not view.ndim or not view.size:
        return None
    program = CallProgram()
    program.give_view(program.argument(1), 0, view.shape, view.strides)
    return program


def _public() -> Any:
    """The function that users call."""
    found = dispatcher()
    if found is None:
        return roads.einsum
    roads.forgetting.append(bounded(found.einsum_calls).clear)
    return found.einsum(_otherwise, _SIGNATURE + (roads.einsum.__doc__ or ""))


einsum = _public()
