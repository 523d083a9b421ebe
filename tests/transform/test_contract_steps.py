"""Contract for whole programs: what the schedule holds then, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contract_steps import contract_loops
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.kernel_variant import Algorithm, KernelVariant, Packing
from loopwright.ir.program import Program
from loopwright.transform.contract import Contract
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.plan import apply_plan, candidates
from loopwright.transform.step import Step
from programs import Do, For, gemv, matmul, program

(PRODUCT,) = contract_loops("i", "j", "k").variants
DOTS = KernelVariant(Algorithm.ROWS, 1, 2, 2, Packing.DIRECT, Packing.DIRECT)


def whole(variant: KernelVariant = PRODUCT, **changes: object) -> Contract:
    return Contract((), (replace(variant, **changes),), (8, 8, 8))  # type: ignore[arg-type]


def test_no_loop_stays_open() -> None:
    schedule = apply_plan(matmul(), [whole()])
    assert not any(getattr(step, "loop", "") for step in candidates(schedule))


def two_nests() -> Program:
    arrays = {"A": "in float64 [n, n]", "C": "inout float64 [n, n]", "x": "inout float64 [n]"}
    update = Do("C[i, j]", "C[i, j] + A[i, k] * A[k, j]")
    product = For("i", 0, "n", For("j", 0, "n", For("k", 0, "n", update)))
    return program("two", arrays, product, For("l", 1, "n", Do("x[l]", "x[l] + x[l - 1]")))


REFUSED: tuple[tuple[Program, tuple[Step, ...], str], ...] = (
    (two_nests(), (whole(),), "'two' as a whole is no contraction"),
    (matmul(), (whole(), whole()), "the contraction of S0 runs as a kernel already"),
    (
        matmul(),
        (Interchange(("k", "j")), whole()),
        "the loops of 'matmul' were changed by an earlier step",
    ),
    (matmul(), (Parallel("i"), whole()), "loop 'i' is marked parallel; marks come after"),
    (matmul(), (whole(), Interchange(("k", "j"))), "belongs to the contraction of S0"),
    (
        gemv(),
        (whole(DOTS),),
        "the reduction 'add' of S0 into y keeps its order without reassoc",
    ),
    (
        matmul(),
        (whole(left_packing=Packing.ANY),),
        "a kernel of product does not take left by 'any'",
    ),
    (matmul(), (whole(rows=0),), "the sizes of a register tile are at least 1"),
    (matmul(), (Contract((), (PRODUCT,) * 2, (8, 8, 8)),), "a whole contraction is one product"),
)


@pytest.mark.parametrize(("source", "steps", "told"), REFUSED, ids=lambda x: "")
def test_refusal(source: Program, steps: tuple[Step, ...], told: str) -> None:
    *before, last = steps
    schedule = apply_plan(source, before)
    with pytest.raises(IllegalStep) as caught:
        last.apply(schedule)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Contract(("i", "j"), (PRODUCT,), (8, 8, 8)),
        lambda: Contract((), (), (8, 8, 8)),
        lambda: Contract((), (PRODUCT,), (8, 8)),
        lambda: Contract((), (PRODUCT,), (8, 8, -1)),
        lambda: Contract((), (PRODUCT,), (8, 8, 8), 0),
    ],
)
def test_senseless_arguments(make: object) -> None:
    assert callable(make)
    with pytest.raises(UsageError):
        make()
