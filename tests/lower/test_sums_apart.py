"""Loops of several sums in order run one element at a time in C text."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from backends.c_compiled import needs_cc
from loopwright.calls.splice import optimise_region, spliced
from loopwright.frontends.c import read_c
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.expr import Binary, Call, Const, Expr, Load, Var
from loopwright.ir.loops import Block, Buffer, For, LoopNest, Mark, Stmt, Store
from loopwright.lower.values.sums_apart import run_sums_singly
from loopwright.machines import load_machine
from loopwright.planner.planners import model_planner
from loopwright.runtime.toolchain import build_library, load_library

REAL = DTYPES["float64"]
J, N = Var("j"), Var("n")
X = Load("x", (J,), REAL)
SINGLY = '__asm__ volatile("");'


def row(k: int, at: Expr = J) -> Load:
    return Load("a", (Const(k), at), REAL)


def summed(k: int, term: Expr, op: str = "add") -> Store:
    return Store(f"s{k}", (), Binary(op, Load(f"s{k}", (), REAL), term))


def products(count: int) -> Block:
    return Block(tuple(summed(k, Binary("mul", row(k), X)) for k in range(count)))


def nest_of(body: Stmt, stop: Expr, mark: Mark = Mark.SERIAL) -> LoopNest:
    loop = For("j", Const(0), stop, body, Const(1), mark)
    return LoopNest("f", (Buffer("x", REAL, (Const(1),)),), ("n",), loop)


def is_single(body: Stmt, stop: Expr = N, mark: Mark = Mark.SERIAL) -> bool:
    found = run_sums_singly(nest_of(body, stop, mark)).body
    assert isinstance(found, For)
    return found.copies == 1


def test_products_in_four_sums_and_more() -> None:
    assert [is_single(products(count)) for count in (1, 3, 4, 8)] == [False, False, True, True]
    taken = (summed(k, Binary("mul", row(k), X), "sub") for k in range(4))
    assert is_single(Block(tuple(taken)))


def test_other_loops() -> None:
    assert not is_single(products(4), stop=Const(8))  # written out
    assert is_single(products(4), stop=Const(256))
    assert not is_single(products(4), mark=Mark.SIMD)
    stored = Store("y", (J,), X)
    assert not is_single(Block((*products(4).body, stored)))
    regrouped = replace(nest_of(products(4), Var("n")), reassoc=True)
    assert run_sums_singly(regrouped) is regrouped


@pytest.mark.parametrize(
    ("term", "is_faster"),
    [
        (lambda k: Binary("mul", row(k) - X, row(k) - X), True),
        (lambda k: Binary("mul", row(k), Binary("mul", row(k) - X, X)), False),  # three operations
        (lambda k: row(k), False),
        (lambda k: Binary("mul", Call("sqrt", (row(k),)), X), False),
        (lambda k: Binary("mul", Binary("div", row(k), X), X), False),
        (lambda k: Binary("mul", Load("a", (J, Const(k)), REAL), X), False),  # lanes of one vector
        (lambda k: Binary("mul", row(k, J * Const(2)), X), False),
    ],
    ids=["square", "more work", "no product", "root", "quotient", "side by side", "far apart"],
)
def test_terms(term: object, is_faster: bool) -> None:
    assert callable(term)
    assert is_single(Block(tuple(summed(k, term(k)) for k in range(4)))) is is_faster


def test_sums_that_read_each_other() -> None:
    own = summed(0, Binary("mul", Load("s0", (), REAL), X))
    assert not is_single(Block((*products(4).body[1:], own)))


BANDS = """void f(int n, int m, float a[n][m], float b[m], float c[m], float p[n], float q[n])
{
#pragma scop
    for (int i = 0; i < n; i++) {
        float s = 0.0f, t = 1.0f;
        for (int j = 0; j < m; j++) {
            s += a[i][j] * b[j];
            t -= a[i][j] * c[j];
        }
        p[i] = s + t;
        q[i] = s - t;
    }
#pragma endscop
}
"""


def text_for(machine: str) -> str:
    file = read_c(BANDS)
    there = load_machine(machine)
    found = optimise_region(file, file.regions[0], model_planner, there, target="c")
    return spliced(file, [found]).decode()


@pytest.mark.parametrize(("machine", "is_told"), [("sapphirerapids", True), ("neoverse-n1", False)])
def test_rows_that_are_taken_together(machine: str, is_told: bool) -> None:
    assert (SINGLY in text_for(machine)) is is_told


@needs_cc
def test_the_same_bits() -> None:
    flags = ("-O3", "-ffp-contract=off")
    made, plain = (
        load_library(build_library(text, flags))["f"] for text in (text_for("zen3"), BANDS)
    )
    for n, m in ((0, 5), (1, 0), (3, 1), (4, 17), (13, 31)):
        random = np.random.default_rng(n + m)
        a, b, c = (random.random(s).astype("f4") - 0.5 for s in ((n, m), m, m))
        results = []
        for function in (made, plain):
            p, q = np.zeros(n, "f4"), np.zeros(n, "f4")
            function(n, m, *(ctypes.c_void_p(x.ctypes.data) for x in (a, b, c, p, q)))
            results.append(p.tobytes() + q.tobytes())
        assert results[0] == results[1]
