"""Problem sizes at which a program is checked, within a number of accesses.

Small ones (none, one, two, primes) are for the interpreter; large ones span several tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from random import Random

from loopwright.analysis.size_estimates import count_accesses
from loopwright.analysis.subscript_bounds import bounds_violation, predicate
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Const
from loopwright.ir.loops import For, LoopNest
from loopwright.ir.program import Program
from loopwright.ir.visit import statements

__all__ = ["Params", "can_run", "large_sizes", "pick_sizes"]

Params = Mapping[str, int]

SMALL = (0, 1, 2, 3, 5, 7, 11, 13)
MOST_ACCESSES = 6_000
_MOST_LARGE_ACCESSES = 30_000_000
_MOST_OF_ONE_SIZE = 100_000_000  # for a program that has no other size: some ten seconds
_MOST_BYTES = 1 << 26  # of one array
_MIXED = 12  # drawings of different values for different parameters


def pick_sizes(
    program: Program,
    *,
    values: tuple[int, ...] = SMALL,
    most: int = MOST_ACCESSES,
    count: int = 8,
    seed: int = 0,
) -> tuple[dict[str, int], ...]:
    """Up to `count` different choices of the parameters that the program allows.

    All parameters alike come first, from small to large; then mixtures. None makes the program
    leave its arrays or make more than `most` accesses; so a program of large constant bounds has
    no such sizes.
    """
    is_known, is_wrong = predicate(program.context), predicate(bounds_violation(program))
    found: list[dict[str, int]] = []
    for params in _offers(program.params, values, Random(seed)):
        if len(found) == count:
            break
        if params in found or not is_known(params) or is_wrong(params):
            continue
        if count_accesses(program, params, most) <= most:
            found.append(params)
    return tuple(found)


def _offers(
    names: tuple[str, ...], values: tuple[int, ...], random: Random
) -> Iterator[dict[str, int]]:
    mixtures = [{name: random.choice(values) for name in names} for _ in range(_MIXED)]
    for at, value in enumerate(values):
        yield dict.fromkeys(names, value)
        if len(names) > 1 and at >= 2:
            yield mixtures[at % _MIXED]
    yield from mixtures


def large_sizes(program: Program, nest: LoopNest, seed: int) -> tuple[dict[str, int], ...]:
    """Sizes around the tile sizes T of a nest, large ones first: T + 1, 2T + 3, T - 1."""
    around = [(tile + 1, 2 * tile + 3, tile - 1) for tile in _steps(nest)]
    values = tuple(dict.fromkeys((67, *chain.from_iterable(around), 17, 9, 5)))
    most = _MOST_LARGE_ACCESSES if program.params else _MOST_OF_ONE_SIZE
    found = pick_sizes(program, values=values, most=most, count=5, seed=seed)
    return tuple(params for params in found if _fits(program, params))


def can_run(program: Program, seed: int = 0) -> bool:
    """Whether the program has a size at which validation runs it."""
    most = _MOST_LARGE_ACCESSES if program.params else _MOST_OF_ONE_SIZE
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
