"""Decimal digits to float64: right wherever the result is called sure."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.sparse.number_text import MARGIN, nearest, real_numbers, whole_numbers, words_of

MANTISSAS = st.integers(0, 18 * 10**18) | st.integers(0, 1 << 54) | st.integers(0, 999)


@given(st.lists(st.tuples(MANTISSAS, st.integers(-300, 300)), min_size=1))
def test_what_is_sure_is_nearest(pairs: list[tuple[int, int]]) -> None:
    values, is_sure = nearest(
        np.array([m for m, _ in pairs], np.uint64), np.array([e for _, e in pairs])
    )
    wanted = np.array([float(f"{m}e{e}") for m, e in pairs])
    assert (values == wanted)[is_sure].all()


def test_ties_and_far_powers_are_not_sure() -> None:
    ties = np.array([(1 << 53) + 1, 10**14, 1], np.uint64)
    assert not nearest(ties, np.array([0, 9, -300]))[1].any()


def test_usual_numbers_are_sure() -> None:
    """A column that is left to strings would be right, but slow."""
    random = np.random.default_rng(1)
    plain = random.standard_normal(10_000)
    for texts in (
        [repr(x) for x in plain.tolist()],
        [f"{x:.6e}" for x in (plain * 1e-9).tolist()],
        [f"{x:.16E}" for x in plain.tolist()],
        [str(n) for n in range(10_000)],
    ):
        text = np.frombuffer(b" " * MARGIN + " ".join(texts).encode() + b" " * MARGIN, np.uint8)
        lengths = np.array([len(word) for word in texts])
        starts = MARGIN + np.cumsum(lengths + 1) - lengths - 1
        words = words_of(text)
        values, is_unsure = real_numbers(text, words, starts, starts + lengths, True)
        assert is_unsure.mean() < 0.01
        assert (values == np.array([float(word) for word in texts]))[~is_unsure].all()


@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=1), st.binary(min_size=1, max_size=30))
def test_whole_numbers(numbers: list[int], other: bytes) -> None:
    texts = [str(n).encode() for n in numbers] + [other]
    text = np.frombuffer(b"7" * MARGIN + b"7".join(texts) + b"7" * MARGIN, np.uint8)
    lengths = np.array([len(word) for word in texts])
    ends = MARGIN + np.cumsum(lengths + 1) - 1
    values, wrong = whole_numbers(words_of(text), ends, lengths)
    for n, word in enumerate(texts):
        if wrong[n] == 0:
            assert int(values[n]) == int(word)
        else:
            assert not word.isdigit() or len(word) > 24 or int(word) >= 1843 * 10**16


@pytest.mark.parametrize(
    "number", [2**64 - 1, 2**64 - 1024, 2**64 - 1025, 2**64 - 3000, 2**63, 2047]
)
def test_mantissas_that_round_to_more_than_64_bits(number: int) -> None:
    """They are split without a conversion that no 64-bit integer holds the result of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values, is_sure = nearest(np.array([number], np.uint64), np.zeros(1, np.int64))
    assert not is_sure[0] or values[0] == float(number)
    assert number == 2**64 - 1024 or is_sure[0]
