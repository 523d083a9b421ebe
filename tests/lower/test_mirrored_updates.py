"""Rows whose elements need themselves and their mirror images are updated in place, in pairs."""

from __future__ import annotations

import ctypes
from itertools import product
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from loopwright.calls.splice import optimise_region, spliced
from loopwright.frontends.c import read_c
from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import Alloc, Block, Buffer, LoopNest, Mark, Space, Stmt, Store
from loopwright.ir.text import stmt_text
from loopwright.lower.build import loop
from loopwright.lower.values.mirrored_updates import update_in_pairs
from loopwright.machines import load_machine
from loopwright.planner.planners import model_planner
from loopwright.runtime.toolchain import build_library, load_library

AT, J, K, N = Var("i"), Var("j"), Var("k"), Var("n")
HALF = Const(0.5, FLOAT64)


def y(*index: Expr) -> Load:
    return Load("y", index, FLOAT64)


def nest(*body: Stmt) -> LoopNest:
    """A body around which y and x are arguments and z is local."""
    row = Buffer("y", FLOAT64, (Const(1),), writable=True)
    other = Buffer("x", FLOAT64, (Const(1),), writable=True)
    z = Buffer("z", FLOAT64, (Const(1),), Space.SCRATCH, writable=True)
    inside = Alloc(z, (N,), loop(K, 0, N, Block(body)))
    return LoopNest("f", (row, other), ("n",), inside)


def computed(value: Expr, stop: Expr = K, mark: Mark = Mark.SIMD) -> Stmt:
    return loop(AT, 1, stop, Store("z", (AT,), value), mark=mark)


def copied(to: str = "y", at: Expr = J, stop: Expr = K) -> Stmt:
    return loop(J, 1, stop, Store(to, (J,), Load("z", (at,), FLOAT64)), mark=Mark.SIMD)


MIRRORED = y(AT) + HALF * y(K - AT)


def test_before_and_after() -> None:
    found = update_in_pairs(nest(computed(MIRRORED), copied()))
    check_nest(found)
    assert (
        stmt_text(found.body)
        == dedent("""
        for k in range(n):
            simd for i in range(1, k // 2 + 1):
                let y_new: float64 = y[i] + 0.5 * y[k - i]
                let y_mirrored: float64 = y[k - i] + 0.5 * y[i]
                y[i] = y_new
                y[k - i] = y_mirrored
        """).strip()
    )


@pytest.mark.parametrize(
    "body",
    [
        (computed(y(AT) + HALF * y(K - AT - 1)), copied()),
        (computed(y(AT) * HALF), copied()),
        (computed(y(AT) + y(K - AT) * y(Const(0))), copied()),
        (computed(MIRRORED, stop=N), copied()),
        (computed(MIRRORED, mark=Mark.SERIAL), copied()),
        (computed(MIRRORED), copied(at=K - J)),
        (computed(MIRRORED), copied(), copied(to="x")),
        (computed(MIRRORED), Store("x", (K,), y(K)), copied()),
        (computed(MIRRORED + Load("z", (AT,), FLOAT64)), copied()),
        (computed(MIRRORED), copied(), Store("x", (K,), Load("z", (K,), FLOAT64))),
    ],
    ids=["no image", "no mirror", "stays", "bounds", "order", "turned", "twice", "between",
         "itself", "used again"],
)  # fmt: skip
def test_left_alone(body: tuple[Stmt, ...]) -> None:
    given = nest(*body)
    assert update_in_pairs(given) == given


def test_arguments_keep_their_values() -> None:
    """An array that a caller sees is written as before."""
    local = nest(computed(MIRRORED), copied())
    assert isinstance(local.body, Alloc)
    seen = LoopNest("f", (*local.buffers, local.body.buffer), ("n",), local.body.body)
    assert update_in_pairs(seen) == seen


