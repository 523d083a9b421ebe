"""Sums of sparse tensors, and products in the loops of a conversion, against dense arrays."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import drawn, some
from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import dtype_of
from loopwright.ir.interpret import interpret_nest
from loopwright.semirings.named import semiring
from loopwright.sparse.executors.add import Rows, add, merge_rows, merged_nest
from loopwright.sparse.executors.fused import convert_einsum, explain_fused
from loopwright.sparse.executors.sparse_einsum import einsum
from loopwright.sparse.format import declare, index
from loopwright.sparse.tensor import sparse_tensor
from sparse_builders import build, of_dense


def test_common_entries_are_combined_by_plus() -> None:
    one = build("coo", (2, 3), [((0, 1), 5.0), ((1, 2), 4.0), ((0, 1), 3.0)])
    other = build("csr", (2, 3), [((0, 1), 4.0), ((0, 0), 7.0)])
    found = add(one, other, semiring="min_plus")
    assert found.to_dense().tolist() == [[7.0, 3.0, 0.0], [0.0, 0.0, 4.0]]
    found = add(other, one, semiring="max_plus")
    assert found.to_dense().tolist() == [[7.0, 5.0, 0.0], [0.0, 0.0, 4.0]]


def test_faulty_sums_are_told() -> None:
    with pytest.raises(UsageError, match="different shapes"):
        add(of_dense("csr", np.eye(2)), of_dense("csr", np.eye(3)))
    one, other = np.eye(2), -np.eye(2)
    zero = build("csr", (2, 2), [((1, 1), 0.0)])
    assert add(of_dense("dia", one), of_dense("csr", other)).to_dense().tolist() == [[0, 0], [0, 0]]
    with pytest.raises(UsageError, match=r"cannot hold the value 0 .* padding[\s\S]*\(1, 1\)"):
        add(of_dense("dia", one), zero, semiring="min_plus")


@settings(max_examples=some(40), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=9), st.integers(0, 9))
def test_repeated_entries_are_combined_in_their_order(places: list[Any], cut: int) -> None:
    """Repeated ones may stand in either list, in any order; `min` tells who took part."""
    values = np.arange(1.0, len(places) + 1)
    rows, columns = (np.array([p[axis] for p in places], np.int32) for axis in (0, 1))
    parts = [
        sparse_tensor("coo", (4, 3), {"row": rows[s], "col": columns[s]}, values[s])
        for s in (slice(None, cut), slice(cut, None))
    ]
    expected = np.zeros((4, 3))
    np.add.at(expected, (rows, columns), values)
    np.testing.assert_array_equal(add(*parts).to_dense(), expected)
    least = np.full((4, 3), np.inf)
    np.minimum.at(least, (rows, columns), values)
    found = add(*parts, semiring="min_plus")
    assert sorted(found.values.tolist()) == sorted(least[np.isfinite(least)].tolist())


rows_of_entries = st.lists(st.sets(st.integers(0, 8)), min_size=1, max_size=9)


def compressed(rows: list[set[int]], seed: int, index: str = "int32") -> Rows:
    """Rows of columns as pointers, columns and small whole numbers."""
    columns = [c for row in rows for c in sorted(row)]
    pointers = np.cumsum([0, *map(len, rows)])
    values = np.random.default_rng(seed).integers(1, 9, len(columns)).astype(np.float64)
    return pointers.astype(index), np.array(columns, index), values


def room(one: Rows, other: Rows) -> Rows:
    """Memory for the result, with numbers that nothing may be left of."""
    count = len(one[1]) + len(other[1])
    return np.full(len(one[0]), -5, np.int64), np.full(count, -6, np.int32), np.full(count, -7.0)


def expected(one: Rows, other: Rows, plus: Any) -> list[list[tuple[int, float]]]:
    found = []
    for r in range(len(one[0]) - 1):
        row: dict[int, float] = {}
        for pointers, columns, values in (one, other):
            for k in range(pointers[r], pointers[r + 1]):
                c, v = int(columns[k]), float(values[k])
                row[c] = plus(row[c], v) if c in row else v
        found.append(sorted(row.items()))
    return found


def listed(out: Rows, count: int) -> list[list[tuple[int, float]]]:
    pointers, columns, values = out
    assert pointers[0] == 0
    assert pointers[-1] == count
    entries = list(zip(columns.tolist(), values.tolist(), strict=True))
    return [entries[a:b] for a, b in pairwise(pointers.tolist())]


@given(rows_of_entries, rows_of_entries, st.integers(0, 99), st.integers(0, 9))
@settings(max_examples=some(60), deadline=None)
def test_loops_stay_inside_and_merge(first, second, seed, fast):
    n = min(len(first), len(second))
    one, other = compressed(first[:n], seed), compressed(second[:n], seed + 1, "int64")
    out = room(one, other)
    sides = {"a": one, "b": other, "o": out}
    arrays = {
        f"{side}_{part}": array
        for side, rows in sides.items()
        for part, array in zip(("ptr", "col", "values"), rows, strict=True)
    }
    nest = merged_nest(
        semiring("plus_times"), tuple((name, dtype_of(a.dtype)) for name, a in arrays.items())
    )
    # Fewer rows than possible may be taken fast, and none that ends with the last entry.
    most = min(int(np.searchsorted(p, p[-1])) - 1 for p in (one[0], other[0]))
    interpret_nest(nest, arrays, {"FAST": max(min(fast, most), 0), "N": n})
    assert listed(out, out[0][-1]) == expected(one, other, lambda x, y: x + y)


@given(rows_of_entries, rows_of_entries, st.integers(0, 99))
@settings(max_examples=some(60), deadline=None)
def test_code_merges(first, second, seed):
    n = min(len(first), len(second))
    one, other = compressed(first[:n], seed), compressed(second[:n], seed + 1)
    for ring, plus in (("plus_times", lambda x, y: x + y), ("min_plus", min)):
        out = room(one, other)
        count = merge_rows(one, other, out, semiring(ring))
        assert listed(out, count) == expected(one, other, plus)


@pytest.mark.parametrize(
    ("pointers", "columns", "message"),
    [
        ([0, 2, 1, 3], [0, 1, 2], r"rowptr is not increasing"),
        ([0, 1, 2, 3], [0, 7, 2], r"col\[1\] = 7 is outside its range"),
        ([0, 2, 2, 3], [1, 0, 2], r"an invariant is violated"),
    ],
)
def test_faulty_operands_are_refused(pointers, columns, message):
    bad = sparse_tensor(
        "csr", (3, 3), {"rowptr": np.array(pointers), "col": np.array(columns)}, np.ones(3)
    )
    good = of_dense("csr", np.eye(3))
    for operands in ((bad, good), (good, bad)):
        with pytest.raises(UsageError, match=message):
            add(*operands)


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
