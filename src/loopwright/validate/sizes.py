"""Sizes to check a program at: none, one, two, primes, within a number of accesses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

from loopwright.analysis.bounds import bounds_violation, predicate
from loopwright.analysis.effort import count_accesses
from loopwright.ir.program import Program

__all__ = ["Params", "pick_sizes"]

Params = Mapping[str, int]

SMALL = (0, 1, 2, 3, 5, 7, 11, 13)
MOST_ACCESSES = 6_000
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
