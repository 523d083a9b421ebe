"""Steps on contraction cores: each changes one decision, and checks that it makes sense."""

from __future__ import annotations

import pytest

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.program import Program
from loopwright.ir.schedule import Core
from loopwright.transform.contract import (
    BlockBundles,
    Contract,
    Pack,
    ParallelBundle,
    PrefetchAhead,
    Reassociate,
    RegisterTile,
)
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.plan import apply_plan, candidates
from loopwright.transform.step import Step
from programs import Do, For, gemv, matmul, matmul_in_nest, program, trace


def core_after(source: Program, *steps: Step) -> Core:
    (core,) = apply_plan(source, steps).cores
    return core


def test_every_decision() -> None:
    core = core_after(
        matmul(),
        Contract("S0"),
        RegisterTile("S0", 6, 8, 4),
        BlockBundles("S0", 96, 1024, 256),
        Pack("S0", "left"),
        Pack("S0", "right"),
        ParallelBundle("S0", "j"),
        PrefetchAhead("S0", 3),
    )
    assert core.register_tile == (6, 8)
    assert core.unroll == 4
    assert core.blocks == (96, 1024, 256)
    assert core.packed == {"left", "right"}
    assert core.parallel == "j"
    assert core.prefetch == 3


def test_source_order_stays() -> None:
    before, after = apply_plan(matmul(), []), apply_plan(matmul(), [Contract("S0")])
    assert after.tree.plain_is_equal(before.tree)
    assert after.cores[0].contraction.covers == ("S0",)


def test_other_loops_stay_open() -> None:
    arrays = {
        "A": "in float64 [n, n]",
        "B": "in float64 [n, n]",
        "C": "inout float64 [n, n]",
        "x": "inout float64 [n]",
    }
    update = Do("C[i, j]", "C[i, j] + A[i, k] * B[k, j]")
    product = For("i", 0, "n", For("j", 0, "n", For("k", 0, "n", update)))
    source = program("two", arrays, product, For("l", 1, "n", Do("x[l]", "x[l] + 1")))
    schedule = apply_plan(source, [Contract("S0"), Parallel("l")])
    assert schedule.cores[0].contraction.statement == "S0"
    on_loops = [s for s in candidates(schedule) if getattr(s, "loop", "") in ("i", "j", "k")]
    assert on_loops == []


REFUSED: tuple[tuple[Program, tuple[Step, ...], str], ...] = (
    (
        matmul(),
        (Contract("S7"),),
        "contract(statement='S7'): 'S7' is no contraction; those of the program are S0",
    ),
    (
        matmul(),
        (Contract("S0"), Contract("S0")),
        "contract(statement='S0'): 'S0' is a core already",
    ),
    (
        matmul(),
        (Interchange(("k", "j")), Contract("S0")),
        "contract(statement='S0'): the loops of 'S0' were changed by an earlier step",
    ),
    (
        matmul(),
        (Parallel("i"), Contract("S0")),
        "contract(statement='S0'): loop 'i' is marked parallel; marks come after other steps",
    ),
    (
        matmul(),
        (BlockBundles("S0", 1, 1, 1),),
        "block(statement='S0', mc=1, nc=1, kc=1): 'S0' is no core; the cores are none",
    ),
    (
        matmul_in_nest(),
        (Contract("S1"), ParallelBundle("S1", "p")),
        "parallel_bundle(statement='S1', bundle='p'): "
        "the loops p (k) carry the reduction 'add' of S1 into C",
    ),
    (
        matmul(),
        (Contract("S0"), ParallelBundle("S0", "batch")),
        "parallel_bundle(statement='S0', bundle='batch'): the contraction S0 has no loops batch",
    ),
    (
        trace(),
        (Contract("S0"), ParallelBundle("S0", "elements")),
        "parallel_bundle(statement='S0', bundle='elements'): "
        "the contraction S0 has no loops elements",
    ),
    (
        matmul(),
        (Contract("S0"), Reassociate("S0", 2)),
        "reassociate(statement='S0', streams=2): "
        "the reduction 'add' of S0 into C keeps its order without reassoc",
    ),
    (
        gemv(),
        (Contract("S0"), RegisterTile("S0", 4, 8, 1)),
        "register_tile(statement='S0', mr=4, nr=8, unroll=1): the contraction S0 has no loops j",
    ),
    (
        trace(),
        (Contract("S0"), Pack("S0", "right")),
        "pack(statement='S0', operand='right'): the contraction S0 has no right operand",
    ),
    (
        matmul(),
        (Contract("S0"), Pack("S0", "left"), Pack("S0", "left")),
        "pack(statement='S0', operand='left'): the left operand is packed already",
    ),
)


@pytest.mark.parametrize(("source", "steps", "told"), REFUSED, ids=lambda x: "")
def test_refusal(source: Program, steps: tuple[Step, ...], told: str) -> None:
    *before, last = steps
    schedule = apply_plan(source, before)
    with pytest.raises(IllegalStep) as caught:
        last.apply(schedule)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: BlockBundles("S0", -1, 0, 0), "block takes sizes of at least 0"),
        (lambda: Pack("S0", "middle"), "pack takes the operand left or right"),
        (lambda: RegisterTile("S0", 0, 1, 1), "register_tile takes sizes of at least 1"),
        (
            lambda: ParallelBundle("S0", "q"),
            "parallel_bundle takes the bundle batch, i, j or elements",
        ),
        (lambda: PrefetchAhead("S0", -1), "prefetch_ahead takes a distance of at least 0"),
        (lambda: Reassociate("S0", 1), "reassociate takes two or more streams"),
    ],
)
def test_senseless_arguments(make: object, told: str) -> None:
    assert callable(make)
    with pytest.raises(UsageError) as caught:
        make()
    assert caught.value.message == told
