"""Contractions in Python sources: the front end and the recogniser together."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from loopwright.analysis.find_contractions import find_contractions
from loopwright.frontends.extract import extract
from loopwright.frontends.python import argument_types, parse_function
from loopwright.ir.contraction import Contraction
from loopwright.ir.program import Program
from loopwright.ir.text import expr_text
from programs import ORDERS

RANGES = {"i": "C.shape[0]", "j": "C.shape[1]", "k": "A.shape[1]"}
SIZES = (3, 5, 4)


def function(path: Path, source: str) -> Callable[..., object]:
    """The function `kernel` of a module with the given text."""
    file = path / "kernels.py"
    file.write_text(f"import numpy as np\n\n\n{source}", encoding="utf-8")
    spec = importlib.util.spec_from_file_location("kernels", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., object] = module.kernel
    return found


def read(path: Path, source: str, dtype: str = "float64", *more: float) -> Program:
    n, m, q = SIZES
    arrays = [np.zeros(shape, dtype) for shape in ((n, q), (q, m), (n, m))]
    kernel = function(path, source)
    return extract(parse_function(kernel, argument_types([*arrays, *more])))


def only(known: Program) -> Contraction:
    (found,) = find_contractions(known)
    return found


def names(found: Contraction) -> list[str]:
    bundles = (found.batch, found.i, found.j, found.p)
    return ["".join(loop.name[0] for loop in bundle) for bundle in bundles]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "complex64"])
def test_every_loop_order(tmp_path: Path, order: str, dtype: str) -> None:
    lines = ["def kernel(A, B, C):"]
    for depth, loop in enumerate(order, 1):
        lines.append(f"{'    ' * depth}for {loop} in range({RANGES[loop]}):")
    lines.append(f"{'    ' * 4}C[i, j] += A[i, k] * B[k, j]")
    found = only(read(tmp_path, "\n".join(lines), dtype))
    assert names(found) == ["", "i", "j", "k"]
    assert (found.plus, found.times, found.dtype.name) == ("add", "mul", dtype)
    assert expr_text(found.initial) == "C[i, j]"
    assert found.reassoc is (dtype == "int8")


SCALAR = """
def kernel(A, B, C):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            s = 0.0
            for k in range(A.shape[1]):
                s += A[i, k] * B[k, j]
            C[i, j] = s
"""
APART = """
def kernel(A, B, C):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            C[i, j] = 0
    for k in range(A.shape[1]):
        for i in range(C.shape[0]):
            for j in range(C.shape[1]):
                C[i, j] = A[i, k] * B[k, j] + C[i, j]
"""
HOISTED = """
def kernel(A, B, C):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            C[i, j] = 0.0
        for k in range(A.shape[1]):
            a = A[i, k]
            for j in range(C.shape[1]):
                C[i, j] += a * B[k, j]
"""
RETURNED = """
def kernel(A, B, C):
    R = np.zeros((A.shape[0], B.shape[1]))
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            for k in range(A.shape[1]):
                R[i, j] += A[i, k] * B[k, j]
    return R
"""


@pytest.mark.parametrize("source", [SCALAR, APART, HOISTED, RETURNED])
def test_spellings_of_one_product(tmp_path: Path, source: str) -> None:
    known = read(tmp_path, source)
    found = only(known)
    assert sorted(found.covers) == sorted(statement.name for statement in known.statements)
    assert names(found) == ["", "i", "j", "k"]
    assert expr_text(found.initial) == "0.0"
    assert expr_text(found.final) == "accumulator"


GEMM = """
def kernel(A, B, C, alpha, beta):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            C[i, j] *= beta
            for k in range(A.shape[1]):
                C[i, j] += alpha * A[i, k] * B[k, j]
            C[i, j] = max(C[i, j], 0.0)
"""


def test_scaled_product(tmp_path: Path) -> None:
    found = only(read(tmp_path, GEMM, "float64", 2.0, 3.0))
    assert expr_text(found.left.value) == "alpha[] * A[i, k]"
    assert expr_text(found.initial) == "C[i, j] * beta[]"
    assert expr_text(found.final) == "max(accumulator, 0.0)"
