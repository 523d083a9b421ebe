"""MatrixMarket files to tensors and back: `read` and `write`, plain or packed (.gz).

The format is that of NIST: a banner with layout, field and symmetry, comments with %, a line of
sizes, then one entry a line, counted from 1. A symmetric file stores one triangle. Files are read
in blocks and checked against their header.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import Diagnostic, DtypeError, SourceError, Span, UsageError
from loopwright.lazy_dataclass import dataclass

from .entry_lines import check_finite, entry_lines, listed
from .files import BLOCK, Progress, line_blocks, replacing
from .number_text import NumberBlock, NumberKind, parse_block
from .tensor import SparseTensor, sparse_tensor

__all__ = [
    "SYMMETRIES",
    "MarketHeader",
    "Triplets",
    "iterate_triplets",
    "read",
    "read_header",
    "read_triplets",
    "write",
]

_LAYOUTS = ("coordinate", "array")
SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")
_VALUE_KINDS = {
    "real": (NumberKind.REAL,),
    "double": (NumberKind.REAL,),
    "integer": (NumberKind.INTEGER,),
    "complex": (NumberKind.REAL, NumberKind.REAL),
    "pattern": (),
}
_DTYPES = {"real": "f8", "double": "f8", "integer": "i8", "complex": "c16", "pattern": "f8"}
_LARGEST = (1 << 62) - 1


@dataclass(frozen=True, slots=True)
class MarketHeader:
    """What a file says of itself before its entries."""

    file: str
    layout: str  # coordinate or array
    field: str  # real, integer, complex or pattern
    symmetry: str  # general, symmetric, skew-symmetric or hermitian
    rows: int
    columns: int
    stored: int  # entries in the file
    line: int  # of the sizes
    text: str  # that line

    @property
    def is_symmetric(self) -> bool:
        return self.symmetry != "general"

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(_DTYPES[self.field])

    @property
    def index_dtype(self) -> np.dtype[Any]:
        """The narrowest of int32 and int64 that holds every coordinate."""
        return np.dtype(np.int32 if max(self.rows, self.columns) < 1 << 31 else np.int64)

    def fault(self, message: str, hint: str = "") -> NoReturn:
        """Raise a SourceError that points at the line of sizes."""
        raise _fault(self.file, self.line, self.text, message, hint)


@dataclass(frozen=True, slots=True)
class Triplets:
    """Coordinates from 0 and values, in the order of the file."""

    shape: tuple[int, int]
    rows: NDArray[Any]
    columns: NDArray[Any]
    values: NDArray[Any]


def read_header(path: str | os.PathLike[str]) -> MarketHeader:
    """Read the banner and the sizes of a file."""
    blocks = line_blocks(path, block=1 << 16)
    return _open(os.fspath(path), blocks)[0]


def iterate_triplets(
    path: str | os.PathLike[str],
    *,
    expand: bool = False,
    finite: bool = True,
    block: int = BLOCK,
    progress: Progress | None = None,
) -> Iterator[Triplets]:
    """Yield the entries of a file as it stores them, a block at a time, checked.

    `expand` adds to each block the other triangle of a symmetric file.

    Memory is bounded by the block. Entries in excess are refused where they begin, missing ones at
    the end, so only a generator that has run out has seen a sound file.
    """
    name = os.fspath(path)
    blocks = line_blocks(path, block=block, progress=progress)
    header, rest, line = _open(name, blocks)
    for part in _entries(header, rest, line, blocks, finite):
        if not (expand and header.is_symmetric):
            yield part
            continue
        yield Triplets(part.shape, *_expanded(header, part.rows, part.columns, part.values))


def read_triplets(
    path: str | os.PathLike[str],
    *,
    expand: bool = True,
    finite: bool = True,
    dtype: Any = None,
    block: int = BLOCK,
    progress: Progress | None = None,
) -> Triplets:
    """Read a whole file as coordinates and values.

    `expand` adds the other triangle of a symmetric file; `finite` refuses nan and inf.
    """
    blocks = line_blocks(path, block=block, progress=progress)
    header, rest, line = _open(os.fspath(path), blocks)
    # The count of a header is believed only once as many entries were seen: a lying one must not
    # make us ask for all memory there is.
    parts = list(_entries(header, rest, line, blocks, finite))
    shape = (header.rows, header.columns)
    rows = _joined([part.rows for part in parts], header.index_dtype)
    columns = _joined([part.columns for part in parts], header.index_dtype)
    values = _joined([part.values for part in parts], header.dtype)
    if expand and header.is_symmetric:
        rows, columns, values = _expanded(header, rows, columns, values)
    if dtype is not None:
        values = _cast(header.file, values, np.dtype(dtype))
    return Triplets(shape, rows, columns, values)


def _joined(parts: list[NDArray[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype)


def _cast(file: str, values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The values in another type; rounding to a narrower float is wanted, other loss refused."""
    is_lost = values.dtype.kind == "c" and dtype.kind != "c"
    source = values.real if is_lost else values
    fits = not (is_lost and values.imag.any())
    with np.errstate(all="ignore"):
        cast = source.astype(dtype)
        if dtype.kind in "fc":
            fits &= bool((np.isfinite(cast) == np.isfinite(source)).all())
        else:
            is_negative = dtype.kind != "i" and bool((source < 0).any())
            fits &= not is_negative and np.array_equal(cast.astype(source.dtype), source)
    if not fits:
        raise UsageError(
            f"{file}: values of type {values.dtype} do not fit the dtype {dtype}",
            hint="leave dtype out to get the type of the file",
        )
    return cast


