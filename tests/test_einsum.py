"""`einsum`: what the campaign of random einsums (`outside/campaigns/einsums.py`) does not draw.

That is NumPy's grammar beyond letters, NaN, factors, types of sums, and sizes of several blocks.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

import loopwright as lw
from einsum_oracle import oracle
from loopwright.semirings import make_semiring, maximum


def numbers(*shape: int, dtype: object = "float64", seed: int = 0) -> np.ndarray:
    """Small whole numbers: sums of their products are exact in every dtype."""
    kind = np.dtype(dtype).kind
    random = np.random.default_rng(seed)
    found = random.integers(0 if kind in "ub" else -4, 2 if kind == "b" else 5, shape)
    if kind == "c":
        found = found + 1j * random.integers(-4, 5, shape)
    return found.astype(dtype)


def assert_equal(found: object, expected: np.ndarray) -> None:
    assert np.shape(found) == expected.shape
    assert found.dtype == expected.dtype  # type: ignore[attr-defined]
    np.testing.assert_array_equal(found, expected)


# -- the grammar -----------------------------------------------------------------------------------

GRAMMAR = [
    ("ba,cb", (3, 4), (5, 3)),
    (" i j , j k -> i k ", (3, 4), (4, 5)),
    ("i,i->i", (5,), (5,)),
    ("ii->i", (4, 4)),
    ("iji->ij", (3, 4, 3)),
    ("ijji->", (3, 4, 4, 3)),
    ("ij->", (3, 4)),
    (",->", (), ()),
    ("i,->i", (4,), ()),
    ("", ()),
    ("...->...", (2, 3)),
    ("i...->...i", (2, 3, 4)),
    ("...ij,...jk", (2, 1, 3, 4), (6, 4, 5)),
    ("ij...,jk...->ik...", (3, 4, 2), (4, 5, 2)),
    ("...,...->...", (2, 1, 3), (4, 1)),
    ("...a->...", (2, 3, 4)),
    ("ij,jk->ik", (3, 1), (4, 5)),
    ("i,i,i->i", (4,), (4,), (4,)),
    ("a,ab,abc->abc", (2,), (2, 3), (2, 3, 4)),
    ("ea,fb,abcd,gc,hd->efgh", (2, 3), (2, 3), (3, 3, 3, 3), (2, 3), (2, 3)),
    ("Aa,aB->AB", (3, 4), (4, 2)),
]  # fmt: skip


@pytest.mark.drawn(4)
@pytest.mark.parametrize("case", GRAMMAR, ids=lambda case: f"{case[0]} {case[1:]}")
def test_grammar(case: tuple[str, ...]) -> None:
    text, *shapes = case
    arrays = [numbers(*shape, seed=k) for k, shape in enumerate(shapes)]
    found = lw.einsum(text, *arrays)
    expected = np.einsum(text, *arrays)
    assert_equal(found, np.asarray(expected))
    assert isinstance(found, np.ndarray) == isinstance(expected, np.ndarray)
    # The same once more: now the launch is remembered.
    assert_equal(lw.einsum(text, *arrays), np.asarray(expected))


@pytest.mark.parametrize(
    "sublists",
    [
        lambda a, b: (a, [0, 1], b, [1, 2], [0, 2]),
        lambda a, b: (a, [0, 1], b, [1, 2]),
        lambda a, b: (a, [3, 51], b, [51, 0], [0, 3]),
        lambda a, b: (a, (0, 1), b, (1, 2), ()),
        lambda a, b: (a, [Ellipsis, 1], b, [1, 2], [Ellipsis, 2]),
        lambda a, b: (a, [0, 1], [0]),
    ],
)
def test_index_lists(sublists: object) -> None:
    arguments = sublists(numbers(3, 4), numbers(4, 5))  # type: ignore[operator]
    assert_equal(lw.einsum(*arguments), np.asarray(np.einsum(*arguments)))


@pytest.mark.parametrize("operand", [2, 2.5, 1j, True, [1, 2, 3], (1.5, 2), [[1, 2], [3, 4]]])
def test_operands_that_are_no_arrays(operand: object) -> None:
    text = "...->..."
    assert_equal(lw.einsum(text, operand), np.asarray(np.einsum(text, np.asarray(operand))))
    assert_equal(lw.einsum("...,...", operand, 3), np.asarray(np.einsum("...,...", operand, 3)))


@pytest.mark.parametrize("text", ["ij->ji", "ii->i", "ij->ij", "iij->ji", "...->..."])
def test_what_moves_no_number_is_a_view(text: str) -> None:
    a = numbers(3, 3, 3) if "iij" in text else numbers(3, 3)
    found = lw.einsum(text, a)
    assert np.shares_memory(found, a)
    assert found.flags.writeable
    assert found.strides == np.einsum(text, a).strides


# -- dtypes and semirings --------------------------------------------------------------------------


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("semiring", "dtype"),
    [
        ("min_plus", "float32"),
        ("max_plus", "float64"),
        ("min_max", "float32"),
        ("max_min", "float64"),
        ("max_times", "float32"),
    ],
)
def test_numbers_that_are_none(semiring: str, dtype: str) -> None:
    """NaN and infinities take part; -0.0 is less than 0.0; all bits are those of the meaning."""
    odd = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.5], dtype)
    a = odd[np.random.default_rng(3).integers(0, 8, (9, 6))]
    b = odd[np.random.default_rng(4).integers(0, 8, (6, 7))]
    found = lw.einsum("ij,jk->ik", a, b, semiring=semiring)
    expected = oracle("ij,jk->ik", a, b, semiring=semiring)
    np.testing.assert_array_equal(found, expected)
    sums = lw.einsum("ij->i", a, semiring=semiring)
    np.testing.assert_array_equal(sums, oracle("ij->i", a, semiring=semiring))


def test_signed_zeros_do_not_depend_on_the_order() -> None:
    zeros = np.array([0.0, -0.0] * 9)
    for a in (zeros, zeros[::-1], zeros[1:]):
        assert np.signbit(lw.einsum("i->", a, semiring="min_plus"))
        assert not np.signbit(lw.einsum("i->", a, semiring="max_plus"))


def test_a_semiring_of_ones_own() -> None:
    """Operators as functions of two numbers."""
    ring = make_semiring("own", lambda x, y: maximum(y, x), lambda x, y: y + x, -np.inf, 0.0)
    a, b = numbers(4, 5), numbers(5, 6, seed=1)
    found = lw.einsum("ij,jk->ik", a, b, semiring=ring)
    assert_equal(found, oracle("ij,jk->ik", a, b, semiring="max_plus"))
    assert_equal(lw.einsum("ij,jk->ik", a, b, semiring=ring), found)


def test_float16_is_summed_in_float32() -> None:
    a = np.full(5000, 0.5, np.float16)
    assert lw.einsum("i->", a) == np.float16(2500)
    b = np.full((2, 3000), 1, np.float16)
    assert lw.einsum("ij,kj->ik", b, b).tolist() == [[3000, 3000], [3000, 3000]]
    chain = [np.full((1, 300), 16, np.float16), np.full((300, 2), 16, np.float16)]
    last = np.full((2, 1), 2.0**-10, np.float16)
    assert lw.einsum("ij,jk,kl->il", *chain, last).tolist() == [[150]]


# -- layouts ---------------------------------------------------------------------------------------


def test_an_empty_reduction_among_several_operands() -> None:
    empty, c = np.zeros(0, np.int32), np.arange(3, dtype=np.int32)
    for text, arrays in (("i,i,k->k", (empty, empty, c)), ("k,i,i->k", (c, empty, empty))):
        found = lw.einsum(text, *arrays, semiring="min_plus")
        assert_equal(found, oracle(text, *arrays, semiring="min_plus"))


def test_calls_from_four_threads() -> None:
    results: list[bool] = []

    def work(seed: int) -> None:
        for k in range(15):
            a, b = numbers(9, 8, seed=seed + k), numbers(8, 7, seed=k)
            c = numbers(8, dtype="int32", seed=k)
            same = np.array_equal(lw.einsum("ij,jk->ik", a, b, threads=2), a @ b)
            results.append(same and lw.einsum("i,i->", c, c) == c @ c)

    callers = [threading.Thread(target=work, args=(10 * k,)) for k in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert results == [True] * 60


# -- out, accumulate, alpha, beta, accum_dtype -----------------------------------------------------


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("ij,jk->ik", "float64"),
        ("ij,jk->i", "int32"),
        ("ij,j->j", "complex128"),
        ("i,ij->j", "float32"),
        ("ij,jk->", "float32"),
        ("ij,j->ij", "int16"),
    ],
)
def test_alpha_and_beta(text: str, dtype: str) -> None:
    left, right = text.split("->")[0].split(",")
    sizes = {"i": 5, "j": 6, "k": 7}
    a, b = (numbers(*(sizes[c] for c in term), dtype=dtype, seed=3) for term in (left, right))
    product = oracle(text, a, b)
    start = numbers(*product.shape, dtype=dtype, seed=2)
    for alpha, beta in ((1, 0), (1, 1), (3, 1), (2, -1), (0, 1), (-1, 0)):
        out = np.array(start)
        found = lw.einsum(text, a, b, out=out, alpha=alpha, beta=beta)
        assert found is out
        np.testing.assert_array_equal(out, alpha * product + beta * start)
    out = np.array(start)
    lw.einsum(text, a, b, out=out, accumulate=True)
    lw.einsum(text, a, b, out=out, accumulate=True)
    np.testing.assert_array_equal(out, start + 2 * product)
    assert_equal(np.asarray(lw.einsum(text, a, b, alpha=5)), np.asarray(5 * product, dtype))


@pytest.mark.parametrize("text", ["ij->i", "ij->j", "ij->", "ij->ji", "ii->i"])
def test_alpha_of_one_operand(text: str) -> None:
    a = numbers(6, 6, dtype="int32")
    product = oracle(text, a)
    assert_equal(np.asarray(lw.einsum(text, a, alpha=3)), np.asarray(3 * product, "int32"))
    out = np.array(product)
    lw.einsum(text, a, out=out, alpha=2, beta=4)
    np.testing.assert_array_equal(out, 6 * product)


def test_alpha_of_narrow_operands() -> None:
    """Factors are applied in the type of the sums, not in that of the operands."""
    a = np.full((3, 4), 100, np.int8)
    for text in ("ij,jk->ik", "ij,jk->i", "ij,jk->ijk"):
        expected = 1000 * oracle(text, a, a.T, dtype="int32")
        assert_equal(lw.einsum(text, a, a.T, alpha=1000, accum_dtype="int32"), expected)
    h = np.full((3, 4), 200, np.float16)
    found = lw.einsum("ij,kj->ik", h, h, alpha=2.0**-10)
    assert_equal(found, np.full((3, 3), 156.25, np.float16))


def test_beta_of_nothing() -> None:
    """Beta scales what is there even when there is nothing to add; a beta of 0 never reads it."""
    empty = np.zeros((3, 0)), np.zeros((0, 4))
    out = np.ones((3, 4))
    lw.einsum("ij,jk->ik", *empty, out=out, beta=2.5)
    lw.einsum("ij,jk->ik", *empty, out=out, beta=1)
    assert np.all(out == 2.5)
    lw.einsum("ij,jk->ik", *empty, out=out)
    assert np.all(out == 0)
    for beta in (0, 0.0, False, np.float32(0), np.array(0)):
        out = np.full((3, 4), np.nan)
        lw.einsum("ij,jk->ik", np.ones((3, 2)), np.ones((2, 4)), out=out, beta=beta)
        assert np.all(out == 2)


@pytest.mark.parametrize("one", [1, 1.0, True, np.float32(1), np.int8(1), np.array(1)])
def test_factors_of_one_in_any_spelling(one: object) -> None:
    a = numbers(4, 5, dtype="int32")
    out = np.ones(4, "int32")
    lw.einsum("ij->i", a, out=out, alpha=one, beta=one)
    np.testing.assert_array_equal(out, a.sum(axis=1) + 1)


@pytest.mark.drawn(4)
@pytest.mark.parametrize(
    ("dtype", "wide"),
    [
        ("int8", "int32"),
        ("uint8", "uint64"),
        ("float16", "float64"),
        ("int8", "float32"),
        ("float32", "complex128"),
        ("bool", "int64"),
        ("float64", "float32"),
        ("float16", "float16"),
    ],
)
def test_accum_dtype(dtype: str, wide: str) -> None:
    a, b, c = numbers(6, 40, dtype=dtype), numbers(40, 9, dtype=dtype), numbers(9, dtype=dtype)
    assert_equal(
        lw.einsum("ij,kj->k", a, a, accum_dtype=wide), oracle("ij,kj->k", a, a, dtype=wide)
    )
    found = lw.einsum("ij,jk,k->i", a, b, c, accum_dtype=wide)
    assert_equal(found, oracle("ij,jk,k->i", a, b, c, dtype=wide))


@pytest.mark.drawn(5)
@pytest.mark.parametrize(("m", "k", "n"), [(70, 133, 65), (15, 3, 33)])
@pytest.mark.parametrize(
    "types",
    [
        ("int8", "int8"),
        ("uint8", "uint8"),
        ("int16", "int16"),
        ("uint8", "int8"),
        ("int8", "int16"),
    ],
    ids="-".join,
)
def test_narrow_integers_of_their_whole_range(
    types: tuple[str, str], m: int, k: int, n: int
) -> None:
    """Sums of 32 bits wrap, also those of products by instructions that add several at once."""
    random = np.random.default_rng(11)
    a, b = (
        random.choice([np.iinfo(t).min, np.iinfo(t).max, 1], s, p=(0.6, 0.3, 0.1)).astype(t)
        for t, s in zip(types, ((m, k), (k, n)), strict=True)
    )
    right = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)
    assert_equal(lw.einsum("ij,jk->ik", a, b, accum_dtype="int32"), right)
    turned = np.asfortranarray(a), np.asfortranarray(b)
    assert_equal(lw.einsum("ij,jk->ki", *turned, accum_dtype="int32"), right.T)


# -- sizes that need several blocks ----------------------------------------------------------------


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("dtype", "m", "k", "n"), [("float64", 301, 1103, 257), ("int32", 70, 900, 513)]
)
def test_matrices_of_many_blocks(dtype: str, m: int, k: int, n: int) -> None:
    a, b = numbers(m, k, dtype=dtype), numbers(k, n, dtype=dtype, seed=1)
    assert_equal(lw.einsum("ij,jk->ik", a, b), a @ b)
    assert_equal(lw.einsum("ij,jk->ki", a, np.asfortranarray(b)), (a @ b).T)


def test_blocks_of_a_reduction_begin_where_runs_do() -> None:
    """Two loops are summed over; the unit stride of left is that of the shorter one."""
    random = np.random.default_rng(0)
    a = random.integers(0, 1000, (24, 37, 112)).astype(np.int32)
    b = random.integers(0, 1000, (112, 310, 24)).astype(np.int32)
    expected = np.full((37, 310), np.iinfo(np.int32).max, np.int32)
    for k in range(24):
        sums = a[k][:, :, None] + b[None, :, :, k]
        np.minimum(expected, sums.min(axis=1), out=expected)
    assert_equal(lw.einsum("aib,bja->ij", a, b, semiring="min_plus"), expected)
