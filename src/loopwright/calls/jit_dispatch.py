"""Repeated calls of compiled functions, written down for the native dispatcher.

What the program of a call depends on is in its signature (dtypes, sizes, strides, integers and the
types of other numbers), or is looked at in every call: the outer names that the function reads,
whether arrays may be written, and whether they lie apart from what is written.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, Protocol

import numpy as np

from loopwright import options
from loopwright.calls.specialisation import Specialisation
from loopwright.frontends.python.fingerprint import lookup
from loopwright.ir.call_dispatch import MOST_ARGUMENTS
from loopwright.kernels import dispatcher
from loopwright.runtime.call_table import CallProgram, array_words
from loopwright.runtime.native_dispatch import Dispatcher

__all__ = ["AffineCall", "NativeCalls", "install_native_calls"]

_MOST_CALLS = 64  # of one function
_PAUSE = 7  # calls between two looks at one that is raced
_KNOWN = frozenset({np.ndarray, float, int})
_WORD = range(-(1 << 63), 1 << 63)


def install_native_calls(owner: type) -> bool:
    """Let calls of the objects of a class go to the dispatcher first; False: there is none."""
    found = dispatcher()
    if found is None:
        return False
    owner.__call__ = found.method(owner)  # type: ignore[method-assign]
    return True


class Recordable(Protocol):
    """The code of a call, which can be written down."""

    @property
    def captured(self) -> tuple[tuple[str, object], ...]:
        """The outer names that count, with the values they had."""

    def record(self, program: CallProgram, args: tuple[Any, ...], threads: int) -> bool:
        """Write down what a call does that came before; False where that is not possible."""


class NativeCalls:
    """The calls of one function that the dispatcher knows.

    `function` is that of Python whose outer names count, None for one of C.
    """

    def __init__(self, function: FunctionType | None, fallback: Callable[..., Any]) -> None:
        found = dispatcher()
        assert found is not None
        self._here: Dispatcher = found
        self._function = function
        self._fallback = fallback  # which words refer to
        self._table = found.table(_MOST_CALLS)
        self._pause = 0  # calls that are not looked at: which code they run is not yet decided
        self.words = found.function_words(fallback, self._table)

    def remember(
        self,
        args: tuple[Any, ...],
        threads: int,
        code: Callable[[tuple[Any, ...]], Recordable | None],
    ) -> None:
        """Write down a call that came before; `code` gives what it ran."""
        if self._pause:
            self._pause -= 1
            return
        if len(args) > MOST_ARGUMENTS or not all(type(x) in _KNOWN for x in args):
            return
        self._here.settle()
        words = _signature(self._here, args)
        if options.current().careful or words is None:
            return
        scratch = self._table.scratch_of(words)
        if scratch is None and self._table.is_repeated(words):
            # Views of their own, as arguments are told apart by identity: see einsum_dispatch.
            args = tuple(x[...] if type(x) is np.ndarray else x for x in args)
            found = code(args)
            if isinstance(found, AffineCall) and found.is_racing(threads):
                self._pause = _PAUSE
                return
            program = None if found is None else self._program(args, found, threads)
            if program is not None:
                scratch = self._table.add(words, program)
            if scratch is None:
                self._table.refuse(words)
        if scratch is not None:
            self._here.offer(scratch)

    def _program(self, args: tuple[Any, ...], code: Recordable, threads: int) -> CallProgram | None:
        program = CallProgram()
        if self._function is None:
            assert not code.captured
        elif not _watch(program, self._function, code.captured):
            return None
        return program if code.record(program, args, threads) else None

    def forget(self) -> None:
        """Forget all calls: there are other records, or outer names have changed."""
        self._table.clear()


def _signature(here: Dispatcher, args: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The words of a call as the dispatcher writes them; None for integers of many words."""
    words: list[int] = [here.threads]
    for arg in args:
        if type(arg) is np.ndarray:
            words += array_words(arg)
        elif type(arg) is float:
            words.append(id(float))
        elif arg in _WORD:
            words += id(int), arg
        else:
            return None
    return tuple(words)


