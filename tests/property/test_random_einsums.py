"""Random einsums over random dtypes, semirings, layouts and sizes equal the oracle bit by bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import loopwright as lw
from drawn import some
from einsum_oracle import OPERATORS, accumulator_of, oracle
from loopwright.ir.dtypes import DTYPES
from loopwright.semirings import SEMIRINGS

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 0)
MOST_POINTS = 4000


@dataclass(frozen=True)
class Case:
    """A call of einsum."""

    text: str
    arrays: tuple[np.ndarray, ...]
    semiring: str
    threads: int

    def __repr__(self) -> str:
        shapes = ", ".join(f"{a.dtype}{a.shape} strides {a.strides}" for a in self.arrays)
        return f"einsum({self.text!r}, {shapes}, semiring={self.semiring!r}, {self.threads})"


@st.composite
def cases(draw: st.DrawFn) -> Case:
    count = draw(st.integers(1, 4))
    letters = "abcde"[: draw(st.integers(1, 5))]
    terms = [
        "".join(draw(st.lists(st.sampled_from(letters), min_size=0, max_size=4)))
        for _ in range(count)
    ]
    used = sorted(set("".join(terms)))
    out = "".join(draw(st.permutations(used)))[: draw(st.integers(0, len(used)))]
    sizes: dict[str, int] = {}
    for c in used:
        room = MOST_POINTS // max(1, int(np.prod(list(sizes.values()) or [1])))
        sizes[c] = draw(st.sampled_from([n for n in SIZES if n <= max(room, 1)]))
    semiring = draw(st.sampled_from(sorted(OPERATORS)))
    kinds = SEMIRINGS[semiring].kinds
    dtypes = [d for d in DTYPES if DTYPES[d].kind in kinds]
    common = draw(st.sampled_from(dtypes))
    arrays = []
    for term in terms:
        mixes = draw(st.integers(0, 4)) == 0
        dtype = draw(st.sampled_from(dtypes)) if mixes else common
        arrays.append(draw(operands(term, sizes, dtype)))
    if not has_every_size(terms, sizes, arrays):
        arrays = [draw(operands(t, sizes, common, broadcasts=False)) for t in terms]
    if DTYPES[str(np.result_type(*arrays))].kind not in kinds:
        arrays = [a.astype(common) for a in arrays]
    return Case(f"{','.join(terms)}->{out}", tuple(arrays), semiring, draw(st.integers(1, 2)))


def has_every_size(terms: list[str], sizes: dict[str, int], arrays: list[np.ndarray]) -> bool:
    """Whether each letter has its size somewhere: all operands might have drawn a 1."""
    found = {
        (c, n) for t, a in zip(terms, arrays, strict=True) for c, n in zip(t, a.shape, strict=True)
    }
    return all((c, n) in found for c, n in sizes.items())


@st.composite
def operands(
    draw: st.DrawFn,
    term: str,
    sizes: dict[str, int],
    dtype: str,
    broadcasts: bool = True,
) -> np.ndarray:
    """An array in memory of any order, direction and density; some sizes of 1 broadcast."""
    ones = {c for c in term if broadcasts and draw(st.integers(0, 7)) == 0}
    shape = [1 if c in ones else sizes[c] for c in term]
    random = np.random.default_rng(draw(st.integers(0, 99)))
    data = np.asarray(numbers(random, shape, dtype))
    if not shape:
        return data
    order = draw(st.permutations(range(len(shape))))
    gaps = [draw(st.sampled_from([1, 1, 1, 2])) for _ in shape]
    memory = np.zeros([shape[k] * gaps[k] for k in order], dtype)
    view = memory.transpose(np.argsort(order))
    view = view[tuple(slice(None, None, gap) for gap in gaps)]
    view = view[tuple(slice(None, None, draw(st.sampled_from([1, 1, -1]))) for _ in shape)]
    view[...] = data
    if draw(st.integers(0, 9)) == 0:
        view = np.broadcast_to(view[:1], view.shape)
    return view


def numbers(random: np.random.Generator, shape: list[int], dtype: str) -> np.ndarray:
    """Floating numbers small enough that everything is exact; integers as large as they get."""
    kind = DTYPES[dtype].kind
    if kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    found = random.integers(-3, 4, shape).astype(dtype)
    return found + 1j * random.integers(-3, 4, shape).astype(dtype) if kind == "c" else found


@given(cases())
@settings(max_examples=some(60))
def test_random_einsum(case: Case) -> None:
    before = [a.copy() for a in case.arrays]
    found = lw.einsum(case.text, *case.arrays, semiring=case.semiring, threads=case.threads)
    expected = oracle(case.text, *case.arrays, semiring=case.semiring)
    assert np.shape(found) == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    for array, old in zip(case.arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)


@given(cases(), st.booleans(), st.sampled_from(["C", "F", "reversed"]))
@settings(max_examples=some(25))
def test_random_einsum_into_out(case: Case, accumulate: bool, order: str) -> None:
    expected = oracle(case.text, *case.arrays, semiring=case.semiring)
    old = np.random.default_rng(1).integers(0, 2, expected.shape).astype(expected.dtype)
    out = np.array(old, order="C" if order == "reversed" else order)
    if order == "reversed" and out.ndim:
        out = out[::-1].copy()[::-1]
        out[...] = old
    found = lw.einsum(
        case.text, *case.arrays, semiring=case.semiring, out=out, accumulate=accumulate
    )
    assert found is out
    if accumulate:
        wide = accumulator_of(expected.dtype)
        plus = {"min": np.minimum, "max": np.maximum, "or": np.bitwise_or, "xor": np.bitwise_xor}
        join = plus.get(OPERATORS[case.semiring][0], np.add)
        with np.errstate(all="ignore"):
            expected = join(old.astype(wide), expected.astype(wide)).astype(expected.dtype)
    np.testing.assert_array_equal(out, expected)
