"""Tensors of few entries whose coordinates lie around the limits of 20, 21, 31 and 32 bits."""

import numpy as np
import pytest
from scipy.sparse import coo_array

import loopwright as lw
from drawn import combined
from loopwright.diagnostics import UsageError
from loopwright.sparse.format import declare, index
from loopwright.sparse.formats import find
from loopwright.sparse.formats.canonical_formats import is_verified
from loopwright.sparse.tensor import SparseTensor
from outside.campaigns.far_coordinates import (
    FORMATS,
    entries_of,
    far_tensor,
    room_of,
    sum_of_repeated,
)

MOST = 1 << 16  # elements of an array: formats that need more are left to the campaign
SIZES = [(1 << b) + more for b in (20, 21, 31, 32) for more in (-1, 0, 1)] + [(1 << 20) + 100]


def test_diagonals_of_a_wide_matrix() -> None:
    """The diagonals are in order, where columns are too many to be counted one by one."""
    n = 1 << 21
    given = coo_array((np.arange(1.0, 4.0), ([0, 1, 2], [n - 1, 5, n // 2])), shape=(3, n))
    made = lw.sparse.convert(given, "dia")
    assert made.offsets.tolist() == [4, n // 2 - 2, n - 1]
    assert (made.tocoo() != given).nnz == 0


def pairs() -> list[tuple[tuple[int, int], str, str]]:
    """Shapes and formats, without those that need an element for each of so many coordinates."""
    sources = ["coo", "csf", "dia", "csr", "csc"]
    shapes = [shape for n in SIZES for shape in ((3, n), (n, 3), (n, n))]
    rooms = {(name, shape): room_of(find(name, 2), shape) for name in FORMATS for shape in shapes}
    return [
        (shape, source, target)
        for shape, source, target in combined(shapes, sources, FORMATS, one_in=17)
        if max(rooms[source, shape], rooms[target, shape]) <= MOST
    ]


@pytest.mark.drawn(30)
@pytest.mark.parametrize(("shape", "source", "target"), pairs())
def test_pairs(shape: tuple[int, int], source: str, target: str) -> None:
    same(far_tensor(shape), source, target)


def same(given: SparseTensor, source: str, target: str) -> None:
    try:
        made = lw.sparse.convert(lw.sparse.convert(given, source), target)
    except UsageError as error:
        assert "takes more than 62 bits" in str(error)  # noqa: PT017, keys along curves
        return
    made.check()
    assert entries_of(made) == sum_of_repeated(given)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", ["bcsr(2,2)", "sell(2,4)", "dia"])
def test_keys_of_blocks_and_lengths_are_sorted_by_digits(name: str) -> None:
    """No array has an element for each of 2^32 columns, where a format needs none."""
    same(far_tensor((3, 1 << 32)), "coo", name)


def test_groups_that_are_contiguous_in_no_prefix_of_the_order() -> None:
    """Diagonals in any order, which is nothing that can be numbered by a table of values."""
    format = declare(
        "any_diagonals",
        "{[ii,d,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && 0<=d<ND && jj=ii+off(d) && 0<=j<NC}",
        "{[ii,d,jj] -> [p] : p=ND*ii+d}",
        index("off", "{[x] : 0<=x<ND}", "{[y] : -NR<y<NC}"),
        places="ND*NR",
        order=("i",),
        padding=find("dia", 2).padding,
    )
    assert not is_verified(format)
    dense = np.zeros((4, 5))
    dense[[0, 1, 1, 2, 3], [4, 0, 2, 1, 4]] = [1, 2, 3, 4, 5]
    made = lw.sparse.convert(dense, format)
    assert made.arrays["off"].tolist() == [-1, 1, 4]
    assert np.array_equal(made.to_dense(), dense)
