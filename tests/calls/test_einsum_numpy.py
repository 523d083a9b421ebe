"""The keywords and spellings of numpy.einsum: the same results, dtypes, layouts and views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from drawn import combined
from loopwright.diagnostics import DtypeError, UsageError, WrongTypeError

RANDOM = np.random.default_rng(5)
A, B, C = (RANDOM.integers(-9, 9, shape) * 1.0 for shape in ((4, 5), (5, 6), (6, 3)))
CHAIN = "ij,jk,kl->il"


@pytest.mark.parametrize(
    "optimize",
    [
        None,
        False,
        True,
        "greedy",
        "optimal",
        ("greedy", 10),
        ("optimal", 1e9),
        ["einsum_path", (0, 1), (0, 1)],
        ["einsum_path", (1, 2), (0, 1)],
        ["einsum_path", (2, 0), (1, 0)],
        ["einsum_path", (1,), (0, 1, 2)],
        ["einsum_path", [0, np.int64(1)], (0, 1)],
    ],
)
def test_optimize(optimize: Any) -> None:
    found = lw.einsum(CHAIN, A, B, C, optimize=optimize)
    np.testing.assert_array_equal(found, A @ B @ C)
    if optimize is not None:
        path = np.einsum_path(CHAIN, A, B, C, optimize=optimize or "greedy")[0]
        np.testing.assert_array_equal(lw.einsum(CHAIN, A, B, C, optimize=path), found)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("source", "dtype", "casting"),
    combined(
        ["i1", "u4", "i8", "f2", "f4", "f8"],
        ["f2", "f4", "f8", "c8", "i1", "i8", "u2", "?"],
        ["safe", "same_kind", "unsafe"],
        one_in=7,
    ),
)
def test_dtype_and_casting(source: str, dtype: str, casting: Any) -> None:
    """NumPy refuses or computes; so do we, with the same bits."""
    x = RANDOM.integers(0, 3, (3, 4)).astype(source)
    y = RANDOM.integers(0, 3, (4, 2)).astype("i1")
    try:
        expected = np.einsum("ij,jk->ik", x, y, dtype=dtype, casting=casting)
    except TypeError:
        with pytest.raises(DtypeError):
            lw.einsum("ij,jk->ik", x, y, dtype=dtype, casting=casting)
        return
    found = lw.einsum("ij,jk->ik", x, y, dtype=dtype, casting=casting)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe"])
@pytest.mark.parametrize("out", ["f4", "f8", "i8", ">f8"])
def test_casting_of_out(casting: Any, out: str) -> None:
    place, expected = np.zeros((4, 6), out), np.zeros((4, 6), out)
    try:
        np.einsum("ij,jk->ik", A, B, out=expected, casting=casting)
    except TypeError:
        with pytest.raises(TypeError):
            lw.einsum("ij,jk->ik", A, B, out=place, casting=casting)
    else:
        assert lw.einsum("ij,jk->ik", A, B, out=place, casting=casting) is place
    np.testing.assert_array_equal(place, expected)


@pytest.mark.drawn(4)
@pytest.mark.parametrize(
    ("order", "layouts", "text"),
    combined(
        "CFAcfa", ["CC", "FF", "CF", "FC"], ["ij,jk->ik", "ij,jk->ki", "ij,jk->jik"], one_in=2
    ),
)
def test_memory_order(order: Any, layouts: str, text: str) -> None:
    given = [np.array(x, order=o) for x, o in zip((A, B), layouts, strict=True)]  # type: ignore[call-overload]
    expected = np.einsum(text, *given, order=order)
    for _ in range(2):  # a remembered call of another order must not answer
        found = lw.einsum(text, *given, order=order)
        assert found.flags.c_contiguous == expected.flags.c_contiguous
        assert found.flags.f_contiguous == expected.flags.f_contiguous
        np.testing.assert_array_equal(found, expected)
        assert lw.einsum(text, *given).flags.c_contiguous


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_index_lists(kind: Any) -> None:
    found = lw.einsum(A, kind([0, 1]), B, kind([1, 2]), kind([0, 2]))
    np.testing.assert_array_equal(found, A @ B)
    np.testing.assert_array_equal(lw.einsum(A, [..., 0], B[:, 0], [0]), A @ B[:, 0])
    # Output indices are in the order of the numbers, whichever letters spell them.
    np.testing.assert_array_equal(lw.einsum(A, [30, 1], B, [1, 2]), np.einsum("zi,ij->jz", A, B))
    np.testing.assert_array_equal(lw.einsum(A, [25, 26]), A)
    np.testing.assert_array_equal(lw.einsum(b"ij->i", A), A.sum(1))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), ValueError),
        ((A,), ValueError),
        ((0, 0), TypeError),
        ((None,) * 63, TypeError),
        ((A, [0, "x"]), TypeError),
        ((A, np.array([0.0, 1.0])), TypeError),
        ((A, [0, -1]), ValueError),
    ],
)
def test_errors_have_numpys_types(arguments: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        lw.einsum(*arguments)
    assert isinstance(caught.value, UsageError)
    assert isinstance(caught.value, WrongTypeError) == (error is TypeError)