class AffineCall:
    """The code of affine loops and what it is given.

    That stands at `places` among the arguments of a call, counted from 1; None: in the same order.
    """

    def __init__(
        self,
        code: Specialisation,
        given: tuple[Any, ...],
        places: tuple[int, ...] | None = None,
    ) -> None:
        self._code, self._given, self._places = code, given, places

    @property
    def captured(self) -> tuple[tuple[str, object], ...]:
        """The outer names that count, with the values they had."""
        return self._code.captured

    def is_racing(self, threads: int) -> bool:
        """Whether it is open which code serves such calls."""
        return self._code.is_racing(self._given, threads)

    def record(self, program: CallProgram, args: tuple[Any, ...], threads: int) -> bool:
        """Write down what the call does; False where that is not known beforehand."""
        code, order = self._code, self._places or tuple(range(1, len(args) + 1))
        arrays = {place: x for place, x in enumerate(args, 1) if type(x) is np.ndarray}
        if any(not x.size for x in arrays.values()):
            return False
        found = code.launches(self._given, threads)
        summary = code.summary
        result = summary.result
        if found is None:
            return False
        fresh, launches = found
        numbers: dict[str, int] = {}
        places = {x.name: place for place, x in zip(order, summary.arguments, strict=True)}
        for argument in summary.arguments:
            place = places[argument.name]
            if place in arrays:
                if not arrays[place].flags.aligned:
                    return False
                numbers[argument.name] = program.argument(place)
            elif argument.kind != "int":
                if type(args[place - 1]) is not float or argument.dtype != "float64":
                    return False
                numbers[argument.name] = program.number(place, single=False)
        numbers |= {name: program.new(shape, dtype) for name, shape, dtype in fresh}
        for name, shape, dtype in launches.temporaries:
            numbers[name] = program.temporary(math.prod(shape) * dtype.itemsize)
        for kernel, names in launches.kernels:
            program.launch(kernel, *(numbers[name] for name in names))
        for name in code.written:
            place = places[name]
            if place not in arrays:
                return False  # a parameter of C that its function changes: a copy of its own
            program.writes(place)
            for other, array in arrays.items():
                if other != place:
                    program.apart(place, arrays[place], other, array)
        program.kept += [x.dtype for x in arrays.values()]
        if result is not None:
            for name in result.names:
                program.give(program.argument(places[name]) if name in places else numbers[name])
            if result.is_tuple:
                program.give_tuple(len(result.names))
        return True


def _watch(
    program: CallProgram, function: FunctionType, captured: tuple[tuple[str, object], ...]
) -> bool:
    """Have the outer names of a function looked at in every call; False where that is not done."""
    for dotted, value in captured:
        if lookup(function, dotted) is not value:
            return False
        name, *attributes = dotted.split(".")
        holder = _watch_variable(program, function, name)
        for attribute in attributes:
            helper = getattr(holder, "py_func", holder)
            if isinstance(helper, FunctionType):
                holder = _watch_variable(program, helper, attribute)
            elif isinstance(holder, ModuleType) and attribute in vars(holder):
                program.watch(vars(holder), attribute, vars(holder)[attribute])
                holder = vars(holder)[attribute]
            else:
                return False
        if holder is not value:
            return False
    return True


def _watch_variable(program: CallProgram, function: FunctionType, name: str) -> object:
    """Have a variable looked at in every call, and return its value now."""
    code, names = function.__code__, function.__globals__
    if name in code.co_freevars and function.__closure__ is not None:
        cell = function.__closure__[code.co_freevars.index(name)]
        program.watch_cell(cell, cell.cell_contents)
        return cell.cell_contents
    if name in names:
        program.watch(names, name, names[name])
        return names[name]
    program.watch(names, name)
    value = getattr(builtins, name)
    program.watch(vars(builtins), name, value)
    return value
