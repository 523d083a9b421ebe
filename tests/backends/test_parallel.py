"""Parallel loops, barriers and scratch memory on teams of one, two and three threads."""

from __future__ import annotations

import numpy as np
import pytest

from backends.compiled import assert_compiled
from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import (
    Buffer,
    For,
    LoopNest,
    Mark,
    Stmt,
    Store,
)

ONE = Const(1)
TEAMS = (1, 2, 3)
i, j, r, n = (Var(name) for name in "ijrn")


def parallel(var: Var, start: Expr | int, stop: Expr | int, body: Stmt, step: int = 1) -> For:
    first, last = (Const(x) if isinstance(x, int) else x for x in (start, stop))
    return For(var.name, first, last, body, Const(step), Mark.PARALLEL)


def nest_of(body: Stmt) -> LoopNest:
    x, y = Buffer("x", FLOAT64, (ONE,)), Buffer("y", FLOAT64, (ONE,), writable=True)
    return LoopNest("f", (x, y), ("n",), body)


def check(body: Stmt, n: int = 17) -> None:
    nest = nest_of(body)
    arrays = {"x": np.arange(64.0), "y": np.zeros(64)}
    for threads in TEAMS[1:]:
        races = {name: data.copy() for name, data in arrays.items()}
        interpret_nest(nest, races, {"n": n}, threads=threads)
    assert_compiled(nest, arrays, {"n": n}, threads=TEAMS)


def load(name: str, at: Expr) -> Load:
    return Load(name, (at,), FLOAT64)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 7, 17])
@pytest.mark.parametrize("step", [1, 2, 5])
def test_every_iteration_runs_once(n: int, step: int) -> None:
    add = Store("y", (i,), load("y", i) + load("x", i))
    check(parallel(i, 0, Var("n"), add, step), n)
    check(parallel(i, 3, Var("n") - 2, add, step), n)
