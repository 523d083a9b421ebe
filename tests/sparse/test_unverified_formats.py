"""Formats that users declare: what they promise and do not keep is refused, never misread."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from drawn import some
from loopwright import sparse
from loopwright.diagnostics import DtypeError, UsageError
from loopwright.sparse import unverified_formats
from loopwright.sparse.format import Format, Padding, declare, index
from loopwright.sparse.formats import find
from loopwright.sparse.tensor import sparse_tensor

MAP = "{[ii,k,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && rowptr(ii)<=k<rowptr(ii+1) && jj=col(k)%s}"
ENDS = ("rowptr(0) = 0", "rowptr(NR) = NNZ")
SORTED = "forall x,k: 0<=x<NR && rowptr(x)<=k<rowptr(x+1)-1 => col(k)<col(k+1)"
FULL = np.array([[1.0, 2.0], [3.0, 4.0]])


def rows(
    name: str,
    *,
    wanted: str = "",
    place: str = "k",
    places: str = "NNZ",
    invariants: tuple[str, ...] = (*ENDS, SORTED),
    growth: Any = "increasing",
) -> Format:
    """Compressed rows with something of their own."""
    return declare(
        name,
        MAP % wanted,
        f"{{[ii,k,jj] -> [p] : p={place}}}",
        index("rowptr", "{[x] : 0<=x<=NR}", "{[y] : 0<=y<=NNZ}", monotone=growth),
        index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}"),
        places=places,
        order=("i", "j"),
        invariants=invariants,
    )


UPPER = rows("upper", wanted=" && ii<=jj")


@pytest.fixture(params=[1 << 17, 0], ids=["looked at", "proved"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tensors are looked at; large ones are not where a proof is found."""
    monkeypatch.setattr(unverified_formats, "_MANY", request.param)


# -- counts that invariants take from the wrong element ------------------------------------------


@pytest.mark.parametrize("source", ["csc", "coo", "csr"])
@pytest.mark.parametrize(
    ("last", "told"),
    [
        ("NC", "less than the last element of the array\nnote: found 8 at its end"),
        ("NR-1", "less than the last element of the array\nnote: found 8 at its end"),
        ("NR+1", "outside the array\nnote: found an array of shape (9,)"),
    ],
)
def test_a_count_that_is_not_the_number_of_entries_is_refused(
    source: str, last: str, told: str
) -> None:
    """Arrays would be made with fewer elements than are written, from a source of columns."""
    wrong = rows("wrong", invariants=("rowptr(0) = 0", f"rowptr({last}) = NNZ", SORTED))
    with pytest.raises(UsageError) as caught:
        sparse.convert(sparse.convert(sparse.from_dense(np.ones((8, 1))), source), wrong)
    assert str(caught.value) == (
        f"an invariant says that NNZ is rowptr({last}), which is {told}\n"
        "try: the last element of the array is the number of entries"
    )


# -- entries that a map leaves out --------------------------------------------------------------


@pytest.mark.usefixtures("either")
def test_an_entry_that_a_map_leaves_out_is_refused() -> None:
    told = r"upper cannot hold the entry \(1, 0\)\nnote: found its map wants ii <= jj"
    with pytest.raises(UsageError, match=told):
        sparse.convert(FULL, UPPER)
    with pytest.raises(UsageError, match=told):
        sparse.convert_einsum("ij,j->i", sparse.convert(FULL, "csr"), np.ones(2), to=UPPER)


def test_a_map_that_holds_only_some_numbers() -> None:
    """What depends on index arrays is seen once they are there."""
    first = rows("first", wanted=" && k<=2")
    assert sparse.convert(np.triu(FULL), first).to_dense().tolist() == [[1, 2], [0, 4]]
    with pytest.raises(UsageError, match="first cannot hold this tensor"):
        sparse.convert(FULL, first)


@settings(max_examples=some(25), deadline=None)
@given(st.integers(0, 2**16 - 1))
def test_a_triangle_holds_triangles_alone(bits: int) -> None:
    array = np.array([float(bits >> n & 1) for n in range(16)]).reshape(4, 4)
    if np.array_equal(array, np.triu(array)):
        assert np.array_equal(sparse.convert(array, UPPER).to_dense(), array)
    else:
        with pytest.raises(UsageError, match="upper cannot hold the entry"):
            sparse.convert(array, UPPER)


# -- places ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("either")
def test_two_tuples_in_one_place_are_refused() -> None:
    shared = rows("shared", place="ii", places="NR")
    with pytest.raises(UsageError, match="shared is wrong: no two tuples share a place does not"):
        sparse.convert(FULL, shared)
    arrays = {"rowptr": [0, 2, 4], "col": [0, 1, 0, 1]}
    read = sparse.convert(sparse_tensor(shared, (2, 2), arrays, [1.0, 2.0]), "csr")
    assert read.to_dense().tolist() == [[1, 1], [2, 2]]


@pytest.mark.usefixtures("either")
def test_places_that_nothing_reaches_are_refused() -> None:
    with pytest.raises(UsageError, match="gaps cannot hold this tensor: no index leads to place 1"):
        sparse.convert(FULL, rows("gaps", place="2*k", places="2*NNZ"))


