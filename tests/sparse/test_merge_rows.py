"""Compressed rows merged in one pass: the loops by interpretation, the code against NumPy."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import dtype_of
from loopwright.ir.interpret import interpret_nest
from loopwright.semirings.named import semiring
from loopwright.sparse.bridge import from_scipy
from loopwright.sparse.executors.add import Rows, add, merge_rows, merged_nest
from loopwright.sparse.tensor import sparse_tensor
from sparse_builders import of_dense

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


@pytest.mark.drawn(6)
@pytest.mark.parametrize("format", ["csr", "csc"])
@pytest.mark.parametrize("density", [0.0, 0.1, 0.9])
def test_compressed_sums(format, density):
    random = np.random.default_rng(3)
    one = random.integers(1, 9, (60, 45)) * (random.random((60, 45)) < 0.3)
    other = random.integers(1, 9, (60, 45)) * (random.random((60, 45)) < density)
    for second in ("csr", "csc", "coo", "dia"):
        found = add(of_dense(format, one), of_dense(second, other.astype(np.float32)))
        assert found.format.name == format
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found.check().to_dense(), one + other)
        np.testing.assert_array_equal(add(found, of_dense(format, -other)).to_dense(), one)


def test_operands_stay_as_they_are():
    one, other = of_dense("csr", np.eye(4)), of_dense("csr", np.ones((4, 4)))
    before = [array.copy() for t in (one, other) for array in (*t.arrays.values(), t.values)]
    found = add(one, other)
    after = [array for t in (one, other) for array in (*t.arrays.values(), t.values)]
    for x, y in zip(before, after, strict=True):
        np.testing.assert_array_equal(x, y)
        assert not any(np.shares_memory(y, a) for a in (*found.arrays.values(), found.values))


def test_results_have_the_index_types_of_conversions():
    one = of_dense("csr", np.eye(3))
    assert {a.dtype for a in add(one, one).arrays.values()} == {np.dtype(np.int32)}


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


def test_scipy_comes_back_sorted():
    scipy = pytest.importorskip("scipy.sparse")
    random = np.random.default_rng(8)
    one, other = (scipy.random_array((30, 20), density=0.2, rng=random) for _ in range(2))
    found = add(scipy.csr_array(one), scipy.csr_array(other))
    assert found.has_canonical_format
    np.testing.assert_allclose(found.toarray(), (one + other).toarray())
    np.testing.assert_array_equal(found.indices, from_scipy((one + other).tocsr()).arrays["col"])
