"""Conversions with a product in the same loops, against the two one after the other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import loopwright as lw
from drawn import drawn, some
from loopwright.diagnostics import UsageError
from loopwright.sparse.executors.fused import convert_einsum, explain_fused
from loopwright.sparse.executors.sparse_einsum import einsum
from loopwright.sparse.format import declare, index
from loopwright.sparse.tensor import sparse_tensor
from sparse_builders import of_dense

SOURCES = ("csr", "csc", "dia", "bcsr(2,3)", "ell(row)", "coo", "sell(2,4)")
TARGETS = ("csr", "csc", "dia", "coo", "bcsr(3,2)")


def matrix(rows: int = 7, columns: int = 9, seed: int = 1) -> np.ndarray:
    random = np.random.default_rng(seed)
    return random.integers(1, 9, (rows, columns)) * (random.random((rows, columns)) < 0.4) * 1.0


@pytest.mark.drawn(7)
@pytest.mark.parametrize("source", SOURCES)
def test_both_results_are_those_of_separate_calls(source: str) -> None:
    dense = matrix()
    tensor = of_dense(source, dense)
    x, right = np.arange(1.0, 10), np.random.default_rng(2).integers(1, 9, (9, 3)) * 1.0
    for target in drawn(TARGETS, 2, SOURCES.index(source)):
        made, y = convert_einsum("ij,j->i", tensor, x, to=target, threads=1)
        assert made.check().format.name == target
        np.testing.assert_array_equal(made.to_dense(), dense)
        np.testing.assert_array_equal(y, dense @ x)
        _, y = convert_einsum("ij,jk->ik", tensor, right, to=target, threads=1)
        np.testing.assert_array_equal(y, dense @ right)


@settings(max_examples=some(25), deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 9), st.booleans())
def test_shapes_and_patterns(rows: int, columns: int, seed: int, is_back: bool) -> None:
    dense = matrix(rows, columns, seed)
    text, x = ("ij,i->j", np.arange(1.0, rows + 1)) if is_back else ("ij,j->i", np.ones(columns))
    made, y = convert_einsum(text, of_dense("csr", dense), x, to="csc", threads=1)
    np.testing.assert_array_equal(made.to_dense(), dense)
    np.testing.assert_array_equal(y, np.einsum(text, dense, x))


def test_semirings_leave_padding_out() -> None:
    tensor, x = of_dense("dia", matrix()), np.arange(1.0, 10)
    for ring in ("min_plus", "max_times"):
        _, y = convert_einsum("ij,j->i", tensor, x, to="csr", semiring=ring, threads=1)
        np.testing.assert_array_equal(y, einsum("ij,j->i", tensor, x, semiring=ring))


def test_the_loops_are_one() -> None:
    text = explain_fused("ij,j->i", of_dense("csr", matrix()), np.ones(9), to="csc")
    assert repr(text).splitlines() == text.splitlines()
    assert text.count("for ") == 2, text
    assert "stage 3 of 3" in text


@pytest.mark.parametrize(
    ("source", "subscripts", "shape", "reason"),
    [
        ("csr", "ij,kj->ik", (3, 9), "dense indices before"),
        ("csc", "ij,j->i", (9,), "this format"),
    ],
)
def test_what_stays_apart_says_why(
    source: str, subscripts: str, shape: tuple[int, ...], reason: str
) -> None:
    tensor, x = of_dense(source, matrix()), np.ones(shape)
    assert reason in explain_fused(subscripts, tensor, x, to="csc")
    made, y = convert_einsum(subscripts, tensor, x, to="csc", threads=1)
    np.testing.assert_array_equal(made.to_dense(), matrix())
    np.testing.assert_array_equal(y, np.einsum(subscripts, matrix(), x))


def test_entries_in_no_order_are_converted_first() -> None:
    rows, columns = np.nonzero(matrix())
    turned = {"row": rows[::-1].astype(np.int32), "col": columns[::-1].astype(np.int32)}
    tensor = lw.sparse.sparse_tensor("coo", (7, 9), turned, matrix()[rows, columns][::-1])
    assert "in no order" in explain_fused("ij,j->i", tensor, np.ones(9), to="csc")
    made, y = convert_einsum("ij,j->i", tensor, np.ones(9), to="csc", threads=1)
    np.testing.assert_array_equal(made.to_dense(), matrix())
    np.testing.assert_array_equal(y, matrix() @ np.ones(9))


def test_several_threads_run_one_after_the_other() -> None:
    made, y = convert_einsum("ij,j->i", of_dense("csr", matrix()), np.ones(9), to="csc", threads=2)
    np.testing.assert_array_equal(made.to_dense(), matrix())
    np.testing.assert_array_equal(y, matrix() @ np.ones(9))


def test_scipy_comes_back_as_scipy() -> None:
    scipy = pytest.importorskip("scipy.sparse")
    made, y = lw.sparse.convert_einsum(
        "ij,j->i", scipy.csr_array(matrix()), np.ones(9), to="csc", threads=1
    )
    assert isinstance(made, scipy.csc_array)
    np.testing.assert_array_equal(y, matrix() @ np.ones(9))


def test_faulty_calls_are_refused() -> None:
    tensor = of_dense("csr", matrix())
    with pytest.raises(UsageError, match="two sizes"):
        convert_einsum("ij,j->i", tensor, np.ones(8), to="csc")
    with pytest.raises(UsageError, match="exactly one sparse operand"):
        convert_einsum("ij,j->i", matrix(), np.ones(9), to="csc")


@pytest.mark.parametrize("source", ["coo", "scoo"])
@pytest.mark.parametrize("target", ["csr", "csc", "dia"])
def test_repeated_entries_are_combined_by_the_semiring(source: str, target: str) -> None:
    """The conversion adds 3 and 4 up; the product takes the lesser of 3 + 10 and 4 + 10."""
    places = {"row": np.array([0, 0]), "col": np.array([0, 0])}
    tensor = sparse_tensor(source, (1, 1), places, np.array([3.0, 4.0]))
    x = np.array([10.0])
    made, y = convert_einsum("ij,j->i", tensor, x, to=target, semiring="min_plus")
    assert made.to_dense().tolist() == [[7.0]]
    assert y.tolist() == einsum("ij,j->i", tensor, x, semiring="min_plus").tolist() == [13.0]


def test_a_conversion_with_code_of_its_own_for_one_thread_is_fused() -> None:
    """Rows that are stored too: the entries are gone through by their numbers alone."""
    both = declare(
        "rows_twice",
        "{[ii,k] -> [i,j] : i=row(k) && j=col(k) && 0<=ii<NR && rowptr(ii)<=k<rowptr(ii+1)}",
        "{[ii,k] -> [k]}",
        index("rowptr", "{[x] : 0<=x<=NR}", "{[y] : 0<=y<=NNZ}", monotone="increasing"),
        index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}"),
        index("row", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NR}"),
        places="NNZ",
        order=("i", "j"),
        invariants=(
            "rowptr(0) = 0",
            "rowptr(NR) = NNZ",
            "forall x,k: 0<=x<NR && rowptr(x)<=k<rowptr(x+1)-1 => col(k)<col(k+1)",
            "forall x,k: 0<=x<NR && rowptr(x)<=k<rowptr(x+1) => row(k)=x",
        ),
    )
    csr = of_dense("csr", matrix())
    row = np.repeat(np.arange(7, dtype=np.int32), np.diff(csr.arrays["rowptr"]))
    tensor = sparse_tensor(both, (7, 9), {**csr.arrays, "row": row}, csr.values)
    x, right = np.arange(1.0, 10), np.random.default_rng(2).integers(1, 9, (9, 3)) * 1.0
    for target in (*TARGETS, "csr_unsorted", "lil"):
        made, y = convert_einsum("ij,j->i", tensor, x, to=target, threads=1)
        np.testing.assert_array_equal(made.to_dense(), matrix())
        np.testing.assert_array_equal(y, matrix() @ x)
        _, y = convert_einsum("ij,jk->ik", tensor, right, to=target, threads=1)
        np.testing.assert_array_equal(y, matrix() @ right)
