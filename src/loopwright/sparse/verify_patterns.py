"""Whether a format can hold every small tensor: each pattern is converted to it and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError

from .check import keeps_order
from .convert import converted
from .format import Format
from .formats import find
from .tensor import SparseTensor, from_dense, same
from .verify_search import CounterExample

__all__ = ["Trips", "round_trips"]

_MOST_CELLS = 9
_MOST_PATTERNS = 700


@dataclass(frozen=True)
class Trips:
    """How many patterns came through, and the first that did not."""

    count: int
    side: int
    fault: CounterExample | None = None
    obstacle: str = ""  # why no conversion was made

    @property
    def text(self) -> str:
        return f"{self.count} patterns with sides up to {self.side}, there and back"


def round_trips(format: Format, side: int) -> Trips:
    """Convert all small patterns to a format and back; every promise is checked in between."""
    count = 0
    for whole in _patterns(format.rank, side):
        source = replace(from_dense(whole), format=_plain(format.rank))
        try:
            there = converted(source, format, 1)
        except UsageError as error:
            return Trips(count, side, obstacle=str(error).splitlines()[0])
        fault = _fault(whole, source, there)
        if fault is not None:
            return Trips(count, side, fault)
        count += 1
    return Trips(count, side)


def _plain(rank: int) -> Format:
    """Sorted coordinates, none twice: what the entries of an array are."""
    return replace(find("scoo", rank), is_unique=True)


def _patterns(rank: int, side: int) -> Iterator[NDArray[Any]]:
    """Arrays of all shapes up to a side, with every choice of their elements other than 0."""
    shapes = sorted(product(range(1, side + 1), repeat=rank), key=lambda s: (prod(s), s))
    count = 0
    for shape in shapes:
        cells = prod(shape)
        if cells > _MOST_CELLS:
            return
        for chosen in product((False, True), repeat=cells):
            yield (np.arange(1.0, cells + 1) * np.array(chosen)).reshape(shape)
            count += 1
            if count >= _MOST_PATTERNS:
                return


def _fault(whole: NDArray[Any], source: SparseTensor, there: SparseTensor) -> CounterExample | None:
    try:
        there.check()
        read = there.to_dense()
    except UsageError as error:
        return _example(_broken(there), there, f"{whole.tolist()}: {str(error).splitlines()[0]}")
    if not np.array_equal(read, whole):
        return _example("stored", there, f"{whole.tolist()} reads as {read.tolist()}")
    if not same(converted(there, source.format, 1), source):
        return _example("stored", there, f"{whole.tolist()} does not come back")
    return None


def _broken(tensor: SparseTensor) -> str:
    """Whether it is the order of the entries that a tensor has wrong, or something else."""
    try:
        return "stored" if keeps_order(tensor) else "order"
    except UsageError:
        return "stored"


def _example(claim: str, tensor: SparseTensor, text: str) -> CounterExample:
    return CounterExample(claim, tensor.shape, tensor.symbols, tensor.arrays, (), text)
