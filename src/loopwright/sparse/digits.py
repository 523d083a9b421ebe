"""Decimal digits to numbers, whole columns at once: eight digits are one word of 64 bits.

A number of up to 24 digits is the sum of at most three such words. The nearest float64 to m 10^e is
found from a product of twice the precision, after Dekker (Numer. Math. 18, 1971): with
10^e = p + q, |q| <= ulp(p)/2, and m = a + b likewise, m 10^e = a p + a q + b p up to 2^-103 of it.
Where that error could change the rounding, the result is marked as unsure.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["MARGIN", "nearest", "real_numbers", "times_ten", "whole_numbers", "words_of"]

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Bools = NDArray[np.bool_]
Reals = NDArray[np.float64]

MARGIN = 32  # bytes that must lie before and behind the text: words reach beyond numbers


def _every(byte: int) -> np.uint64:
    return np.uint64(byte * 0x0101010101010101)


_ONES, _SIXES, _HIGH, _TOP = _every(0x01), _every(0x06), _every(0xF0), _every(0x80)
_DIGIT, _DOT, _LETTER, _EXPONENT = _every(ord("0")), _every(ord(".")), _every(0x21), _every(0x65)
_PAIRS = np.uint64(0x000000FF000000FF)
_UPPER = np.uint64(100 + (1_000_000 << 32))  # weights of the first and third pair of digits
_LOWER = np.uint64(1 + (10_000 << 32))  # of the second and fourth
_ONE, _BYTE, _TWO_BYTES, _HALF = map(np.uint64, (1, 8, 16, 32))
_LARGEST = 1843  # 10^16 times this, and 16 digits more, still fit a word
_MOST = 1.8e19
_REACH = 250  # powers of ten up to here keep all parts of a product away from the ends of float64
_TENS = np.array([10**n for n in range(20)], np.uint64)
_TENS_ROUNDED = np.array([float(10**n) for n in range(25)])
_SPLIT = float((1 << 27) + 1)
_CAUTION = 1 + 2.0**-40


def words_of(text: Bytes) -> Words:
    """The eight bytes from each place of a text on, the first one lowest."""
    return np.ndarray((len(text) - 7,), "<u8", text.data, strides=(1,))


def whole_numbers(words: Words, ends: Ints, lengths: Ints) -> tuple[Words, Words]:
    """The numbers of so many digits before `ends`, and words that are 0 where they are right."""
    most = int(lengths.max(initial=0))
    values, wrong = _eight(words[ends - 8], np.clip(lengths, 0, 8))
    for skipped in range(8, min(most, 24), 8):
        more, faults = _eight(words[ends - 8 - skipped], np.clip(lengths - skipped, 0, 8))
        wrong |= faults
        if skipped == 16:
            wrong |= more > _LARGEST
        more *= _TENS[skipped]
        values += more
    if most > 24:
        wrong |= lengths > 24
    return values, wrong


def _eight(words: Words, lengths: Ints) -> tuple[Words, Words]:
    """The same of the last bytes of each word, 0 to 8 of them; the words are used up."""
    unused = (64 - 8 * lengths).view(np.uint64)
    words ^= _DIGIT
    words >>= unused
    words <<= unused
    wrong = words + _SIXES
    wrong |= words
    wrong &= _HIGH
    pairs = words * np.uint64(10)
    words >>= _BYTE
    pairs += words
    first = pairs & _PAIRS
    first *= _UPPER
    pairs >>= _TWO_BYTES
    pairs &= _PAIRS
    pairs *= _LOWER
    pairs += first
    pairs >>= _HALF
    return pairs, wrong


def real_numbers(
    text: Bytes, words: Words, starts: Ints, ends: Ints, has_letters: bool
) -> tuple[Reals, Bools]:
    """The numbers between `starts` and `ends`, and which of them are not sure to be right."""
    first = text[starts]
    is_negative = first == ord("-")
    begins = starts + (is_negative | (first == ord("+")))
    stops, powers, faults = ends, None, None
    if has_letters:
        stops, powers, faults = _exponents(text, words, begins, ends)
    head = words[begins]
    lengths = stops - begins
    dot = _place(head ^ _DOT)
    before = np.minimum(dot, lengths)
    behind = np.maximum(lengths - before - 1, 0)
    head <<= (64 - 8 * before).view(np.uint64)
    values, wrong = _eight(head, before)
    part, more = whole_numbers(words, stops, behind)
    wrong |= more
    if faults is not None:
        wrong |= faults
    is_unsure = wrong != 0
    is_unsure |= before + behind <= 0
    is_unsure |= (dot == 8) & (lengths > 8)
    behind = np.minimum(behind, 24)
    is_unsure |= values * _TENS_ROUNDED[behind] + part >= _MOST
    values *= _TENS[np.minimum(behind, 19)]
    values += part
    found, is_sure = nearest(values, -behind if powers is None else powers - behind)
    found *= 1.0 - 2.0 * is_negative  # a negation under a mask takes ten times as long
    return found, is_unsure | ~is_sure


def _place(words: Words) -> Ints:
    """Which byte of a word is the first that is 0; 8 where none is."""
    found = words - _ONES
    found &= ~words
    found &= _TOP
    found = (found - _ONE) & ~found
    bits: Ints = np.bitwise_count(found).astype(np.int64)
    return bits >> 3


def _exponents(text: Bytes, words: Words, begins: Ints, ends: Ints) -> tuple[Ints, Ints, Words]:
    """Where mantissas end, the exponents behind them, and words that are 0 where these are right.

    The letters e and d, small or large, differ in two bits, which are set to compare them.
    """
    tail = words[ends - 8]
    outside = np.clip(64 - 8 * (ends - begins), 0, 64).view(np.uint64)
    letters = (tail | _LETTER) ^ _EXPONENT
    letters |= (_ONE << outside) - _ONE
    at = _place(letters)
    stops = ends - 8 + at
    sign = text[stops + 1]
    is_negative = sign == ord("-")
    digits = 7 - at - (is_negative | (sign == ord("+")))
    has_one = at < 8
    size, wrong = _eight(tail, np.where(has_one, np.maximum(digits, 0), 0))
    wrong |= has_one & (digits <= 0)
    powers = size.astype(np.int64)
    powers *= 1 - 2 * is_negative
    return stops, powers, wrong


def nearest(mantissas: Words, powers: Ints) -> tuple[Reals, Bools]:
    """The float64 nearest to mantissa times ten to the power, and where that is sure."""
    at = np.clip(powers, -_REACH, _REACH)
    is_sure = at == powers
    a = mantissas.astype(np.float64)
    b = (mantissas - a.astype(np.uint64)).view(np.int64).astype(np.float64)
    values, error = times_ten(a, at, b)
    error *= _CAUTION
    is_sure &= values + error == values
    return values, is_sure


def times_ten(a: Reals, powers: Ints, b: Reals | None = None) -> tuple[Reals, Reals]:
    """(a + b) 10^power as the sum of a float64 that is nearest and a much smaller one.

    The size of b is at most half a unit in the last place of a, powers reach from -250 to 250.
    """
    whole, upper, rest = _powers_of_ten()
    at = powers + _REACH
    p, p_upper, q = whole[at], upper[at], rest[at]
    p_lower = p - p_upper
    product = a * p
    a_upper = a * _SPLIT
    a_upper -= a_upper - a
    a_lower = a - a_upper
    error = a_upper * p_upper
    error -= product
    error += a_upper * p_lower
    error += a_lower * p_upper
    error += a_lower * p_lower
    q *= a
    if b is not None:
        q += b * p
    error += q
    values = product + error
    product -= values
    error += product
    return values, error


@lru_cache(maxsize=1)
def _powers_of_ten() -> tuple[Reals, Reals, Reals]:
    """10^-250 to 10^250: the nearest float64, its upper 26 bits, and what it lacks."""
    whole, rest = [], []
    for power in range(-_REACH, _REACH + 1):
        over, under = 10 ** max(power, 0), 10 ** max(-power, 0)
        near = over / under
        top, bottom = near.as_integer_ratio()
        whole.append(near)
        rest.append((over * bottom - top * under) / (under * bottom))
    p = np.array(whole)
    upper = p * _SPLIT
    upper -= upper - p
    return p, upper, np.array(rest)
