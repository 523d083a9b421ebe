"""Halide as a peer: a product of matrices with the schedule that `tvm_hand` has.

Debian's python3-halide (14) serves; PyPI has wheels for x86-64 (`halide`). Their Python packages
contain none of Halide's autoschedulers as Debian builds them, so it is the schedule by hand that
is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from loopwright.machines.host import host

__all__ = ["halide_product"]

_ROWS, _STEPS = 8, 4  # of a tile in registers; of k in a row


def halide_product(arrays: Mapping[str, Any]) -> Callable[[], None]:
    """A call that writes the product of A and B to `out`: float32, rows stored one by one.

    Tiles of 8 rows by two vectors stay in registers, four steps of k are unrolled.
    """
    import halide as hl

    steps, columns = arrays["B"].shape
    a, b, out = (hl.Buffer(arrays[name]) for name in ("A", "B", "out"))
    # Up to version 14 a buffer has the axes of the array, later versions turn them round.
    is_turned = a.dim(0).stride() == 1
    x, y, xo, yo, xi, yi = (hl.Var(name) for name in ("x", "y", "xo", "yo", "xi", "yi"))
    k = hl.RDom([(0, steps)], "k").x
    sums, result = hl.Func("sums"), hl.Func("result")

    def element(row: Any, column: Any) -> Any:
        return (column, row) if is_turned else (row, column)

    sums[x, y] = hl.f32(0)
    sums[x, y] += a[element(y, k)] * b[element(k, x)]
    result[element(y, x)] = sums[x, y]

    lanes = host().lanes(32)
    result.bound(x, 0, columns).bound(y, 0, arrays["A"].shape[0])
    result.tile(x, y, xo, yo, xi, yi, 2 * lanes, _ROWS).reorder(xi, yi, xo, yo)
    result.vectorize(xi, lanes).unroll(xi).unroll(yi)
    sums.compute_at(result, xo).vectorize(x, lanes).unroll(x).unroll(y)
    update = sums.update(0).reorder(x, y, k).vectorize(x, lanes).unroll(x).unroll(y)
    update.unroll(k, _STEPS)
    if not is_turned:
        result.output_buffer().dim(0).set_stride(columns)
        result.output_buffer().dim(1).set_stride(1)
    result.compile_jit()
    return lambda: result.realize(out)
