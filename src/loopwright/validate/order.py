"""The order check: a loop nest computes every element from the same values as its program.

Both run on shadows (ir/shadow), which name how each value came about, so nothing is believed of
schedules, dependences or lowering: an instance left out or done at the wrong time, a wrong bound
or subscript leaves an element with another name, also where the numbers happen to agree. Marks
are taken at their word: concurrent iterations run in any order, races are faults. Of a closure in
blocks, which computes other terms that are equal by the laws of its semiring, numbers are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from loopwright.analysis.closure import closure_of
from loopwright.diagnostics import InternalError, Span
from loopwright.ir.closure import Closure
from loopwright.ir.expr import Load
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import For, If, LoopNest, Mark
from loopwright.ir.memory import Memory, element_strides
from loopwright.ir.program import Program, Role
from loopwright.ir.shadow import Instance, ShadowRules
from loopwright.ir.terms import Name
from loopwright.ir.visit import statements, walk
from loopwright.lower.strides import stride_name
from loopwright.validate.data import compare_arrays
from loopwright.validate.difference import Difference, Kind
from loopwright.validate.meaning import Arrays, Meaning

__all__ = ["check_order", "is_parallel", "launch_of", "steers_by_data"]

_MOST_FOUND = 16  # differences of one run that are told
_DEEPEST = 10_000  # steps down two computations that are compared


def check_order(
    meaning: Meaning, nest: LoopNest, *, threads: int = 1, seed: int = 0
) -> tuple[Difference, ...]:
    """How the nest, run by `threads` threads, differs from the program; empty when it does not."""
    arrays = meaning.fresh()
    rules = ShadowRules(meaning.terms, meaning.rules.strides)
    memory = {name: Memory.of(_with_axis(data)) for name, data in arrays.items()}
    launch = launch_of(nest, arrays, dict(meaning.params))
    team = threads if is_parallel(nest) else 1
    try:
        interpret_nest(nest, memory, launch, threads=team, seed=seed, rules=rules)
    except InternalError as error:
        return (_fault(meaning, team, error),)
    found = _differing(meaning, rules, arrays, team)
    if found and isinstance(closure_of(meaning.program), Closure):
        # Absorption makes other computations equal, which names do not know: numbers must do.
        return compare_arrays(meaning, arrays, "interpreter", threads=team)
    return found


def _differing(
    meaning: Meaning, rules: ShadowRules, arrays: Arrays, team: int
) -> tuple[Difference, ...]:
    """The elements whose names are not those of the program."""
    found: list[Difference] = []
    for array in meaning.program.arrays:
        if array.role is Role.LOCAL:
            continue
        expected, held = meaning.rules.contents(array.name), rules.contents(array.name)
        for place in sorted(expected.keys() | held.keys()):
            right = expected.get(place)
            if right is None:
                # Nobody asked for a value here; what an output held before is not of interest.
                if array.role is Role.OUT and _is_inside(arrays[array.name], place):
                    continue
                right = meaning.terms.initial(array.name, place)
            is_held = held.get(place, meaning.terms.initial(array.name, place))
            if is_held != right:
                found.append(_told(meaning, array.name, place, right, is_held, team))
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


def steers_by_data(nest: LoopNest) -> bool:
    """Whether the contents of arrays decide which statements run."""
    guards = (s.cond for s in statements(nest.body) if isinstance(s, If))
    return any(isinstance(x, Load) for guard in guards for x in walk(guard))


# -- in words --------------------------------------------------------------------------------


def _fault(meaning: Meaning, threads: int, error: InternalError) -> Difference:
    return Difference(
        Kind.FAULT,
        "interpreter",
        meaning.params,
        threads,
        "",
        "the loops should keep to their memory, and threads out of each other's way",
        error.message,
        span=_first_span(meaning.program),
    )


def _told(
    meaning: Meaning, array: str, place: int, right: Name, held: Name, threads: int
) -> Difference:
    writer = meaning.rules.writer(array, place)
    note = ""
    for expected, found in _parting(meaning, right, held):
        mine, theirs = _value(meaning, expected), _value(meaning, found)
        if (expected, found) != (right, held):
            note = f"they part where the program has {mine} and the loops have {theirs}"
    return Difference(
        Kind.ORDER,
        "interpreter",
        meaning.params,
        threads,
        f"{array}{_index(meaning, array, place)}",
        f"should hold {_value(meaning, right, writer)}",
        _value(meaning, held),
        note,
        _span(meaning.program, writer),
    )


def _parting(meaning: Meaning, right: Name, held: Name) -> Iterator[tuple[Name, Name]]:
    """Pairs of values, each part of the one before, that differ; the last is where it begins."""
    made = meaning.terms.made
    for _ in range(_DEEPEST):
        yield right, held
        (op, mine), (other, theirs) = made.get(right, ("", ())), made.get(held, ("", ()))
        if op != other or len(mine) != len(theirs):
            return
        pairs = [(x, y) for x, y in zip(mine, theirs, strict=True) if x != y]
        if not pairs or (len(pairs) > 1 and set(mine) == set(theirs)):
            return
        right, held = pairs[0]


def _value(meaning: Meaning, name: Name, instance: Instance | None = None) -> str:
    """A value in words: who computes it, or where it comes from."""
    terms = meaning.terms
    instance = instance or meaning.rules.first.get(name)
    if instance is not None:
        return f"the value of {_instance(meaning.program, instance)}"
    if name in terms.entries:
        array, place = terms.entries[name]
        return f"{array}{_index(meaning, array, place)} on entry"
    op, parts = terms.made.get(name, ("", ()))
    if not parts:
        return op or "an unknown value"
    known = [meaning.rules.first[p] for p in parts if p in meaning.rules.first]
    of = f" of {', '.join(_instance(meaning.program, i) for i in known)}" if known else ""
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


def _index(meaning: Meaning, array: str, place: int) -> str:
    """The subscripts of an element; its place where no subscripts lead there."""
    data = meaning.inputs[array]
    index = _subscripts(data, place)
    if index is None:
        return f" + {place} elements"
    return f"[{', '.join(map(str, index))}]" if data.ndim else ""


def _subscripts(data: np.ndarray, place: int) -> tuple[int, ...] | None:
    """Where in the array an element lies; None for gaps between rows."""
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
