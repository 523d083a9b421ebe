"""PartialSums: what it makes of a reduction, that it is right, what it refuses."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.check import check_program
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Binary, Const
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.semirings import identity
from loopwright.transform.index_set_splitting import SeparateBox
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.partial_sums import PartialSums
from loopwright.transform.plan import apply_plan, candidates, initial_schedule
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine
from oracle import assert_same
from programs import Do, For, program

SIZES = (0, 1, 4, 5, 9)


def columns(*, reassoc: bool = True, dtype: str = "float64") -> Program:
    """Sums of the columns of a matrix, row by row."""
    arrays = {"A": f"in {dtype} [n, n]", "y": f"inout {dtype} [n]"}
    body = For("i", 0, "n", For("j", 0, "n", Do("y[j]", "y[j] + A[i, j]")))
    return program("columns", arrays, body, reassoc=reassoc)


def total(op: str, dtype: str = "int32") -> Program:
    """One element gathered over a triangle."""
    arrays = {"A": f"in {dtype} [n, n]", "s": f"inout {dtype} []"}
    body = Do("s", f"{op}(s, A[i, j])" if op in ("min", "max") else f"s {op} A[i, j]")
    return program("total", arrays, For("i", 2, "n", For("j", 0, "i", body)))


def loops_after(source: Program, *steps: Step) -> str:
    """The statements of the lowered nest, proven right."""
    schedule = apply_plan(source, steps)
    check_program(schedule.program)
    nest = lower_schedule(schedule)
    for n in SIZES:
        for threads in (1, 3):
            assert_same(source, nest, {"n": n}, threads=threads)
    return "\n" + stmt_text(nest.body) + "\n"


def test_golden() -> None:
    steps = PartialSums("S0", "i", 4), StripMine("i", 4), Parallel("i_t")
    assert loops_after(columns(), *steps) == dedent("""
        alloc scratch y_parts: float64[(max(n - 1 + 1, 0) + 3) // 4, n] strides [n, 1]
        parallel for once in range(1):
            for i_part in range((n + 3) // 4):
                for y_0 in range(n):
                    y_parts[i_part, y_0] = 0.0
        barrier
        parallel for i_t in range(0, n, 4):
            for i in range(i_t, min(n, i_t + 4)):
                for j in range(n):
                    y_parts[i_t // 4, j] = y_parts[i_t // 4, j] + A[i, j]
        barrier
        parallel for once in range(1):
            for i_part_2 in range((n + 3) // 4):
                for y_0_2 in range(n):
                    y[y_0_2] = y[y_0_2] + y_parts[i_part_2, y_0_2]
        """)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("op", ["+", "*", "min", "max", "&", "|", "^"])
@pytest.mark.parametrize("dtype", ["int32", "uint8"])
def test_every_operator(op: str, dtype: str) -> None:
    loops_after(total(op, dtype), PartialSums("S0", "i", 2), StripMine("i", 2), Parallel("i_t"))


@pytest.mark.parametrize("op", ["min", "max"])
def test_extremes_of_floats_need_no_leave(op: str) -> None:
    loops_after(total(op, "float32"), PartialSums("S0", "j", 3))


@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", sorted(DTYPES))
@pytest.mark.parametrize("op", ["add", "mul", "min", "max", "and", "or", "xor"])
def test_the_start_changes_nothing(op: str, name: str) -> None:
    dtype = DTYPES[name]
    if (op in ("and", "or", "xor") and dtype.kind in "fc") or (
        op in ("min", "max") and dtype.is_complex
    ):
        pytest.skip("no such operator")
    start = Const(identity(op, dtype), dtype)
    kind = np.dtype(name).type
    for value in (0, 1) if dtype.kind == "b" else (0, 1, 7, 100):
        x = Const(kind(value).item(), dtype)
        assert evaluate(Binary(op, start, x), {}) == evaluate(x, {})


def test_twice_along_two_loops() -> None:
    loops_after(total("+"), PartialSums("S0", "i", 2), PartialSums("S0", "j", 3))


def test_totals_can_be_gathered_in_parts_too() -> None:
    loops_after(total("+"), PartialSums("S0", "i", 1), PartialSums("S0_total", "i_part", 2))


def test_in_another_order_than_the_source() -> None:
    loops_after(columns(), Interchange(("j", "i")), PartialSums("S0", "i", 2))


def test_beside_other_statements() -> None:
    """The loop holds a statement that is none of its business, others follow and precede."""
    arrays = {
        "A": "in int64 [n, n]",
        "x": "inout int64 [n]",
        "y": "inout int64 [n]",
    }
    source = program(
        "beside",
        arrays,
        For("i", 0, "n", Do("y[i]", "x[i]")),
        For("k", 0, "n", Do("x[k]", "2 * x[k]"), For("j", 0, "k", Do("y[j]", "y[j] + A[k, j]"))),
        For("l", 0, "n", Do("x[l]", "x[l] + y[l]")),
    )
    loops_after(source, PartialSums("S2", "k", 3), StripMine("k", 3), Parallel("k_t"))


def inside(target: str = "R[k, j]") -> Program:
    """Sums in every iteration of a loop that uses them; where they stand may tell it or not."""
    arrays = {"A": "inout int64 [n, n]", "R": "inout int64 [n, n]"}
    body = For(
        "k",
        0,
        "n",
        Do("R[k, 0]", "k"),
        For("i", 0, "n", For("j", 0, "n", Do(target, f"{target} + A[i, j]"))),
        For("l", 0, "n", Do("A[l, k]", "A[l, k] + R[k, l]")),
    )
    return program("inside", arrays, body)


def test_inside_a_serial_loop() -> None:
    """Parts are those of one iteration of the loop around: they need no dimension for it."""
    steps = PartialSums("S1", "i", 4), StripMine("i", 4), Parallel("i_t")
    loops_after(inside(), *steps)
    assert apply_plan(inside(), steps).program.array("R_parts").rank == 2


def test_inside_a_loop_that_runs_backwards() -> None:
    arrays = {"A": "in int64 [n, n]", "R": "inout int64 [n, n]"}
    sums = For("i", 0, "n", For("j", 0, "n", Do("R[k, j]", "R[k, j] + A[i, j]")))
    body = For("k", "n - 1", -1, sums, Do("R[0, k]", "2 * R[k, 0]"), step=-1)
    source = program("backwards", arrays, body)
    loops_after(source, PartialSums("S0", "i", 2), StripMine("i", 2), Parallel("i_t"))


def test_loops_of_one_name_are_told_apart() -> None:
    arrays = {"A": "in int64 [n, n]", "y": "inout int64 [n]", "z": "inout int64 [n]"}
    nests = [For("i", 0, "n", For("j", 0, "n", Do(f"{x}[j]", f"{x}[j] + A[i, j]"))) for x in "yz"]
    source = program("twice", arrays, *nests)
    steps = PartialSums("S1", "i", 2), StripMine("i_2", 2), Parallel("i_2_t")
    loops_after(source, *steps)


def test_is_offered() -> None:
    offered = [
        step for step in candidates(initial_schedule(columns())) if step.kind == PartialSums.kind
    ]
    assert offered == [PartialSums("S0", "i", 64)]
    assert not list(PartialSums.candidates(initial_schedule(columns(reassoc=False))))


REUSED = program(
    "reused",
    {"A": "in int32 [n, n]", "y": "inout int32 [n]"},
    For("i", 0, "n", Do("y[i]", "0"), For("j", 0, "n", Do("y[j]", "y[j] + A[i, j]"))),
)
BELOW = program(
    "below",
    {"A": "in int32 [n]", "s": "inout int32 []"},
    For("i", "n - 9", "n", Do("s", "s + 1")),
)


@pytest.mark.parametrize(
    ("source", "step", "told"),
    [
        (
            columns(reassoc=False),
            PartialSums("S0", "i", 4),
            "'S0' is no reduction whose order is free",
        ),
        (columns(), PartialSums("S9", "i", 4), "'S9' is no reduction whose order is free"),
        (columns(), PartialSums("S0", "j", 4), "'S0' does not gather along 'j'"),
        (REUSED, PartialSums("S1", "i", 4), "'S0' uses 'y' in the same loops"),
        (inside("R[0, j]"), PartialSums("S1", "i", 4), "'R' does not tell the loops around"),
        (
            BELOW,
            PartialSums("S0", "i", 4),
            "the range of 'i' does not begin at a number from 0 on",
        ),
    ],
    ids=["order", "unknown", "loop", "reused", "around", "below"],
)
def test_refused(source: Program, step: PartialSums, told: str) -> None:
    with pytest.raises(IllegalStep) as caught:
        step.apply(initial_schedule(source))
    assert str(caught.value) == f"{step}: {told}"


def test_parted_nests_are_refused() -> None:
    schedule = apply_plan(total("+"), [SeparateBox(("i", "j"), ("i",), ("S0",), 0)])
    step = PartialSums("S0", "i", 4)
    with pytest.raises(IllegalStep) as caught:
        step.apply(schedule)
    assert str(caught.value) == f"{step}: 'S0' stands in several loops one after the other"


def test_statements_outside_of_loops_are_refused() -> None:
    """A reduction without a loop of its own gathers nothing."""
    alone = program("alone", {"s": "inout int32 []"}, Do("s", "s + 1"))
    with pytest.raises(IllegalStep, match="'S0' is no reduction whose order is free"):
        PartialSums("S0", "i", 4).apply(initial_schedule(alone))


def test_blocks_have_an_iteration() -> None:
    with pytest.raises(UsageError) as caught:
        PartialSums("S0", "i", 0)
    assert "partial sums take blocks of at least 1 iteration" in str(caught.value)


def test_statements_that_gather_into_one_array_go_together() -> None:
    arrays = {"A": "in int32 [n, n]", "y": "inout int32 [n]"}
    body = (Do("y[i]", "y[i] + A[i, j]"), Do("y[j]", "y[j] + A[j, i]"))
    both = program("both", arrays, For("i", 0, "n", For("j", 0, "i", *body)))
    text = loops_after(both, PartialSums("S1", "i", 4), StripMine("i", 4), Parallel("i_t"))
    gathering = [line for line in text.splitlines() if " A[" in line]
    assert len(gathering) == 2
    assert all(line.strip().startswith("y_parts[") for line in gathering)


def test_another_operator_on_the_same_array_is_in_the_way() -> None:
    arrays = {"A": "in int32 [n, n]", "y": "inout int32 [n]"}
    body = (Do("y[i]", "y[i] * A[i, j]"), Do("y[j]", "y[j] + A[j, i]"))
    both = program("both", arrays, For("i", 0, "n", For("j", 0, "i", *body)))
    with pytest.raises(IllegalStep, match="'S0' uses 'y' in the same loops"):
        apply_plan(both, (PartialSums("S1", "i", 4),))
