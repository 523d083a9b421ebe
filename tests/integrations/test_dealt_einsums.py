"""Einsums on grids of ranks against one machine."""

import numpy as np
import pytest

import loopwright as lw
from drawn import combined
from integrations.thread_ranks import run_ranks
from loopwright.diagnostics import UsageError
from loopwright.integrations.mpi import ArraySource, GridOptions, einsum, gather
from loopwright.integrations.mpi.block_layout import ProcessGrid
from loopwright.integrations.mpi.contraction_steps import deal_einsum

SIZES = {"i": 13, "j": 9, "k": 17, "b": 3, "c": 5, "l": 2, "z": 0, "u": 1}
TEXTS = [
    "ik,kj->ij",
    "bik,bkj->bij",
    "ki,jk->ji",
    "bk,bkj->bj",
    "ik,k->i",
    "k,k->",
    "bc,bc->bc",
    "i,j->ij",
    "ikl,klj->ji",
    "ikc,kj->ij",
    "bck,bck->bc",
    "kbi,kbj->jib",
    "iz,zj->ij",
    "zk,kj->zj",
    "uk,ku->u",
]
RINGS = [("plus_times", "int64"), ("min_plus", "float64"), ("max_min", "int16")]
GRIDS = [("2x2", 4), ("2x3", 3), ("1x4", 5), ("3x1", 100)]


def operands(text: str, dtype: str) -> list[np.ndarray]:
    random = np.random.default_rng(7)
    terms = text.split("->")[0].split(",")
    return [random.integers(0, 90, [SIZES[x] for x in term]).astype(dtype) for term in terms]


def dealt(text: str, a, b, ring, grid: str, block: int, **options):
    size = int(np.prod([int(x) for x in grid.split("x")]))

    def work(world):
        made = GridOptions(grid=grid, block=block, **options)
        return gather(einsum(text, ArraySource(a), ArraySource(b), ring, world, made), world)

    return run_ranks(size, work)[0]


@pytest.mark.drawn(13)
@pytest.mark.parametrize(("text", "ring", "grid"), combined(TEXTS, RINGS, GRIDS, one_in=11))
def test_einsums_are_bit_equal_to_one_machine(text, ring, grid) -> None:
    (name, dtype), (ranks, block) = ring, grid
    a, b = operands(text, dtype)
    found = dealt(text, a, b, name, ranks, block)
    assert np.array_equal(found, lw.einsum(text, a, b, semiring=name))


def test_letters_go_over_the_axes_that_are_free() -> None:
    def axes(text: str) -> list[list[int | None]]:
        shapes = [tuple(SIZES[x] for x in term) for term in text.split("->")[0].split(",")]
        plan = deal_einsum(text, shapes, ProcessGrid(2, 3), 4)
        return [[dim.axis for dim in layout.dimensions] for layout in plan.layouts]

    assert axes("ik,kj->ij") == [[0, 1], [0, 1], [0, 1]]
    assert axes("bik,bkj->bij") == [[None, 0, 1], [None, 0, 1], [None, 0, 1]]
    assert axes("bk,bkj->bj") == [[0, 1], [0, None, 1], [0, 1]]
    assert axes("ik,k->i") == [[0, 1], [0], [0]]
    assert axes("ikl,klj->ji") == [[0, 1, None], [0, None, 1], [1, 0]]


def test_refusals() -> None:
    a = np.ones((4, 4))
    with pytest.raises(UsageError) as caught:
        dealt("ii,ij->ij", a, a, "plus_times", "1x2", 2)
    assert str(caught.value) == (
        "operand 1 repeats a letter, and a dealt array has no diagonals\n"
        "note: found ii\ntry: take the diagonal first"
    )
    with pytest.raises(UsageError, match="'k' has two sizes over a grid\nnote: found 4 and 3"):
        dealt("ik,kj->ij", a, np.ones((3, 4)), "plus_times", "1x2", 2)
