"""Entries are dealt out and sorted in parts as a stable sort by hand does."""

import numpy as np
import pytest

from loopwright.sparse.synthesis.parts import dealt
from loopwright.sparse.synthesis.sorting import sort
from loopwright.sparse.synthesis.stages import Stage
from loopwright.sparse.uf import evaluate
from sparse.synthesis.streams import Bench, sizes_of, terms

SHAPE = (300, 280)
COUNT = 600


def band(seed: int) -> list[np.ndarray]:
    """Entries near the diagonal in any order, some of them repeated."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, SHAPE[0], COUNT)
    columns = np.clip(rows + rng.integers(-3, 4, COUNT), 0, SHAPE[1] - 1)
    return [rows.astype(np.int32), columns.astype(np.int32)]


def scattered(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 1 << 14, 40, np.int32) for _ in range(2)]


def runs(stage: Stage, known: dict[str, int]) -> bool:
    return stage.when is None or evaluate(stage.when, known, {}) >= 0


WIDE = (1 << 14, 1 << 14)
ROW = [np.full(50, 7, np.int32), np.arange(50, 0, -1, np.int32)]


@pytest.mark.parametrize(
    ("columns", "shape", "parts", "way"),
    [
        (band(1), WIDE, 0, "ranges"),
        (band(1), WIDE, 3, "ranges"),
        (band(1), SHAPE, 3, "ranges"),  # as many passes either way
        (band(1), SHAPE, 5, "parts"),  # one digit is enough
        ([column[:0] for column in band(1)], WIDE, 3, "ranges"),
        (scattered(2), WIDE, 0, "digits"),
        (ROW, WIDE, 0, "ranges"),
        ([column << 5 for column in band(1)], WIDE, 0, "digits"),
    ],
    ids=["band", "parts", "small", "digit", "none", "scattered", "row", "sparse"],
)
def test_near_coordinates_are_counted_and_others_sorted_by_digits(
    columns: list[np.ndarray], shape: tuple[int, int], parts: int, way: str
) -> None:
    """Values number the entries, so that equal keys show whether the sort is stable."""
    bench = Bench(columns, np.arange(len(columns[0])), parts=parts)
    found = sort(bench.stream, terms("i", "j"), bench.builder, sizes_of(shape))
    _, known = bench.run()
    names = [s.computation.name.split("_")[0] for s in bench.builder.stages if runs(s, known)]
    assert names == ["digits", "sum", "deal", "spans", way]
    order = np.lexsort(columns[::-1])
    points, values = bench.entries(found)
    assert values == order.tolist()
    assert points == [tuple(int(c[n]) for c in columns) for n in order]


@pytest.mark.parametrize("parts", [0, 8])
def test_dealt_entries_are_all_there_in_their_parts(parts: int) -> None:
    columns = band(3)
    bench = Bench(columns, np.arange(COUNT), parts=parts)
    found = dealt(bench.stream, bench.builder, sizes_of(SHAPE))
    if parts < 8:  # few entries lie in the caches anyway
        assert found is bench.stream
        return
    held, known = bench.run()
    starts = held["starts"]
    met = []
    for b in range(1 << parts):
        for e in range(starts[b], starts[b + 1]):
            at = known | {"b": b, "e": e}
            point = tuple(evaluate(t, at, held) for t in found.coordinates.values())
            met.append((b, point, int(held[found.values][evaluate(found.place, at, held)])))
    assert [n for _, _, n in sorted(met, key=lambda entry: entry[2])] == list(range(COUNT))
    assert all(point == tuple(int(c[n]) for c in columns) for _, point, n in met)
    assert met == sorted(met, key=lambda entry: (entry[0], entry[2]))  # stable in each part
    assert found.count is None
