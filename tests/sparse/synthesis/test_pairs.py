"""Ordered pairs of formats: all index arrays and values as built by hand.

The usual run takes every eighth target of each source, others for the next source; the hunt takes
all pairs.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import HUNTS, drawn, in_all
from sparse.synthesis.pairs import (
    FORMATS_2D,
    FORMATS_3D,
    assert_converts,
    patterns,
    scattered,
    targets_of,
)
from sparse_builders import Entry, build, of_dense

SMALL = tuple(patterns(3, least=1 if HUNTS else 3))
# Sizes are written with as many bits each, so that code is synthesised once for all of them.
MATRICES = (
    scattered(1, (17, 23), 0.15),
    scattered(2, (32, 18), 0.9),
    scattered(3, (19, 31), 0.02),  # most rows and columns empty
    np.diag(np.arange(1.0, 20)) + np.diag(np.arange(1.0, 17), 3),
    np.triu(scattered(4, (20, 20), 0.5)),
    np.where(np.arange(24)[:, None] % 5 == 0, scattered(5, (24, 17), 0.8), 0),  # few rows
    np.where(np.arange(31) % 7 == 3, scattered(6, (18, 31), 0.8), 0),  # few columns
    *(np.zeros(shape) for shape in ((0, 0), (0, 3), (3, 0), (4, 4))),
    *(np.eye(*shape, k=shape[1] - 1) * 2.5 for shape in ((1, 1), (1, 4))),
)
BITS = [number >> np.arange(8).reshape(2, 2, 2) & 1 for number in drawn(range(256), 11)]
TENSORS = (
    scattered(7, (5, 6, 7), 0.1),
    scattered(8, (1, 17, 3), 0.3),
    scattered(9, (9, 2, 5), 0.9),
    *(np.zeros(shape) for shape in ((3, 4, 5), (0, 4, 5), (2, 0, 1))),
    *(bits * np.arange(1.0, 9).reshape(2, 2, 2) for bits in BITS),
)


def assert_pairs(source: str, formats: tuple[str, ...], one_in: int, arrays: Any) -> None:
    """Arrays from one format to some others; each pair has some of the arrays."""
    for number, target in enumerate(targets_of(source, formats, one_in), formats.index(source)):
        for array in drawn(arrays, min(len(arrays), 31), 3 * number):
            assert_converts(of_dense(source, array), target, of_dense(target, array))


@pytest.mark.drawn(16)
@pytest.mark.parametrize("source", FORMATS_2D)
def test_small_patterns(source: str) -> None:
    """Patterns up to 3 x 3, for every pair some of them: together all, twice."""
    assert_pairs(source, FORMATS_2D, 8, SMALL)


@pytest.mark.drawn(6)
@pytest.mark.parametrize("source", FORMATS_2D)
def test_larger_patterns(source: str) -> None:
    assert_pairs(source, FORMATS_2D, 8, drawn(MATRICES, 4, FORMATS_2D.index(source)))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("source", FORMATS_3D)
def test_three_dimensions(source: str) -> None:
    assert_pairs(source, FORMATS_3D, 3, drawn(TENSORS, 3, FORMATS_3D.index(source)))


@pytest.mark.parametrize("rank", drawn([1, 2, 4, 5], 2))
def test_other_ranks(rank: int) -> None:
    formats = ("coo", "scoo", *(("csf", "alto") if rank > 1 else ()))
    formats += ("hicoo(4)",) if 1 < rank < 5 else ()
    array = scattered(rank, (3, 5, 2, 4, 3)[:rank], 0.2)
    array.flat[0] = 7
    for source in formats:
        assert_pairs(source, formats, 3 if in_all() else 5, [array])


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


# -- entries that are repeated, or zero -----------------------------------------------------------

REPEATED = [
    *(((2, 1), 1.0), ((0, 3), 2.0), ((2, 1), 4.0), ((1, 0), 8.0), ((0, 3), 16.0), ((2, 0), 32.0)),
    *(((2, 1), 64.0), ((0, 0), 128.0)),
]
IN_3D = [((1, 0, 2), 1.0), ((0, 1, 1), 2.0), ((1, 0, 2), 4.0), ((1, 0, 1), 8.0)]
ROUNDED = [((0, 0), value) for value in (1e16, 1.0, 1.0, -1e16)]


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("shape", "entries", "source"),
    [
        *(((3, 4), REPEATED, source) for source in ("coo", "scoo", "csr_unsorted")),
        *(((2, 2, 3), IN_3D, source) for source in ("coo", "scoo")),
        ((1, 1), ROUNDED, "coo"),
    ],
)
def test_repeated_entries_are_summed(
    shape: tuple[int, ...], entries: list[Entry], source: str
) -> None:
    """In their order, of which rounding tells: 1e16 + 1 + 1 - 1e16 is 0, summed otherwise 2.

    Targets that hold a coordinate once get the sum; the others keep every entry.
    """
    tensor = build(source, shape, entries)
    found = tensor.entries()
    listed = [
        (tuple(int(c[n]) for c in found.coordinates), float(tensor.values[place]))
        for n, place in enumerate(found.places)
    ]
    formats = FORMATS_2D if len(shape) == 2 else FORMATS_3D
    for target in drawn(formats, 2 if in_all() else 4, formats.index(source)):
        assert_converts(tensor, target, build(target, shape, listed))


ZEROS = [((0, 1), 0.0), ((1, 0), 3.0), ((1, 2), 0.0), ((2, 1), 5.0)]


@pytest.mark.drawn(8)
@pytest.mark.parametrize("source", sorted(FORMATS_2D, key=lambda f: not f.startswith("bcsr")))
def test_explicit_zeros_stay(source: str) -> None:
    """But for formats that read their padding as entries: they cannot tell it from zeros."""
    is_padded = source.startswith(("dia", "bcsr"))
    kept = [(at, value) for at, value in ZEROS if value or not is_padded]
    for target in drawn(FORMATS_2D, 2 if is_padded else 8, FORMATS_2D.index(source) + 1):
        if target != source:
            tensor = build(source, (3, 3), ZEROS)
            assert_converts(tensor, target, build(target, (3, 3), kept))