def _fault(file: str, line: int, text: str, message: str, hint: str = "") -> SourceError:
    span = Span(file, line, 1, line, len(text) + 1, text)
    return SourceError(Diagnostic(span, message, "LW160", hint=hint))


def _open(name: str, blocks: Iterator[bytes]) -> tuple[MarketHeader, bytes, int]:
    """Return the header, the rest of the block it ends in, and the number of that rest's line."""
    rest = b""
    line = 0
    banner: tuple[str, str, str] | None = None
    while True:
        if not rest:
            rest = next(blocks, b"")
            if not rest:
                break
        raw, _, rest = rest.partition(b"\n")
        line += 1
        text = raw.decode("utf-8", "replace").strip()
        if banner is None:
            banner = _banner(name, text)
        elif text and not text.startswith("%"):
            return _sizes(name, banner, text, line), rest, line + 1
    if banner is None:
        raise _fault(name, 1, "", "the file is empty", "it must begin with %%MatrixMarket")
    raise _fault(name, line, "", "the file ends before its line of sizes", "it was cut off")


def _banner(name: str, text: str) -> tuple[str, str, str]:
    words = text.lower().split()
    if len(words) != 5 or words[0] != "%%matrixmarket" or words[1] != "matrix":
        hint = "begin with '%%MatrixMarket matrix coordinate real general'"
        raise _fault(name, 1, text[:200], "the first line is not the banner of MatrixMarket", hint)
    layout, field, symmetry = words[2:]
    for word, known in ((layout, _LAYOUTS), (field, tuple(_VALUE_KINDS)), (symmetry, SYMMETRIES)):
        if word not in known:
            raise _fault(name, 1, text, f"unknown word '{word}'", f"one of {', '.join(known)}")
    if layout == "array" and field == "pattern":
        raise _fault(name, 1, text, "an array has values, it cannot be a pattern", "use coordinate")
    if symmetry == "hermitian" and field != "complex":
        raise _fault(name, 1, text, "only complex matrices are hermitian", "use symmetric")
    if symmetry == "skew-symmetric" and field == "pattern":
        raise _fault(name, 1, text, "a pattern has no signs to be skew-symmetric", "use symmetric")
    return layout, "real" if field == "double" else field, symmetry


