"""Einsum's order of operands, keywords, spellings and logs: NumPy's, and where ours differ."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from drawn import combined
from einsum_oracle import oracle
from loopwright import options
from loopwright.calls.einsum_path import Order, order_of
from loopwright.diagnostics import DtypeError, UsageError, WrongTypeError
from loopwright.frontends.einsum_syntax import parse_subscripts
from loopwright.ir.dtypes import dtype_of
from loopwright.runtime.kernel import BoundKernel
from loopwright.semirings import make_semiring, maximum, semiring
from no_kernels import forget_kernels


def order(text: str, *arrays: np.ndarray, ring: str = "max_times") -> Order:
    names = parse_subscripts(text, tuple(a.ndim for a in arrays))
    return order_of(names, arrays, semiring(ring), dtype_of(arrays[0].dtype))


def steps(found: Order) -> list[str]:
    return [step.names.text for step in found.steps]


def ones(*shapes: tuple[int, ...], dtype: str = "float64") -> list[np.ndarray]:
    return [np.ones(shape, dtype) for shape in shapes]


def test_numbers_decide() -> None:
    chain = ones((3, 4), (4, 5), (5, 2))
    chain[1][2, 3] = -1
    found = order("ij,jk,kl->il", *chain)
    assert steps(found) == ["kl,jk->klj", "ij,klj->il"]
    assert found.reason == (
        "times of semiring 'max_times' does not distribute over plus for these numbers of float64"
    )
    large = [np.full((2, 2), 100, "int8") for _ in range(3)]
    assert not order("ij,jk,kl->il", *large, ring="min_plus").reason
    large[1][0, 0] = -1
    found = order("ij,jk,kl->il", *large, ring="min_plus")
    assert found.reason == (
        "times of semiring 'min_plus' is not associative for these numbers of int8"
    )
    assert steps(found) == ["ij,jk->ijk", "ijk,kl->il"]
    assert not order("ij,jk,kl->il", *(a // 3 for a in large), ring="min_plus").reason
    assert not order("ij,jk,kl->il", *large, ring="plus_times").reason


def test_negative_zeros_and_infinities_decide() -> None:
    chain = ones((2, 2), (2, 2), (2, 2))
    chain[0][0, 0] = 0.0
    assert not order("ij,jk,kl->il", *chain).reason
    chain[0][0, 0] = -0.0
    assert order("ij,jk,kl->il", *chain).reason
    chain[0][0, 0] = np.nan
    assert not order("ij,jk,kl->il", *chain).reason
    chain[0][0, 0] = np.inf
    assert not order("ij,jk,kl->il", *chain, ring="min_plus").reason
    chain[1][0, 0] = -np.inf
    assert order("ij,jk,kl->il", *chain, ring="min_plus").reason


def test_parting_keeps_results_small() -> None:
    """Each side is multiplied out: the one with a large union would be the wrong one."""
    arrays = ones((20, 30), (2, 40), (30, 2), dtype="int8")
    arrays[0][0, 0] = -1
    assert steps(order("ij,kl,jk->il", *arrays)) == ["jk,ij->jki", "jki,kl->il"]
    four = ones((9, 8), (8, 7), (7, 9), (9, 8), dtype="int8")
    four[0][0, 0] = -1
    found = order("ij,jk,kl,lm->im", *four)
    assert {"".join(sorted(step.names.out)) for step in found.steps} == {"ijk", "klm", "im"}


def test_unknown_operators_keep_their_order() -> None:
    """Neither distributivity nor associativity of times is used, nor that it commutes."""
    ring = make_semiring("halves", maximum, lambda x, y: x * 0.5 - y, -np.inf, 0, check=False)
    names = parse_subscripts("i,ij,jk,k->", (1, 2, 2, 1))
    random = np.random.default_rng(1)
    arrays = tuple(random.integers(-8, 8, shape) * 1.0 for shape in ((3,), (3, 4), (4, 2), (2,)))
    found = order_of(names, arrays, ring, dtype_of("float64"))
    assert steps(found) == ["i,ij->ij", "ij,jk->ijk", "ijk,k->"]
    assert found.reason == "times of semiring 'halves' is not known to distribute over plus"
    a, b, c, d = arrays
    product = ((a[:, None, None] * 0.5 - b[:, :, None]) * 0.5 - c) * 0.5 - d
    assert lw.einsum("i,ij,jk,k->", *arrays, semiring=ring) == product.max()


# -- the report --------------------------------------------------------------------------------


def test_reports_of_few_and_empty_operands() -> None:
    path, text = lw.einsum_path("ij->i", np.ones((3, 4)))
    assert path == ["einsum_path", (0,)]
    assert "ij->i" in text
    path, text = lw.einsum_path("ij,jk->ik", np.ones((3, 4)), np.ones((4, 5)))
    assert path == ["einsum_path", (0, 1)]
    path, text = lw.einsum_path("ij,jk,k->i", np.ones((3, 0)), np.ones((0, 5)), np.ones(5))
    assert "total: 0.000e+00 operations" in text
    with pytest.raises(UsageError, match="at least one operand"):
        lw.einsum_path("")
    with pytest.raises(DtypeError, match="does not take float64"):
        lw.einsum_path("i,i->", np.ones(2), np.ones(2), semiring="or_and")
    with pytest.raises(UsageError, match="index 'i' has two sizes"):
        lw.einsum_path("i,i->", np.ones(2), np.ones(3))


def test_many_operands_are_parted_in_a_row() -> None:
    vectors = [np.full(2, -1.0)] * 12
    text = ",".join("abcdefghijkl") + "->"
    found = order(text, *vectors)
    assert max(len(step.names.out) for step in found.steps) == 6
    assert lw.einsum(text, *vectors, semiring="max_times") == 1.0


def test_reports_of_blocks() -> None:
    large = -np.ones((200, 200))
    text = lw.einsum_path("ij,jk,kl->il", large, large, large, semiring="max_times")[1]
    assert text.splitlines()[-1] == (
        "note: in blocks of index 'j', so that the 8,000,000 elements of a result between are "
        "never there at once, but 1,048,576 at most"
    )


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


@pytest.fixture
def no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code raises an exception."""

    def refuse(*_: object) -> None:
        raise AssertionError("compiled code has run")

    monkeypatch.setattr(BoundKernel, "__call__", refuse)
    monkeypatch.setattr(BoundKernel, "quick", lambda *_: refuse)


