"""Tuples numbered by a variable: what is shared because of it, and what a filter leaves out."""

import numpy as np
import pytest

from drawn import combined
from loopwright.ir.dtypes import FLOAT64, INT32
from loopwright.sparse.convert_tensor import convert
from loopwright.sparse.executors.sparse_einsum import einsum
from loopwright.sparse.format import Format, Padding, declare, index
from loopwright.sparse.formats import find
from loopwright.sparse.synthesis.entry_iterator import entry_iterator
from loopwright.sparse.synthesis.stages import Builder
from loopwright.sparse.tensor import SparseTensor, sparse_tensor
from sparse.synthesis.pairs import FORMATS_2D, scattered

NUMBERED = {
    "coo": "n",
    "scoo": "n",
    "mcoo2": "n",
    "alto": "n",
    "csr": "k",
    "csr_unsorted": "k",
    "csc": "k",
    "dcsr": "k",
    "csf": "p1",
    "hicoo(2)": "n",
}
SHARED = {  # arrays of the source that a conversion hands on: index arrays, values
    ("csr", "coo"): 2,
    ("csr", "scoo"): 2,
    ("csr", "dcsr"): 2,
    ("csr", "csf"): 2,
    ("csr_unsorted", "coo"): 2,
    ("csc", "coo"): 2,
    ("dcsr", "csr"): 2,
    ("dcsr", "csf"): 2,
    ("csf", "csr"): 2,
    ("csf", "dcsr"): 2,
    ("hicoo(2)", "mcoo2"): 1,
    ("mcoo2", "hicoo(2)"): 1,
    ("alto", "coo"): 1,
    ("csr", "alto"): 0,
}


@pytest.mark.parametrize("name", FORMATS_2D)
def test_formats(name: str) -> None:
    format = find(name, 2)
    builder = Builder(INT32)
    for each in format.indices:
        builder.given(each.name, INT32, each.extents)
    found = entry_iterator(format, "values", FLOAT64, builder).numbering
    assert (None if found is None else str(found.number)) == NUMBERED.get(name)
    assert found is None or str(found.total) == "NNZ"


@pytest.mark.drawn(7)
@pytest.mark.parametrize(("source", "target"), SHARED)
def test_what_keeps_its_place_is_shared(source: str, target: str) -> None:
    array = scattered(3, (13, 11), 0.3)
    given = convert(array, source)
    made = convert(given, target, copy=False)
    assert np.array_equal(made.to_dense(), array)
    assert len(shared(made, given)) == SHARED[source, target]


def shared(made: SparseTensor, given: SparseTensor) -> list[str]:
    theirs = (*given.arrays.values(), given.values)
    ours = {**made.arrays, "values": made.values}
    return [n for n, x in ours.items() if any(np.shares_memory(x, y) for y in theirs)]


def filtered_list(constraint: str) -> Format:
    """Coordinates of which only some are entries."""
    return declare(
        "some",
        "{[n,ii,jj] -> [i,j] : i=ii && j=jj && 0<=n<NNZ && ii=row(n) && jj=col(n)"
        f" && 0<=i<NR && 0<=j<NC && {constraint}}}",
        "{[n,ii,jj] -> [n]}",
        index("row", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NR}"),
        index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}"),
        places="NNZ",
        is_unique=False,
        padding=Padding(),
    )


def filtered_rows(constraint: str) -> Format:
    return declare(
        "some_rows",
        "{[ii,k,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && rowptr(ii)<=k<rowptr(ii+1)"
        f" && 0<=k<NNZ && jj=col(k) && 0<=j<NC && {constraint}}}",
        "{[ii,k,jj] -> [k]}",
        index("rowptr", "{[x] : 0<=x<=NR}", "{[y] : 0<=y<=NNZ}", monotone="increasing"),
        index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}"),
        places="NNZ",
        order=("i",),
        is_unique=False,
        padding=Padding(),
        invariants=("rowptr(0) = 0", "rowptr(NR) = NNZ"),
    )


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("constraint", "target"),
    combined(
        ["jj<ii", "jj=ii", "jj<=ii", "n>=2", "jj<NC-1", "true"],
        ["coo", "csr", "csc", "dia", "mcoo2"],
        one_in=2,
    ),
)
def test_filters_of_lists(constraint: str, target: str) -> None:
    """Entries that the map leaves out stay out, although arrays could be shared otherwise."""
    rng = np.random.default_rng(5)
    places = {"row": rng.integers(0, 5, 12), "col": rng.integers(0, 5, 12)}
    format = filtered_list("0<=n" if constraint == "true" else constraint)
    same_as_dense(sparse_tensor(format, (5, 5), places, rng.random(12)), target)


@pytest.mark.drawn(7)
@pytest.mark.parametrize(
    ("constraint", "target"),
    combined(
        ["jj<ii", "jj=ii", "k>=2", "ii>=1", "jj<NC-1", "k>=0"],
        ["coo", "scoo", "csr", "csc", "dcsr"],
        one_in=2,
    ),
)
def test_filters_of_rows(constraint: str, target: str) -> None:
    rng = np.random.default_rng(6)
    places = {"rowptr": np.array([0, 3, 3, 7, 9, 12]), "col": rng.integers(0, 5, 12)}
    same_as_dense(sparse_tensor(filtered_rows(constraint), (5, 5), places, rng.random(12)), target)


def same_as_dense(tensor: SparseTensor, target: str) -> None:
    dense = tensor.to_dense()
    assert np.allclose(convert(tensor, target).to_dense(), dense)
    x = np.arange(1.0, 6.0)
    assert np.allclose(einsum("ij,j->i", tensor, x), dense @ x)
