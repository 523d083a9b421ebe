"""Computations read from text do what the text says, and what is no text of one is refused."""

import numpy as np
import pytest

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.sparse import computations as spf
from loopwright.sparse.formats import find

ROWS = """
    in rowptr[NR+1]: int32, in col[NNZ]: int32
    in val[NNZ]: float64; in x[NC]: float64; out y[NR]: float64
"""
PRODUCT = """
    zero: {[i] : 0<=i<NR} at (0, i, 0): y(i) = 0
    add: {[i,k] : 0<=i<NR && rowptr(i)<=k<rowptr(i+1)} at (1, i, 0, k, 0): y(i) += val(k)*x(col(k))
"""


def product() -> spf.Computation:
    return spf.computation("product", ROWS, PRODUCT, facts=find("csr", 2))


def test_a_product_and_its_steps() -> None:
    rng = np.random.default_rng(1)
    dense = rng.random((7, 5)) * (rng.random((7, 5)) < 0.5)
    counts = np.count_nonzero(dense, axis=1)
    arrays = {
        "rowptr": np.concatenate(([0], np.cumsum(counts))).astype(np.int32),
        "col": np.nonzero(dense)[1].astype(np.int32),
        "val": dense[np.nonzero(dense)],
        "x": rng.random(5),
    }
    sizes = {"NR": 7, "NC": 5, "NNZ": int(counts.sum())}
    whole = product()
    assert whole.symbols == ("NC", "NNZ", "NR")
    fused = spf.fuse(whole, "zero", "add", 1)
    for each in (whole, fused, spf.parallelise(fused, "add")):
        y = np.full(7, np.nan)
        spf.compile_computation(each)({**arrays, "y": y}, sizes)
        np.testing.assert_allclose(y, dense @ arrays["x"])
    with pytest.raises(IllegalStep, match="flow dependence of add on zero through y"):
        spf.interchange(fused, "add", 1, 2)
    assert "add: {[i,k]" in str(fused)
    assert "y[i] + val[k] * x[int64(col[k])]" in str(fused)
    assert spf.svg_text(spf.dataflow(fused)).startswith("<svg")
    assert "digraph" in spf.dot_text(spf.dataflow(fused))


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("o(i) = a(i) + 1", [2, 3, 4]),
        ("o(i) = a(i)*2.5", [2, 5, 7]),  # into int32: towards zero
        ("o(i) = max(a(i), 2) if a(i) != 3", [2, 2, -1]),
        ("o(i) = i*N - a(i)//2", [0, 2, 5]),
        ("o(i) = a(i) % 2 if a(i) > 1 and i < 2", [-1, 0, -1]),
        ("o(i) = -abs(a(i) - 2)", [-1, 0, -1]),
        ("o(i) max= a(N-1-i)", [3, 2, 1]),
        ("o(i) *= a(i)", [-1, -2, -3]),
        ("o(a(i)-1) = sqrt(f(i))", [1, 2, 3]),
        ("o(i) = s", [4, 4, 4]),
    ],
)
def test_assignments(text: str, right: list[int]) -> None:
    spaces = "in a[N]: int32, in f[N]: float32, in s: int64, inout o[N]: int32"
    made = spf.computation("one", spaces, f"S: {{[i] : 0<=i<N}} at (i): {text}")
    out = np.full(3, -1, np.int32)
    arrays = {
        "a": np.array([1, 2, 3], np.int32),
        "f": np.array([1, 4, 9], np.float32),
        "s": np.array(4),
        "o": out,
    }
    spf.compile_computation(made)(arrays, {"N": 3})
    assert out.tolist() == right


@pytest.mark.parametrize(
    ("spaces", "statements", "said"),
    [
        ("in a[N]", "", "a space is written as"),
        ("in a[N]: int33", "", "a space is written as"),
        ("out a[N]: int32", "S: {[i] : 0<=i<N}: a(i) = 1", "a statement is written as"),
        ("out a[N]: int32", "S: {[i] : 0<=i<N} at (i): a(i)", "assigns nothing"),
        ("out a[N]: int32", "S: {[i] : 0<=i<N} at (i): b(i) = 1", "stores into 'b'"),
        ("out a[N]: int32", "S: {[i] : 0<=i<N} at (i): a(i) = 1 +", "it is no expression"),
        ("out a[N]: int32", "S: {[i] : 0<=i<N} at (i): a(i) = a(i,i)", "has 1 dimensions"),
        ("out a[N]: int32", "S: {[i] : 0<=i<N} at (i): a(i) = f(i)", "neither a space nor"),
        ("out a[N]: int32", "S: {[i] : 0<=i<N} at (i): a(i) = 1 << 2", "not among the operators"),
        ("out a[N]: uint8", "S: {[i] : 0<=i<N} at (i): a(i) = 300", "uint8 does not hold it"),
        ("out a[N]: int32", "S: {[i] : 0<=i<N} at (i): a(i) = 0.5", "int32 does not hold it"),
    ],
)
def test_refusals(spaces: str, statements: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        spf.computation("wrong", spaces, statements)


def test_operators_without_a_meaning_for_their_types() -> None:
    with pytest.raises(UsageError) as told:
        spf.computation("c", "out y[N]: int64", "s: {[i] : 0<=i<N} at (i): y(i) = i/2")
    assert str(told.value) == (
        "statement 's' cannot be read: 'div' does not take int64 "
        "(// is the quotient of whole numbers)\nnote: found i / 2"
    )


def test_an_update_reads_the_element_that_it_writes() -> None:
    text = "s: {[i] : 0<=i<N} at (i): y(floor(i/2)) += x(i)"
    made = spf.computation("c", "in x[N]: float64, inout y[N]: float64", text)
    arrays = {"x": np.arange(1.0, 5.0), "y": np.zeros(4)}
    spf.compile_computation(made)(arrays, {"N": 4})
    assert arrays["y"].tolist() == [3.0, 7.0, 0.0, 0.0]
