"""Random kernel variants as plans of users: refused, or right; never wrong and never a crash."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from drawn import HUNTS, in_all
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.faults import recorded_faults
from loopwright.ir.kernel_variant import Algorithm, Broadcast, KernelVariant, Packing
from loopwright.transform.contract import Contract
from loopwright.transform.plan import Plan

TEXTS = (
    *("ik,kj->ij", "ki,kj->ij", "ik,jk->ji", "bik,bkj->bij", "abk,kc->abc", "akb,kc->cab"),
    *("ik,k->i", "ki,k->i", "ij,ij->ij", "i,j->ij", "ik->i", "ki->i", "ijk,kl->ijl"),
    *("iab,jab->ij", "aib,bja->ij", "ii,i->i"),
)
DTYPES = (
    *("float64", "float32", "int8", "int32", "uint8", "int16"),
    *("complex64", "float16", "bool"),
)
SIZES = (1, 2, 3, 5, 8, 16, 17)
NARROW = ("int8", "uint8", "int16")


def any_variant(draw: random.Random) -> KernelVariant:
    return KernelVariant(
        draw.choice([*Algorithm, *[Algorithm.PRODUCT] * 3]),
        rows=draw.choice([1, 2, 3, 4, 6]),
        vectors=draw.choice([1, 2, 4]),
        lanes=draw.choice([1, 2, 4, 8]),
        left_packing=draw.choice([*Packing]),
        right_packing=draw.choice([*Packing]),
        swapped=draw.random() < 0.5,
        broadcast=draw.choice([*Broadcast]),
        unroll=draw.choice([1, 2, 4]),
        ahead=draw.choice([0, 0, 8]),
        parallel=draw.choice(["none", "none", "i", "j", "batch"]),
        group=draw.choice([1, 1, 1, 2, 4]),
        runs=draw.random() < 0.6,
        flipped=draw.random() < 0.1,
        apart=draw.random() < 0.1,
        guarded=draw.random() < 0.1,
    )


def changed(draw: random.Random, variant: KernelVariant) -> KernelVariant:
    """A variant of the model with some decisions drawn anew."""
    other = any_variant(draw)
    for name in draw.sample([field.name for field in fields(variant)], draw.randint(1, 4)):
        variant = replace(variant, **{name: getattr(other, name)})
    return variant


def run_case(draw: random.Random, numbers: np.random.Generator) -> str:
    """One plan on one einsum: "refused", or the algorithm that ran and was right."""
    text, dtype = draw.choice(TEXTS), draw.choice(DTYPES)
    sizes = {c: draw.choice(SIZES) for c in "ijkabcl"}
    terms = text.split("->")[0].split(",")
    operands = [numbers.integers(0, 4, [sizes[c] for c in term]).astype(dtype) for term in terms]
    keywords: dict[str, Any] = {}
    if dtype in NARROW and draw.random() < 0.4:
        keywords["accum_dtype"] = "int32"
    elif dtype in ("float64", "float32", "int32") and draw.random() < 0.3:
        keywords["semiring"] = draw.choice(["min_plus", "max_plus"])
    threads = draw.choice([1, 2, 3])
    (model,) = lw.einsum_plan(text, *operands, threads=threads, **keywords)
    assert isinstance(model, Contract)
    blocks = tuple(draw.choice([0, 1, 4, 7, 64]) for _ in range(3))
    step = Contract((), (changed(draw, model.variants[0]),), blocks)
    plan = Plan.loads(Plan((step,)).dumps())
    try:
        found = lw.einsum(text, *operands, threads=threads, plan=plan, **keywords)
    except (UsageError, IllegalStep):
        return "refused"
    right = lw.einsum(text, *operands, threads=1, **keywords)
    assert found.dtype == right.dtype
    np.testing.assert_array_equal(found, right, err_msg=f"{text} {sizes} {dtype} {step} {threads}")
    return step.variants[0].algorithm.value


@pytest.mark.parametrize("seed", range(40 if HUNTS else 1))
def test_plans_are_refused_or_right(seed: int) -> None:
    draw, numbers = random.Random(seed), np.random.default_rng(seed)
    ran = [run_case(draw, numbers) for _ in range(30 if in_all() else 7)]
    assert recorded_faults().count == 0
    assert ran.count("refused") < len(ran) * 3 / 4
    assert len(set(ran)) >= (4 if in_all() else 3)
