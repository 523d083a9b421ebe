"""Variables of C text that gather signed integers are unsigned: sums wrap, and gcc sees them."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from loopwright.backends.c_text.c_modulo_sums import gathers_modulo
from loopwright.calls.splice import optimise_region, spliced
from loopwright.frontends.c import read_c
from loopwright.ir.dtypes import DTYPES, INT32, DType
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.interpret import interpret_program
from loopwright.ir.loops import Alloc, Block, Buffer, Space, Stmt, Store
from loopwright.machines.load import load_machine
from loopwright.planner.planners import model_planner
from loopwright.runtime.toolchain import build_library, load_library

DIFFERENCES = """
void differences(int n, int m, {kind} a[n][m], {kind} b[n][m], int c[n][8]) {{
#pragma scop
  for (int i = 0; i < n; i++)
    for (int d = 0; d < 8; d++) {{
      int s = 0;
      for (int j = 0; j < m - 8; j++) {{
        int x = a[i][j] - b[i][j + d];
        s {op} x < 0 ? -x : x;
      }}
      c[i][d] = s;
    }}
#pragma endscop
}}
"""
PLAIN = ("-O2", "-ffp-contract=off")


def text_of(source: str) -> str:
    file = read_c(source)
    machine = load_machine("cascadelake")
    found = [optimise_region(file, file.regions[0], model_planner, machine, target="c")]
    return spliced(file, found).decode()


@pytest.mark.drawn(8)
@needs_cc
@pytest.mark.parametrize("op", ["+=", "-="])
@pytest.mark.parametrize("kind", ["unsigned char", "int"])
@pytest.mark.parametrize(("n", "m"), [(0, 9), (1, 8), (3, 9), (5, 41)])
def test_meaning(kind: str, op: str, n: int, m: int) -> None:
    """Large differences make sums wrap."""
    source = DIFFERENCES.format(kind=kind, op=op)
    text = text_of(source)
    (program,) = lw.parse_c(source)
    dtype = np.uint8 if kind != "int" else np.int32
    most = 255 if kind != "int" else 2**30 - 1
    made = np.random.default_rng(n + m)
    a, b = (made.integers(0, most, (n, m), endpoint=True).astype(dtype) for _ in range(2))
    wanted, found = np.ones((n, 8), np.int32), np.ones((n, 8), np.int32)
    interpret_program(program, {"a": a, "b": b, "c": wanted}, {"n": n, "m": m})
    function = load_library(build_library(text, PLAIN))["differences"]
    function(n, m, *(ctypes.c_void_p(x.ctypes.data) for x in (a, b, found)))
    assert np.array_equal(found, wanted)


def test_what_gcc_sees() -> None:
    text = text_of(DIFFERENCES.format(kind="unsigned char", op="+="))
    assert "unsigned s_k;" in text
    assert "s_k += __builtin_abs(x_k);" in text


S = Load("s", (), INT32)
ELEMENT = Load("a", (Var("i"),), INT32)


def alloc(*values: Expr, dtype: DType = INT32) -> Alloc:
    stores: tuple[Stmt, ...] = tuple(Store("s", (), value) for value in values)
    return Alloc(Buffer("s", dtype, (), Space.REGISTER, writable=True), (), Block(stores))


@pytest.mark.parametrize(
    ("found", "is_gathered"),
    [
        (alloc(Const(0), S + ELEMENT), True),
        (alloc(ELEMENT, S - ELEMENT), True),
        (alloc(ELEMENT), False),
        (alloc(Const(0), ELEMENT - S), False),
        (alloc(Const(0), S + S), False),
        (alloc(ELEMENT * ELEMENT, S + ELEMENT), False),
        (alloc(Const(0), S + ELEMENT, dtype=DTYPES["int16"]), False),
        (alloc(Const(0), S + ELEMENT, dtype=DTYPES["float32"]), False),
    ],
)
def test_which_variables(found: Alloc, *, is_gathered: bool) -> None:
    assert gathers_modulo(found) == is_gathered
