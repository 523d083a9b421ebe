"""A part of many examples in the usual run, all of them in the hunt (`make hunt`)."""

import itertools
import os
from collections.abc import Iterable
from typing import Any, TypeVar

HUNTS = os.environ.get("HYPOTHESIS_PROFILE") == "hunt"
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
