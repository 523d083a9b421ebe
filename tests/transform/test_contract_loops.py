"""Steps on the way to cores: what they make of the loops, that it is right, what they refuse."""

from __future__ import annotations

import pytest

from contract_steps import contract_loops
from loopwright.analysis.inner_contraction import inner_contraction
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.transform.index_set_splitting import SeparateBox
from loopwright.transform.interchange import Interchange
from loopwright.transform.isl_scheduler import permutable_nest
from loopwright.transform.loop_fusion import DistributeStatements
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.plan import apply_plan
from loopwright.transform.privatize import ExpandArray
from loopwright.transform.schedule_legality import initial_schedule
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine
from oracle import assert_same
from programs import Do, For, lu, matmul, program

core = contract_loops


def loops_after(source: Program, *steps: Step) -> str:
    """The statements of the lowered nest, proven right."""
    nest = lower_schedule(apply_plan(source, steps))
    for n in (0, 1, 4, 7):
        assert_same(source, nest, dict.fromkeys(source.params, n), threads=2)
    return "\n" + stmt_text(nest.body) + "\n"


def triangle() -> Program:
    arrays = {"A": "in float64 [n, n]", "C": "inout float64 [n, n]"}
    body = Do("C[i, j]", "C[i, j] + A[i, k] * A[j, k]")
    return program("syrk", arrays, For("i", 0, "n", For("k", 0, "n", For("j", 0, "i + 1", body))))


# -- golden --------------------------------------------------------------------------------------


# -- cores ---------------------------------------------------------------------------------------


def test_cores_in_strips_of_a_triangle() -> None:
    steps = (
        StripMine("i", 4),
        SeparateBox(("i", "k", "j"), ("i",), ("S0",), 0),
        core("i", "j", "k"),
        StripMine("i_2", 2),
        SeparateBox(("i_2", "k_2", "j_2"), ("i_2",), ("S0",), 1),
        core("i_2", "j_2", "k_2"),
    )
    loops_after(triangle(), *steps)


def test_blocked_factorisation() -> None:
    """Both updates of a factorisation are one product, right of and below the strips."""
    arrays = {"A": "inout float64 [n, n]"}
    update = Do("A[i, j]", "A[i, j] - A[i, k] * A[k, j]")
    below = For("j", 0, "i", For("k", 0, "j", update), Do("A[i, j]", "A[i, j] + A[j, j]"))
    again = Do("A[i, j2]", "A[i, j2] - A[i, k2] * A[k2, j2]")
    beside = For("j2", "i", "n", For("k2", 0, "i", again))
    source = program("factor", arrays, For("i", 0, "n", below, beside))
    found = permutable_nest(initial_schedule(source), "i", "S0")
    assert found is not None
    turned = Interchange(("k", "i", "j"))
    cut = (StripMine("k", 3), SeparateBox(("k", "i", "j"), ("k",), ("S0", "S2"), 1))
    schedule = apply_plan(source, (found, turned, *cut))
    inner = inner_contraction(source, schedule.tree, ("i", "j", "k"))
    assert not isinstance(inner, str)
    assert set(inner.statements) == {"S0", "S2"}
    loops_after(source, found, turned, *cut, core("i", "j", "k"))


# -- refusals ------------------------------------------------------------------------------------


def in_place() -> Program:
    """Rows are read after they were written: no product of what was there before."""
    arrays = {"A": "in float64 [n, n]", "B": "inout float64 [n, n]"}
    body = Do("B[i, j]", "B[i, j] + A[i, k] * B[k, j]")
    return program("solve", arrays, For("i", 0, "n", For("j", 0, "n", For("k", 0, "i", body))))


REFUSED: tuple[tuple[Program, tuple[Step, ...], str], ...] = (
    (matmul(), (core("i", "k", "j"),), "'C' does not vary with loop 'k'"),
    (in_place(), (core("i", "j", "k"),), "it reads elements of 'B' that it also writes"),
    (lu(), (core("i", "j", "k"),), "loops i, j, k are not directly nested around statements"),
    (
        matmul(),
        (core("i", "j", "k", packing=("along_tile", "gather")),),
        "'A' has no runs along loop 'i'",
    ),
    (
        matmul(),
        (core("i", "j", "k", packing=("gather",) * 4),),
        "1 products take a variant each",
    ),
    (
        matmul(),
        (core("i", "j", "k"), core("i", "j", "k")),
        "loop 'i' belongs to the contraction of S0",
    ),
    (
        matmul(),
        (core("i", "j", "k"), Parallel("i")),
        "loop 'i' belongs to the contraction of S0",
    ),
    (
        triangle(),
        (StripMine("i", 4), Parallel("i_t"), core("i", "j", "k", shares=2)),
        "loop 'i_t' is parallel already; threads are shared out once",
    ),
    (
        triangle(),
        (StripMine("i", 4), core("i", "j", "k", shares=2), Parallel("i_t")),
        "the contraction of S0 is parallel; threads are shared out once",
    ),
)


@pytest.mark.parametrize(("source", "steps", "reason"), REFUSED)
def test_refused(source: Program, steps: tuple[Step, ...], reason: str) -> None:
    with pytest.raises(IllegalStep) as error:
        apply_plan(source, steps)
    assert f"{steps[-1]}: {reason}" in str(error.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: contract_loops("i", "j"),
        lambda: contract_loops("i", "j", "k", blocks=(1, 1)),
        lambda: contract_loops("i", "j", "k", blocks=(-1, 1, 1)),
        lambda: contract_loops("i", "j", "k", packing=()),
        lambda: contract_loops("i", "j", "k", shares=0),
        lambda: SeparateBox(("i",), (), ("S0",), 0),
        lambda: SeparateBox(("i",), ("i",), ("S0",), 2),
        lambda: DistributeStatements("i", ("S0",), (2,)),
        lambda: ExpandArray("t", ()),
    ],
)
def test_unusable_steps(make: object) -> None:
    with pytest.raises(UsageError):
        make()  # type: ignore[operator]
