"""The shape in which DMA moves a block of an array: dimensions around, rows and their width."""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.ir.expr import Const, Expr
from loopwright.lazy_dataclass import dataclass

__all__ = ["RequestShape", "request_shape"]

_ONE = Const(1)


@dataclass(frozen=True, slots=True)
class RequestShape:
    """Requests of a copy: one for each index of the dimensions `around`, of `rows` in strides."""

    around: tuple[int, ...]
    rows: Expr
    width: Expr  # elements of a row
    pitch: Expr  # elements from row to row in main memory


def request_shape(shape: Sequence[Expr], far: Sequence[Expr], near: Sequence[Expr]) -> RequestShape:
    """The requests of a copy, from its extents and the strides in main memory and in a scratchpad.

    A request moves rows with gaps between them to where they lie one behind another. Rows are the
    last dimension but one. Of three dimensions and more, those of a single index do not count, and
    n rows of c elements, c a number, that lie one behind another on both sides are a row of n * c:
    w[8][64][3][3] is one row, and no 512 requests of 3 x 3. (Where n is computed, n * c has its
    sign: nothing is moved where nothing was.)
    """
    rank = len(shape)
    far, near = far[-rank:], near[-rank:]
    if rank <= 2:
        rows, pitch = (shape[0], far[0]) if rank == 2 else (_ONE, shape[0])
        return RequestShape((), rows, shape[-1], pitch)
    width, dims = shape[-1], [k for k in range(rank - 1) if shape[k] != _ONE]
    while dims and isinstance(width, Const) and far[dims[-1]] == width:
        if near[dims[-1]] != width:
            break
        width = shape[dims.pop()] * width
    if dims and (dims[-1] == rank - 2 or near[dims[-1]] == width):
        row = dims.pop()
        return RequestShape(tuple(dims), shape[row], width, far[row])
    return RequestShape(tuple(dims), _ONE, width, width)
