"""Copies that gather in elements which stay are written out for compilers of C, and kept."""

from __future__ import annotations

import ctypes
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from drawn import in_all
from loopwright.calls.splice import optimise_region, spliced
from loopwright.frontends.c import read_c
from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import INT32
from loopwright.ir.expr import Binary, Const, Expr, Load, Var
from loopwright.ir.loops import Block, Buffer, For, LoopNest, Mark, Stmt, Store
from loopwright.ir.text import stmt_text
from loopwright.lower.build import loop, unrolled
from loopwright.lower.values.kept_copies import write_out_kept
from loopwright.machines import load_machine
from loopwright.planner.planners import model_planner
from loopwright.runtime.toolchain import build_library, load_library

AT, K, U, N = Var("i"), Var("k"), Var("u"), Var("n")


def nest(*body: Stmt) -> LoopNest:
    a = Buffer("a", INT32, (Const(1),), writable=True)
    b = Buffer("b", INT32, (N, Const(1)))
    row = loop(K, 0, N, body[0] if len(body) == 1 else Block(body))
    return LoopNest("f", (a, b), ("n",), loop(AT, 0, N - 3, row, 4))


def least(place: Expr) -> Store:
    own = Load("a", (place,), INT32)
    return Store("a", (place,), Binary("min", own, Load("b", (K, AT + U), INT32)))


def test_before_and_after() -> None:
    found = write_out_kept(nest(unrolled(U, 3, least(AT + U))))
    check_nest(found)
    assert (
        stmt_text(found.body)
        == dedent("""
        for i in range(0, n - 3, 4):
            for k in range(n):
                a[i] = min(a[i], b[k, i])
                a[i + 1] = min(a[i + 1], b[k, i + 1])
                a[i + 2] = min(a[i + 2], b[k, i + 2])
        """).strip()
    )


@pytest.mark.parametrize(
    "body",
    [
        unrolled(U, 4, least(K + U)),  # another element in every iteration
        unrolled(U, 4, Store("a", (AT + U,), Load("b", (K, AT + U), INT32))),  # nothing is gathered
        unrolled(U, 16, least(AT + U)),  # too many for registers
        loop(U, 0, 4, least(AT + U)),  # a loop
        For("u", K, K + 4, least(AT + U), Const(1), Mark.UNROLL),
    ],
    ids=["moves", "stores", "many", "serial", "start"],
)
def test_left_alone(body: Stmt) -> None:
    given = nest(body)
    assert write_out_kept(given) == given


CHAIN = """void chain(int n, int d[n + 1], int cost[n][n], int cut[n][n]) {
#pragma scop
  for (int i = 0; i < n; i++) cost[i][i] = 0;
  for (int len = 1; len < n; len++)
    for (int i = 0; i < n - len; i++) {
      int best = 2147483647, where = i;
      for (int k = i; k < i + len; k++) {
        int c = cost[i][k] + cost[k + 1][i + len] + d[i] * d[k + 1] * d[i + len + 1];
        if (c < best) {
          best = c;
          where = k;
        }
      }
      cost[i][i + len] = best;
      cut[i][i + len] = where;
    }
#pragma endscop
}
"""


@needs_cc
def test_the_same_tables(tmp_path: Path) -> None:
    (tmp_path / "chain.c").write_text(CHAIN, encoding="utf-8")
    file = read_c(CHAIN)
    machine = load_machine("skylake-avx512")
    found = optimise_region(file, file.regions[0], model_planner, machine, target="c")
    assert found.text is not None
    assert "GCC unroll" not in found.text
    text = spliced(file, [found]).decode()
    made = lw.compile(str(tmp_path / "chain.c"), threads=1)
    by_text = load_library(build_library(text, ("-O3",)))["chain"]
    plain = load_library(build_library(CHAIN, ("-O1",)))["chain"]
    for n in (0, 1, 2, 3, 5, 11, 37):
        d = np.random.default_rng(n).integers(1, 9, n + 1, np.int32)  # small: there are ties
        results = []
        is_called = in_all() or n == 37  # a call plans anew for small sizes
        for run in (plain, by_text, None) if is_called else (plain, by_text):
            tables = [np.full((n, n), -1, np.int32) for _ in range(2)]
            if run is None:
                made(n, d, *tables)
            else:
                run(n, *(ctypes.c_void_p(a.ctypes.data) for a in (d, *tables)))
            results.append([table.tolist() for table in tables])
        assert all(result == results[0] for result in results), n
