"""The keywords and spellings of numpy.einsum: the same results, dtypes, layouts and views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from drawn import combined
from loopwright.calls import einsum_path
from loopwright.diagnostics import DtypeError, PathError, UsageError, WrongTypeError

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


def test_a_path_is_followed() -> None:
    path = ["einsum_path", (1, 2), (0, 1)]
    assert lw.einsum_path(CHAIN, A, B, C, optimize=path)[0] == path
    assert lw.einsum_path(CHAIN, A, B, C, optimize="optimal")[0] == ["einsum_path", (1, 2), (0, 1)]


def test_paths_do_not_matter_where_order_does() -> None:
    """Times that does not distribute, for these numbers: any path gives the same."""
    given = [RANDOM.integers(-3, 3, (3, 3)) * 1.0 for _ in range(3)]
    expected = lw.einsum(CHAIN, *given, semiring="max_times")
    path = ["einsum_path", (1, 2), (0, 1)]
    found = lw.einsum(CHAIN, *given, semiring="max_times", optimize=path)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("scaling", "dtype"),
    combined([{}, {"accumulate": True}, {"alpha": 3, "beta": 2}], ["f2", "f4", "f8"], one_in=2),
)
def test_a_limit_on_intermediate_results(
    scaling: dict[str, Any], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks give the same sums, scaled once, also where out is narrower than the sums."""
    monkeypatch.setattr(einsum_path, "MOST_ELEMENTS", 7)
    given = [x.astype(dtype) for x in (A, B, C)]
    outs = np.ones((2, 4, 3), dtype)
    lw.einsum(CHAIN, *given, out=outs[0], **scaling)
    lw.einsum(CHAIN, *given, out=outs[1], optimize=("greedy", 5), **scaling)
    np.testing.assert_array_equal(outs[0], outs[1])


@pytest.mark.parametrize("error", [RuntimeError, PathError, UsageError, ValueError])
def test_wrong_paths_are_errors_of_numpy_and_of_ours(error: type[Exception]) -> None:
    with pytest.raises(error):
        lw.einsum(CHAIN, A, B, C, optimize=["einsum_path", (0, 1)])


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


def test_objects_become_numbers_where_asked() -> None:
    objects = np.arange(9, dtype=object)
    found = lw.einsum("i->", objects, dtype="f4", casting="unsafe")
    assert found == 36
    assert found.dtype == np.float32


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


@pytest.mark.parametrize("text", ["ij,jk->ik", "ij,jk->ki"])
def test_out_may_overlap_an_operand(text: str) -> None:
    x, y = RANDOM.integers(-9, 9, (2, 6, 6))
    expected = np.einsum(text, x, y)
    for place in (0, 1):
        given = [x.copy(), y.copy()]
        for _ in range(2):  # remembered or not
            given[place][...] = (x, y)[place]
            assert lw.einsum(text, *given, out=given[place]) is given[place]
            np.testing.assert_array_equal(given[place], expected)


def test_accumulation_into_an_operand() -> None:
    x, y = RANDOM.integers(-9, 9, (2, 5, 5)) * 1.0
    expected = 2 * x + 3 * (x @ y)
    lw.einsum("ij,jk->ik", x, y, out=x, alpha=3, beta=2)
    np.testing.assert_array_equal(x, expected)


def test_out_that_is_not_aligned() -> None:
    place = np.zeros(4 * 6 * 8 + 1, np.uint8)[1:].view(float).reshape(4, 6)
    assert lw.einsum("ij,jk->ik", A, B, out=place) is place
    np.testing.assert_array_equal(place, A @ B)


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


@pytest.mark.drawn(3)
@pytest.mark.parametrize("text", ["ij", "ji", "ii->i", "...", "...i->i..."])
@pytest.mark.parametrize("dtype", ["f8", "i2", ">f4", "U3", object])
def test_views(text: str, dtype: Any) -> None:
    """Nothing is summed: a view of the operand itself, writeable where that one is."""
    array = np.zeros((3, 3), dtype)
    for keywords in ({}, {"order": "C"}, {"optimize": "optimal"}, {"dtype": dtype}):
        found = lw.einsum(text, array, **keywords)
        assert np.shares_memory(found, array)
        assert found.flags.writeable
        assert found.base is array
        assert found.strides == np.einsum(text, array).strides
    array.flags.writeable = False
    assert not lw.einsum(text, array).flags.writeable


def test_a_view_of_what_is_not_aligned() -> None:
    array = np.zeros(73, np.uint8)[1:].view(float).reshape(3, 3)
    lw.einsum("ii->i", array)[...] = 1
    np.testing.assert_array_equal(array, np.eye(3))


def test_another_dtype_is_no_view() -> None:
    array = np.arange(6).reshape(2, 3)
    found = lw.einsum("ij->ji", array, dtype=float)
    assert found.dtype == float
    assert not np.shares_memory(found, array)
    np.testing.assert_array_equal(found, array.T)
