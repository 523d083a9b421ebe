"""Functions of loops over arrays do what Python does: contractions of every form, and others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from calls.comparison import assert_as_python, assert_contraction, one_team, whole
from drawn import combined
from frontends.kernels import define

DTYPES = (
    *("float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "complex64", "complex128"),
)
# Order of the loops and body: contractions of all algorithms, whichever way they are written.
FORMS = (
    ("ijk", "C[i, j] += A[i, k] * B[k, j]"),
    ("ij", "y[i] += A[i, j] * x[j]"),
    ("jki", "C[i, j] -= A[i, k] * B[k, j]"),
    ("ij", "y[j] += A[i, j] * x[i]"),
    ("kij", "C[i, j] += abs(A[i, k]) * (B[k, j] * 2 + 1)"),
    ("ij", "C[i, j] += x[i] * y[j]"),
    ("i", "s[()] += x[i] * y[i]"),
    ("tijk", "C[t, i, j] += A[t, i, k] * B[t, k, j]"),
    ("i", "s[()] += x[i]"),
    ("ji", "y[i] += A[i, j]"),
    ("ij", "s[()] += A[i, j]"),
    ("i", "s[()] += A[i, i]"),
    ("ik", "y[i] += A[i, i] * B[k, i]"),
    ("kji", "C[i, j] += A[i, k] * A[j, k]"),
    ("abcdef", "C[a, b, c, d, e] += A[e, f, b, a, d] * B[c, f]"),
)
EXTREMES = (
    ("ikj", "C[i, j] = min(C[i, j], A[i, k] + B[k, j])", "float64"),
    ("ikj", "C[i, j] = max(C[i, j], A[i, k] - B[k, j])", "int64"),
    ("ijk", "C[i, j] = max(C[i, j], min(A[i, k], B[k, j]))", "uint8"),
    ("ij", "y[j] = max(y[j], A[i, j])", "float32"),
    ("ijk", "C[i, j] = C[i, j] | (A[i, k] & B[k, j])", "int16"),
    ("ijk", "C[i, j] = C[i, j] ^ (A[i, k] + B[k, j])", "int16"),
    ("ijk", "C[i, j] |= A[i, k] & B[k, j]", "bool"),
    ("ijk", "C[i, j] += np.int32(A[i, k]) * np.int32(B[k, j])", "int32 int8 int8"),
    ("ikj", "C[i, j] += np.float64(A[i, k]) * B[k, j]", "float64 float32 int16"),
    ("ijk", "C[i, j] += np.conj(A[k, i]) * B[k, j]", "complex128"),
)
SIZES = (7, 11, 13, 3), (1, 7, 3, 1), (0, 3, 4, 2), (3, 0, 4, 2), (2, 4, 0, 1), (2, 1, 2, 0)
LAYOUTS: tuple[Callable[[Any], Any], ...] = (
    lambda a: a,
    lambda a: np.array(a, order="F"),
    lambda a: a[(slice(None, None, -1),) * a.ndim] if a.ndim else a,
    lambda a: np.repeat(a, 2, a.ndim - 1)[..., ::2] if a.ndim else a,
)


def nest(order: str, body: str) -> tuple[Callable[..., Any], dict[str, list[str]]]:
    """`body` inside its loops, and the letters of each dimension of its arrays by name."""
    arrays: dict[str, list[str]] = {}
    for name, subscripts in re.findall(r"\b(\w+)\[([\w, ]*)(?:\(\))?\]", body):
        letters = subscripts.split(", ") if subscripts else []
        arrays[name] = [a + b for a, b in zip(letters, arrays.get(name, letters), strict=True)]
    first = {}
    for name, dimensions in reversed(arrays.items()):
        for k, letters in enumerate(dimensions):
            first.update(dict.fromkeys(letters, f"{name}.shape[{k}]"))
    lines = [f"def f({', '.join(arrays)}):"]
    lines += [f"{'    ' * (d + 1)}for {v} in range({first[v]}):" for d, v in enumerate(order)]
    return define("\n".join([*lines, "    " * (len(order) + 1) + body])), arrays


def arguments(
    order: str, arrays: dict[str, list[str]], sizes: tuple[int, ...], dtype: str
) -> list[Any]:
    extent = {letter: sizes[k % len(sizes)] for k, letter in enumerate(sorted(order))}
    dtypes = dtype.split() * len(arrays)
    return [
        whole(*(max(extent[c] for c in letters) for letters in dimensions), dtype=kind, seed=k)
        for k, (dimensions, kind) in enumerate(zip(arrays.values(), dtypes, strict=False))
    ]


@pytest.mark.drawn(9)
@pytest.mark.parametrize(
    ("form", "sizes", "layout", "dtype"),
    combined(FORMS, SIZES, range(len(LAYOUTS)), DTYPES, one_in=29),
)
def test_contractions(form: Any, sizes: tuple[int, ...], layout: int, dtype: str) -> None:
    order, body = form
    function, arrays = nest(order, body)
    args = [LAYOUTS[layout](a) for a in arguments(order, arrays, sizes, dtype)]
    threads = one_team(order, *sizes, layout)
    assert_as_python(function, *args, threads=threads)
    # Small whole numbers: every order of their sums gives the same.
    assert_contraction(function, *args, threads=threads, reassoc=True)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("order", "body", "dtype"), EXTREMES)
def test_contractions_of_other_operators_and_types(order: str, body: str, dtype: str) -> None:
    function, arrays = nest(order, body)
    args = arguments(order, arrays, (7, 9, 5), dtype)
    assert_contraction(function, *args, threads=one_team(body))


def test_large_terms_cancel_in_source_order() -> None:
    """2^60 swallows small terms that stand before its end, and no others; 0.0 + -0.0 is 0.0."""
    x = np.array([2.0**60, 1.0, -(2.0**60), 1.0, 2.0, 3.0, 4.0, 5.0, 6.0] * 3)
    total, columns = nest("i", "s[()] += x[i]")[0], nest("ij", "y[j] += A[i, j] * x[i]")[0]
    assert_as_python(total, np.array(0.0), x)
    s = np.array(0.0)
    assert_as_python(total, s, np.array([-0.0, -0.0]))(s, np.array([-0.0, -0.0]))
    assert not np.signbit(s)
    moved = np.stack([x, np.roll(x, 1), -x, x + 1.0], axis=1)
    for lying in (moved, np.asfortranarray(moved)):
        assert_as_python(columns, np.zeros(4), lying, np.ones_like(x))


# -- what stands around a product ---------------------------------------------------------------


@pytest.mark.parametrize("terms", [0, 3])
def test_first_value_next_to_the_identity(terms: int) -> None:
    """2^63 - 2 is not the identity of min, though no double tells it from 2^63 - 1."""

    def f(C, A, B):
        for i in range(C.shape[0]):
            for j in range(C.shape[1]):
                s = 9223372036854775806
                for k in range(A.shape[1]):
                    s = min(s, A[i, k] + B[k, j])
                C[i, j] = s

    args = (whole(*s, dtype="int64") for s in ((4, 5), (4, terms), (terms, 5)))
    assert_contraction(f, *args)


# -- no single contraction ----------------------------------------------------------------------
