"""Counts over numbers of 64 bits that come backwards: gathered in 64 bits, the same counts."""

from __future__ import annotations

import ctypes
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from loopwright.calls.splice import optimise_region, spliced
from loopwright.frontends.c import read_c
from loopwright.ir.check import check_nest
from loopwright.ir.loops import For
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.lower.values.keep_elements import keep_elements
from loopwright.lower.values.masked_updates import mask_updates
from loopwright.lower.values.wide_counts import counts_widely, widen_counts
from loopwright.machines import load_machine
from loopwright.planner.planners import model_planner
from loopwright.runtime.toolchain import build_library, load_library
from loopwright.targets import tells_more
from loopwright.transform.plan import apply_plan, initial_schedule
from oracle import assert_same
from programs import Do, program
from programs import For as Loop


def counting(value: str, kind: str = "float64") -> Program:
    arrays = {"c": "inout int32 [1]", "x": f"in {kind} [n]", "y": f"in {kind} [1]"}
    return program("count", arrays, Loop("k", 0, "n", Do("c[0]", value)))


def test_before_and_after() -> None:
    given = counting("c[0] + 1 if x[n - k - 1] > y[0] else c[0]")
    nest = mask_updates(keep_elements(lower_schedule(apply_plan(given, ()))))
    found = widen_counts(nest)
    check_nest(found)
    assert (
        stmt_text(found.body)
        == dedent("""
        if 0 < n:
            alloc stack c_k: int32[] strides []
            c_k[] = c[0]
            alloc stack c_k_w: int64[] strides []
            c_k_w[] = int64(c_k[])
            for k in range(n):
                c_k_w[] = c_k_w[] + (1 if x[n - k - 1] > y[0] else 0)
            c_k[] = int32(c_k_w[])
            c[0] = c_k[]
        """).strip()
    )
    assert_same(given, found, {"n": 9})


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("c[0] + 1 if x[k] > y[0] else c[0]", "float64"),
        ("c[0] + 1 if x[n - k - 1] > y[0] else c[0]", "float32"),
        ("c[0] + 100000 if x[n - k - 1] > y[0] else c[0]", "float64"),
        ("c[0] + 1 if x[n - k - 1] > y[0] else 0", "float64"),
    ],
    ids=["forwards", "32 bits", "large steps", "runs"],
)
def test_left_alone(value: str, kind: str) -> None:
    nest = mask_updates(keep_elements(lower_schedule(apply_plan(counting(value, kind), ()))))
    assert widen_counts(nest) == nest


BACKWARDS = """void f(int n, int w, TYPE x[n], TYPE y[n], int c[n], int r[n]) {
#pragma scop
  for (int d = w; d < n; d++) {
    int over = 3, rank = 0;
    for (int k = 1; k <= w; k++) {
      if (x[d - k] > y[d] && x[d - k] != 2) over++;
      rank += x[d - k] >= x[d];
    }
    c[d] = over;
    r[d] = rank;
  }
#pragma endscop
}
"""


@pytest.mark.parametrize(
    ("kind", "machine", "is_told"),
    [
        ("double", "sapphirerapids", True),
        ("long", "zen3", True),
        ("float", "sapphirerapids", False),
        ("double", "neoverse-n1", False),  # not measured there
    ],
)
def test_told_where_no_step_is_taken(kind: str, machine: str, is_told: bool) -> None:
    (program,) = lw.parse_c(BACKWARDS.replace("TYPE", kind).replace(" && x[d - k] != 2", ""))
    nest = lower_schedule(initial_schedule(program))
    loops = [stmt for stmt in statements(nest.body) if isinstance(stmt, For)]
    assert any(map(counts_widely, loops)) is (kind != "float")
    if machine != "neoverse-n1":
        assert tells_more(program, nest, load_machine(machine)) is is_told


@needs_cc
@pytest.mark.drawn(2)
@pytest.mark.parametrize("kind", ["double", "long"])
def test_the_same_counts(kind: str, tmp_path: Path) -> None:
    source = BACKWARDS.replace("TYPE", kind)
    (tmp_path / "f.c").write_text(source, encoding="utf-8")
    made = lw.compile(str(tmp_path / "f.c"))
    file = read_c(source)
    machine = load_machine("sapphirerapids")
    found = optimise_region(file, file.regions[0], model_planner, machine, target="c")
    assert found.text is not None
    assert "long over_r_w;" in found.text
    written = load_library(build_library(spliced(file, [found]).decode(), ("-O3",)))["f"]
    dtype = {"double": np.float64, "long": np.int64}[kind]
    for n, w in ((0, 0), (1, 0), (1, 1), (7, 3), (43, 17), (101, 40)):
        x = np.random.default_rng(n).integers(-3, 4, n).astype(dtype)
        y = np.random.default_rng(w).integers(-3, 4, n).astype(dtype)
        if kind == "double" and n > 7:
            x[::5] = np.nan
        before = [x[d - w : d] for d in range(w, n)]
        over = [3 + np.sum((b > y[w + i]) & (b != 2)) for i, b in enumerate(before)]
        rank = [np.sum(b >= x[w + i]) for i, b in enumerate(before)]
        results = [[np.full(n, -1, np.int32) for _ in range(2)] for _ in range(2)]
        arrays = (x, y, *results[0])
        written(n, w, *(ctypes.c_void_p(a.ctypes.data) for a in arrays))
        made(n, w, x, y, *results[1])
        for c, r in results:
            assert c.tolist() == [-1] * min(w, n) + list(map(int, over))
            assert r.tolist() == [-1] * min(w, n) + list(map(int, rank))
