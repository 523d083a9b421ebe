"""Bounds checks in emitted code: every access outside is found, told, and touches nothing."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import kernels, options
from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.calls.polyhedral_function import PolyhedralFunction
from loopwright.diagnostics import BoundsError, InternalError
from loopwright.ir.dtypes import DTYPES, FLOAT64, INT64
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Var
from loopwright.ir.loops import Alloc, Buffer, Copy, For, LoopNest, Mark, Space, Stmt, Store
from loopwright.pipeline import Compilation
from loopwright.runtime.kernel import BoundKernel
from no_kernels import forget_kernels

i, j, n, lane = Var("i"), Var("j"), Var("n"), Var("lane")
ZERO, ONE = Const(0), Const(1)
NO_TABLE = np.zeros(0, dtype=np.int64)


def x_at(*index: Expr, dtype: Any = FLOAT64) -> Load:
    return Load("x", index, dtype)


def loop(var: Var, stop: Expr | int, body: Stmt, mark: Mark = Mark.SERIAL) -> For:
    return For(var.name, ZERO, Const(stop) if isinstance(stop, int) else stop, body, ONE, mark)


def bound(body: Stmt, *, rank: int = 1, dtype: str = "float64", threads: int = 1) -> BoundKernel:
    """The checked kernel of a nest over x and y of that rank, with the scalar n = 4."""
    strides = (*(Var(f"s{d}") for d in range(rank - 1)), ONE)
    kind = DTYPES[dtype]
    buffers = Buffer("x", kind, strides), Buffer("y", kind, strides, writable=True)
    names = tuple(f"s{d}" for d in range(rank - 1))
    nest = LoopNest("k", buffers, ("n", *names), body)
    with options.override(boundscheck=True, cache=False):
        kernel = kernels.nest_kernel(repr(nest), lambda: nest)
    values = {"n": 4, **dict.fromkeys(names, 4)}
    return kernel.bind(values, NO_TABLE, threads, kernels.thread_pool)


def told(kernel: BoundKernel, *arrays: np.ndarray) -> tuple[object, ...]:
    with pytest.raises(BoundsError) as caught:
        kernel(*arrays)
    return caught.value.args


@pytest.mark.drawn(3)
@pytest.mark.parametrize("mark", [Mark.SERIAL, Mark.PARALLEL, Mark.VECTOR, Mark.UNROLL])
@pytest.mark.parametrize("dtype", ["float64", "complex64", "int8"])
def test_loops_that_run_too_far(mark: Mark, dtype: str) -> None:
    stop = n if mark in (Mark.SERIAL, Mark.PARALLEL) else Const(4)
    body = loop(i, stop, Store("y", (i,), x_at(i, dtype=DTYPES[dtype])), mark)
    kernel = bound(body, dtype=dtype, threads=2)
    x, memory = np.arange(4).astype(dtype), np.zeros(8, dtype)
    kernel(x, memory[2:6])
    np.testing.assert_array_equal(memory, [0, 0, 0, 1, 2, 3, 0, 0])
    memory[...] = 9
    assert told(kernel, x, memory[2:5]) == ("y", 0, 3, (0, 3))
    assert (memory[:2] == 9).all()
    assert (memory[5:] == 9).all()
    assert told(kernel, x[:3], memory[2:6]) == ("x", 0, 3, (0, 3))
    assert told(kernel, x[:0], memory[2:6])[0] == "x"


# A subscript, and what is told of it: the first one outside, or that of the last lane.
PLACES: dict[str, tuple[Expr, int, int]] = {
    "backwards": (Const(2) - i, -1, -1),
    "backwards from beyond": (Const(4) - i, 4, 4),
    "with gaps": (i * 2, 4, 6),
    "with a gap of n": (i * n, 4, 12),
    "before the start": (i - 1, -1, -1),
    "folded": (Binary("mod", i * 3, Const(5)), 4, 4),
    "standing still": (Const(4), 4, 4),
}


@pytest.mark.parametrize("name", PLACES)
def test_loads_at_any_distance(name: str) -> None:
    place, *subscripts = PLACES[name]
    for mark, subscript in zip((Mark.SERIAL, Mark.VECTOR), subscripts, strict=True):
        kernel = bound(loop(i, 4, Store("y", (i,), x_at(place)), mark))
        assert told(kernel, np.ones(4), np.zeros(4)) == ("x", 0, subscript, (0, 4))


def test_rows_are_told_from_their_neighbours() -> None:
    """An address inside the memory, but in the next row."""
    body = loop(i, 3, loop(j, 4, Store("y", (i, j), x_at(i, j + 1))))
    x, y = np.zeros((4, 4)), np.zeros((4, 4))
    assert told(bound(body, rank=2), x, y) == ("x", 1, 4, (0, 4))


def test_local_memory_copies_and_tables() -> None:
    local = Buffer("t", FLOAT64, (ONE,), Space.SCRATCH, writable=True)
    copy = Copy("t", (ONE,), "x", (ZERO,), (n,))
    body = Alloc(local, (n,), copy)
    assert told(bound(body), np.ones(4), np.ones(4)) == ("t", 0, 4, (0, 4))
    index = Cast(x_at(i), INT64)
    body = loop(i, 4, Store("y", (index,), x_at(i)))
    assert told(bound(body), np.array([0.0, 3.0, 7.0, 1.0]), np.ones(4)) == ("y", 0, 7, (0, 4))


def test_the_first_violation_of_a_call_is_told_and_the_next_call_is_fresh() -> None:
    kernel = bound(loop(i, 4, Store("y", (i + 1,), x_at(i + 2))))
    assert told(kernel, np.ones(4), np.ones(4)) == ("x", 0, 4, (0, 4))
    kernel(np.ones(6), np.ones(5))


def test_the_error() -> None:
    error = BoundsError("A", 1, 7, (0, 5))
    assert isinstance(error, IndexError)
    assert isinstance(error, InternalError)
    assert str(error) == (
        "internal error: compiled code leaves 'A': subscript 2 is 7, 0 to 4 are inside\n"
        "note: the fault is ours, not your program's"
    )
    assert str(BoundsError("left", -1, -3, (0, 9))).startswith(
        "internal error: compiled code leaves 'left': the place in memory is -3, 0 to 8 are inside"
    )
    assert "is 0, it is empty" in str(BoundsError("A", 0, 0, (0, 0)))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.args) == (str(error), error.args)


def test_code_without_checks_has_none() -> None:
    one = Buffer("t", FLOAT64, (), Space.STACK, writable=True)
    nest = LoopNest("k", (), (), Alloc(one, (), Store("t", (), Const(1.0, FLOAT64))))
    assert "lw_inside" not in emit_module(nest).text
    assert "lw_inside" in emit_module(nest, checked=True).text


# -- compiled functions ------------------------------------------------------------------------


def smooth(x, y, steps):
    for _ in range(steps):
        for k in range(1, x.shape[0] - 1):
            y[k] = x[k - 1] + x[k] + x[k + 1]
        for k in range(1, x.shape[0] - 1):
            x[k] = y[k]


def test_compiled_functions_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of ours between the proof and the code: a loop that runs one too far."""
    right = PolyhedralFunction.compiled

    def wrong(self: PolyhedralFunction, *args: Any) -> Compilation:
        at = Var("q")
        body = loop(at, Var("x_0") + 1, Store("x", (at,), Const(0.0, FLOAT64)))
        found = right(self, *args)
        return replace(found, nest=replace(found.nest, body=body))

    with options.override(boundscheck=True, cache=False):
        ours, plain = np.arange(40.0), np.arange(40.0)
        lw.jit(threads=1)(smooth)(ours, np.zeros(40), 3)
        smooth(plain, np.zeros(40), 3)
        np.testing.assert_array_equal(ours, plain)
        monkeypatch.setattr(PolyhedralFunction, "compiled", wrong)
        forget_kernels(monkeypatch)
        with pytest.raises(BoundsError, match="leaves 'x': subscript 1 is 40, 0 to 39 are inside"):
            lw.jit(threads=1)(smooth)(ours, np.zeros(40), 3)
