"""What a choice of format depends on: counts of a matrix, found in one read of its entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import INT64, DType, dtype_of
from loopwright.ir.expr import Binary, Cast, Const
from loopwright.ir.program import Role

from .convert import convert_tensor
from .formats import find
from .spf.bodies import as_expr
from .spf.compile import CompiledComputation, compile_computation
from .spf.computation import Computation, DataSpace, Stmt
from .tensor import SparseTensor
from .uf import parse_linear

__all__ = ["BLOCKS", "Statistics", "statistics_of"]

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