def _sizes(name: str, banner: tuple[str, str, str], text: str, line: int) -> MarketHeader:
    layout, field, symmetry = banner
    words = text.split()
    wanted = ("rows", "columns", "entries") if layout == "coordinate" else ("rows", "columns")
    if len(words) != len(wanted) or not all(w.isascii() and w.isdigit() for w in words):
        message = f"expected {len(wanted)} sizes: {', '.join(wanted)}"
        raise _fault(name, line, text[:200], message, "each a whole number that is not negative")
    if max(len(w) for w in words) > 19 or max(map(int, words)) > _LARGEST:
        raise _fault(name, line, text[:200], "a size does not fit 62 bits")
    rows, columns = int(words[0]), int(words[1])
    if symmetry != "general" and rows != columns:
        raise _fault(name, line, text, f"a {symmetry} matrix must be square", "check the banner")
    stored = int(words[2]) if layout == "coordinate" else _array_entries(rows, columns, symmetry)
    if layout == "coordinate" and stored and not rows * columns:
        raise _fault(name, line, text, f"a matrix of {rows} x {columns} has no entries")
    return MarketHeader(name, layout, field, symmetry, rows, columns, stored, line, text)


def _array_entries(rows: int, columns: int, symmetry: str) -> int:
    if symmetry == "general":
        return rows * columns
    return rows * (rows - 1) // 2 if symmetry == "skew-symmetric" else rows * (rows + 1) // 2


def _entries(
    header: MarketHeader, rest: bytes, line: int, blocks: Iterator[bytes], finite: bool
) -> Iterator[Triplets]:
    """Yield the entries of all blocks, checked against the header."""
    kinds = _VALUE_KINDS[header.field]
    if header.layout == "coordinate":
        kinds = (NumberKind.INTEGER, NumberKind.INTEGER, *kinds)
    seen = 0
    sides: set[int] = set()
    while True:
        text = rest or next(blocks, b"")
        rest = b""
        if not text:
            break
        found = parse_block(
            text, kinds, file=header.file, first_line=line, comment=b"%", finite=finite
        )
        line += found.lines
        if not found.count:
            continue
        if seen + found.count > header.stored:
            message = f"more entries than the {header.stored} of the header"
            found.fault(header.stored - seen, 0, message, f"correct line {header.line}")
        yield _triplets(header, found, seen, sides)
        seen += found.count
    if seen < header.stored:
        header.fault(
            f"the file ends after {seen} of {header.stored} entries",
            "it was cut off, or the count is wrong",
        )


def _triplets(header: MarketHeader, found: NumberBlock, seen: int, sides: set[int]) -> Triplets:
    shape = (header.rows, header.columns)
    if header.layout == "array":
        rows, columns = _array_places(header, seen, found.count)
        return Triplets(shape, rows, columns, _values(header, found, 0))
    rows, columns = (
        _coordinate(header, found, c, size, what)
        for c, (size, what) in enumerate(zip(shape, ("row", "column"), strict=True))
    )
    values = _values(header, found, 2)
    if header.is_symmetric:
        _check_triangle(header, found, rows, columns, values, sides)
    return Triplets(shape, rows, columns, values)


def _coordinate(
    header: MarketHeader, found: NumberBlock, column: int, size: int, what: str
) -> NDArray[Any]:
    numbers = found.columns[column]
    wrong = (numbers < 1) | (numbers > size)
    if wrong.any():
        row = int(np.argmax(wrong))
        message = f"{what} {numbers[row]} is outside 1 to {size}"
        found.fault(
            row, column, message, f"indices count from 1; sizes stand on line {header.line}"
        )
    return (numbers - 1).astype(header.index_dtype)


def _values(header: MarketHeader, found: NumberBlock, first: int) -> NDArray[Any]:
    columns = found.columns[first:]
    if not columns:
        return np.ones(found.count, header.dtype)
    if len(columns) == 1:
        return columns[0]
    values = np.empty(found.count, np.complex128)
    values.real, values.imag = columns
    return values


