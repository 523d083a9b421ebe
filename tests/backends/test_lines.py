"""Loops that begin to store at a line of the caches: which, where they are cut, what they leave."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import loopwright as lw
from backends.compiled import assert_same_bits, compile_nest, run_kernel
from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.ir.dtypes import FLOAT32, FLOAT64, DType
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import Block, Buffer, For, Let, LoopNest, Mark, Store
from loopwright.ir.program import Program
from loopwright.ir.row_walk import first_stored
from loopwright.lower.build import loop
from loopwright.machines.load import load_machine
from loopwright.pipeline import compile_program

R, J, N = Var("r"), Var("j"), Var("n")
SIZES = (0, 1, 7, 255, 256, 257, 300, 511, 521, 1031)


def doubled(dtype: DType, shift: int = 0) -> LoopNest:
    """B[r, j + shift] = A[r, j] + A[r, j] along rows of 2048, cut by addresses."""
    r, j = Var("r"), Var("j")
    element = Load("A", (r, j), dtype)
    body = loop(j, 0, Var("n"), Store("B", (r, j + shift), element + element), mark=Mark.SIMD)
    strides = (Const(2048), Const(1))
    buffers = (
        Buffer("A", dtype, strides),
        Buffer("B", dtype, strides, writable=True),
    )
    whole = loop(r, 0, Var("m"), body)
    nest = LoopNest("doubled", buffers, ("n", "m"), whole, leave_to_llvm=True)
    return replace(nest, to_lines=frozenset({"j"}))


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_every_element_is_computed_once(dtype: DType) -> None:
    """Wherever the array begins, and however long the loop is."""
    nest = doubled(dtype, shift=1)
    kernel = compile_nest(nest)
    source = np.random.default_rng(0).random((3, 2048)).astype(dtype.numpy)
    for n, offset in product(SIZES, (0, 1, 3, 4, 13)):
        flat = np.full(3 * 2048 + offset, 0.5, dtype.numpy)
        found = flat[offset:].reshape(3, 2048)
        expected = found.copy()
        expected[:, 1 : n + 1] = source[:, :n] + source[:, :n]
        run_kernel(kernel, nest, {"A": source, "B": found}, {"n": n, "m": 3})
        assert_same_bits(found, expected, (n, offset))


def test_what_llvm_is_told() -> None:
    text = emit_module(doubled(FLOAT64)).text
    assert re.search(r"icmp sge i64 %t\d+, 256$", text, re.MULTILINE)  # 2 KiB of doubles
    assert " = lshr i64 " in text
    assert "label %cut." in text
    assert "cut." not in emit_module(replace(doubled(FLOAT64), to_lines=frozenset())).text


def simd(*body: Store | Let | For) -> For:
    return For("j", Var("a"), Var("n"), Block(body), Const(1), Mark.SIMD)


def stored(*index: Expr, dtype: DType = FLOAT64) -> Store:
    return Store("B", index, Const(1.0, dtype))


COPIES = For("r", Const(2), Const(4), stored(R, J), Const(1), Mark.UNROLL)
ROWS = replace(COPIES, mark=Mark.SERIAL)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ((stored(R, J + 2),), ("B", (R, Var("a") + 2))),
        ((COPIES,), ("B", (Const(2), Var("a")))),
        ((stored(J, R), stored(R, J)), ("B", (R, Var("a")))),
        ((ROWS,), None),
        ((stored(R, J * 2),), None),
        ((stored(R),), None),
        ((Let("r", J + 1, stored(R, J)),), None),
    ],
    ids=["a row", "copies", "a column before", "rows inside", "apart", "one place", "a binding"],
)
def test_first_stored(body: tuple[Store, ...], found: tuple[str, tuple[Expr, ...]] | None) -> None:
    assert first_stored(simd(*body)) == found


def program(extent: str, element: str = "double") -> Program:
    (made,) = lw.parse_c(f"""
void f(int n, {element} a[{extent}], {element} b[{extent}]) {{
#pragma scop
  for (int i = 1; i < n - 1; i++) a[i] = b[i - 1] + b[i + 1];
#pragma endscop
}}
""")
    return made


@pytest.mark.parametrize(
    ("extent", "machine", "is_cut"),
    [
        ("n", "sapphirerapids", True),
        ("1000", "sapphirerapids", True),
        ("200", "sapphirerapids", False),
        ("n", "zen3", False),
        ("n", "neoverse-n1", False),
    ],
)
def test_planned(extent: str, machine: str, is_cut: bool) -> None:
    """Long loops, where a vector is a line; others count from where arrays begin."""
    found = compile_program(program(extent), load_machine(machine), 1, unit={})
    assert found.nest.to_lines == (frozenset({"i"}) if is_cut else frozenset())
    assert any(step.kind == "align" for step in found.plan) == (machine != "sapphirerapids")


def smoothed(dtype: DType, start: int = 1, stop: Expr = N, *, in_place: bool = False) -> LoopNest:
    """B[r, j] of fifteen elements of A: many instructions for each vector.

    In place it is B[r, j] += ..., which must not be computed twice.
    """
    total: Expr = Load("B", (R, J), dtype) if in_place else Const(0.0, dtype)
    for row in range(5):
        for shift in (-1, 0, 1):
            total = total + Const(0.5, dtype) * Load("A", (R + row, J + shift), dtype)
    body = loop(J, start, stop, Store("B", (R, J), total), mark=Mark.SIMD)
    strides = (Const(2048), Const(1))
    buffers = (Buffer("A", dtype, strides), Buffer("B", dtype, strides, writable=True))
    whole = loop(R, 0, Var("m"), body)
    nest = LoopNest("smoothed", buffers, ("n", "m"), whole, leave_to_llvm=True)
    return replace(nest, vector_bits=512)


def test_which_vectors_overlap() -> None:
    """Only whole ones, where nothing is read that is stored, and of long bodies."""
    assert "vector." in emit_module(smoothed(FLOAT64)).text
    assert "vector." not in emit_module(replace(smoothed(FLOAT64), vector_bits=0)).text
    assert "vector." not in emit_module(smoothed(FLOAT64, in_place=True)).text
    assert "vector." not in emit_module(smoothed(FLOAT64, stop=Const(16))).text
    assert "vector." not in emit_module(replace(doubled(FLOAT64), vector_bits=512)).text
