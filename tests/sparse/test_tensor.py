"""The tensor itself: views, text, picture, equality; the names of lw.sparse."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import loopwright as lw
from loopwright.diagnostics import UsageError
from loopwright.sparse.convert_tensor import convert
from loopwright.sparse.tensor import from_dense, same
from sparse_builders import build, of_dense


def test_text() -> None:
    tensor = of_dense("csr", np.eye(3))
    assert repr(tensor) == "<SparseTensor csr, 3 x 3, float64, 3 stored, 52 B, density 0.33>"
    padded = of_dense("dia", np.eye(3))
    assert repr(padded) == "<SparseTensor dia, 3 x 3, float64, 3 places, 28 B, density 0.33>"
    empty = of_dense("coo", np.zeros((0, 5)))
    assert repr(empty) == "<SparseTensor coo, 0 x 5, float64, 0 stored, 0 B>"
    assert "1.1 KiB" in repr(of_dense("coo", np.eye(70)))


@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (5,), (2, 3, 4), (200, 300)])
def test_picture(shape: tuple[int, ...]) -> None:
    array = np.zeros(shape)
    array.flat[:: max(array.size // 5, 1)] = 1
    text = of_dense("coo", array)._repr_html_()
    assert text.count("<svg") == text.count("</svg>") == 1
    assert "coo" in text
    assert "script" not in text
    assert len(text) < 20_000


def test_same_compares_bits() -> None:
    zero, minus = (build("coo", (1, 1), [((0, 0), v)]) for v in (0.0, -0.0))
    assert same(zero, zero)
    assert not same(zero, minus)
    nan = build("coo", (1, 1), [((0, 0), np.nan)])
    assert same(nan, nan)
    assert not same(zero, of_dense("coo", np.zeros((1, 1))))
    assert not same(of_dense("csr", np.eye(2)), of_dense("csc", np.eye(2)))


def test_dense_array_that_does_not_fit() -> None:
    tensor = build("coo", (1 << 40, 1 << 40), [((5, 6), 1.0)])
    with pytest.raises(UsageError, match="does not fit into memory"):
        tensor.to_dense()
    assert tensor.check().nnz == 1


def test_copies_and_pickles() -> None:
    for tensor in (from_dense(np.eye(3)), convert(np.eye(3), "sell")):
        for again in (pickle.loads(pickle.dumps(tensor)), copy.deepcopy(tensor)):
            assert same(again, tensor)
            assert not np.shares_memory(again.values, tensor.values)
        assert copy.copy(tensor).values is tensor.values
        with pytest.raises(TypeError):
            tensor.symbols["NR"] = 5  # type: ignore[index]


def test_numpy_takes_no_tensor_for_an_array() -> None:
    tensor = of_dense("csr", np.eye(3))
    with pytest.raises(UsageError, match=r"the csr tensor is no dense array\n.*to_dense"):
        np.asarray(tensor)
    with pytest.raises(UsageError, match="operand 1 is sparse"):
        lw.einsum("ij,j->i", tensor, np.ones(3))
    with pytest.raises(TypeError):
        np.ones((3, 3)) * tensor


def test_every_name_is_there() -> None:
    names = lw.sparse.__all__
    assert sorted(set(names)) == sorted(names)
    assert [name for name in names if not hasattr(lw.sparse, name)] == []
    assert set(names) <= set(dir(lw.sparse))


def test_the_package_is_light() -> None:
    program = "import sys, loopwright; loopwright.sparse; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert loaded & {"islpy", "llvmlite", "scipy", "z3", "matplotlib"} == set()
    assert "loopwright.sparse.convert_tensor" not in loaded
