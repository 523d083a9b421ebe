"""Tensors that break a promise of their format are refused with array, position and value."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loopwright.diagnostics import DtypeError, UsageError
from loopwright.sparse.format import declare, index
from loopwright.sparse.tensor import SparseTensor, sparse_tensor
from loopwright.sparse.validate_tensor import validate_tensor
from sparse_builders import of_dense

ARRAY = np.array([[1, 0, 2, 0], [0, 0, 0, 0], [3, 4, 0, 5], [0, 0, 6, 0]])


def spoiled(format: str, name: str, at: Any, value: int) -> SparseTensor:
    """The tensor of ARRAY with one number of one array changed."""
    tensor = of_dense(format, ARRAY)
    arrays = {key: array.copy() for key, array in tensor.arrays.items()}
    values = tensor.values.copy()
    (values if name == "values" else arrays[name])[at] = value
    return sparse_tensor(tensor.format, tensor.shape, arrays, values, symbols=tensor.symbols)


@pytest.mark.parametrize(
    ("format", "name", "at", "value", "told"),
    [
        ("coo", "row", 2, 4, "coo: row[2] = 4 is outside its range"),
        ("coo", "col", 0, -1, "coo: col[0] = -1 is outside its range"),
        ("scoo", "row", 0, 3, "scoo: the entries are not in the order of i, j"),
        ("mcoo2", "row", 0, 2, "mcoo2: an invariant is violated: forall n"),
        ("csr", "rowptr", 0, 1, "csr: an invariant is violated: rowptr(0) = 0"),
        ("csr", "rowptr", 4, 5, "csr: an invariant is violated: rowptr(NR) = NNZ"),
        ("csr", "rowptr", 2, 6, "csr: rowptr is not increasing"),
        ("csr", "rowptr", 2, 9, "csr: rowptr[2] = 9 is outside its range"),
        ("csr", "col", 3, 9, "csr: col[3] = 9 is outside its range"),
        ("csr", "col", 2, 3, "csr: an invariant is violated: forall x,k"),
        ("csr", "col", 1, 0, "csr: an invariant is violated: forall x,k"),
        ("csc", "row", 0, 3, "csc: an invariant is violated: forall x,k"),
        ("dcsr", "rowidx", 1, 0, "dcsr: rowidx is not strictly increasing"),
        ("dcsr", "rptr", 1, 0, "dcsr: rptr is not strictly increasing"),
        ("dia", "off", 0, 3, "dia: off is not strictly increasing"),
        ("dia", "off", 0, -4, "dia: off[0] = -4 is outside its range"),
        ("dia", "values", 0, 9, "dia: place 0 is padding and holds 9"),
        ("ell(row)", "ecol", (0, 1), 0, "ell(row): ecol is not strictly increasing"),
        ("ell(row)", "ecol", (0, 2), 3, "ell(row): ecol[0, 2] = 3 is padding"),
        ("ell(row)", "ecol", (2, 2), 4, "ell(row): ecol[2, 2] = 4 is outside its range"),
        ("ell(row)", "rlen", 0, 4, "ell(row): rlen[0] = 4 is outside its range"),
        ("ell(row)", "values", 2, 9, "ell(row): place 2 is padding and holds 9"),
        ("ell(column)", "ecol", (1, 0), 0, "ell(column): an invariant is violated"),
        ("bcsr(2,2)", "bcol", 1, 0, "bcsr(2,2): an invariant is violated: forall x,k"),
        ("lil", "len", 0, 1, "lil: an invariant is violated: forall x: 0<=x<NR"),
        ("csf", "idx0", 2, 1, "csf: idx0 is not strictly increasing"),
        ("hicoo(2)", "ei", 0, 2, "hicoo(2): ei[0] = 2 is outside its range"),
        ("hicoo(2)", "bj", 1, 0, "hicoo(2): an invariant is violated: forall b"),
        ("alto", "alto", 0, 99, "alto: alto is not strictly increasing"),
        ("alto", "alto", 5, 99, "alto: an invariant is violated: forall n"),
        ("sell(2,2)", "perm", 0, 1, "sell(2,2): perm is not a permutation, 0 does not occur"),
        ("sell(2,2)", "clen", 0, 1, "sell(2,2): an invariant is violated: forall c"),
        ("sell(2,2)", "scol", 0, 3, "sell(2,2): an invariant is violated: forall c,r,w"),
    ],
)
def test_broken_promise(format: str, name: str, at: Any, value: int, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        validate_tensor(spoiled(format, name, at, value))
    assert str(caught.value).startswith(told)


def test_every_change_of_an_index_is_seen_or_harmless() -> None:
    """A changed index either breaks a promise or gives another sound tensor, never a crash."""
    for format in ("csr", "dia", "ell(row)", "bcsr(2,2)", "csf", "sell(2,2)"):
        tensor = of_dense(format, ARRAY)
        for name, array in tensor.arrays.items():
            for at in np.ndindex(array.shape):
                for value in (-2, 1, 7):
                    changed = spoiled(format, name, at, value)
                    if value != array[at] and is_sound(changed):
                        assert changed.to_dense().shape == ARRAY.shape


def is_sound(tensor: SparseTensor) -> bool:
    try:
        validate_tensor(tensor)
    except UsageError:
        return False
    return True


def test_whole_messages() -> None:
    with pytest.raises(UsageError) as caught:
        validate_tensor(spoiled("csr", "rowptr", 2, 6))
    assert str(caught.value) == (
        "csr: rowptr is not increasing\n"
        "note: found rowptr[2] = 6 and rowptr[3] = 5\n"
        "try: sort the entries, or name a format without a required order, such as coo"
    )
    with pytest.raises(UsageError) as caught:
        validate_tensor(spoiled("csr", "col", 3, 9))
    assert str(caught.value) == (
        "csr: col[3] = 9 is outside its range\n"
        "note: found NR = 4, NC = 4, NNZ = 6\n"
        "try: allowed are {[y] : y < NC && y >= 0}"
    )
    with pytest.raises(UsageError) as caught:
        validate_tensor(spoiled("csr", "col", 2, 3))
    assert str(caught.value) == (
        "csr: an invariant is violated: "
        "forall x,k: 0<=x<NR && rowptr(x)<=k<rowptr(x+1)-1 => col(k)<col(k+1)\n"
        "note: found x = 2, k = 2, col(k) = 3, col(k+1) = 1\n"
        "try: sort the entries, or name a format without a required order, such as coo"
    )


ONE = {"rowptr": [0, 1], "col": [0]}


@pytest.mark.parametrize(
    ("made", "error", "told"),
    [
        (lambda: sparse_tensor("csr", (-1, 1), ONE, [1.0]), UsageError, "dimension 0 of the shape"),
        (lambda: sparse_tensor("csr", (1.5, 1), ONE, [1.0]), UsageError, "a shape is a tuple of"),
        (lambda: sparse_tensor("csr", (1, 1, 1), ONE, [1.0]), UsageError, "the format csr holds"),
        (
            lambda: sparse_tensor("csr", (1, 1), {"col": [0]}, [1.0]),
            UsageError,
            "csr needs the index array rowptr",
        ),
        (
            lambda: sparse_tensor("csr", (1, 1), {**ONE, "row": [0]}, [1.0]),
            UsageError,
            "csr has the index arrays rowptr, col",
        ),
        (
            lambda: sparse_tensor("csr", (2, 1), ONE, [1.0]),
            UsageError,
            "csr: rowptr has shape (2,), it needs (3,)",
        ),
        (
            lambda: sparse_tensor("csr", (1, 1), ONE, [1.0, 2.0]),
            UsageError,
            "csr: col has shape (1,), it needs (2,)",
        ),
        (
            lambda: sparse_tensor("csr", (1, 1), ONE, [[1.0]]),
            UsageError,
            "csr: the values have shape (1, 1), they need (1,)",
        ),
        (
            lambda: sparse_tensor("csr", (1, 1), {"rowptr": [0.0, 1.0], "col": [0]}, [1.0]),
            DtypeError,
            "csr: the index array rowptr must hold integers",
        ),
        (
            lambda: sparse_tensor("csr", (1, 1), {"rowptr": [[0, 1]], "col": [0]}, [1.0]),
            UsageError,
            "csr: rowptr must have 1 dimensions",
        ),
        (
            lambda: sparse_tensor("csr", (1, 1), ONE, [1.0], symbols={"NNZ": 2}),
            UsageError,
            "csr: col has shape (1,), it needs (2,)",
        ),
        (
            lambda: sparse_tensor("csr", (1, 1), ONE, [1.0], symbols={"NNZ": -1}),
            UsageError,
            "csr: NNZ is -1, sizes are not negative",
        ),
        (
            lambda: sparse_tensor("csr", (1, 1), ONE, [1.0], symbols={"NNZ": 1, "NR": 2}),
            UsageError,
            "csr: NR is 2, the shape makes it 1",
        ),
        (
            lambda: sparse_tensor("csr", (1, 1), ONE, [1.0], symbols={}),
            UsageError,
            "csr: the symbol NNZ has no value",
        ),
        (
            lambda: sparse_tensor("alto", (1, 1), {"alto": np.zeros(1, np.int32)}, [1.0]),
            DtypeError,
            "alto: the index array alto must be int64",
        ),
        (
            lambda: sparse_tensor("dia", (2, 2), {"off": [0]}, [1.0]),
            UsageError,
            "dia: the values have shape (1,), they need (2,)",
        ),
    ],
)
def test_lengths_and_types(
    made: Callable[[], SparseTensor], error: type[UsageError], told: str
) -> None:
    with pytest.raises(error) as caught:
        made()
    assert str(caught.value).startswith(told)


def test_unsigned_index_that_would_turn_negative() -> None:
    tensor = sparse_tensor("coo", (2,), {"row": np.array([1 << 63], np.uint64)}, [1.0])
    with pytest.raises(UsageError, match=r"coo: row\[0\] = 9223372036854775808 is outside"):
        tensor.check()


def test_domains_beyond_their_arrays() -> None:
    """A point of a domain without an element is refused, a negative one too."""
    format = declare(
        "listed",
        "{[n,ii,jj] -> [i,j] : i=ii && j=jj && 0<=n<NNZ && ii=row(n) && jj=col(n)}",
        "{[n,ii,jj] -> [n]}",
        index("row", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NR}"),
        index("col", "{[x] : -1<=x<NNZ}", "{[y] : 0<=y<NC}", extents=("NNZ",)),
        places="NNZ",
    )
    for count in (0, 2):
        zeros = np.zeros(count, np.int32)
        tensor = sparse_tensor(format, (1, 1), {"row": zeros, "col": zeros}, np.ones(count))
        with pytest.raises(UsageError) as caught:
            tensor.check()
        assert str(caught.value) == (
            f"listed: col[-1] is in the domain of col, which has shape ({count},)\n"
            "note: found domain {[x] : x < NNZ && x+1 >= 0}, extents (NNZ)\n"
            "try: a domain within the extents"
        )
