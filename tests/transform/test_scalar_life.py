"""GatherInPlace and ForwardScalar: programs do without a scalar; what they refuse."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loopwright.diagnostics import IllegalStep
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.transform.forward_scalar import ForwardScalar
from loopwright.transform.gather_in_place import GatherInPlace
from loopwright.transform.loop_marks import Simd
from loopwright.transform.plan import apply_plan
from loopwright.transform.step import Step
from oracle import assert_same
from programs import Do, For, program

SIZES = (0, 1, 2, 7, 13)


def made(*body: Do | For, dtype: str = "int32", reassoc: bool = False) -> Program:
    """Statements for every i, with a scalar s, a scalar t and arrays."""
    arrays = {
        "x": f"inout {dtype} [n]", "y": f"inout {dtype} [n]", "w": f"in {dtype} [n, n]",
        "f": "inout float32 [n]", "s": f"local {dtype} []", "t": f"local {dtype} []",
    }  # fmt: skip
    return program("made", arrays, For("i", 0, "n", *body), reassoc=reassoc)


FIRST = Do("s", "w[i, i]")
GATHER = For("k", 0, "i", Do("s", "max(s, x[k] + w[i, k])"))
STORE = Do("x[i]", "s")


def after(source: Program, *steps: Step) -> str:
    """The loops of a program after some steps, which compute what they did before."""
    nest = lower_schedule(apply_plan(source, steps))
    for n in SIZES:
        assert_same(source, nest, {"n": n})
    return stmt_text(nest.body) + "\n"


def test_gathered_in_place() -> None:
    assert after(made(FIRST, GATHER, STORE), GatherInPlace("s")) == dedent("""\
        for i in range(n):
            x[i] = w[i, i]
            for k in range(i):
                x[i] = max(x[i], x[k] + w[i, k])
        """)


def test_what_is_made_of_the_scalar_at_last_is_made_of_the_element() -> None:
    source = made(FIRST, GATHER, Do("x[i]", "3 * s - y[i]"))
    told = after(source, GatherInPlace("s"))
    assert told.splitlines()[-1] == "    x[i] = 3 * x[i] - y[i]"


def test_the_old_value_may_be_what_the_scalar_begins_with() -> None:
    told = after(made(Do("s", "x[i]"), GATHER, STORE), GatherInPlace("s"))
    assert "x[i] = x[i]" in told


def test_other_loops_go_on_by_themselves() -> None:
    source = made(Do("y[i]", "w[i, 0]"), FIRST, GATHER, STORE, Do("y[i]", "y[i] + x[i]"))
    lines = [line.strip() for line in after(source, GatherInPlace("s")).splitlines()]
    assert lines[1] == "y[i] = w[i, 0]"
    assert lines[-1] == "y[i] = y[i] + x[i]"


NOT_GATHERED = {
    "no scalar": (made(FIRST, GATHER, STORE), "x", "no local scalar"),
    "never stored": (made(FIRST, GATHER), "s", "sets 's' first and stores it last"),
    "not set": (made(GATHER, STORE), "s", "sets 's' first and stores it last"),
    "used twice": (made(FIRST, GATHER, Do("y[i]", "s"), STORE), "s", "stores it last"),
    "set before the loop of its store": (
        program("made", {"x": "inout int32 [n]", "s": "local int32 []"},
                Do("s", "1"), For("i", 0, "n", Do("x[i]", "s"))), "s", "stores it last",
    ),
    "another type": (made(FIRST, GATHER, Do("f[i]", "float32(s)")), "s", "another type"),
    "an element of the loop": (
        made(FIRST, For("k", 0, "i", Do("s", "max(s, x[k])")),
             For("k", 0, "1", Do("x[i + k]", "s"))), "s", "stores it last",
    ),
    "read": (
        made(FIRST, For("k", 0, "i + 1", Do("s", "max(s, x[k] + w[i, k])")), STORE), "s",
        "is used in between",
    ),
    "written": (made(FIRST, Do("x[i]", "5"), GATHER, STORE), "s", "is used in between"),
    "stored elsewhere at times": (
        made(FIRST, GATHER, Do("x[i]", "s + x[0]")), "s", "is used in between",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_GATHERED)
def test_not_gathered(case: str) -> None:
    source, scalar, told = NOT_GATHERED[case]
    with pytest.raises(IllegalStep, match=told):
        apply_plan(source, [GatherInPlace(scalar)])


NAMED = (Do("t", "x[k] + w[i, k]"), Do("s", "max(s, t)"))


def test_forwarded() -> None:
    source = made(FIRST, For("k", 0, "i", *NAMED), STORE)
    assert after(source, ForwardScalar("t"), GatherInPlace("s")) == dedent("""\
        for i in range(n):
            x[i] = w[i, i]
            for k in range(i):
                x[i] = max(x[i], x[k] + w[i, k])
        """)


def test_a_reader_may_write_what_the_value_is_computed_from() -> None:
    source = made(Do("t", "x[i] + 1"), Do("x[i]", "t * t"))
    assert "x[i] = (x[i] + 1) * (x[i] + 1)" in after(source, ForwardScalar("t"))


REAL = "float64"
PRODUCT = (Do("t", "y[i] * w[i, i]"), Do("x[i]", "x[i] + t"))
NOT_FORWARDED = {
    "no scalar": (made(STORE), "x", "no local scalar"),
    "two readers": (made(Do("t", "w[i, 0]"), Do("x[i]", "t"), Do("y[i]", "t")), "t", "one other"),
    "gathered": (made(FIRST, GATHER, STORE), "s", "one other"),
    "in another loop": (
        made(Do("t", "w[i, 0]"), For("k", 0, "i", Do("x[k]", "t"))), "t", "one other",
    ),
    "written in between": (
        made(Do("t", "x[i]"), Do("x[i]", "3"), Do("y[i]", "t")), "t", "written in between",
    ),
    "a product of real numbers": (made(*PRODUCT, dtype=REAL), "t", "rounds its value"),
    "its negative": (
        made(Do("t", "-(y[i] * w[i, i])"), PRODUCT[1], dtype=REAL), "t", "rounds its value",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_FORWARDED)
def test_not_forwarded(case: str) -> None:
    source, scalar, told = NOT_FORWARDED[case]
    with pytest.raises(IllegalStep, match=told):
        apply_plan(source, [ForwardScalar(scalar)])


def test_products_that_round_alike_are_forwarded() -> None:
    assert "x[i] + y[i] * w[i, i]" in after(made(*PRODUCT), ForwardScalar("t"))
    regrouped = made(*PRODUCT, dtype=REAL, reassoc=True)
    assert "x[i] + y[i] * w[i, i]" in stmt_text(
        lower_schedule(apply_plan(regrouped, [ForwardScalar("t")])).body
    )


@pytest.mark.parametrize("step", [GatherInPlace("s"), ForwardScalar("t")])
def test_the_source_order_only(step: Step) -> None:
    source = program(
        "rows", {"x": "inout int32 [n]", "s": "local int32 []", "t": "local int32 []"},
        For("i", 0, "n", Do("x[i]", "x[i] + 1")),
        For("j", 0, "n", Do("s", "2"), Do("t", "s"), Do("x[j]", "t")),
    )  # fmt: skip
    with pytest.raises(IllegalStep, match="in the source order only"):
        apply_plan(source, [Simd("i"), step])
