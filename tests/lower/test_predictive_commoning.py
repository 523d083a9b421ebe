"""Predictive commoning: which elements are carried in registers, which must be loaded."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.ir.check import check_nest
from loopwright.ir.expr import Const, Var
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.lower.simplify import simplify
from loopwright.lower.values.predictive_commoning import carry_chosen, predictive_commoning
from loopwright.transform.plan import apply_plan
from loopwright.transform.step import Step
from loopwright.transform.unroll_and_jam import UnrollAndJam
from oracle import assert_same
from programs import Do, For, program

ROW = "inout float64 [n + 4]"
GRID = "inout float64 [n + 4, n + 4]"


def row(*body: tuple[str, str], first: int = 2, arrays: str = "ab") -> Program:
    loop = For("j", first, "n", *(Do(target, value) for target, value in body))
    return program("row", dict.fromkeys(arrays, ROW), loop)


def carried(source: Program, *steps: Step) -> LoopNest:
    """The nest of a schedule with elements carried, also where nothing is unrolled."""
    return simplify(predictive_commoning(lower_schedule(apply_plan(source, steps))))


def text(source: Program, *steps: Step) -> str:
    nest = carried(source, *steps)
    check_nest(nest)
    return stmt_text(nest.body)


def test_golden() -> None:
    assert (
        text(row(("a[j]", "0.5 * a[j - 1] + b[j]")))
        == dedent("""
        if 2 < n:
            alloc stack a_c: float64[] strides []
            a_c[] = a[1]
            for j in range(2, n):
                a_c[] = 0.5 * a_c[] + b[j]
                a[j] = a_c[]
        """).strip()
    )


def test_an_element_is_loaded_after_the_next_was_stored() -> None:
    """The stored value is held in a register of its own until the iteration ends."""
    found = text(row(("a[j]", "0.5 * a[j - 1]"), ("b[j]", "b[j - 1] + a[j - 1]")))
    assert "a[j - 1]" not in found.split("for j", 1)[1]
    assert found.count("alloc") == 3


@pytest.mark.parametrize(
    "body",
    [
        (("a[j]", "a[j - 2]"),),  # two iterations apart
        (("a[j]", "a[j + 1]"),),  # nobody has stored it
        (("a[j]", "b[j - 1]"),),
        (("a[j]", "a[j - 1] + a[2]"), ("a[2]", "b[j]")),  # a[j] may be a[2]
        (("a[j]", "b[j]"), ("a[2 * j - 3]", "a[j - 1]")),
        (("a[j]", "1.0"), ("a[n - j]", "a[j - 1]")),
    ],
    ids=["two apart", "ahead", "another array", "a fixed element", "another stride", "mirrored"],
)
def test_left_in_memory(body: tuple[tuple[str, str], ...]) -> None:
    assert "alloc" not in text(row(*body))


def test_the_last_store_counts() -> None:
    source = row(("a[j]", "b[j]"), ("a[j]", "a[j - 1] + b[j - 1]"))
    assert "alloc" in text(source)
    assert_same(source, carried(source), {"n": 7})


def test_a_condition_decides_what_is_loaded() -> None:
    """An element that only some iterations load may be out of bounds in the first."""
    source = row(("a[j]", "a[j - 1] if b[j] > 0 else b[j]"), first=0)
    assert "alloc" not in text(source)


def test_what_data_choose_is_carried_where_it_may_be_loaded() -> None:
    source = row(("a[j]", "a[j - 1] if b[j] > 0 else b[j]"))
    nest = lower_schedule(apply_plan(source, ()))
    assert carry_chosen(nest, None) == nest
    always, sometimes = (carry_chosen(nest, may) for may in (Const(1), Var("n") < 8))
    for found in (always, sometimes):
        check_nest(found)
        for n in (2, 3, 7, 9):
            assert_same(source, found, {"n": n})
    assert "a_c[] = a_c[] if b[j] > 0.0 else b[j]" in stmt_text(always.body)
    assert stmt_text(sometimes.body).startswith("if n < 8:")


def test_what_every_iteration_loads_is_left_to_compilers() -> None:
    nest = lower_schedule(apply_plan(row(("a[j]", "0.5 * a[j - 1] + b[j]")), ()))
    assert carry_chosen(nest, Const(1)) == nest


def test_copies_of_an_outer_loop() -> None:
    """Unrolled copies write different rows, which LLVM cannot know."""
    source = program(
        "rows",
        {"p": GRID, "q": GRID},
        For(
            "i",
            1,
            "n",
            For(
                "j",
                1,
                "n",
                Do("p[i, j]", "1.0 - 0.5 * p[i, j - 1]"),
                Do("q[i, j]", "p[i, j - 1] + 0.25 * q[i, j - 1]"),
            ),
        ),
    )
    found = text(source, UnrollAndJam("i", 2))
    whole = found.split("else", 1)[0]
    assert whole.count("alloc") == 6  # of each row p twice and q
    for n in (0, 1, 2, 3, 6, 7):
        assert_same(source, carried(source, UnrollAndJam("i", 2)), {"n": n})


PLACES = ("a[j]", "a[j - 1]", "a[j + 1]", "a[j - 2]", "a[2]", "b[j]", "b[j - 1]", "a[n - j]")


@settings(max_examples=some(40), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(PLACES), st.lists(st.sampled_from(PLACES), min_size=1)),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from((2, 3, 4, 9)),
)
def test_meaning(body: list[tuple[str, list[str]]], n: int) -> None:
    source = row(*((target, " + ".join(f"0.5 * {x}" for x in values)) for target, values in body))
    assert_same(source, carried(source), {"n": n})
