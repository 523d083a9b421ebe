"""FROSTT files (.tns): tensors of any number of dimensions, an entry a line, the value last."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import Diagnostic, SourceError, Span, UsageError
from loopwright.lazy_dataclass import dataclass

from .entry_lines import check_finite, entry_lines, listed
from .files import BLOCK, Progress, line_blocks, replacing
from .format import COORDINATES
from .formats.coordinates import names
from .number_text import NumberBlock, NumberKind, parse_block
from .tensor import SparseTensor, index_dtype, sparse_tensor

__all__ = ["read", "write"]

_EXACT = 1 << 53  # whole numbers up to here are float64 numbers
# The line that `write` puts first, a comment to other readers: such files have none for a shape.
_SHAPE = re.compile(rb"#\s*shape((?:\s+\d{1,18})+)\s*")


@dataclass(frozen=True, slots=True)
class _Opening:
    """What stands before the first entry, and what that entry has."""

    kinds: tuple[NumberKind, ...] = ()  # of the columns; none before an entry was seen
    sizes: tuple[int, ...] | None = None  # of the shape, if the file tells it
    line: int = 0  # where it does
    text: str = ""  # that line


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

    The number of dimensions is that of the first entry. Indices count from `base`. The sizes are
    those of `shape`, or of a comment `# shape 3 4 5` before the first entry as `write` makes it;
    other files do not tell them, and each size is the largest index seen.
    """
    name = os.fspath(path)
    line = 1
    opening = _Opening(sizes=None if shape is None else tuple(map(int, shape)))
    indices: list[list[NDArray[Any]]] = []
    values: list[NDArray[Any]] = []
    for text in line_blocks(path, block=block, progress=progress):
        if not opening.kinds:
            opening = _opened(opening, name, text, line)
        kinds = opening.kinds
        if not kinds:
            line += text.count(b"\n")
            continue
        found = parse_block(text, kinds, file=name, first_line=line, comment=b"#", finite=finite)
        line += found.lines
        indices.append([_coordinate(found, mode, opening, base) for mode in range(len(kinds) - 1)])
        values.append(found.columns[-1])
    columns = [np.concatenate(column) for column in zip(*indices, strict=True)]
    whole = opening.sizes
    if whole is None:
        whole = tuple(int(column.max(initial=-1)) + 1 for column in columns)
    if not whole:
        span = Span(name, line, 1, line, 1)
        hint = "each line has the indices and the value of an entry; tell the shape if it has none"
        raise SourceError(Diagnostic(span, "the file has no entries", "LW162", hint=hint))
    width = index_dtype(max(whole))
    columns = [c.astype(width) for c in columns] or [np.zeros(0, width) for _ in whole]
    data = np.concatenate([np.zeros(0), *values])
    arrays = dict(zip(names(len(whole)), columns, strict=True))
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
    """Write the shape as a comment, then the entries; the file appears when it is complete."""
    name = os.fspath(path)
    if tensor.dtype.kind not in "biuf":
        raise UsageError(f"{name}: .tns files hold real numbers", found=str(tensor.dtype))
    coordinates, values = listed(tensor)
    check_finite(name, coordinates, values, finite)
    _check_exact(name, coordinates, values)
    with replacing(path) as file:
        file.write(f"# shape {' '.join(map(str, tensor.shape))}\n".encode())
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


def _opened(so_far: _Opening, name: str, text: bytes, line: int) -> _Opening:
    """The opening with what a block adds to it, up to its first entry."""
    for number, raw in enumerate(text.split(b"\n"), line):
        words = raw.split(b"#")[0].split()
        if words:
            return _of_entry(so_far, name, number, raw, len(words) - 1)
        told = _SHAPE.fullmatch(raw.strip())
        if told is not None and so_far.sizes is None:
            sizes = tuple(map(int, told[1].split()))
            so_far = _Opening((), sizes, number, raw.decode("ascii").strip())
    return so_far


def _of_entry(so_far: _Opening, name: str, number: int, raw: bytes, rank: int) -> _Opening:
    """The opening with the columns of the first entry, which must agree with the shape."""
    if not 1 <= rank <= len(COORDINATES):
        shown = raw.decode("utf-8", "replace").rstrip()
        span = Span(name, number, 1, number, len(shown) + 1, shown)
        message = f"an entry has 1 to {len(COORDINATES)} indices and a value"
        hint = "a file with a line of sizes is not of this format; remove the line"
        raise SourceError(Diagnostic(span, message, "LW162", hint=hint))
    sizes = so_far.sizes
    if sizes is not None and len(sizes) != rank:
        message = f"the file has {rank} ind{'ices' if rank > 1 else 'ex'} an entry"
        if not so_far.line:
            raise UsageError(f"{name}: {message}", f"a shape of {len(sizes)} sizes")
        span = Span(name, so_far.line, 1, so_far.line, len(so_far.text) + 1, so_far.text)
        message = f"this shape has {len(sizes)} sizes, but {message}"
        raise SourceError(Diagnostic(span, message, "LW162", hint="correct or remove the line"))
    return replace(so_far, kinds=(*(NumberKind.INTEGER,) * rank, NumberKind.REAL))


def _coordinate(found: NumberBlock, mode: int, opening: _Opening, base: int) -> NDArray[Any]:
    numbers: NDArray[Any] = found.columns[mode]
    size = None if opening.sizes is None else opening.sizes[mode]
    wrong = numbers < base
    if size is not None:
        wrong |= numbers >= size + base
    if wrong.any():
        row = int(np.argmax(wrong))
        limit = f"{base} to {size + base - 1}" if size is not None else f"{base} upwards"
        hint = f"the shape stands on line {opening.line}" if opening.line else "check the shape"
        if numbers[row] == 0:
            hint = "if the file counts from 0, pass base=0 (--base 0 on the command line)"
        found.fault(row, mode, f"index {numbers[row]} of dimension {mode} is outside {limit}", hint)
    return numbers - base
