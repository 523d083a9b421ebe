"""KeepInLocal: what it makes of a program, that it is right, what it refuses."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loopwright.diagnostics import IllegalStep
from loopwright.ir.check import check_program
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.transform.keep_in_local import KeepInLocal
from loopwright.transform.plan import apply_plan, candidates, initial_schedule
from oracle import assert_same
from programs import Do, For, program

STEP = KeepInLocal("C", "t")


def sums(made: str = "2 * C[i, j] + t[i, j]", *behind: Do | For, more: str = "C[i, j]") -> Program:
    """C is made of sums in t, and more is added to it."""
    arrays = {
        "A": "in float64 [n, n]", "C": "inout float64 [n, n]", "D": "out float64 [n, n]",
        "t": "local float64 [n, n]",
    }  # fmt: skip
    k = For("k", 0, "i", Do("t[i, j]", "t[i, j] + A[i, k] * A[k, j]"))
    l_ = For("l", 0, "n", Do("C[i, j]", f"{more} + A[l, i] * A[l, j]"))
    inner = [Do("t[i, j]", "0"), k, Do("C[i, j]", made), l_, *behind]
    return program("sums", arrays, For("i", 0, "n", For("j", 0, "n", *inner)))


def test_golden() -> None:
    source = sums()
    schedule = apply_plan(source, [STEP])
    check_program(schedule.program)
    nest = lower_schedule(schedule)
    for n in (0, 1, 2, 7):
        assert_same(source, nest, {"n": n}, threads=2)
    text = "\n" + stmt_text(nest.body) + "\n"
    assert text == dedent("""
        alloc scratch t: float64[n, n] strides [n, 1]
        for i in range(n):
            for j in range(n):
                t[i, j] = 0.0
                for k in range(i):
                    t[i, j] = t[i, j] + A[i, k] * A[k, j]
                t[i, j] = 2.0 * C[i, j] + t[i, j]
                for l in range(n):
                    t[i, j] = t[i, j] + A[l, i] * A[l, j]
        for C_0 in range(n):
            for C_1 in range(n):
                C[C_0, C_1] = t[C_0, C_1]
        """)


def test_candidates() -> None:
    """Arrays that are gathered further behind the statement that reads the local one."""
    offered = [s for s in candidates(initial_schedule(sums())) if s.kind == KeepInLocal.kind]
    assert offered == [STEP]


@pytest.mark.parametrize(
    ("source", "step", "told"),
    [
        (sums(), KeepInLocal("Z", "t"), "there is no array 'Z'"),
        (sums(), KeepInLocal("C", "A"), "'A' is no local array, or 'C' is one"),
        (sums("2 * C[i, j]"), STEP, "no single statement makes 'C' of 't'"),
        (
            sums("2 * C[i, j] + t[i, j]", Do("D[i, j]", "t[i, j]")),
            STEP,
            "S4_1 comes behind S2_0",
        ),
        (
            sums(more="C[j, i]"),
            STEP,
            "S3_1 is a read of old and of new values",
        ),
    ],
    ids=["unknown", "no local", "not made of it", "read later", "old"],
)
def test_refused(source: Program, step: KeepInLocal, told: str) -> None:
    with pytest.raises(IllegalStep) as caught:
        step.apply(initial_schedule(source))
    assert str(caught.value) == f"{step}: {told}"
