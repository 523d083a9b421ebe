"""Ordered pairs of formats: all index arrays and values as built by hand.

The usual run takes every eighth target of each source, others for the next source; the hunt takes
all pairs.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import HUNTS, drawn, in_all
from sparse.synthesis.pairs import (
    FORMATS_2D,
    FORMATS_3D,
    assert_converts,
    assert_converts_to,
    patterns,
    scattered,
    targets_of,
)
from sparse_builders import build, of_dense

SMALL = tuple(patterns(3, least=1 if HUNTS else 3))
# Sizes are written with as many bits each, so that code is synthesised once for all of them.
LARGER = (
    scattered(1, (17, 23), 0.15),
    scattered(2, (32, 18), 0.9),
    scattered(3, (19, 31), 0.02),  # most rows and columns empty
    np.diag(np.arange(1.0, 20)) + np.diag(np.arange(1.0, 17), 3),
    np.triu(scattered(4, (20, 20), 0.5)),
    np.where(np.arange(24)[:, None] % 5 == 0, scattered(5, (24, 17), 0.8), 0),  # few rows
    np.where(np.arange(31) % 7 == 3, scattered(6, (18, 31), 0.8), 0),  # few columns
)
EMPTY = ((0, 0), (0, 3), (3, 0), (1, 1), (4, 4))
SINGLE = (((1, 1), (0, 0)), ((1, 4), (0, 3)), ((4, 1), (3, 0)), ((3, 4), (2, 3)))


def test_patterns_are_all_there() -> None:
    squares = [array.tobytes() for array in SMALL if array.shape == (3, 3)]
    assert len(squares) == len(set(squares)) == 512


@pytest.mark.drawn(16)
@pytest.mark.parametrize("source", FORMATS_2D)
def test_small_patterns(source: str) -> None:
    """Patterns up to 3 x 3, for every pair some of them: together all, twice."""
    for number, target in enumerate(targets_of(source, FORMATS_2D), FORMATS_2D.index(source)):
        for array in drawn(SMALL, 31, 3 * number):
            assert_converts(of_dense(source, array), target, of_dense(target, array))


@pytest.mark.drawn(6)
@pytest.mark.parametrize("source", FORMATS_2D)
def test_larger_patterns(source: str) -> None:
    for array in drawn(LARGER, 3, FORMATS_2D.index(source)):
        assert_converts_to(source, targets_of(source, FORMATS_2D), array)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("source", FORMATS_2D)
def test_nothing_stored(source: str) -> None:
    for number, target in enumerate(targets_of(source, FORMATS_2D, 16), FORMATS_2D.index(source)):
        for shape in (EMPTY[number % 4], EMPTY[4]):
            array = np.zeros(shape)
            assert_converts(of_dense(source, array), target, of_dense(target, array))


@pytest.mark.drawn(8)
@pytest.mark.parametrize("source", FORMATS_2D)
def test_one_entry(source: str) -> None:
    for number, target in enumerate(targets_of(source, FORMATS_2D, 16), FORMATS_2D.index(source)):
        shape, at = SINGLE[number % 4]
        array = np.zeros(shape)
        array[at] = 2.5
        assert_converts(of_dense(source, array), target, of_dense(target, array))


@given(
    st.sampled_from(FORMATS_2D),
    st.sampled_from(FORMATS_2D),
    st.integers(0, 1 << 20),
    st.integers(17, 32),
    st.integers(17, 32),
    st.sampled_from((0.01, 0.1, 0.5, 1.0)),
)
@settings(max_examples=2000 if HUNTS else 25 if in_all() else 8)
def test_random(
    source: str, target: str, seed: int, rows: int, columns: int, density: float
) -> None:
    array = scattered(seed, (rows, columns), density)
    assert_converts(of_dense(source, array), target, of_dense(target, array))


# -- three dimensions -----------------------------------------------------------------------------


@pytest.mark.drawn(6)
@pytest.mark.parametrize("source", FORMATS_3D)
def test_small_patterns_3d(source: str) -> None:
    values = np.arange(1.0, 9).reshape(2, 2, 2)
    for first, target in enumerate(targets_of(source, FORMATS_3D, 3), FORMATS_3D.index(source)):
        for number in drawn(range(256), 11, first):
            bits = np.array([number >> n & 1 for n in range(8)]).reshape(2, 2, 2)
            array = values * bits
            assert_converts(of_dense(source, array), target, of_dense(target, array))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("source", FORMATS_3D)
def test_larger_patterns_3d(source: str) -> None:
    arrays = [
        scattered(7, (5, 6, 7), 0.1),
        scattered(8, (1, 17, 3), 0.3),
        scattered(9, (9, 2, 5), 0.9),
        np.zeros((3, 4, 5)),
        np.zeros((0, 4, 5)),
        np.zeros((2, 0, 1)),
        np.full((1, 1, 1), 3.0),
    ]
    for array in drawn(arrays, 3, FORMATS_3D.index(source)):
        assert_converts_to(source, targets_of(source, FORMATS_3D, 3), array)


@pytest.mark.parametrize("rank", drawn([1, 2, 4, 5], 2))
def test_other_ranks(rank: int) -> None:
    formats = ("coo", "scoo", *(("csf", "alto") if rank > 1 else ()))
    formats += ("hicoo(4)",) if 1 < rank < 5 else ()
    array = scattered(rank, (3, 5, 2, 4, 3)[:rank], 0.2)
    array.flat[0] = 7
    for source in formats:
        assert_converts_to(source, targets_of(source, formats, 3 if in_all() else 5), array)


# -- entries that are repeated, or zero -----------------------------------------------------------

REPEATED = [
    ((2, 1), 1.0),
    ((0, 3), 2.0),
    ((2, 1), 4.0),
    ((1, 0), 8.0),
    ((0, 3), 16.0),
    ((2, 0), 32.0),
    ((2, 1), 64.0),
    ((0, 0), 128.0),
]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("source", ["coo", "scoo", "csr_unsorted"])
def test_repeated_entries_are_summed(source: str) -> None:
    """Targets that hold a coordinate once get the sum; the others keep every entry."""
    tensor = build(source, (3, 4), REPEATED)
    entries = [
        (tuple(int(c[n]) for c in tensor.entries().coordinates), float(tensor.values[place]))
        for n, place in enumerate(tensor.entries().places)
    ]
    for target in drawn(FORMATS_2D, 2 if in_all() else 4, FORMATS_2D.index(source)):
        assert_converts(tensor, target, build(target, (3, 4), entries))


def test_repeated_entries_are_summed_in_their_order() -> None:
    """Rounding tells the order: 1e16 + 1 + 1 - 1e16 is 0, summed otherwise 2."""
    row, col = np.zeros(4, np.int32), np.zeros(4, np.int32)
    values = np.array([1e16, 1.0, 1.0, -1e16])
    entries = [((0, 0), value) for value in values]
    tensor = build("coo", (1, 1), entries)
    assert np.array_equal(tensor.arrays["row"], row)
    assert np.array_equal(tensor.arrays["col"], col)
    for target in ("csr", "csc", "dcsr", "mcoo2", "alto", "lil"):
        assert_converts(tensor, target, build(target, (1, 1), [((0, 0), 0.0)]))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("source", ["coo", "scoo"])
def test_repeated_entries_3d(source: str) -> None:
    entries = [((1, 0, 2), 1.0), ((0, 1, 1), 2.0), ((1, 0, 2), 4.0), ((1, 0, 1), 8.0)]
    tensor = build(source, (2, 2, 3), entries)
    listed = [
        (tuple(int(c[n]) for c in tensor.entries().coordinates), float(tensor.values[place]))
        for n, place in enumerate(tensor.entries().places)
    ]
    for target in FORMATS_3D:
        assert_converts(tensor, target, build(target, (2, 2, 3), listed))


ZEROS = [((0, 1), 0.0), ((1, 0), 3.0), ((1, 2), 0.0), ((2, 1), 5.0)]
PADDED = tuple(f for f in FORMATS_2D if f.startswith(("dia", "bcsr")))


@pytest.mark.drawn(8)
@pytest.mark.parametrize("source", [f for f in FORMATS_2D if f not in PADDED])
def test_explicit_zeros_stay(source: str) -> None:
    tensor = build(source, (3, 3), ZEROS)
    for target in targets_of(source, FORMATS_2D):
        assert_converts(tensor, target, build(target, (3, 3), ZEROS))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("source", PADDED)
def test_zeros_among_padding_are_padding(source: str) -> None:
    """A format that reads its padding as entries cannot tell it from zeros: only others go on."""
    tensor = build(source, (3, 3), ZEROS)
    kept = [(at, value) for at, value in ZEROS if value]
    for target in drawn(FORMATS_2D, 2, FORMATS_2D.index(source)):
        if target != source:
            assert_converts(tensor, target, build(target, (3, 3), kept))
