"""Entries are dealt out and sorted in parts as a stable sort by hand does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import in_all
from loopwright.sparse.synthesis.bucket_partition import partitioned
from loopwright.sparse.synthesis.counting_sort import sort_entries
from loopwright.sparse.synthesis.stages import Stage
from loopwright.sparse.uf import evaluate
from sparse.synthesis.iterators import Bench, sizes_of, terms

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
    return all(evaluate(term, known, {}) >= 0 for term in stage.when)


WIDE = (1 << 14, 1 << 14)
WIDER = (1 << 14, 1 << 20)
RUNS = ["segments", "sum", "longest"]
ROW = [np.full(50, 7, np.int32), np.arange(50, 0, -1, np.int32)]

WAYS = {
    "rows": (band(1), WIDE, 3, [*RUNS, "ranksort"]),
    "few rows": (band(1), SHAPE, 3, [*RUNS, "ranksort"]),
    "one digit": (band(1), SHAPE, 5, ["spans", "buckets"]),
    "nothing": ([column[:0] for column in band(1)], WIDE, 3, [*RUNS, "ranksort"]),
    "many rows": (scattered(2), WIDE, 0, [*RUNS, "ranksort"]),
    "long row": (ROW, WIDE, 3, [*RUNS, "spans", "ranges"]),
    "long and as many digits": (ROW, SHAPE, 3, [*RUNS, "spans", "ranges"]),
    "long and wide": ([ROW[0], ROW[1] * 300], WIDER, 3, [*RUNS, "spans", "digits"]),
    "runs of several rows": (band(1), WIDE, 0, [*RUNS, "spans", "ranges"]),
}


@pytest.mark.drawn(9)
@pytest.mark.parametrize(("columns", "shape", "parts", "way"), WAYS.values(), ids=WAYS.keys())
def test_ways_to_sort_buckets(
    columns: list[np.ndarray], shape: tuple[int, int], parts: int, way: list[str]
) -> None:
    """Values number the entries, so that equal keys show whether the sort is stable."""
    bench = Bench(columns, np.arange(len(columns[0])), parts=parts)
    found = sort_entries(bench.iterator, terms("i", "j"), bench.builder, sizes_of(shape))
    _, known = bench.run()
    names = [s.computation.name.split("_")[0] for s in bench.builder.stages if runs(s, known)]
    assert names == ["digits", "sum", "partition", *way]
    order = np.lexsort(columns[::-1])
    points, values = bench.entries(found)
    assert values == order.tolist()
    assert points == [tuple(int(c[n]) for c in columns) for n in order]


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((1 << 12, 1 << 17), "int32"), ((1 << 12, 1 << 22), "uint32"), ((1 << 12, 1 << 24), "int64")],
    ids=["int32", "uint32", "int64"],
)
@given(points=st.lists(st.tuples(st.integers(0, 15), st.integers(0, 7)), max_size=60))
@settings(max_examples=12 if in_all() else 6)
def test_rank_sort_of_segments(
    shape: tuple[int, int], dtype: str, points: list[tuple[int, int]]
) -> None:
    """Keys of all types up to their largest; entries that are repeated; what the sort tells."""
    rows, columns = shape
    listed = [((i * 273) % rows, (columns - 1 - j * 5) % columns) for i, j in points]
    given_ = [np.array([p[m] for p in listed], np.int32) for m in (0, 1)]
    bench = Bench(given_, np.arange(len(listed)), parts=2)
    found = sort_entries(bench.iterator, terms("i", "j"), bench.builder, sizes_of(shape))
    assert bench.builder.spaces["keys"].dtype.name == dtype
    order = sorted(range(len(listed)), key=lambda n: listed[n])
    held, known = bench.run()
    assert held[found.values].tolist() == order
    for m, column in enumerate(("sorted_i", "sorted_j")):
        assert held[column].tolist() == [listed[n][m] for n in order]
    told = found.statistics
    assert told is not None
    if runs(next(s for s in bench.builder.stages if "ranksort" in s.computation.name), known):
        assert known[told.repeats] == len(listed) - len(set(listed))
    starts = np.searchsorted(sorted(i for i, _ in listed), np.arange(rows + 1))
    assert held[told.pointers].tolist() == starts.tolist()


@pytest.mark.parametrize("parts", [0, 8])
def test_dealt_entries_are_all_there_in_their_parts(parts: int) -> None:
    columns = band(3)
    bench = Bench(columns, np.arange(COUNT), parts=parts)
    found = partitioned(bench.iterator, bench.builder, sizes_of(SHAPE))
    if parts < 8:  # few entries lie in the caches anyway
        assert found is bench.iterator
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
