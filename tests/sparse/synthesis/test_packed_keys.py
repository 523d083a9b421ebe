"""Digits of packed numbers, written over the coordinates that have them."""

from hypothesis import given
from hypothesis import strategies as st

from loopwright.sparse.curves import CURVES
from loopwright.sparse.synthesis.bucket_partition import pack_key
from loopwright.sparse.uf import evaluate, variables
from sparse.synthesis.iterators import LETTERS, sizes_of, terms

SIZES = st.lists(st.integers(1, 2000), min_size=1, max_size=3)


@given(st.data(), SIZES)
def test_bits_above_and_below(data: st.DataObject, shape: list[int]) -> None:
    names = LETTERS[: len(shape)]
    code = pack_key(terms(*names), names, sizes_of(tuple(shape)))
    assert code is not None
    at = {c: data.draw(st.integers(0, size - 1)) for c, size in zip(names, shape, strict=True)}
    key = evaluate(code.key, at, {})
    for bits in range(code.bits + 1):
        assert evaluate(code.above(bits), at, {}) == key >> bits
        assert evaluate(code.below(bits), at, {}) == key % (1 << bits)


@given(st.integers(0, 20), st.integers(0, 12))
def test_bits_of_a_curve(i: int, j: int) -> None:
    code = pack_key(terms("MORTON(i,j)"), ("i", "j"), sizes_of((21, 13)))
    assert code is not None
    key = evaluate(code.key, {"i": i, "j": j}, CURVES)
    for bits in range(code.bits + 1):
        assert evaluate(code.above(bits), {"i": i, "j": j}, CURVES) == key >> bits
        assert evaluate(code.below(bits), {"i": i, "j": j}, CURVES) == key % (1 << bits)


def test_the_highest_bits_are_read_from_the_leading_coordinate() -> None:
    """Nothing else has to be loaded to deal an entry out."""
    code = pack_key(terms("i", "j"), ("i", "j"), sizes_of((1000, 1000)))
    assert code is not None
    assert variables(code.above(14)) == {"i"}
    assert variables(code.below(9)) == {"j"}
