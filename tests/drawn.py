"""A part of many examples in the usual run, all of them in the hunt (`make hunt`)."""

import itertools
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

HUNTS = os.environ.get("HYPOTHESIS_PROFILE") == "hunt"
FEWEST = 2  # cases of a test that the usual run takes, where it has as many
T = TypeVar("T")


def drawn(items: Iterable[T], one_in: int, first: int = 0) -> list[T]:
    """Every `one_in`-th of the items, at least one, begun at item `first % one_in`.

    The hunt leaves none out. Tests with two parameters pass the number of one as `first` of the
    other, so that all values of both occur.
    """
    every = list(items)
    return every if HUNTS else every[first % one_in :: one_in] or every[-1:]


def combined(*axes: Iterable[Any], one_in: int) -> list[tuple[Any, ...]]:
    """One in so many of the combinations of values, spread evenly; in the hunt all of them.

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
    """How many random examples the usual run has of so many in the hunt: a third, at least ten."""
    return examples if HUNTS else min(examples, max(10, examples // 3))


def turn_of_day() -> int:
    """A number that every day has another of: what passes before a commit passes after it."""
    return datetime.now(UTC).date().toordinal()


def in_turn(cases: Sequence[T], one_in: int, turn: int) -> list[T]:
    """One of each `one_in` cases that follow each other, at least `FEWEST` where there are as many.

    Let s be the step that leaves so many. Of block b, the cases from b s on, turn t takes number
    (t + b) modulo s: over s turns each case runs once, and a turn has all values of an inner axis.
    """
    step = max(1, min(one_in, len(cases) // FEWEST))
    return [case for k, case in enumerate(cases) if (turn + k // step - k) % step == 0]
