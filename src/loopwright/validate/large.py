"""Checks at sizes of several tiles: compiled code against the program in its source order.

The interpreter cannot serve such sizes; it has compared the source order with the program at small
ones. Names (validate/hashed) tell whether every element is computed from the same values; numbers
are compared up to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import numpy as np

from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Const
from loopwright.ir.loops import For, LoopNest
from loopwright.ir.program import Program, Role
from loopwright.ir.visit import statements
from loopwright.validate.data import Runner, first_difference
from loopwright.validate.difference import Difference, Kind
from loopwright.validate.meaning import Arrays, Signs, draw_inputs
from loopwright.validate.sizes import pick_sizes

__all__ = ["can_run", "compare_names", "compare_numbers", "large_sizes"]

MOST_ACCESSES = 30_000_000
_MOST_OF_ONE_SIZE = 100_000_000  # for a program that has no other size: some ten seconds
_MOST_BYTES = 1 << 26  # of one array
# Rounding of long sums, relative to the largest result.
_TOLERANCE = {8: 1e-10, 4: 1e-4, 2: 0.1}
_SHAKEN = 64.0  # times the effect of moving the inputs by some units


def large_sizes(program: Program, nest: LoopNest, seed: int) -> tuple[dict[str, int], ...]:
    """Sizes around the tiles of a nest, large ones first: a bit more, two and a bit, a bit less."""
    around = [(tile + 1, 2 * tile + 3, tile - 1) for tile in _steps(nest)]
    values = tuple(dict.fromkeys((67, *chain.from_iterable(around), 17, 9, 5)))
    most = MOST_ACCESSES if program.params else _MOST_OF_ONE_SIZE
    found = pick_sizes(program, values=values, most=most, count=5, seed=seed)
    return tuple(params for params in found if _fits(program, params))


def can_run(program: Program, seed: int = 0) -> bool:
    """Whether the program has a size at which validation runs it."""
    most = MOST_ACCESSES if program.params else _MOST_OF_ONE_SIZE
    found = pick_sizes(program, most=most, count=1, seed=seed)
    return any(_fits(program, params) for params in found)


def _steps(nest: LoopNest) -> list[int]:
    """The constant steps of loops from 8 up, long ones first."""
    loops = (s for s in statements(nest.body) if isinstance(s, For))
    steps = {s.step.value for s in loops if isinstance(s.step, Const)}
    return sorted(
        {8, *(step for step in steps if isinstance(step, int) and step > 8)}, reverse=True
    )


def _fits(program: Program, params: Mapping[str, int]) -> bool:
    for array in program.arrays:
        elements = 1
        for extent in array.shape:
            elements *= max(0, int(evaluate(extent, params)))
        if elements * max(8, array.dtype.bytes) > _MOST_BYTES:
            return False
    return True


def compare_names(
    program: Program,
    original: Runner,
    run: Runner,
    params: Mapping[str, int],
    *,
    threads: int = 1,
    seed: int = 0,
) -> tuple[Difference, ...]:
    """Where two hashed nests of a program leave different names."""
    random = np.random.default_rng(seed)
    shapes = draw_inputs(program, params, seed=seed)
    names = {
        name: np.asarray(random.integers(0, 2**64, data.shape, np.uint64))
        for name, data in shapes.items()
    }
    expected, found = _copies(names), _copies(names)
    original(expected, params)
    run(found, params)
    return _told(program, Kind.ORDER, "hashed", params, threads, expected, found, {})


def compare_numbers(
    program: Program,
    original: Runner,
    runners: Mapping[str, Runner],
    params: Mapping[str, int],
    *,
    seed: int = 0,
    signs: Signs = Signs.ANY,
) -> tuple[Difference, ...]:
    """Where the numbers that `runners` leave differ from the source order by more than rounding.

    What rounding may do is learnt from a second run of the source order, on inputs that are moved
    by some units in the last place.
    """
    inputs = draw_inputs(program, params, seed=seed, signs=signs)
    expected, shaken = _copies(inputs), _shaken(inputs, seed)
    original(expected, params)
    original(shaken, params)
    slacks = {name: _slack(right, shaken[name]) for name, right in expected.items()}
    told: list[Difference] = []
    for name, run in runners.items():
        found = _copies(inputs)
        run(found, params)
        told += _told(program, Kind.DATA, name, params, 1, expected, found, slacks)
    return tuple(told)


def _shaken(arrays: Arrays, seed: int) -> Arrays:
    """Copies whose floating numbers are moved a little, up or down."""
    random = np.random.default_rng(seed)
    found = _copies(arrays)
    for data in found.values():
        if data.dtype.kind in "fc":
            unit = 4 * np.finfo(data.dtype).eps
            data += (data * (unit * random.choice((-1, 1), data.shape))).astype(data.dtype)
    return found


def _copies(arrays: Arrays) -> Arrays:
    return {name: data.copy() for name, data in arrays.items()}


def _told(
    program: Program,
    kind: Kind,
    runner: str,
    params: Mapping[str, int],
    threads: int,
    expected: Arrays,
    found: Arrays,
    slacks: Mapping[str, np.ndarray],
) -> tuple[Difference, ...]:
    told = []
    for array in program.arrays:
        if array.role is Role.LOCAL:
            continue
        name, right = array.name, expected[array.name]
        slack = slacks.get(name, 0.0)
        place = first_difference(found[name], right, slack, signed_zeros=False)
        if place is None:
            continue
        element = f"{name}[{', '.join(map(str, place))}]"
        if kind is Kind.ORDER:
            text = "should be computed as in source order", "a value computed otherwise"
        else:
            text = f"should be about {right[place]}", str(found[name][place])
        told.append(Difference(kind, runner, tuple(params.items()), threads, element, *text))
    return tuple(told)


def _slack(expected: np.ndarray, shaken: np.ndarray) -> np.ndarray:
    """What rounding may do to results, given what it did to those of inputs moved a little."""
    with np.errstate(all="ignore"):
        if expected.dtype.kind not in "fc":
            return np.where(expected == shaken, 0.0, np.inf)
        finite = np.isfinite(expected) & np.isfinite(shaken)
        largest = float(np.max(np.abs(expected), where=finite, initial=1.0))
        slack = _TOLERANCE[expected.real.dtype.itemsize] * largest
        slack = slack + _SHAKEN * np.abs(expected - shaken)
        # What overflowed in one order may not in another.
        return np.where(finite, slack, np.inf)
