"""The order check: a loop nest computes every element from the same values as its program.

Both run on shadows (ir/shadow), whose value numbers tell how each value was computed. Schedules,
dependences and lowering are not trusted: an instance left out or executed at the wrong time, a
wrong bound or subscript gives an element another value number, even where the numbers agree.
Concurrent iterations run in any order, and races are faults. For blocked closures, whose terms are
equal by the laws of their semiring only, the numbers themselves are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from loopwright.analysis.find_closures import find_closure
from loopwright.diagnostics import InternalError, Span
from loopwright.ir.closure import Closure
from loopwright.ir.expr import Load
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import For, If, LoopNest, Mark
from loopwright.ir.memory import Memory, element_strides
from loopwright.ir.program import Program, Role
from loopwright.ir.shadow import Instance, ShadowRules
from loopwright.ir.terms import ValueNumber
from loopwright.ir.visit import statements, walk
from loopwright.lower.buffers import stride_name
from loopwright.validate.check_data import compare_arrays
from loopwright.validate.difference import Difference, DifferenceKind
from loopwright.validate.reference_run import Arrays, ReferenceRun

__all__ = ["check_order", "has_data_dependent_control", "is_parallel", "launch_of"]

_MOST_FOUND = 16  # differences of one run that are reported
_DEEPEST = 10_000  # steps down two computations that are compared


def check_order(
    reference: ReferenceRun, nest: LoopNest, *, threads: int = 1, seed: int = 0
) -> tuple[Difference, ...]:
    """The elements that a nest, run by `threads` threads, computes from other values."""
    arrays = reference.fresh()
    rules = ShadowRules(reference.terms, reference.rules.strides)
    memory = {name: Memory.of(_with_axis(data)) for name, data in arrays.items()}
    launch = launch_of(nest, arrays, dict(reference.params))
    team = threads if is_parallel(nest) else 1
    try:
        interpret_nest(nest, memory, launch, threads=team, seed=seed, rules=rules)
    except InternalError as error:
        return (_fault(reference, team, error),)
    found = _differing(reference, rules, arrays, team)
    if found and isinstance(find_closure(reference.program), Closure):
        # Terms that absorption makes equal have different value numbers: compare the numbers.
        return compare_arrays(reference, arrays, "interpreter", threads=team)
    return found


def _differing(
    reference: ReferenceRun, rules: ShadowRules, arrays: Arrays, team: int
) -> tuple[Difference, ...]:
    """The elements whose value numbers are not those of the program."""
    found: list[Difference] = []
    for array in reference.program.arrays:
        if array.role is Role.LOCAL:
            continue
        expected, held = reference.rules.contents(array.name), rules.contents(array.name)
        for place in sorted(expected.keys() | held.keys()):
            right = expected.get(place)
            if right is None:
                # Nobody asked for a value here; what an output held before is not of interest.
                if array.role is Role.OUT and _is_inside(arrays[array.name], place):
                    continue
                right = reference.terms.initial(array.name, place)
            is_held = held.get(place, reference.terms.initial(array.name, place))
            if is_held != right:
                found.append(_difference(reference, array.name, place, right, is_held, team))
                if len(found) == _MOST_FOUND:
                    return tuple(found)
    return tuple(found)


def launch_of(nest: LoopNest, arrays: Arrays, params: Mapping[str, int]) -> dict[str, int]:
    """The scalars of a nest that was lowered from a program, for a call with these arrays."""
    strides = {
        stride_name(name, k): stride
        for name, data in arrays.items()
        for k, stride in enumerate(element_strides(data))
    }
    known = {**params, **strides}
    return {name: known[name] for name in nest.scalars}


def is_parallel(nest: LoopNest) -> bool:
    """Whether several threads may enter the nest."""
    return any(isinstance(s, For) and s.mark is Mark.PARALLEL for s in statements(nest.body))


def has_data_dependent_control(nest: LoopNest) -> bool:
    """Whether the contents of arrays decide which statements run."""
    guards = (s.cond for s in statements(nest.body) if isinstance(s, If))
    return any(isinstance(x, Load) for guard in guards for x in walk(guard))


# -- in words --------------------------------------------------------------------------------


def _fault(reference: ReferenceRun, threads: int, error: InternalError) -> Difference:
    return Difference(
        DifferenceKind.FAULT,
        "interpreter",
        reference.params,
        threads,
        "",
        "the loops should keep to their memory, and threads out of each other's way",
        error.message,
        span=_first_span(reference.program),
    )


def _difference(
    reference: ReferenceRun,
    array: str,
    place: int,
    right: ValueNumber,
    held: ValueNumber,
    threads: int,
) -> Difference:
    writer = reference.rules.writer(array, place)
    note = ""
    for expected, found in _diverging(reference, right, held):
        mine, theirs = _value(reference, expected), _value(reference, found)
        if (expected, found) != (right, held):
            note = f"they part where the program has {mine} and the loops have {theirs}"
    return Difference(
        DifferenceKind.ORDER,
        "interpreter",
        reference.params,
        threads,
        f"{array}{_index(reference, array, place)}",
        f"should hold {_value(reference, right, writer)}",
        _value(reference, held),
        note,
        _span(reference.program, writer),
    )


def _diverging(
    reference: ReferenceRun, right: ValueNumber, held: ValueNumber
) -> Iterator[tuple[ValueNumber, ValueNumber]]:
    """Pairs of differing values, each an operand of the one before; the last is the cause."""
    made = reference.terms.made
    for _ in range(_DEEPEST):
        yield right, held
        (op, mine), (other, theirs) = made.get(right, ("", ())), made.get(held, ("", ()))
        if op != other or len(mine) != len(theirs):
            return
        pairs = [(x, y) for x, y in zip(mine, theirs, strict=True) if x != y]
        if not pairs or (len(pairs) > 1 and set(mine) == set(theirs)):
            return
        right, held = pairs[0]


def _value(reference: ReferenceRun, number: ValueNumber, instance: Instance | None = None) -> str:
    """A description of a value: the instance that computes it, or its origin."""
    terms = reference.terms
    instance = instance or reference.rules.first.get(number)
    if instance is not None:
        return f"the value of {_instance(reference.program, instance)}"
    if number in terms.entries:
        array, place = terms.entries[number]
        return f"{array}{_index(reference, array, place)} on entry"
    op, parts = terms.made.get(number, ("", ()))
    if not parts:
        return op or "an unknown value"
    known = [reference.rules.first[p] for p in parts if p in reference.rules.first]
    of = f" of {', '.join(_instance(reference.program, i) for i in known)}" if known else ""
    return f"a value that no statement computes ('{op}'{of})"


def _instance(program: Program, instance: Instance) -> str:
    name, point = instance
    span = program.statement(name).span
    place = "" if span is None else f" ({span.file}:{span.line})"
    return f"{name}[{', '.join(map(str, point))}]{place}"


def _span(program: Program, instance: Instance | None) -> Span | None:
    return None if instance is None else program.statement(instance[0]).span


def _first_span(program: Program) -> Span | None:
    return next((s.span for s in program.statements if s.span is not None), None)


def _index(reference: ReferenceRun, array: str, place: int) -> str:
    """The subscripts of an element; its offset where there are none."""
    data = reference.inputs[array]
    index = _subscripts(data, place)
    if index is None:
        return f" + {place} elements"
    return f"[{', '.join(map(str, index))}]" if data.ndim else ""


def _subscripts(data: np.ndarray, place: int) -> tuple[int, ...] | None:
    """The subscripts of the element at an offset; None for gaps between rows."""
    index = []
    for stride, extent in zip(element_strides(data), data.shape, strict=True):
        at = place // stride if stride else 0
        if not 0 <= at < extent:
            return None
        index.append(at)
        place -= at * stride
    return tuple(index) if place == 0 else None


def _is_inside(data: np.ndarray, place: int) -> bool:
    return _subscripts(data, place) is not None


def _with_axis(data: np.ndarray) -> np.ndarray:
    return data.reshape(1) if data.ndim == 0 else data
