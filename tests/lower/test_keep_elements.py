"""Keeping elements for compilers of C: which are in variables, and that nothing else changes."""

from __future__ import annotations

from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.compiled import _same_layout, assert_same_bits
from backends.random_nests import nests
from backends.test_random_nests import arrays
from drawn import some
from loopwright.ir.check import check_nest
from loopwright.ir.expr import Const, Var
from loopwright.ir.interpret import Memory, interpret_nest
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.ir.text import nest_text, stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.lower.values.keep_elements import keep_elements
from loopwright.lower.values.predictive_commoning import carry_chosen
from loopwright.transform.loop_marks import PrefetchRows, Simd, Vectorize
from loopwright.transform.plan import apply_plan
from loopwright.transform.step import Step
from oracle import assert_same
from programs import Do, For, program

ROW = "inout float64 [n + 4]"


def row(*body: tuple[str, str], arrays: str = "abcd") -> Program:
    loop = For("j", 0, "n", *(Do(target, value) for target, value in body))
    return program("row", dict.fromkeys(arrays, ROW), loop)


def text(source: Program, *steps: Step) -> str:
    nest = keep_elements(lower_schedule(apply_plan(source, steps)))
    check_nest(nest)
    return stmt_text(nest.body)


def test_golden() -> None:
    assert (
        text(row(("a[0]", "a[0] + b[j] * c[1]"), ("d[j]", "b[j]")))
        == dedent("""
        if 0 < n:
            alloc stack a_k: float64[] strides []
            a_k[] = a[0]
            let c_k: float64 = c[1]
            for j in range(n):
                a_k[] = a_k[] + b[j] * c_k
                d[j] = b[j]
            a[0] = a_k[]
        """).strip()
    )


def test_an_iteration_loads_before_it_stores() -> None:
    found = text(row(("a[j]", "b[j] + 1.0"), ("c[j]", "a[j] * b[j] + d[j]")), Simd("j"))
    lines = [line.strip() for line in found.splitlines()[1:]]
    assert lines == [
        "let b_k: float64 = b[j]",
        "let d_k: float64 = d[j]",
        "let a_k: float64 = b_k + 1.0",
        "a[j] = a_k",
        "c[j] = a_k * b_k + d_k",
    ]


def test_what_a_store_may_change_is_loaded_after_it() -> None:
    found = text(row(("a[j]", "b[j]"), ("c[j]", "a[n - j] + a[j + 1]")))
    assert found.index("a[n - j]") > found.index("a[j] =")
    assert found.index(" = a[j + 1]") < found.index("a[j] =")


@pytest.mark.parametrize(
    "body",
    [
        (("a[0]", "a[0] + a[j]"),),  # a[j] may be a[0]
        (("a[0]", "a[0] + b[j]"), ("a[j]", "b[j]")),
        (("b[j]", "b[j] + 1.0"),),  # another element in every iteration
    ],
    ids=["loaded by another subscript", "stored by another subscript", "moving"],
)
def test_left_in_memory(body: tuple[tuple[str, str], ...]) -> None:
    assert "alloc" not in text(row(*body))


def test_neighbours_are_kept_apart() -> None:
    found = text(row(("a[0]", "a[0] + b[j]"), ("a[1]", "a[1] - b[j]")))
    assert found.count("alloc") == 2
    assert "a[" not in found.split("for j", 1)[1].split("a[1] =")[0].split("a[0] =")[0]


def test_a_chosen_load_is_a_chosen_number() -> None:
    """Where the program never leaves its arrays, in loops of vectors only."""
    source = row(("a[j]", "b[j + 1] if c[j] > 0 else a[j]"))
    plain, vectors = (lower_schedule(apply_plan(source, steps)) for steps in ((), (Simd("j"),)))
    assert keep_elements(vectors) == vectors
    assert keep_elements(plain, may_guess=Const(1)) == plain
    guessed = keep_elements(vectors, may_guess=Const(1))
    assert " = b[j + 1]\n" in stmt_text(guessed.body)
    assert_same(source, guessed, {"n": 5})


def test_lanes_of_a_vector_load_what_data_choose() -> None:
    """Where no parameter has a say: compilers take lanes that choose between loads one by one."""
    source = row(("a[j]", "b[j + 1] if c[j] > 0 else a[j]"))
    lanes = lower_schedule(apply_plan(source, (Vectorize("j", 4),)))
    assert "vector for" in stmt_text(lanes.body)
    assert keep_elements(lanes) == lanes
    assert keep_elements(lanes, may_guess=Var("n") < 8) == lanes
    guessed = keep_elements(lanes, may_guess=Const(1))
    found = stmt_text(guessed.body).split("vector for")[1].split("for j")[0]
    assert "= b[" in found
    for n in (3, 4, 9):
        assert_same(source, guessed, {"n": n})


