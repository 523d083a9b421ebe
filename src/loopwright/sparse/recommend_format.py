"""`recommend(A, uses=N)`: which format is worth its conversion, by bytes that have to move.

A product of a sparse matrix and a vector reads every array of the format once and the vector once,
and writes the result: bytes of the format + v*(NR + NC) for values of v bytes, and v*NR more where
rows do not come in order, so that the result is read again. It cannot take less time than these
bytes need from the memory they fit in. A conversion reads the source twice (to count, and to fill)
and writes the target, which is read before it is written. The statistics of a matrix that decide
the bytes of each format are found in one read of its entries.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import ceil, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import INT64, DType, dtype_of
from loopwright.ir.expr import Binary, Cast, Const
from loopwright.ir.machine import Machine
from loopwright.ir.program import Role
from loopwright.lazy_dataclass import dataclass
from loopwright.machines.machine_argument import target_machine
from loopwright.runtime.code_memory import keeps_code
from loopwright.tables import table_lines

from .convert_tensor import as_tensor, convert_tensor
from .format import Format
from .format_symbols import fixed_symbols, value_of
from .formats import find
from .spf.compile_computation import CompiledComputation, compile_computation
from .spf.computation import Computation, DataSpace, Stmt
from .spf.term_exprs import as_expr
from .tensor import SparseTensor, index_dtype
from .uf import parse_linear, variables

__all__ = ["BLOCKS", "FormatChoice", "Recommendation", "Statistics", "recommend", "statistics_of"]

BLOCKS = (2, 3, 4, 8)  # sides of the square blocks that are counted


@dataclass(frozen=True)
class Statistics:
    """Counts of the pattern of a matrix."""

    shape: tuple[int, int]
    stored: int  # entries, each coordinate once
    lengths: NDArray[np.int64]  # entries of each row
    diagonals: int  # that hold an entry
    blocks: Mapping[int, int]  # side -> blocks that hold an entry
    is_symmetric: bool  # whether (i, j) is stored wherever (j, i) is

    @property
    def longest(self) -> int:
        """Entries of the longest row."""
        return int(self.lengths.max(initial=0))

    @property
    def mean(self) -> float:
        """Entries of a row on average."""
        return self.stored / max(self.shape[0], 1)

    @property
    def filled_rows(self) -> int:
        """Rows with an entry."""
        return int(np.count_nonzero(self.lengths))

    def fill(self, side: int) -> float:
        """The share of the places in blocks of a side that hold entries."""
        return self.stored / max(self.blocks[side] * side * side, 1)

    def __str__(self) -> str:
        rows, columns = self.shape
        room = max(self.diagonals * rows, 1)
        fills = ", ".join(f"{side} x {side} {self.fill(side):.0%}" for side in self.blocks)
        return "\n".join(
            [
                f"{rows} x {columns}, {self.stored} stored, "
                f"pattern {'symmetric' if self.is_symmetric else 'not symmetric'}",
                f"rows: {self.mean:.1f} entries on average, {self.longest} at most, "
                f"{rows - self.filled_rows} empty",
                f"diagonals: {self.diagonals}, filled to {self.stored / room:.0%}",
                f"blocks filled: {fills}",
            ]
        )


def statistics_of(tensor: SparseTensor) -> Statistics:
    """The counts of a matrix in any format."""
    if tensor.ndim != 2:
        raise UsageError(
            "statistics are of matrices",
            found=f"a tensor of {tensor.ndim} dimensions",
            hint="for more dimensions csf is the format to begin with",
        )
    by_rows = convert_tensor(tensor, find("csr"))
    rows, columns = by_rows.shape
    pointers, indices = by_rows.arrays["rowptr"], by_rows.arrays["col"]
    seen = np.zeros(max(rows + columns, 1), np.int64)
    counts = np.zeros(len(BLOCKS), np.int64)
    arrays: dict[str, NDArray[Any]] = {
        "rowptr": np.ascontiguousarray(pointers),
        "col": np.ascontiguousarray(indices),
        "seen": seen,
        "counts": counts,
    }
    for side in BLOCKS:
        arrays[f"last{side}"] = np.full(columns // side + 1, -1, np.int64)
    sizes = {"NR": rows, "NC": columns, "NNZ": len(indices)}
    _code(dtype_of(pointers.dtype), dtype_of(indices.dtype)).run(arrays, sizes)
    return Statistics(
        (rows, columns),
        len(indices),
        np.diff(pointers).astype(np.int64),
        int(np.count_nonzero(seen)),
        dict(zip(BLOCKS, counts.tolist(), strict=True)),
        _is_symmetric(by_rows),
    )


def _is_symmetric(by_rows: SparseTensor) -> bool:
    if by_rows.shape[0] != by_rows.shape[1]:
        return False
    by_columns = convert_tensor(by_rows, find("csc"))
    return np.array_equal(by_rows.arrays["rowptr"], by_columns.arrays["colptr"]) and np.array_equal(
        by_rows.arrays["col"], by_columns.arrays["row"]
    )


@keeps_code
@lru_cache(maxsize=4)
def _code(pointer: DType, index: DType) -> CompiledComputation:
    """seen(d) = 1 where diagonal d has an entry, counts(b) = the blocks of side BLOCKS[b].

    Rows come in order, so a block is new exactly if the last entry seen in its block column stood
    in another block row.
    """
    spaces = [
        DataSpace.of("rowptr", pointer, ("NR+1",), Role.IN),
        DataSpace.of("col", index, ("NNZ",), Role.IN),
        DataSpace.of("seen", INT64, ("NR+NC",), Role.INOUT),
        DataSpace.of("counts", INT64, (len(BLOCKS),), Role.INOUT),
    ]
    spaces += [
        DataSpace.of(f"last{side}", INT64, (f"floor(NC/{side})+1",), Role.INOUT) for side in BLOCKS
    ]
    known = {space.name: space for space in spaces}
    domain = "{[i,k] : 0<=i<NR && rowptr(i)<=k<rowptr(i+1)}"
    body = [Stmt.of("mark", domain, ("i", "k", 0), "seen(col(k)-i+NR)", Const(1, INT64))]
    for at, side in enumerate(BLOCKS):
        row, last, count = (
            as_expr(parse_linear(text, ("i", "k")), known)
            for text in (f"floor(i/{side})", f"last{side}(floor(col(k)/{side}))", f"counts({at})")
        )
        more = count + Cast(Binary("ne", last, row), INT64)
        body.append(Stmt.of(f"count{side}", domain, ("i", "k", 2 * at + 1), f"counts({at})", more))
        place = f"last{side}(floor(col(k)/{side}))"
        body.append(Stmt.of(f"last{side}", domain, ("i", "k", 2 * at + 2), place, row))
    names = ("NR", "NC", "NNZ")
    return compile_computation(Computation("statistics", tuple(spaces), tuple(body), names))


_CYCLE_BYTES = 4.0  # read from memory in a cycle, where the machine does not say
_FREQUENCY = 2.5e9  # cycles a second, likewise
_SLICE, _WINDOW = 32, 128
_MOST_LINES = 8  # more cannot be told apart
FORMATS = ("coo", "csr", "csc", "dcsr", "dia", "ell", f"sell({_SLICE},{_WINDOW})")


@dataclass(frozen=True)
class FormatChoice:
    """A format with what it is predicted to cost."""

    format: str
    size: int  # bytes of its arrays
    use: float  # seconds of one product with a vector
    conversion: float  # seconds to get there
    total: float  # seconds of the conversion and all uses
    break_even: float  # uses after which it is faster than to stay; inf: never

    def row(self) -> tuple[str, ...]:
        """The columns of a table."""
        even = "-" if self.conversion == 0 else _count(self.break_even)
        times = (_time(seconds) for seconds in (self.use, self.conversion, self.total))
        return (self.format, _bytes(self.size), *times, even)


_HEAD = ("format", "size", "per use", "conversion", "in all", "pays after")


@dataclass(frozen=True)
class Recommendation:
    """Formats for a matrix that is used so many times, the best one first."""

    source: str
    uses: int
    statistics: Statistics
    choices: tuple[FormatChoice, ...]
    machine: str

    @property
    def best(self) -> str:
        """The format that takes the least time in all."""
        return self.choices[0].format

    def choice(self, format: str) -> FormatChoice:
        """What is predicted for a format."""
        for found in self.choices:
            if found.format == format:
                return found
        names = ", ".join(found.format for found in self.choices)
        raise UsageError(f"nothing is predicted for '{format}'", hint=f"one of {names}")

    def __str__(self) -> str:
        lines = table_lines([_HEAD, *(found.row() for found in self.choices)], numbers=True)
        return "\n".join([*self._notes(), *lines])

    def __repr__(self) -> str:
        return str(self)  # who asks at a prompt wants the table, not its parts

    def _notes(self) -> list[str]:
        return [
            *str(self.statistics).splitlines(),
            f"{self.uses} product{'' if self.uses == 1 else 's'} with a vector on {self.machine}, "
            f"now {self.source}: {self.best}",
        ]

    def _repr_html_(self) -> str:
        notes = "<br/>".join(html.escape(line) for line in self._notes())
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in _HEAD)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in found.row()) + "</tr>"
            for found in self.choices
        )
        return f"<div>{notes}</div><table><tr>{head}</tr>{rows}</table>"

    def plot(self, ax: Any = None) -> Any:
        """Draw the time in all over the number of uses, a line for each format; returns the axes.

        Of many formats those that are best after `uses` are drawn, and the one at hand. Needs
        matplotlib (the extra `plot`); `ax` are axes to draw on.
        """
        axes = _axes() if ax is None else ax
        uses = np.unique(np.geomspace(1, max(10, 10 * self.uses), 60).round())
        for at, found in enumerate(self.choices):
            if at >= _MOST_LINES and found.format != self.source:
                continue
            axes.plot(uses, found.conversion + uses * found.use, label=found.format)
        axes.axvline(self.uses, color="grey", linewidth=0.8, linestyle="--")
        axes.set(xscale="log", yscale="log", xlabel="products with a vector", ylabel="seconds")
        axes.set_title(f"from {self.source}, by bytes moved on {self.machine}")
        axes.legend()
        return axes


def _axes() -> Any:
    try:
        from matplotlib import pyplot  # lazy: an extra, and slow to load
    except ImportError as error:
        raise UsageError("matplotlib is not installed", hint="install loopwright[plot]") from error
    return pyplot.subplots()[1]


def recommend(
    tensor: Any,
    uses: int = 100,
    *,
    formats: Iterable[str | Format] = (),
    machine: Machine | None = None,
) -> Recommendation:
    """Predict size and time of a matrix in each format when it is multiplied `uses` times.

    Takes what `convert` takes. `formats` are further ones to look at; one of your own is tried: the
    matrix is converted to it and its bytes are counted. Times are bounds by bandwidth, to compare
    formats, not to be measured against.
    """
    if uses < 0:
        raise UsageError(f"uses is {uses}", hint="how often the matrix will be multiplied, from 0")
    found = as_tensor(tensor)
    statistics = statistics_of(found)
    chosen = target_machine(machine)
    here = _Cost(chosen, found.nbytes, _around(found.format, found))
    choices = [_stay(found.format.name, here, uses)]
    for format in _candidates(formats, statistics):
        if format.name != found.format.name:
            size = _size(format, found, statistics)
            there = _Cost(chosen, size, _around(format, found))
            choices.append(_move(format.name, here, there, uses))
    best_first = sorted(choices, key=lambda choice: (choice.total, choice.size, choice.format))
    return Recommendation(found.format.name, uses, statistics, tuple(best_first), chosen.name)


def _candidates(formats: Iterable[str | Format], statistics: Statistics) -> tuple[Format, ...]:
    blocks = (f"bcsr({side},{side})" for side in BLOCKS)
    wanted = (find(format) for format in (*FORMATS, *blocks, *formats))
    return tuple({format.name: format for format in wanted}.values())


def _around(format: Format, tensor: SparseTensor) -> int:
    """Bytes of the vector and the result."""
    rows, columns = tensor.shape
    is_by_rows = bool(format.order) and variables(format.order[0]) == {format.coordinates[0]}
    return tensor.dtype.itemsize * (columns + rows if is_by_rows else columns + 2 * rows)


@dataclass(frozen=True)
class _Cost:
    """Times of a matrix whose arrays have `size` bytes."""

    machine: Machine
    size: int
    around: int  # bytes of the vector and the result

    @property
    def use(self) -> float:
        return _seconds(self.size + self.around, self.machine)


def _stay(name: str, here: _Cost, uses: int) -> FormatChoice:
    return FormatChoice(name, here.size, here.use, 0.0, uses * here.use, 0.0)


def _move(name: str, here: _Cost, there: _Cost, uses: int) -> FormatChoice:
    conversion = _seconds(2 * here.size + 2 * there.size, here.machine)
    gain = here.use - there.use
    even = conversion / gain if gain > 0 else float("inf")
    return FormatChoice(
        name, there.size, there.use, conversion, conversion + uses * there.use, even
    )


def _seconds(size: float, machine: Machine) -> float:
    """How long one core takes to read so many bytes from the nearest memory that holds them."""
    rate = machine.memory_bytes_per_cycle or _CYCLE_BYTES
    for cache in machine.caches:
        if size <= cache.size and cache.bytes_per_cycle is not None:
            rate = cache.bytes_per_cycle
            break
    return size / (rate * (machine.frequency_hz or _FREQUENCY))


def _size(format: Format, tensor: SparseTensor, statistics: Statistics) -> int:
    """Bytes of the arrays of a format, by its descriptor and the counts of the matrix."""
    counts = _counts(format, statistics)
    if not set(format.counts) <= counts.keys():
        return convert_tensor(tensor, format).nbytes
    symbols = {**fixed_symbols(format, tensor.shape), **counts}
    places = value_of(format.places, symbols)
    width = index_dtype(max(places, *tensor.shape)).itemsize
    size = places * tensor.dtype.itemsize
    for index in format.indices:
        own = np.dtype(index.dtype).itemsize if index.dtype else width
        size += own * prod(value_of(extent, symbols) for extent in index.extents)
    return size


def _counts(format: Format, statistics: Statistics) -> Mapping[str, int]:
    """The counts of the built-in formats that the statistics tell."""
    name, _, rest = format.name.partition("(")
    if format.name not in (*FORMATS, *(f"bcsr({side},{side})" for side in BLOCKS), "ell(row)"):
        return {}
    counts = {
        "NNZ": statistics.stored,
        "ND": statistics.diagonals,
        "NZR": statistics.filled_rows,
        "W": statistics.longest,
    }
    if name == "bcsr":
        counts["NNZB"] = statistics.blocks[int(rest.split(",")[0])]
    if name == "sell":
        counts["NP"] = _sliced(statistics.lengths)
    return counts


def _sliced(lengths: np.ndarray[Any, np.dtype[np.int64]]) -> int:
    """Places of sliced ELL: rows sorted by length within windows, slices as long as their first."""
    windows = ceil(len(lengths) / _WINDOW)
    padded = np.zeros(windows * _WINDOW, np.int64)
    padded[: len(lengths)] = lengths
    # Rows past the end have no entries and come last in their window.
    ordered = -np.sort(-padded.reshape(windows, _WINDOW), axis=1)
    return int(ordered[:, ::_SLICE].sum()) * _SLICE


def _bytes(size: int) -> str:
    number, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while number >= 1000 and len(units) > 1:
        number /= 1000
        units.pop(0)
    return f"{size} B" if units[0] == "B" else f"{number:.1f} {units[0]}"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _count(uses: float) -> str:
    return "never" if uses == float("inf") else f"{ceil(uses)} uses"