def test_places_outside_the_values_are_refused_before_code_runs() -> None:
    with pytest.raises(UsageError, match="beyond is wrong: places lie within the values"):
        sparse.convert(FULL, rows("beyond", place="k+rowptr(ii)"))


# -- order and uniqueness -------------------------------------------------------------------------


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize(
    ("columns", "told"),
    [([2, 0, 1], r"not in the order of i, j\n.*\(0, 2\) before \(0, 0\)"), ([0, 1, 1], "twice")],
)
def test_promises_that_no_rule_tells_are_looked_at(columns: list[int], told: str) -> None:
    untold = rows("untold", invariants=ENDS)
    arrays = {"rowptr": [0, 3, 3], "col": columns}
    tensor = sparse_tensor(untold, (2, 3), arrays, [1.0, 2.0, 3.0])
    for use in (
        lambda: sparse.convert(tensor, "csc"),
        lambda: sparse.convert(tensor, untold),
        lambda: sparse.spmv(tensor, np.ones(3)),
        lambda: sparse.convert_einsum("ij,j->i", tensor, np.ones(3), to="csc"),
    ):
        with pytest.raises(UsageError, match=told):
            use()
    kept = {**arrays, "col": [0, 1, 2]}
    fine = sparse_tensor(untold, (2, 3), kept, [1.0, 2.0, 3.0])
    assert sparse.convert(fine, "csc").to_dense().tolist() == [[1, 2, 3], [0, 0, 0]]


@pytest.mark.usefixtures("either")
def test_coordinates_outside_the_shape_are_refused() -> None:
    """A range without an end is a promise of little."""
    arrays = (index(f, "{[x] : 0<=x<NNZ}", "{[y] : 0<=y}") for f in ("row", "col"))
    loose = declare(
        "loose",
        "{[n] -> [i,j] : 0<=n<NNZ && i=row(n) && j=col(n)}",
        "{[n] -> [n]}",
        *arrays,
        places="NNZ",
        is_unique=False,
    )
    tensor = sparse_tensor(loose, (2, 3), {"row": [0, 10**7], "col": [0, 2]}, [1.0, 2.0])
    told = r"loose: an entry lies outside the shape\nnote: found i = 10000000, with a size of 2"
    with pytest.raises(UsageError, match=told):
        sparse.convert(tensor, "csr")
    with pytest.raises(UsageError, match=told):
        sparse.spmv(tensor, np.ones(3))


# -- results --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize(
    ("format", "told"),
    [
        (rows("strict", growth="strictly increasing"), "rowptr is not strictly increasing"),
        (rows("falls", growth="decreasing"), "rowptr is not decreasing"),
        (
            rows("crossed", invariants=(*ENDS, "forall k: 0<=k<NNZ-1 => col(k)>col(k+1)")),
            "an invariant is violated: forall k",
        ),
    ],
    ids=lambda x: x.name if isinstance(x, Format) else "",
)
def test_results_that_break_their_own_promises(format: Format, told: str) -> None:
    with pytest.raises(UsageError, match=f"{format.name} cannot hold this tensor: {told}"):
        sparse.convert(np.array([[0.0, 0.0], [1.0, 2.0]]), format)


# -- padding --------------------------------------------------------------------------------------


def padded(fill: int) -> Format:
    return replace(find("ell(row)"), name="padded", padding=Padding(fill))


@pytest.mark.parametrize("dtype", [np.uint8, np.bool_])
def test_values_that_cannot_hold_the_fill(dtype: Any) -> None:
    array: NDArray[Any] = np.array([[1, 1], [0, 0]], dtype)
    with pytest.raises(DtypeError, match=r"padded: places without an entry hold -1, which"):
        sparse.convert(array, padded(-1))


def test_what_lies_outside_has_no_meaning() -> None:
    """A coordinate before the first would be taken for one from the end."""
    loose = declare(
        "loose",
        "{[n] -> [i] : 0<=n<NNZ && i=at(n)}",
        "{[n] -> [n]}",
        index("at", "{[x] : 0<=x<NNZ}", "{[y] : -9<=y}"),
        places="NNZ",
        is_unique=False,
    )
    tensor = sparse_tensor(loose, (3,), {"at": [0, -1]}, [1.0, 2.0])
    for use in (tensor.to_dense, tensor.check, lambda: sparse.convert(tensor, "coo")):
        with pytest.raises(UsageError, match=r"outside the shape\nnote: found i = -1"):
            use()


def test_what_is_absent_is_zero_whatever_padding_holds() -> None:
    array = np.array([[1.0, 2.0], [0.0, 0.0]])
    made = sparse.convert(array, padded(-9))
    assert made.values.tolist() == [1, 2, -9, -9]
    assert made.to_dense().tolist() == array.tolist()
    assert sparse.spmv(made, np.ones(2)).tolist() == [3, 0]
    assert made.nnz == 2


def test_padding_that_is_mapped_is_zero() -> None:
    with pytest.raises(UsageError, match="must be 0, not 5: an entry of value 5 would vanish"):
        Padding(5, is_mapped=True)
