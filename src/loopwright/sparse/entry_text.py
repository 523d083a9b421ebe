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
        columns = [[str(x + base) for x in column[part].tolist()] for column in coordinates]
        columns += _value_columns(values[part]) if values is not None else []
        lines = "\n".join(map(" ".join, zip(*columns, strict=True)))
        yield part.stop, (lines + "\n").encode("ascii")


def _value_columns(values: NDArray[Any]) -> list[list[str]]:
    if values.dtype.kind == "c":
        return [_texts(values.real), _texts(values.imag)]
    return [_texts(values)]


def _texts(values: NDArray[Any]) -> list[str]:
    if values.dtype.kind == "b":
        return list(map(str, values.astype(np.int64).tolist()))
    if values.dtype.kind == "f" and values.dtype.itemsize > 8:
        values = values.astype(np.float64)
    return list(map(repr, values.tolist()))


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
            hint="pass finite=False to write it, and to read it again",
        )
