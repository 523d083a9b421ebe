"""Transpositions and their kin on a GPU: tiles of two loops turned in shared memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from gpu.device_einsums import compare, numbers, texts
from gpu.fake_cuda import CupyArray, FakeApi
from gpu.ways import needs_compiler
from loopwright.calls.einsum_call import contraction_shape
from loopwright.diagnostics import UsageError
from loopwright.frontends.einsum_syntax import EinsumSubscripts
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.grid_kernel import ElementsKernel, ElementsVariant
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.ir.serial import read_grid_variant, variant_to_json
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner.grid_plans.grid_products import choose_grid
from loopwright.transform.map_contraction import MapWholeContraction
from loopwright.transform.plan import Plan

pytestmark = needs_compiler

# einsum, extents of its letters in their order, what is turned
TURNED = (
    ("ij->ji", (33, 70), "left"),
    ("ijk->kji", (17, 3, 40), "left"),
    ("kij->jki", (3, 16, 33), "left"),
    ("ij,ji->ij", (20, 37), "right"),
    ("ij,ji->ji", (20, 37), "left"),
    ("ji,ji->ij", (20, 37), "both"),
    ("ij,i->ji", (34, 35), "left"),
    ("ijk,kj->kji", (16, 2, 19), "left"),
)


def variant_of(text: str, extents: tuple[int, ...], dtype: str = "float32") -> ElementsVariant:
    """What the model takes for arrays in C's layout."""
    terms, out = text.split("->")
    letters = dict(zip(dict.fromkeys(terms.replace(",", "")), extents, strict=True))
    layouts = []
    for term in (*terms.split(","), out):
        shape = tuple(letters[x] for x in term)
        layouts.append((shape, tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))))
    types = (DTYPES[dtype],) * 4
    times = "mul" if "," in text else "first"
    algebra = Algebra("add", times, 0.0, *types, Initial.ZERO, scaled=False)
    shape = contraction_shape(EinsumSubscripts(tuple(terms.split(",")), out), letters, layouts)
    kernel = choose_grid(shape, algebra, load_gpu("sm_90")).kernel
    assert isinstance(kernel, ElementsKernel)
    return kernel.variant


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("text", "extents", "turned"), TURNED)
def test_results(api: FakeApi, text: str, extents: tuple[int, ...], turned: str) -> None:
    terms = text.split("->")[0]
    letters = dict(zip(dict.fromkeys(terms.replace(",", "")), extents, strict=True))
    shapes = [tuple(letters[x] for x in term) for term in terms.split(",")]
    compare(text, [numbers(shape, "float32", n) for n, shape in enumerate(shapes)])
    assert any("_box" in kernel for kernel in texts())
    assert variant_of(text, tuple(40 * n for n in extents)).turned == turned


def test_semirings_scaling_and_strides(api: FakeApi) -> None:
    a, b = numbers((34, 33), "float32"), numbers((33, 34), "float32", 1)
    compare("ij,ji->ij", [a, b], semiring="min_plus")
    compare("ij,ji->ij", [a[::-1], b[:, ::-1]])
    wanted = 2.0 * a.T + 3.0 * b
    found = CupyArray(b.copy())
    lw.einsum("ij->ji", CupyArray(a), out=found, alpha=2.0, beta=3.0)
    np.testing.assert_allclose(found.host, wanted, 1e-6)


@pytest.mark.parametrize(
    ("text", "extents"),
    [
        ("ij->ij", (4000, 4000)),  # the same neighbours
        ("ij->ji", (4000, 5)),  # tiles would be empty for the most part
        ("ij,i->ij", (4000, 4000)),  # one element for all lanes
        ("ijk->kj", (60, 60, 60)),  # a reduction
    ],
)
def test_others_are_not_turned(text: str, extents: tuple[int, ...]) -> None:
    assert variant_of(text, extents).turned == ""


def test_plans(api: FakeApi) -> None:
    variant = ElementsVariant(2, 0, turned="left")
    assert read_grid_variant(variant_to_json(variant)) == variant
    plan = Plan((MapWholeContraction((variant,), 1),))
    a = numbers((17, 40), "float32")
    found = lw.einsum("ij->ji", CupyArray(a), plan=type(plan).loads(plan.dumps()))
    np.testing.assert_array_equal(found.host, a.T)
    with pytest.raises(UsageError, match="it turns left, here nothing would be turned"):
        lw.einsum("ij->ij", CupyArray(a), plan=plan)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"turned": "up"}, "operands that are turned are left, right or both"),
        ({"turned": "left", "free": 1}, "operands are turned in two loops or more"),
        ({"turned": "left", "reduced": 1}, "operands are turned in two loops or more"),
        ({"turned": "both", "lanes": 32}, "operands are turned in two loops or more"),
    ],
)
def test_bad_variants(values: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        MapWholeContraction((ElementsVariant(**{"free": 2, "reduced": 0, **values}),), 1)
