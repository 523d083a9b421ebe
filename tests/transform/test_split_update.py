"""SplitUpdate and ExchangeTerms: an element takes in its terms one by one; what is refused."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loopwright.diagnostics import IllegalStep
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.transform.loop_marks import Simd
from loopwright.transform.plan import apply_plan
from loopwright.transform.split_update import SplitUpdate
from loopwright.transform.step import Step
from loopwright.transform.update_order import ExchangeTerms, UpdateLast
from oracle import assert_same
from programs import Do, For, program

GATHERED = For("k", 0, "j", Do("x[j]", "max(x[j], w[k, j] + x[k])"))


def table(*body: Do | For, dtype: str = "int32", reassoc: bool = False) -> Program:
    """Statements for every j."""
    arrays = {"x": f"inout {dtype} [n]", "y": f"inout {dtype} [n]", "w": f"in {dtype} [n, n]"}
    return program("table", arrays, For("j", 1, "n", *body), reassoc=reassoc)


def after(source: Program, *steps: Step) -> str:
    """The loops of a program after some steps, which compute what they did before."""
    nest = lower_schedule(apply_plan(source, steps))
    for n in (0, 1, 2, 7, 13):
        assert_same(source, nest, {"n": n})
    return stmt_text(nest.body) + "\n"


@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_split(dtype: str) -> None:
    source = table(Do("x[j]", "max(y[j], x[j - 1])"), GATHERED, dtype=dtype)
    assert after(source, SplitUpdate("S0", 1), UpdateLast("S0_2")) == dedent("""\
        for j in range(1, n):
            x[j] = y[j]
            for k in range(j):
                x[j] = max(x[j], w[k, j] + x[k])
            x[j] = max(x[j], x[j - 1])
        """)


def test_the_other_term() -> None:
    told = after(table(Do("x[j]", "x[j - 1] + y[j]")), SplitUpdate("S0", 0))
    assert [line.strip() for line in told.splitlines()[1:]] == [
        "x[j] = y[j]",
        "x[j] = x[j] + x[j - 1]",
    ]


@pytest.mark.parametrize("function", ["min_number", "max_number"])
def test_extremes_of_numbers(function: str) -> None:
    """C's fmin and fmax pass over NaN; who is asked first does not matter."""
    gathered = For("k", 0, "j", Do("x[j]", f"{function}(x[j], w[k, j] + x[k])"))
    source = table(Do("x[j]", f"{function}(y[j], x[j - 1])"), gathered, dtype="float64")
    told = after(source, SplitUpdate("S0", 1), UpdateLast("S0_2"))
    assert told.splitlines()[-1] == f"    x[j] = {function}(x[j], x[j - 1])"


NOT_SPLIT = {
    "no statement": (table(GATHERED), SplitUpdate("S9", 1), "there is no statement 'S9'"),
    "one term": (table(Do("x[j]", "x[j - 1] * 2 - 1")), SplitUpdate("S0", 1), "two terms"),
    "no such term": (table(Do("x[j]", "max(y[j], 1)")), SplitUpdate("S0", 2), "two terms"),
    "floating": (
        table(Do("x[j]", "x[j - 1] + y[j]"), dtype="float64"), SplitUpdate("S0", 0), "two terms",
    ),
    "its own element": (
        table(Do("x[j]", "max(y[j], x[j])")), SplitUpdate("S0", 1), "reads the element",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_SPLIT)
def test_not_split(case: str) -> None:
    source, step, told = NOT_SPLIT[case]
    with pytest.raises(IllegalStep, match=told):
        apply_plan(source, [step])


UPDATED = Do("x[j]", "max(x[j], y[j])")


def test_exchanged() -> None:
    source = table(Do("x[j]", "x[j - 1]"), UPDATED, GATHERED)
    assert after(source, ExchangeTerms("S0"), UpdateLast("S1")) == dedent("""\
        for j in range(1, n):
            x[j] = y[j]
            for k in range(j):
                x[j] = max(x[j], w[k, j] + x[k])
            x[j] = max(x[j], x[j - 1])
        """)


NOT_EXCHANGED = {
    "no statement": (table(UPDATED), "S9", "there is no statement 'S9'"),
    "last": (table(Do("y[j]", "1"), Do("x[j]", "x[j - 1]")), "S1", "follows it directly"),
    "no update": (table(Do("x[j]", "x[j - 1]"), Do("x[j]", "y[j]")), "S0", "follows it directly"),
    "another array": (table(Do("y[j]", "x[j - 1]"), UPDATED), "S0", "follows it directly"),
    "another element": (
        table(Do("x[j - 1]", "y[j]"), UPDATED), "S0", "write other elements",
    ),
    "its own element": (table(Do("x[j]", "x[j] * 3"), UPDATED), "S0", "reads the element"),
    "a term that may be the element": (
        table(Do("x[j]", "y[j]"), Do("x[j]", "max(x[j], x[n - j])")), "S0", "may be the element",
    ),
    "a loop": (table(Do("x[j]", "x[j - 1]"), GATHERED), "S0", "follows it directly"),
    "floating sums": (
        table(Do("x[j]", "x[j - 1]"), Do("x[j]", "x[j] + y[j]"), dtype="float64"), "S0",
        "follows it directly",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_EXCHANGED)
def test_not_exchanged(case: str) -> None:
    source, statement, told = NOT_EXCHANGED[case]
    with pytest.raises(IllegalStep, match=told):
        apply_plan(source, [ExchangeTerms(statement)])


@pytest.mark.parametrize("step", [SplitUpdate("S1", 1), ExchangeTerms("S1")])
def test_the_source_order_only(step: Step) -> None:
    source = program(
        "rows", {"x": "inout int32 [n]", "y": "inout int32 [n]"},
        For("i", 0, "n", Do("y[i]", "1")),
        For("j", 1, "n", Do("x[j]", "max(y[j], x[j - 1])"), Do("x[j]", "max(x[j], 5)")),
    )  # fmt: skip
    with pytest.raises(IllegalStep, match="in the source order only"):
        apply_plan(source, [Simd("i"), step])