def test_where_parameters_decide_there_are_two_loops() -> None:
    source = row(("a[j]", "b[j + 1] if c[j] > 0 else a[j]"))
    vectors = lower_schedule(apply_plan(source, (Simd("j"),)))
    guessed = keep_elements(vectors, may_guess=Var("n") < 8)
    found = stmt_text(guessed.body)
    first, second = found.removeprefix("if n < 8:").split("else:")
    assert " = b[j + 1]\n" in first
    assert " = b[j + 1]\n" not in second
    for n in (5, 9):
        assert_same(source, guessed, {"n": n})


def test_integers_are_summed_without_choice() -> None:
    arrays = dict.fromkeys("ab", "inout int32 [n + 4]")
    body = For("j", 0, "n", Do("a[0]", "a[0] + b[j] if b[j + 1] > 0 else a[0]"))
    source = program("row", arrays, body)
    found = keep_elements(lower_schedule(apply_plan(source, ())), may_guess=Const(1))
    assert "a_k[] = a_k[] + (b_k_2 if b_k > 0 else 0)" in stmt_text(found.body)
    assert_same(source, found, {"n": 5})


def test_integers_that_are_handed_on_wait_for_no_branch() -> None:
    arrays = dict.fromkeys("ab", "inout int32 [n + 4]")
    source = program(
        "row", arrays, For("j", 1, "n", Do("a[j]", "a[j - 1] + b[j + 1] if b[j] > 0 else 0"))
    )
    carried = carry_chosen(lower_schedule(apply_plan(source, ())), Const(1))
    found = keep_elements(carried, may_guess=Const(1))
    assert "a_c[] = a_c[] + b_k_2 if b_k > 0 else 0" in stmt_text(found.body)
    assert_same(source, found, {"n": 5})


def test_what_one_condition_chooses_is_stored_last() -> None:
    source = row(("a[j]", "b[j] if d[j] > 0 else a[j]"), ("c[j]", "b[j] if d[j] > 0 else c[j]"))
    nest = keep_elements(lower_schedule(apply_plan(source, (Simd("j"),))), may_guess=Const(1))
    assert_same(source, nest, {"n": 5})
    lines = [line.strip() for line in stmt_text(nest.body).splitlines()]
    assert [line.split(" =")[0] for line in lines[-2:]] == ["a[j]", "c[j]"]


def test_independent_iterations_write_nothing_that_all_of_them_load() -> None:
    arrays = {"a": "inout float64 [n, n]"}
    loop = For("j", "i + 1", "n", Do("a[i, j]", "a[i, j] * a[i, i]"))
    source = program("f", arrays, For("i", 0, "n", loop))
    nest = keep_elements(lower_schedule(apply_plan(source, (Simd("j"),))))
    assert_same(source, nest, {"n": 5})
    assert "a[i, i]" not in stmt_text(nest.body).split("simd for")[1]


PLACES = ("a[j]", "a[j + 1]", "a[2]", "a[3]", "b[j]", "b[1]", "a[n - j]")


@settings(max_examples=some(40), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(PLACES), st.lists(st.sampled_from(PLACES), min_size=1)),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from((0, 1, 3, 9)),
)
def test_meaning(body: list[tuple[str, list[str]]], n: int) -> None:
    source = row(*((target, " + ".join(f"0.5 * {x}" for x in values)) for target, values in body))
    assert_same(source, keep_elements(lower_schedule(apply_plan(source, ()))), {"n": n})


@settings(max_examples=some(60), deadline=None)
@given(nests())
def test_random_nests_leave_the_same(case: tuple[LoopNest, dict[str, int]]) -> None:
    nest, launch = case
    kept = keep_elements(nest)
    check_nest(kept)
    left = []
    for each in (nest, kept):
        memory = {name: _same_layout(a) for name, a in arrays(nest, launch, seed=1).items()}
        interpret_nest(each, {name: Memory.of(a) for name, a in memory.items()}, launch)
        left.append(memory)
    for name, array in left[0].items():
        assert_same_bits(left[1][name], array, f"{name} of\n{nest_text(kept)}")


def test_elements_are_kept_beside_prefetches() -> None:
    body = For("j", 0, "n", Do("a[i]", "a[i] + b[j, i]"))
    arrays = {"a": "inout float64 [n]", "b": "in float64 [n, n]"}
    source = program("columns", arrays, For("i", 0, "n", body))
    nest = lower_schedule(apply_plan(source, (PrefetchRows("j", 8),)))
    assert "prefetch" in stmt_text(nest.body)
    kept = keep_elements(nest)
    assert "a_k[] = a_k[] + b[j, i]" in stmt_text(kept.body)
    assert_same(source, kept, {"n": 5})