def _array_places(header: MarketHeader, seen: int, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The coordinates of entries `seen` onwards of an array, which is stored by columns."""
    place = np.arange(seen, seen + count)
    n = header.rows
    if not header.is_symmetric:
        column, row = np.divmod(place, n)
    else:
        skip = 1 if header.symmetry == "skew-symmetric" else 0
        starts = np.concatenate(([0], np.cumsum(np.arange(n - skip, 0, -1))))
        column = np.searchsorted(starts, place, side="right") - 1
        row = place - starts[column] + column + skip
    return row.astype(header.index_dtype), column.astype(header.index_dtype)


def _check_triangle(
    header: MarketHeader,
    found: NumberBlock,
    rows: NDArray[Any],
    columns: NDArray[Any],
    values: NDArray[Any],
    sides: set[int],
) -> None:
    """Refuse what cannot be one triangle of a symmetric matrix."""
    side = np.sign(rows - columns)
    on_diagonal = side == 0
    if header.symmetry == "skew-symmetric" and on_diagonal.any():
        at = int(np.argmax(on_diagonal))
        found.fault(at, 0, "the diagonal of a skew-symmetric matrix is 0 and is not stored")
    if header.symmetry == "hermitian":
        odd = on_diagonal & (values.imag != 0)
        if odd.any():
            at = int(np.argmax(odd))
            found.fault(at, 3, "the diagonal of a hermitian matrix is real", "write 0 here")
    if not sides:
        sides |= {int(s) for s in side[~on_diagonal][:1]}
    other = ~on_diagonal & (side != next(iter(sides), 0))
    if other.any():
        hint = "a symmetric file stores one of them; say 'general' in the banner if it has both"
        found.fault(int(np.argmax(other)), 0, "entries on both sides of the diagonal", hint)


def _expanded(
    header: MarketHeader, rows: NDArray[Any], columns: NDArray[Any], values: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """All entries of a matrix of which one triangle is stored; those of the file come first."""
    off = np.flatnonzero(rows != columns)
    mirrored = values[off]
    if header.symmetry == "skew-symmetric":
        _check_negation(header, mirrored)
        mirrored = -mirrored
    elif header.symmetry == "hermitian":
        mirrored = mirrored.conj()
    return (
        np.concatenate((rows, columns[off])),
        np.concatenate((columns, rows[off])),
        np.concatenate((values, mirrored)),
    )


def _check_negation(header: MarketHeader, values: NDArray[Any]) -> None:
    if values.dtype.kind == "i" and (values == np.iinfo(values.dtype).min).any():
        header.fault("an entry has no negation in 64 bits", "write the values as real numbers")


_FIELDS = {"b": "integer", "i": "integer", "u": "integer", "f": "real", "c": "complex"}


def read(
    path: str | os.PathLike[str],
    *,
    expand: bool = True,
    finite: bool = True,
    dtype: Any = None,
    block: int = BLOCK,
    progress: Progress | None = None,
) -> SparseTensor:
    """Read a matrix as coordinates (coo) in the order of the file.

    `expand` adds the other triangle of a symmetric file, `finite` refuses nan and inf, `dtype`
    converts the values, `progress` is called with bytes read and total. The values of a pattern are
    1. Every entry of a file of layout array is stored. A faulty file raises a SourceError that
    names the line, before anything is returned.
    """
    found = read_triplets(
        path, expand=expand, finite=finite, dtype=dtype, block=block, progress=progress
    )
    arrays = {"row": found.rows, "col": found.columns}
    return sparse_tensor("coo", found.shape, arrays, found.values)


def write(
    path: str | os.PathLike[str],
    matrix: SparseTensor | NDArray[Any],
    *,
    symmetry: str = "general",
    pattern: bool = False,
    comments: Sequence[str] = (),
    finite: bool = True,
    progress: Progress | None = None,
) -> None:
    """Write a tensor of two dimensions as coordinates, or a dense array as an array.

    With another symmetry than general only the lower triangle is written, after the matrix was
    found to have that symmetry; `pattern` leaves out values, which must all be 1. The file appears
    when it is complete; `progress` is called with entries written and total.
    """
    name = os.fspath(path)
    if symmetry not in SYMMETRIES:
        raise UsageError(f"unknown symmetry '{symmetry}'", hint=f"one of {', '.join(SYMMETRIES)}")
    is_dense = isinstance(matrix, np.ndarray)
    if matrix.ndim != 2:
        raise UsageError(
            f"{name}: MatrixMarket holds matrices, not {matrix.ndim} dimensions",
            hint="give the file a name that ends with .tns",
        )
    if is_dense and pattern:
        raise UsageError(f"{name}: an array has values, it cannot be a pattern")
    rows, columns, values = _places(matrix)
    field = "pattern" if pattern else _field(name, values)
    _check_values(name, field, values)
    check_finite(name, (rows, columns), values, finite)
    if symmetry != "general":
        rows, columns, values = _triangle(name, symmetry, matrix.shape, rows, columns, values)
    layout = "array" if is_dense else "coordinate"
    sizes = [*matrix.shape] if is_dense else [*matrix.shape, len(values)]
    head = [f"%%MatrixMarket matrix {layout} {field} {symmetry}"]
    head += [f"% {line}" for text in comments for line in text.splitlines()]
    head.append(" ".join(map(str, sizes)))
    kept = None if field == "pattern" else values
    with replacing(path) as file:
        file.write(("\n".join(head) + "\n").encode())
        for done, lines in entry_lines(() if is_dense else (rows, columns), kept):
            file.write(lines)
            if progress is not None:
                progress(done, len(values))


def _places(
    matrix: SparseTensor | NDArray[Any],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Coordinates and values; those of a dense array by columns, as its files store them."""
    if isinstance(matrix, np.ndarray):
        columns, rows = np.indices(matrix.shape[::-1]).reshape(2, -1)
        return rows, columns, matrix.ravel(order="F")
    (rows, columns), values = listed(matrix)
    return rows, columns, values


def _field(name: str, values: NDArray[Any]) -> str:
    if values.dtype.kind not in _FIELDS:
        raise DtypeError(f"{name}: MatrixMarket has no field for {values.dtype}")
    return _FIELDS[values.dtype.kind]


def _check_values(name: str, field: str, values: NDArray[Any]) -> None:
    if field == "pattern" and (values != 1).any():
        raise UsageError(f"{name}: a pattern has no values, and some are not 1")
    if values.dtype == np.uint64 and (values >= 1 << 63).any():
        raise UsageError(f"{name}: an integer does not fit a signed 64-bit number")


def _triangle(
    name: str,
    symmetry: str,
    shape: tuple[int, ...],
    rows: NDArray[Any],
    columns: NDArray[Any],
    values: NDArray[Any],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The entries on and below the diagonal of a matrix that equals its mirror image."""
    if shape[0] != shape[1]:
        raise UsageError(f"{name}: a {symmetry} matrix is square", f"{shape[0]} x {shape[1]}")
    if symmetry == "hermitian" and values.dtype.kind != "c":
        raise UsageError(f"{name}: only complex matrices are hermitian", hint="use symmetric")
    by_rows, by_columns = np.lexsort((columns, rows)), np.lexsort((rows, columns))
    mirrored = values[by_columns]
    if symmetry == "hermitian":
        mirrored = mirrored.conj()
    if symmetry == "skew-symmetric":
        mirrored = -mirrored
    wrong = (
        (rows[by_rows] != columns[by_columns])
        | (columns[by_rows] != rows[by_columns])
        | (values[by_rows] != mirrored)
    )
    if wrong.any():
        n = by_rows[int(np.argmax(wrong))]
        raise UsageError(
            f"{name}: the matrix is not {symmetry}",
            found=f"({rows[n]}, {columns[n]}) differs from its mirror image, or is repeated",
            hint="write it with symmetry='general'",
        )
    is_skew = symmetry == "skew-symmetric"
    kept = np.flatnonzero(rows > columns if is_skew else rows >= columns)
    return rows[kept], columns[kept], values[kept]
