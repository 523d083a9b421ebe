"""Conversions of real matrices and tensors, where their files are, against scipy and each other."""

from pathlib import Path

import numpy as np
import pytest
from benchmarks.sparse_data import load

from drawn import HUNTS, drawn, in_all
from loopwright.sparse.bridge import from_scipy
from loopwright.sparse.convert_tensor import convert
from loopwright.sparse.tensor import SparseTensor, same
from sparse.synthesis.pairs import FORMATS_2D

sparse = pytest.importorskip("scipy.sparse")

# All matrices of the manifest; those with few diagonals are stored by diagonals too.
MATRICES = (
    "4elt",
    "Groebner_id2003_aug",
    "bcsstk13",
    "bcsstk16",
    "copter2",
    "memplus",
    "pyamg_bar",
    "pyamg_local_disc_galerkin_diffusion",
    "west0479",
    "wiki-Vote",
)
BANDED = ("denormal", "dixmaanl", "jnlbrng1", "obstclae", "shyy161")
# Of each kind a small one; the hunt takes them all.
PAIRED = (*MATRICES, *BANDED) if HUNTS else ("west0479", "wiki-Vote", "denormal")
WAYS = (("mcoo2", "csc"), ("dcsr", "alto"), ("hicoo(64)", "lil"), ("csf", "sell(32,128)"))
TENSORS = ("splatt_med", "wn18rr_train")
_MOST_TENSOR_ENTRIES = 50_000
_MOST_PLACES = 20  # for an entry, of a format with padding


def shuffled(tensor: SparseTensor) -> SparseTensor:
    order = np.random.default_rng(0).permutation(len(tensor.values))
    arrays = {name: array[order] for name, array in tensor.arrays.items()}
    return SparseTensor(tensor.format, tensor.shape, arrays, tensor.symbols, tensor.values[order])


def found(matrices: Path, name: str) -> SparseTensor:
    if not any(matrices.glob(f"{name}.*")):
        pytest.skip(f"{name} is not among the matrices")
    return load(matrices, name)


def by_scipy(tensor: SparseTensor) -> "sparse.coo_array":
    places = (tensor.arrays["row"], tensor.arrays["col"])
    return sparse.coo_array((tensor.values, places), shape=tensor.shape)


@pytest.mark.parametrize("name", drawn(PAIRED, 2 if in_all() else 3))
def test_matrices(matrices: Path, name: str) -> None:
    """Rows and columns as scipy makes them; a way through other formats leads back to them."""
    tensor = shuffled(found(matrices, name))
    right = by_scipy(tensor).tocsr()
    right.sum_duplicates()
    csr = convert(tensor, "csr")
    assert np.array_equal(csr.arrays["rowptr"], right.indptr)
    assert np.array_equal(csr.arrays["col"], right.indices)
    assert csr.values.tobytes() == right.data.tobytes()
    csc = convert(csr, "csc")
    columns = right.tocsc()
    assert np.array_equal(csc.arrays["colptr"], columns.indptr)
    assert np.array_equal(csc.arrays["row"], columns.indices)
    assert csc.values.tobytes() == columns.data.tobytes()
    result: SparseTensor = csr
    way = WAYS[(*MATRICES, *BANDED).index(name) % len(WAYS)]
    for format in way:
        result = convert(result, format)
    assert same(convert(result, "csr"), csr), way


@pytest.mark.only_in_all("synthesis/test_pairs has all pairs of formats, of small matrices")
@pytest.mark.parametrize("name", drawn(PAIRED, 4))
def test_pairs(matrices: Path, name: str) -> None:
    """From any format to any other: the same arrays as from csr, which are shown to lead back.

    A matrix meets every source and every target; all pairs of them where the hunt leaves none out.
    """
    plain = by_scipy(found(matrices, name)).tocsr()
    plain.sum_duplicates()
    plain.eliminate_zeros()  # a format with padding would leave them out
    csr = from_scipy(plain)
    formats = [format for format in FORMATS_2D if has_room(plain, format)]
    made = {format: convert(csr, format) for format in formats}
    first = (*MATRICES, *BANDED).index(name)
    for number, source in enumerate(formats, first):
        for target in drawn(formats, len(formats), number):
            result = convert(made[source], target)
            if target in ("coo", "csr_unsorted"):  # which keep the order of the source
                result = convert(result, "csr")
            wanted = csr if result.format == csr.format else made[target]
            assert same(result, wanted), f"{source} -> {target}"
    for format in formats:
        assert same(convert(made[format], "csr"), csr), format


def has_room(matrix: "sparse.csr_array", format: str) -> bool:
    """Whether a format has few places for each entry."""
    rows, columns = matrix.nonzero()
    places = 0
    if format == "dia":
        places = matrix.shape[0] * len(np.unique(columns - rows))
    elif format.startswith("ell"):
        places = matrix.shape[0] * int(np.diff(matrix.indptr).max())
    return places <= _MOST_PLACES * matrix.nnz


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", drawn(BANDED, 2))
def test_diagonals(matrices: Path, name: str) -> None:
    tensor = found(matrices, name)
    matrix = by_scipy(tensor)
    right = matrix.todia()
    dia = convert(matrix, "dia")
    assert np.array_equal(dia.offsets, right.offsets)
    assert np.array_equal(dia.data, right.data[:, : dia.data.shape[1]])
    back = convert(convert(tensor, "dia"), "csr")
    kept = matrix.tocsr()
    kept.eliminate_zeros()
    assert np.array_equal(back.arrays["rowptr"], kept.indptr)
    assert np.array_equal(back.arrays["col"], kept.indices)
    assert np.array_equal(back.values, kept.data)


@pytest.mark.only_in_all("synthesis/test_pairs has the same formats of three dimensions")
@pytest.mark.parametrize("name", drawn(TENSORS, 2, first=1))
def test_tensors(matrices: Path, name: str) -> None:
    whole = found(matrices, name)
    kept = np.sort(np.random.default_rng(1).permutation(len(whole.values))[:_MOST_TENSOR_ENTRIES])
    arrays = {key: array[kept] for key, array in whole.arrays.items()}
    symbols = dict(whole.symbols) | {"NNZ": len(kept)}
    tensor = shuffled(SparseTensor(whole.format, whole.shape, arrays, symbols, whole.values[kept]))
    csf = convert(tensor, "csf")
    order = np.lexsort(tuple(tensor.arrays.values())[::-1])
    columns = np.stack([array[order] for array in tensor.arrays.values()])
    is_new = np.ones(len(order), bool)
    is_new[1:] = (columns[:, 1:] != columns[:, :-1]).any(axis=0)
    first = np.flatnonzero(is_new)
    last = f"idx{tensor.ndim - 1}"
    assert np.array_equal(csf.arrays[last], columns[-1, first])
    assert np.array_equal(csf.values, np.add.reduceat(tensor.values[order], first))
    assert csf.symbols["M0"] == len(np.unique(columns[0]))
    for way in (("mcoo3", "hicoo(128)"), ("alto", "scoo")):
        result: SparseTensor = tensor
        for format in way:
            result = convert(result, format)
        assert same(convert(result, "csf"), csf), way
