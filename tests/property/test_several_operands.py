"""Three and four operands over any numbers: equal to the meaning, whatever laws are missing.

The meaning is one nest over all indices: plus over all products of the operands from left to
right. Integers wrap, factors are negative, and nothing may depend on the order of contraction.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import loopwright as lw
from einsum_oracle import OPERATORS, oracle
from loopwright.calls import einsum_path
from loopwright.ir.dtypes import DTYPES
from loopwright.semirings import SEMIRINGS

DTYPE_NAMES = ("int8", "uint8", "int32", "float32")  # as kernels go, the others are like these


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, list[np.ndarray], str]:
    count = draw(st.integers(3, 4))
    letters = "abcd"[: draw(st.integers(1, 4))]
    some = st.lists(st.sampled_from(letters), max_size=3)
    terms = ["".join(draw(some)) for _ in range(count)]
    used = sorted(set("".join(terms)))
    out = "".join(draw(st.permutations(used)))[: draw(st.integers(0, len(used)))]
    sizes = {c: draw(st.integers(1, 4)) for c in used}
    semiring = draw(st.sampled_from(sorted(OPERATORS)))
    dtypes = [d for d in DTYPE_NAMES if DTYPES[d].kind in SEMIRINGS[semiring].kinds]
    dtype = draw(st.sampled_from(dtypes))
    random = np.random.default_rng(draw(st.integers(0, 999)))
    low, high = draw(bounds(dtype))
    arrays = [
        np.asarray(random.integers(low, high, [sizes[c] for c in term], endpoint=True)).astype(
            dtype
        )
        for term in terms
    ]
    return f"{','.join(terms)}->{out}", arrays, semiring


@st.composite
def bounds(draw: st.DrawFn, dtype: str) -> tuple[int, int]:
    """The whole type, or few numbers of one sign or both; floats stay exact."""
    if DTYPES[dtype].is_float:
        return draw(st.sampled_from([(-9, 9), (0, 9), (-9, -1)]))
    limits = np.iinfo(dtype)
    whole = int(limits.min), int(limits.max)
    small = [(-3, 3), (-9, 0)] if limits.min < 0 else [(0, 3)]
    return draw(st.sampled_from([whole, whole, (0, 4), *small]))


@given(calls(), st.sampled_from([1 << 20, 9]))
@settings(max_examples=settings().max_examples)
def test_several_operands(call: tuple[str, list[np.ndarray], str], most: int) -> None:
    text, arrays, semiring = call
    expected = oracle(text, *arrays, semiring=semiring)
    usual, einsum_path.MOST_ELEMENTS = einsum_path.MOST_ELEMENTS, most
    try:
        found = lw.einsum(text, *arrays, semiring=semiring)
    finally:
        einsum_path.MOST_ELEMENTS = usual
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