LEVINSON = """
void levinson(int n, double r[n + 1], double a[n + 1]) {
  double next[n + 1];
  double error, k;
#pragma scop
  error = r[0];
  a[0] = 1.0;
  for (int m = 1; m <= n; m++) {
    k = -r[m];
    for (int i = 1; i < m; i++) k -= a[i] * r[m - i];
    k = k / error;
    for (int i = 1; i < m; i++) next[i] = a[i] + k * a[m - i];
    for (int i = 1; i < m; i++) a[i] = next[i];
    a[m] = k;
    error = error * (1.0 - k * k);
  }
#pragma endscop
}
"""
BATCH = """
void folded(int b, int n, float w[n], float a[b][n]) {
  float t[n];
#pragma scop
  for (int f = 0; f < b; f++) {
    for (int i = 0; i < n; i++)
      t[i] = a[f][n - 1 - i] > a[f][i] ? a[f][i] * w[i] : a[f][i] - a[f][n - 1 - i];
    for (int i = 0; i < n; i++) a[f][i] = t[i];
  }
#pragma endscop
}
"""
PLAIN = ("-O1", "-ffp-contract=off")
QUICK = ("-O3", "-ffp-contract=off", "-fopenmp-simd")


def text_of(source: str, machine: str) -> str:
    file = read_c(source)
    chosen = load_machine(machine)
    found = [
        optimise_region(file, region, model_planner, chosen, target="c", always=True)
        for region in file.regions
    ]
    return spliced(file, found).decode()


@needs_cc
@pytest.mark.drawn(2)
@pytest.mark.parametrize("machine", ["sapphirerapids", "neoverse-n1"])
def test_reflection_coefficients(machine: str, tmp_path: Path) -> None:
    """The recursion of Levinson and Durbin, as linear prediction writes it."""
    text = text_of(LEVINSON, machine)
    assert "a_mirrored" in text
    assert "next[i]" not in text.partition("as it was written")[0]
    plain = load_library(build_library(LEVINSON, PLAIN))["levinson"]
    quick = load_library(build_library(text, QUICK))["levinson"]
    (place := tmp_path / "levinson.c").write_text(LEVINSON)
    code = lw.compile(str(place))
    rng = np.random.default_rng(5)
    for n in (0, 1, 2, 3, 7, 16, 101, 300):
        r = np.exp(-0.1 * np.arange(n + 1)) + 0.01 * rng.random(n + 1)
        r[0] += 1.0
        expected, found, coded = (np.full(n + 1, 9.0) for _ in range(3))
        for function, into in ((plain, expected), (quick, found)):
            function(n, *(ctypes.c_void_p(x.ctypes.data) for x in (r, into)))
        code(n, r, coded)
        np.testing.assert_array_equal(found, expected, str(n))
        # Sums round once with their products in machine code.
        np.testing.assert_allclose(coded, expected, 1e-11, 1e-12, err_msg=str(n))


@needs_cc
def test_rows_of_a_batch_with_selections(tmp_path: Path) -> None:
    text = text_of(BATCH, "sapphirerapids")
    assert "a_mirrored" in text
    plain = load_library(build_library(BATCH, PLAIN))["folded"]
    quick = load_library(build_library(text, QUICK))["folded"]
    (place := tmp_path / "folded.c").write_text(BATCH)
    code = lw.compile(str(place))
    rng = np.random.default_rng(6)
    for b, n in product((0, 1, 3), (0, 1, 2, 5, 16, 31, 200)):
        w = rng.random(n, np.float32)
        first = rng.integers(-3, 4, (b, n)).astype(np.float32)
        first[rng.random((b, n)) < 0.05] = np.nan
        expected, found, coded = first.copy(), first.copy(), first.copy()
        for function, into in ((plain, expected), (quick, found)):
            function(b, n, *(ctypes.c_void_p(x.ctypes.data) for x in (w, into)))
        code(b, n, w, coded)
        np.testing.assert_array_equal(found, expected, str((b, n)))
        np.testing.assert_array_equal(coded, expected, str((b, n)))


def test_python() -> None:
    @lw.jit
    def step(a, k, times):  # type: ignore[no-untyped-def]
        new = np.empty(a.shape[0])
        for _ in range(times):
            for i in range(a.shape[0]):
                new[i] = a[i] + k * a[a.shape[0] - 1 - i]
            for i in range(a.shape[0]):
                a[i] = new[i]

    for n, times in product((0, 1, 2, 9, 64, 257), (1, 3)):
        a = np.random.default_rng(n).integers(-5, 6, n).astype(np.float64)
        expected = a.copy()
        for _ in range(times):
            expected = expected + 0.5 * expected[::-1]
        step(a, 0.5, times)
        np.testing.assert_array_equal(a, expected)
