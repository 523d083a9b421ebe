"""Entries of a tensor as lines of text, in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError

from .convert import convert_tensor
from .formats import find
from .formats.coordinates import names
from .number_lines import lines_of
from .tensor import SparseTensor

__all__ = ["check_finite", "entry_lines", "listed"]

_LINES = 1 << 16  # written at a time


def listed(tensor: SparseTensor) -> tuple[tuple[NDArray[Any], ...], NDArray[Any]]:
    """The coordinates and values of a tensor, in the order in which it holds them.

    Places that read as padding are left out, whether or not the map reaches them.
    """
    found = convert_tensor(tensor, find("coo", tensor.ndim))
    return tuple(found.arrays[name] for name in names(tensor.ndim)), found.values


def entry_lines(
    coordinates: Sequence[NDArray[Any]], values: NDArray[Any] | None, *, base: int = 1
) -> Iterator[tuple[int, bytes]]:
    """Yield (entries so far, their lines): coordinates counted from `base`, then the value.

    Floats have as many digits as it takes to read the same bits again; complex values are two
    numbers; without values there are only coordinates.
    """
    count = len(coordinates[0]) if coordinates else len(values if values is not None else ())
    for first in range(0, count, _LINES):
        part = slice(first, min(first + _LINES, count))
        columns = [column[part].astype(np.int64) + base for column in coordinates]
        columns += _value_columns(values[part]) if values is not None else []
        yield part.stop, lines_of(columns)


def _value_columns(values: NDArray[Any]) -> list[NDArray[Any]]:
    if values.dtype.kind == "c":
        return [values.real.astype(np.float64), values.imag.astype(np.float64)]
    if values.dtype.kind == "b":
        return [values.astype(np.int64)]
    return [values.astype(np.float64) if values.dtype.kind == "f" else values]


def check_finite(
    where: str, coordinates: Sequence[NDArray[Any]], values: NDArray[Any], finite: bool
) -> None:
    """Refuse values that a reader would refuse by default, unless told otherwise."""
    if not finite or values.dtype.kind not in "fc":
        return
    wrong = ~np.isfinite(values)
    if wrong.any():
        n = int(np.argmax(wrong))
        at = ", ".join(str(column[n]) for column in coordinates)
        raise UsageError(
            f"{where}: the value at ({at}) is {values[n]}",
            hint="pass finite=False (--not-finite on the command line) to write and to read it",
        )
