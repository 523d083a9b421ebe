"""PartialSums: what it makes of a reduction, that it is right, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.ir.dtypes import DTYPES
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Binary, Const
from loopwright.semirings import identity


@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", sorted(DTYPES))
@pytest.mark.parametrize("op", ["add", "mul", "min", "max", "and", "or", "xor"])
def test_the_start_changes_nothing(op: str, name: str) -> None:
    dtype = DTYPES[name]
    if (op in ("and", "or", "xor") and dtype.kind in "fc") or (
        op in ("min", "max") and dtype.is_complex
    ):
        pytest.skip("no such operator")
    start = Const(identity(op, dtype), dtype)
    kind = np.dtype(name).type
    for value in (0, 1) if dtype.kind == "b" else (0, 1, 7, 100):
        x = Const(kind(value).item(), dtype)
        assert evaluate(Binary(op, start, x), {}) == evaluate(x, {})
