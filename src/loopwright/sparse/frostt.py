"""FROSTT files (.tns): tensors of any number of dimensions, an entry a line, the value last."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import Diagnostic, SourceError, Span, UsageError

from .entry_text import check_finite, entry_lines, listed
from .files import BLOCK, Progress, line_blocks, replacing
from .format import COORDINATES
from .formats.coordinates import names
from .number_text import Block, Kind, parse_block
from .tensor import SparseTensor, index_dtype, sparse_tensor

_EXACT = 1 << 53  # whole numbers up to here are float64 numbers

__all__ = ["read", "write"]


def read(
    path: str | os.PathLike[str],
    *,
    shape: Sequence[int] | None = None,
    base: int = 1,
    finite: bool = True,
    dtype: Any = None,
    block: int = BLOCK,
    progress: Progress | None = None,
) -> SparseTensor:
    """Read a tensor as coordinates (coo) in the order of the file.

    The number of dimensions is that of the first entry; such files do not tell their shape, so
    without `shape` each size is the largest index seen. Indices count from `base`.
    """
    name = os.fspath(path)
    line = 1
    kinds: tuple[Kind, ...] = ()
    indices: list[list[NDArray[Any]]] = []
    values: list[NDArray[Any]] = []
    for text in line_blocks(path, block=block, progress=progress):
        kinds = kinds or _kinds(name, text, line)
        if not kinds:
            line += text.count(b"\n")
            continue
        found = parse_block(text, kinds, file=name, first_line=line, comment=b"#", finite=finite)
        line += found.lines
        sizes = _limits(shape, len(kinds) - 1)
        indices.append([_coordinate(found, mode, size, base) for mode, size in enumerate(sizes)])
        values.append(found.columns[-1])
    if not kinds:
        span = Span(name, line, 1, line, 1)
        hint = "each line has the indices and the value of an entry"
        raise SourceError(Diagnostic(span, "the file has no entries", "LW162", hint=hint))
    columns = [np.concatenate(column) for column in zip(*indices, strict=True)]
    sizes_found = [int(column.max(initial=-1)) + 1 for column in columns]
    whole = tuple(sizes_found) if shape is None else tuple(map(int, shape))
    width = index_dtype(max(whole))
    data = np.concatenate(values)
    arrays = dict(zip(names(len(whole)), (c.astype(width) for c in columns), strict=True))
    return sparse_tensor("coo", whole, arrays, data if dtype is None else data.astype(dtype))


def write(
    path: str | os.PathLike[str],
    tensor: SparseTensor,
    *,
    base: int = 1,
    comments: Sequence[str] = (),
    finite: bool = True,
    progress: Progress | None = None,
) -> None:
    """Write the entries of a tensor; the file appears when it is complete."""
    name = os.fspath(path)
    if tensor.dtype.kind not in "biuf":
        raise UsageError(f"{name}: .tns files hold real numbers", found=str(tensor.dtype))
    coordinates, values = listed(tensor)
    check_finite(name, coordinates, values, finite)
    _check_exact(name, coordinates, values)
    with replacing(path) as file:
        for line in (line for text in comments for line in text.splitlines()):
            file.write(f"# {line}\n".encode())
        for done, lines in entry_lines(coordinates, values, base=base):
            file.write(lines)
            if progress is not None:
                progress(done, len(values))


def _check_exact(name: str, coordinates: Sequence[NDArray[Any]], values: NDArray[Any]) -> None:
    """Refuse whole numbers that the reader, which takes values for float64, would round."""
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8:
        return
    wrong = values > _EXACT
    if values.dtype.kind == "i":
        wrong |= values < -_EXACT
    if wrong.any():
        n = int(np.argmax(wrong))
        at = ", ".join(str(column[n]) for column in coordinates)
        raise UsageError(
            f"{name}: the value at ({at}) is {values[n]}, which .tns files would round",
            hint="write it as .npz, or convert the values to float64 first",
        )


def _kinds(name: str, text: bytes, line: int) -> tuple[Kind, ...]:
    """The columns of the first entry of a block; none if the block has no entry."""
    for number, raw in enumerate(text.split(b"\n"), line):
        words = raw.split(b"#")[0].split()
        if not words:
            continue
        rank = len(words) - 1
        if not 1 <= rank <= len(COORDINATES):
            shown = raw.decode("utf-8", "replace").rstrip()
            span = Span(name, number, 1, number, len(shown) + 1, shown)
            message = f"an entry has 1 to {len(COORDINATES)} indices and a value"
            hint = "a file with a line of sizes is not of this format; remove the line"
            raise SourceError(Diagnostic(span, message, "LW162", hint=hint))
        return (*(Kind.INTEGER,) * rank, Kind.REAL)
    return ()


def _limits(shape: Sequence[int] | None, rank: int) -> tuple[int | None, ...]:
    if shape is None:
        return (None,) * rank
    if len(shape) != rank:
        raise UsageError(f"the file has {rank} indices an entry", f"a shape of {len(shape)} sizes")
    return tuple(map(int, shape))


def _coordinate(found: Block, mode: int, size: int | None, base: int) -> NDArray[Any]:
    numbers: NDArray[Any] = found.columns[mode]
    wrong = numbers < base
    if size is not None:
        wrong |= numbers >= size + base
    if wrong.any():
        row = int(np.argmax(wrong))
        limit = f"{base} to {size + base - 1}" if size is not None else f"{base} upwards"
        hint = "pass base=0 if the file counts from 0" if numbers[row] == 0 else "check the shape"
        found.fault(row, mode, f"index {numbers[row]} of dimension {mode} is outside {limit}", hint)
    return numbers - base
