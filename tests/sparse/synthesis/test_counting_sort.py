"""Streams are sorted as a stable sort by hand does, whatever passes it takes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import combined, in_all, some
from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import INT32
from loopwright.sparse.curves import CURVES
from loopwright.sparse.formats import find
from loopwright.sparse.synthesis.bucket_partition import pack_key, partitioned
from loopwright.sparse.synthesis.coalesce import coalesced
from loopwright.sparse.synthesis.counting_sort import sort_entries, sort_places
from loopwright.sparse.synthesis.definitions import PermutationArray, SortKey
from loopwright.sparse.synthesis.entry_order import Order
from loopwright.sparse.synthesis.stages import Builder, Stage
from loopwright.sparse.uf import Sym, Term, evaluate, parse_linear
from sparse.synthesis.iterators import LETTERS, Bench, run_stage, sizes_of, terms

SHAPE = (21, 13)


def drawn(seed: int, count: int, shape: tuple[int, ...] = SHAPE) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, size, count, np.int32) for size in shape]


def by_hand(columns: list[np.ndarray], order: Order) -> list[int]:
    """The entries in a stable order, by a comparison sort."""
    points = list(zip(*(column.tolist() for column in columns), strict=True))

    def key(entry: int) -> tuple[int, ...]:
        at = dict(zip("ijk", points[entry], strict=False))
        return tuple(evaluate(term, at, CURVES) for term in order)

    return sorted(range(len(points)), key=key)


ORDERS = (
    terms("i"),
    terms("j"),
    terms("i", "j"),
    terms("j", "i"),
    terms("floor(i/4)", "floor(j/2)", "i mod 4", "j mod 2"),
    terms("j-i"),
    terms("MORTON(i,j)"),
    terms("ALTO(i,j,32,16)"),
)


@pytest.mark.drawn(6)
@pytest.mark.parametrize(("wanted", "parts"), combined(ORDERS, [0, 3, 5, 10], one_in=2))
def test_any_order_of_any_list(wanted: Order, parts: int) -> None:
    """Values number the entries, so that equal keys show whether the sort is stable."""
    for count in (0, 1, 2, 300):
        columns = drawn(count, count)
        bench = Bench(columns, np.arange(count), parts=parts)
        result = sort_entries(bench.iterator, wanted, bench.builder, sizes_of(SHAPE))
        points, values = bench.entries(result)
        order = by_hand(columns, wanted)
        assert values == order
        assert points == [tuple(int(c[n]) for c in columns) for n in order]


def test_orders_of_too_many_bits_are_refused() -> None:
    shape = (1 << 40, 1 << 40)
    bench = Bench(drawn(9, 3), np.arange(3))
    with pytest.raises(UsageError, match="takes more than 62 bits"):
        sort_entries(bench.iterator, terms("MORTON(i,j)"), bench.builder, sizes_of(shape, "ij"))


# -- repeated entries -----------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=30))
@settings(max_examples=some(30))
def test_repeated_entries_are_summed(points: list[tuple[int, int]]) -> None:
    points.sort()
    values = [float(1 << n) for n in range(len(points))]  # every sum of some of them is different
    columns = [np.array([p[m] for p in points], np.int32) for m in (0, 1)]
    bench = Bench(columns, values, terms("i", "j"))
    found = bench.entries(coalesced(bench.iterator, bench.builder))
    sums: dict[tuple[int, ...], float] = {}
    for point, value in zip(points, values, strict=True):
        sums[point] = sums.get(point, 0.0) + value
    assert found == (list(sums), list(sums.values()))


WIDE_SHAPE = (300, 280)
COUNT = 600


def band(seed: int) -> list[np.ndarray]:
    """Entries near the diagonal in any order, some of them repeated."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, WIDE_SHAPE[0], COUNT)
    columns = np.clip(rows + rng.integers(-3, 4, COUNT), 0, WIDE_SHAPE[1] - 1)
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
    "few rows": (band(1), WIDE_SHAPE, 3, [*RUNS, "ranksort"]),
    "one digit": (band(1), WIDE_SHAPE, 5, ["spans", "buckets"]),
    "nothing": ([column[:0] for column in band(1)], WIDE, 3, [*RUNS, "ranksort"]),
    "many rows": (scattered(2), WIDE, 0, [*RUNS, "ranksort"]),
    "long row": (ROW, WIDE, 3, [*RUNS, "spans", "ranges"]),
    "long and as many digits": (ROW, WIDE_SHAPE, 3, [*RUNS, "spans", "ranges"]),
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
    found = partitioned(bench.iterator, bench.builder, sizes_of(WIDE_SHAPE))
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


ROW_COUNT = Term.of(Sym("NR"))
WIDTHS = {"perm": INT32, "rlen": INT32}


def keyed(*keys: tuple[str, bool]) -> PermutationArray:
    found = tuple(SortKey(parse_linear(text, ("place",)), falls) for text, falls in keys)
    return PermutationArray("perm", "pos", ROW_COUNT, "place", found)


def permuted(made: PermutationArray, lengths: list[int]) -> tuple[list[int], list[int]]:
    """The permutation of places and its inverse."""
    builder = Builder(INT32)
    builder.given("rlen", INT32, (ROW_COUNT,))
    sort_places(made, find("sell(2,4)"), builder, sizes_of((1, 1)), WIDTHS)
    held = {"rlen": np.array(lengths, np.int32)}
    known = {"NR": len(lengths), "NC": max(lengths, default=0)}
    for stage in builder.stages:
        run_stage(stage, held, known)
    return held["perm"].tolist(), held["pos"].tolist()


@pytest.mark.drawn(2)
@pytest.mark.parametrize("count", [0, 1, 5, 100])
@pytest.mark.parametrize("falls", [False, True])
def test_windows_of_lengths(count: int, falls: bool) -> None:
    lengths = np.random.default_rng(count).integers(0, 6, count).tolist()
    made = keyed(("floor(place/8)", False), ("rlen(place)", falls), ("place", False))
    sign = -1 if falls else 1
    expected = sorted(range(count), key=lambda x: (x // 8, sign * lengths[x]))
    perm, pos = permuted(made, lengths)
    assert perm == expected
    assert [perm[p] for p in pos] == list(range(count))


def test_a_key_without_bounds_is_refused() -> None:
    with pytest.raises(UsageError, match=r"the key MORTON\(place,place\) of 'perm' has no bounds"):
        permuted(keyed(("MORTON(place,place)", False)), [1, 2])


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
