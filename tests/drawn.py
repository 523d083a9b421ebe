"""Which of many cases a run takes; TEST_LEVEL says it and is read here only.

test (`make test`): the same part on every machine and every day;
all (`make test-all`): that part, another one every day, and tests marked `only_in_all`;
hunt (`make hunt`): all of them, and more random examples, others every time: hours.
"""

import itertools
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

LEVELS = ("test", "all", "hunt")
LEVEL = os.environ.get("TEST_LEVEL", "test")
if LEVEL not in LEVELS:
    raise ValueError(f"TEST_LEVEL={LEVEL}: accepted are {', '.join(LEVELS)}")

HUNTS = LEVEL == "hunt"
RARER = 2  # in the usual run, a mark `drawn(one_in)` leaves one of so many times `one_in`
T = TypeVar("T")


def in_all() -> bool:
    """Whether this run takes what is too long for the usual one: `make test-all`, `make hunt`."""
    return LEVEL != "test"


def drawn(items: Iterable[T], one_in: int, first: int = 0) -> list[T]:
    """Every `one_in`-th of the items, at least one, begun at item `first % one_in`.

    The hunt leaves none out. Tests with two parameters pass the number of one as `first` of the
    other, so that all values of both occur.
    """
    every = list(items)
    return every if HUNTS else every[first % one_in :: one_in] or every[-1:]


def combined(*axes: Iterable[Any], one_in: int) -> list[tuple[Any, ...]]:
    """One of every `one_in` combinations of values, spread evenly; in the hunt all of them.

    They are those whose positions on the axes sum to a multiple of `one_in`: fixing all values but
    one leaves every `one_in`-th of that one.
    """
    numbered = itertools.product(*(list(enumerate(axis)) for axis in axes))
    return [
        tuple(value for _, value in chosen)
        for chosen in numbered
        if HUNTS or sum(at for at, _ in chosen) % one_in == 0
    ]


def some(examples: int) -> int:
    """How many random examples a run has where the hunt has `examples`.

    A third, at least ten; in the usual run half as many.
    """
    if HUNTS:
        return examples
    return min(examples, max(10, examples // 3) if in_all() else max(5, examples // 6))


def turn() -> int:
    """The turn of this run: 0 in the usual one, else DRAW, which is the number of the day (UTC).

    It is written back, so that all workers of a run agree, also where one starts after midnight.
    """
    if not in_all():
        return 0
    return int(os.environ.setdefault("DRAW", str(datetime.now(UTC).date().toordinal())))


def taken(cases: Sequence[T], one_in: int) -> list[T]:
    """What this run takes of the cases of a test with the mark `drawn`.

    The usual run takes turn 0 of half as many as the mark says, the long one that and its own turn,
    the hunt all cases.
    """
    if HUNTS:
        return list(cases)
    places = range(len(cases))
    chosen = set(in_turn(places, RARER * one_in, 0))
    if in_all():
        chosen |= set(in_turn(places, one_in, turn()))
    return [cases[place] for place in sorted(chosen)]


def in_turn(cases: Sequence[T], one_in: int, turn: int) -> list[T]:
    """One of each `one_in` cases that follow each other, at least one.

    Let s be the step that leaves so many. Of block b, the cases from b s on, turn t takes number
    (t + b) modulo s: over s turns each case runs once, and a turn has all values of an inner axis.
    """
    step = max(1, min(one_in, len(cases)))
    return [case for k, case in enumerate(cases) if (turn + k // step - k) % step == 0]