CALLS = [
    ("ij,jk->ik", (2, 3), (3, 2)),
    ("ij->j", (2, 3)),
    ("ii,i->", (3, 3), (3,)),
    (",->", (), ()),
    ("ij,jk,kl->li", (2, 3), (3, 1), (2, 2)),
    ("ij,jk,k->i", (2, 0), (0, 3), (3,)),
]


@pytest.mark.usefixtures("no_kernels")
@pytest.mark.parametrize("case", CALLS, ids=lambda case: case[0])
@pytest.mark.parametrize(("semiring", "dtype"), [("max_times", "int8"), ("plus_times", "float16")])
def test_the_oracle_runs_instead(case: Any, semiring: str, dtype: str) -> None:
    text, *shapes = case
    random = np.random.default_rng(3)
    arrays = [np.asarray(random.integers(-9, 9, shape)).astype(dtype) for shape in shapes]
    expected = oracle(text, *arrays, semiring=semiring)
    with options.override(interpret=True):
        for _ in range(2):
            found = lw.einsum(text, *arrays, semiring=semiring)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
        out = np.ones(expected.shape, dtype)
        assert lw.einsum(text, *arrays, semiring=semiring, out=out, accumulate=True) is out
    plus = np.maximum if semiring == "max_times" else np.add
    np.testing.assert_array_equal(out, plus(expected, np.ones((), dtype)))


# -- logs --------------------------------------------------------------------------------------


@pytest.fixture
def new(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Nothing in memory, nothing on disk."""
    forget_kernels(monkeypatch)
    monkeypatch.setattr("loopwright.calls.einsum_contraction._launches", {})
    monkeypatch.setattr("loopwright.calls.einsum._ready", {})


@pytest.mark.usefixtures("new")
def test_logs_of_a_call(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    a = np.ones((4, 5))
    with (
        caplog.at_level(logging.INFO, "loopwright"),
        options.override(log=("cache", "plan", "time"), cache_dir=str(tmp_path / "cache")),
    ):
        lw.einsum("ij,kj->ik", a, a, semiring="max_plus", threads=1)
        told = [record.getMessage() for record in caplog.records]
        assert [text.split(" ")[0] for text in told] == ["plan:", "cache:", "time:"]
        assert told[0].startswith(
            "plan: einsum 'ij,kj->ik': contraction of 1 x (4 x 5) by (5 x 4): "
        )
        assert told[1].startswith("cache: miss, product kernel of max over add in float64, ")
        assert told[2].startswith("time: product kernel of max over add in float64: compiled in ")
        caplog.clear()
        forget_kernels(monkeypatch)
        lw.einsum("ij,kj->ik", a, a[:3], semiring="max_plus", threads=1)
        assert "cache: hit, product kernel of max over add in float64" in caplog.text
        assert "time:" not in caplog.text
