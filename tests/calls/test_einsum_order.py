"""The order in which three and more operands meet, and what einsum_path tells of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from drawn import combined
from einsum_oracle import oracle
from loopwright.calls import einsum_path
from loopwright.calls.einsum_path import Order, order_of
from loopwright.diagnostics import DtypeError, UsageError
from loopwright.frontends.einsum_syntax import parse_subscripts
from loopwright.ir.dtypes import dtype_of
from loopwright.semirings import make_semiring, maximum, semiring


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


# -- blocks ----------------------------------------------------------------------------------------

CASES = [
    ("ij,jk,kl->il", (3, 4), (4, 5), (5, 2)),
    ("ij,jk,kl,lm->mi", (3, 2), (2, 3), (3, 2), (2, 3)),
    ("i,j,k->ijk", (3,), (4,), (5,)),
    ("ij,ij,jk->", (3, 4), (3, 1), (4, 2)),
    ("ii,ij,j->i", (3, 3), (3, 4), (4,)),
    (",i,ij->j", (), (3,), (3, 4)),
]


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("case", "limit"), combined(CASES, [("int8", 1), ("int8", 20), ("float16", 3)], one_in=2)
)
def test_blocks(case: Any, limit: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    dtype, most = limit
    monkeypatch.setattr(einsum_path, "MOST_ELEMENTS", most)
    text, *shapes = case
    random = np.random.default_rng(2)
    arrays = [np.asarray(random.integers(-5, 5, shape)).astype(dtype) for shape in shapes]
    arrays[-1].flat[0] = -3
    expected = oracle(text, *arrays, semiring="max_times")
    np.testing.assert_array_equal(lw.einsum(text, *arrays, semiring="max_times"), expected)
    out = np.full(expected.shape, 7, dtype)
    lw.einsum(text, *arrays, semiring="max_times", out=out, accumulate=True)
    np.testing.assert_array_equal(out, np.maximum(expected, 7))


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
