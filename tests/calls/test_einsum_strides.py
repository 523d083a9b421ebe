"""Einsums over operands that lie in memory in any way: right, and without tables of their size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import loopwright as lw
from drawn import drawn
from loopwright.calls import einsum_contraction
from loopwright.diagnostics import UsageError
from loopwright.ir import contraction_shape
from loopwright.ir.contraction_shape import MOST_TABLE_BYTES, ContractionShape, Dim
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.kernel_check import unsupported
from loopwright.ir.kernel_variant import Algebra, Initial, Packing
from loopwright.kernels import dispatcher
from loopwright.lower.contraction_nests.launch import launch, misfit
from loopwright.machines.load import load_machine
from loopwright.planner.contraction_plans.analytical import choose
from loopwright.planner.contraction_plans.given_choice import given_choice, plan_of

Array = np.ndarray[Any, np.dtype[Any]]
MIB = 1 << 20


@pytest.fixture(autouse=True)
def no_earlier_calls() -> Iterator[None]:
    """Calls are planned anew: limits differ from test to test."""

    def forget() -> None:
        einsum_contraction.forget_launches()
        here = dispatcher()
        if here is not None:
            here.einsum_calls.clear()

    forget()
    yield
    forget()


def kept_bytes() -> int:
    """What the launches that are remembered hold, and the scratch memory that they need."""
    bounds = [bound for _, bound in einsum_contraction._launches.values()]
    assert bounds
    return sum(bound._launch.owner.nbytes + bound._need for bound in bounds)


# -- memory ----------------------------------------------------------------------------------------


N = 10**6
ZEROS = as_strided(np.ones(1), (N,), (0,))
LINE = np.ones(2 * N)
SQUARE = np.ones((1000, 1000))
STRIDED: dict[str, tuple[str, list[Array]]] = {
    "a sum over one element": ("i->", [ZEROS]),
    "a sum over every second one": ("i->", [LINE[::2]]),
    "one element by itself": ("i,i->", [ZEROS, ZEROS]),
    "strides beside each other": ("i,i->", [LINE[:N], LINE[::-2]]),
    "sums of columns": ("ij->j", [SQUARE[::2]]),
    "sums of rows": ("ij->i", [SQUARE[:, ::2]]),
    "elements": ("ij,i->ij", [as_strided(np.ones(1), (N // 4, 4), (0, 0)), LINE[: N // 2 : 2]]),
    "small products": ("bij,bjk->bik", [as_strided(np.ones(1), (N // 4, 2, 2), (0, 0, 0))] * 2),
}


@pytest.mark.parametrize("name", STRIDED)
def test_no_tables_for_loops_that_have_a_stride(name: str) -> None:
    text, operands = STRIDED[name]
    assert lw.einsum(text, *operands).flat[0] == np.einsum(text, *operands).flat[0]
    assert kept_bytes() < MIB // 2  # a table has at least 8 bytes for each of N / 4


SUM = Algebra("add", "mul", 0.0, *[DTYPES["float64"]] * 4, Initial.ZERO, False)
BUNDLES = {
    "product": ("ij", (3, 2, 2, 2)),
    "rows": ("i", (1, 2, 0, 2)),
    "dot": ("", (0, 0, 0, 3)),
    "columns": ("j", (1, 0, 2, 2)),
    "elements": ("ij", (2, 2, 1, 0)),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", BUNDLES)
def test_tables_have_a_limit(name: str, seed: int) -> None:
    """Of sizes that no machine has: nothing is allocated by the count of bytes."""
    random = np.random.default_rng(seed)
    _, counts = BUNDLES[name]
    moved = {"g": (1, 1, 1), "i": (1, 0, 1), "j": (0, 1, 1), "p": (1, 1, 0)}
    bundles = [
        tuple(
            Dim(int(10 ** random.uniform(0.5, 6)), *(m * int(random.integers(-99, 99)) for m in x))
            for _ in range(count)
        )
        for count, x in zip(counts, moved.values(), strict=True)
    ]
    machine = load_machine("zen3")
    choice = choose(ContractionShape(*bundles), SUM, machine, 1, reassoc=True)
    made = launch(choice.variant, choice.blocks, choice.shape)
    walked = (choice.variant.left_packing, choice.variant.right_packing)
    walks = sum(x in (Packing.WALK_TILE, Packing.WALK_P) for x in walked)
    assert made.table_bytes <= (1 + walks) * MOST_TABLE_BYTES
    assert misfit(choice.kernel, choice.shape) is None
    assert given_choice(plan_of(choice), ContractionShape(*bundles), SUM, machine, 1, reassoc=True)


def test_a_plan_whose_tables_are_too_large() -> None:
    """A plan that was made for fewer rows walks through them by a table."""

    def shape(rows: int) -> ContractionShape:
        i = (Dim(rows // 1000, 1, 0, 1000), Dim(1000, 7 * rows, 0, 1))
        return ContractionShape((), i, (Dim(40, 0, 1, rows),), (Dim(30, 70 * rows, 40, 0),))

    machine = load_machine("zen3")
    given = SUM, machine, 1
    choice = choose(shape(2_000_000), *given, reassoc=True)
    assert Packing.WALK_TILE in (choice.variant.left_packing, choice.variant.right_packing)
    with pytest.raises(UsageError) as error:
        given_choice(plan_of(choice), shape(4_000_000), *given, reassoc=True)
    side = "left" if choice.variant.left_packing is Packing.WALK_TILE else "right"
    assert str(error.value) == (
        "the plan does not fit this call\n"
        f"note: found the order of {side} in memory takes a table of 32,000,000 bytes, at most "
        "16,777,216 are allocated\n"
        "try: a plan made for it"
    )


# -- results ---------------------------------------------------------------------------------------


TEXTS = [
    *("i->", "ij->", "i,i->", "ij,ij->", "ij->i", "ij->j", "ij,j->i", "ij,i->j", "ij,jk->ik"),
    *("bij,bjk->bik", "abc,cd->abd", "abc,bcd->da", "abc->cab", "abcd,cd->ab", "iab,ab->i"),
    *("abg,cbg->gac", "i,j->ji", "abc,cab->bac"),
]


def view(shape: tuple[int, ...], random: np.random.Generator) -> Array:
    """A read-only view of integers with strides of any sign, also zero, whose elements overlap."""
    steps = [int(random.choice([0, 1, 1, 2, 3, 5, -1, -3, 17, -40])) for _ in shape]
    if random.random() < 0.4:  # in the order of C, or another one
        order = random.permutation(len(shape))
        steps = [int(np.prod([shape[y] for y in order if y > x])) for x in order]
    ends = [(extent - 1) * step for extent, step in zip(shape, steps, strict=True)]
    low, high = (sum(x for x in ends if (x > 0) == up) for up in (False, True))
    memory = random.integers(-9, 10, high - low + 1).astype(np.float64)
    strides = tuple(8 * step for step in steps)
    return as_strided(memory[-low:], shape, strides, writeable=False)


@pytest.mark.parametrize("limit", [MOST_TABLE_BYTES, 0])
@pytest.mark.parametrize("text", drawn(TEXTS, 2))
def test_views_of_any_strides(text: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step of a place counted: by strides, by tables, and by division."""
    monkeypatch.setattr(contraction_shape, "MOST_TABLE_BYTES", limit)
    for seed in range(3):
        random = np.random.default_rng([seed, *map(ord, text)])
        sizes = {letter: int(random.integers(1, 9)) for letter in sorted(set(text) - set(",->"))}
        terms = text.partition("->")[0].split(",")
        operands = [view(tuple(sizes[x] for x in term), random) for term in terms]
        found = lw.einsum(text, *operands)
        np.testing.assert_array_equal(found, np.einsum(text, *operands), f"{text} {seed}")


def test_bundles_with_strides_have_an_order() -> None:
    kernel = choose(
        ContractionShape((), (), (), (Dim(9, 1, 1, 0),)), SUM, load_machine("zen3"), 1, reassoc=True
    ).kernel
    for wrong in ("jig", "gq", "pg"):
        found = unsupported(replace(kernel, variant=replace(kernel.variant, strided=wrong)))
        assert found == "bundles with strides are some of 'gijp', in this order"
