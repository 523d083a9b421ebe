"""Plans of users: what `plan` gives makes the same code, and is refused where it does not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright.cli import main
from loopwright.diagnostics import IllegalStep, UsageError, WrongTypeError
from loopwright.transform.loop_marks import Parallel

A, B = np.arange(42.0).reshape(6, 7), np.arange(56.0).reshape(7, 8) - 20


def product(c, a, b):  # type: ignore[no-untyped-def]
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            c[i, j] = 0.0
            for k in range(a.shape[1]):
                c[i, j] += 2.0 * a[i, k] * b[k, j]


def prefix(c, a, b):  # type: ignore[no-untyped-def]
    for i in range(1, c.shape[0]):
        for j in range(c.shape[1]):
            c[i, j] = c[i - 1, j] + a[i, 0] * b[0, j]


@pytest.mark.parametrize("function", [product, prefix])
@pytest.mark.parametrize("threads", [1, 2])
def test_jit(function: Any, threads: int) -> None:
    first = lw.jit(threads=threads)(function)
    plan = lw.Plan.loads(first.plan(np.zeros((6, 8)), A, B).dumps())
    second = lw.jit(threads=threads, plan=plan)(function)
    results = [np.zeros((6, 8)) for _ in range(2)]
    for compiled, c in zip((first, second), results, strict=True):
        compiled(c, A, B)
    np.testing.assert_array_equal(*results)
    assert second.plan(results[1], A, B) == plan
    for stage in ("inspect_loops", "inspect_llvm"):
        texts = {getattr(f, stage)(results[0], A, B) for f in (first, second)}
        assert len(texts) == 1
    assert "loops in source order" in second.explain(results[0], A, B) or plan.whole_contract


def test_what_is_no_plan_for_the_call() -> None:
    with pytest.raises(WrongTypeError, match="plan must be a Plan"):
        lw.einsum("ik,kj->ij", A, B, plan="model")
    with pytest.raises(WrongTypeError, match="plan must be a Plan"):
        lw.jit(plan={})(product)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="one contract step without loops"):
        lw.einsum("ik,kj->ij", A, B, plan=lw.Plan((Parallel("i"),)))
    with pytest.raises(UsageError, match="one contraction of one or two operands"):
        lw.einsum_plan("ij,jk,kl->il", A, B, B.T)
    whole = lw.einsum_plan("ik,kj->ij", A, B)
    with pytest.raises(UsageError, match="'prefix' as a whole is no contraction"):
        lw.jit(plan=whole)(prefix)(np.zeros((6, 8)), A, B)
    with pytest.raises(IllegalStep, match="loop 'i' carries"):
        lw.jit(plan=lw.Plan((Parallel("i"),)))(prefix)(np.zeros((6, 8)), A, B)


def test_cc(tmp_path: Path) -> None:
    source = tmp_path / "f.c"
    source.write_text(
        "void f(int n, double C[n][n], double A[n][n], double x[n]) {\n#pragma scop\n"
        "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) C[i][j] += A[i][j] * x[j];\n"
        "#pragma endscop\n#pragma scop\nfor (int i = 1; i < n; i++) x[i] += x[i - 1];\n"
        "#pragma endscop\n}\n"
    )
    plans, made, again = (tmp_path / name for name in ("plans.json", "made.c", "again.c"))
    assert main(["cc", str(source), "-o", str(made), "--dump-plan", str(plans)]) == 0
    assert len(json.loads(plans.read_text())) == 2
    assert main(["cc", str(source), "-o", str(again), "--plan", str(plans), "--check"]) == 0
    assert made.read_bytes() == again.read_bytes()
    plans.write_text("[]")
    assert main(["cc", str(source), "-o", str(again), "--plan", str(plans)]) != 0


def test_sums_keep_their_order() -> None:
    """A plan of dot products is none for a function that does not allow another order of sums."""

    def rows(y, a, x):  # type: ignore[no-untyped-def]
        for i in range(a.shape[0]):
            for k in range(a.shape[1]):
                y[i] += a[i, k] * x[k]

    free = lw.jit(reassoc=True)(rows)
    plan = free.plan(np.zeros(6), A, A[0])
    with pytest.raises(UsageError, match="it sums in another order"):
        lw.jit(plan=plan)(rows)(np.zeros(6), A, A[0])
