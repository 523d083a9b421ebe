"""Extremes of saturating sums in CUDA's text: the same bits as in ir/evaluate, at all the ends."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gpu.shim.cuda_shim import has_compiler, run_program
from loopwright.backends.c_text.c_dialect import CUDA
from loopwright.backends.device_text.device_module import emit_kernels
from loopwright.ir.dtypes import INT32
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Binary, Const, Load, Var
from loopwright.ir.loops import Axis, Buffer, For, LoopNest, Mark, Store
from loopwright.lower.grid_nests.split_kernels import split_kernels

pytestmark = pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")

MOST, LEAST = 2**31 - 1, -(2**31)
VALUES = (LEAST, LEAST + 1, LEAST + 7, -(2**30), -5, -1, 0, 1, 5, 2**30, MOST - 7, MOST - 1, MOST)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("plus", "times"), [("min", "add_top"), ("max", "add_bottom")])
def test_every_pair_of_ends(plus: str, times: str) -> None:
    n, i = Var("n"), Var("block.x")
    total, left, right = (Load(name, (i,), INT32) for name in "abc")
    value = Binary(plus, total, Binary(times, left, right))
    body = For("block.x", Const(0), n, Store("a", (i,), value), Const(1), Mark.BLOCK, axis=Axis.X)
    buffers = [Buffer(name, INT32, (Const(1),), writable=name == "a") for name in "abc"]
    program = split_kernels(LoopNest("f", tuple(buffers), ("n",), body))
    text = emit_kernels([program], CUDA)
    name = "lw_least_add_top_int32" if plus == "min" else "lw_most_add_bottom_int32"
    assert f"a[block_x] = {name}(a[block_x], b[block_x], c[block_x]);" in text
    given = np.array(list(itertools.product(VALUES, repeat=3)), np.int32)
    arrays = {name: np.ascontiguousarray(given[:, k]) for k, name in enumerate("abc")}
    x, y, z = (Var(name, INT32) for name in "abc")
    wanted = [
        evaluate(Binary(plus, x, Binary(times, y, z)), dict(zip("abc", row, strict=True)))
        for row in given
    ]
    run_program(program, text, arrays, {"n": len(given)}, sanitize=True)
    assert np.array_equal(arrays["a"], wanted)
