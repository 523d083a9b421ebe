"""Streams are sorted as a stable sort by hand does, whatever passes it takes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import combined, some
from loopwright.diagnostics import UsageError
from loopwright.sparse.convert_tensor import convert
from loopwright.sparse.curves import CURVES
from loopwright.sparse.formats import find
from loopwright.sparse.synthesis.coalesce import coalesced
from loopwright.sparse.synthesis.counting_sort import as_list, sort_entries
from loopwright.sparse.synthesis.entry_order import Order
from loopwright.sparse.tensor import sparse_tensor
from loopwright.sparse.uf import evaluate
from sparse.synthesis.iterators import Bench, sizes_of, terms

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


@pytest.mark.drawn(3)
@pytest.mark.parametrize("wide", ["i", "j", "ij"])
def test_keys_of_many_values_are_sorted_by_digits(wide: str) -> None:
    """A counter for each of 2^30 coordinates would not be affordable."""
    shape = (1 << 30, 1 << 30)
    columns = drawn(5, 200, shape)
    bench = Bench(columns, np.arange(200))
    result = sort_entries(bench.iterator, terms("j", "i"), bench.builder, sizes_of(shape, wide))
    assert bench.entries(result)[1] == np.lexsort(columns).tolist()


def test_three_dimensions() -> None:
    columns = drawn(6, 200, (7, 300, 4))
    bench = Bench(columns, np.arange(200), parts=5)
    result = sort_entries(
        bench.iterator, terms("i", "j", "k"), bench.builder, sizes_of((7, 300, 4))
    )
    assert bench.entries(result)[1] == np.lexsort(columns[::-1]).tolist()


def test_what_is_in_order_costs_nothing() -> None:
    columns = drawn(7, 50)
    order = np.lexsort(columns[::-1])
    bench = Bench([c[order] for c in columns], np.arange(50), terms("i", "j"))
    assert (
        sort_entries(bench.iterator, terms("i"), bench.builder, sizes_of(SHAPE)) is bench.iterator
    )
    assert not bench.builder.stages


def test_a_known_order_saves_passes() -> None:
    """From rows to columns one pass by column is enough."""
    columns = drawn(8, 200)
    order = np.lexsort(columns[::-1])
    known = Bench([c[order] for c in columns], np.arange(200), terms("i", "j"))
    result = sort_entries(known.iterator, terms("j", "i"), known.builder, sizes_of(SHAPE))
    assert [s.computation.name.split("_")[0] for s in known.builder.stages] == [
        "count",
        "sum",
        "scatter",
    ]
    expected = np.lexsort([c[order] for c in columns])
    assert known.entries(result)[1] == expected.tolist()


def test_orders_of_too_many_bits_are_refused() -> None:
    shape = (1 << 40, 1 << 40)
    bench = Bench(drawn(9, 3), np.arange(3))
    with pytest.raises(UsageError, match="takes more than 62 bits"):
        sort_entries(bench.iterator, terms("MORTON(i,j)"), bench.builder, sizes_of(shape, "ij"))


def test_lists_stay_lists() -> None:
    bench = Bench(drawn(10, 5), np.arange(5))
    assert as_list(bench.iterator, bench.builder) == bench.iterator
    assert not bench.builder.stages


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


def test_nothing_is_copied_where_nothing_is_repeated() -> None:
    bench = Bench([[0, 0, 2], [1, 2, 0]], [1.0, 2.0, 3.0], terms("i", "j"))
    result = coalesced(bench.iterator, bench.builder)
    held, _ = bench.run()
    assert held[result.values] is held["from_values"]
    assert result.is_unique


def test_sums_of_packed_numbers() -> None:
    """After a sort by digits coordinates are told by one number; they are told afterwards too."""
    columns = [np.array([3, 1, 3, 0, 1], np.int32), np.array([2, 1, 2, 0, 1], np.int32)]
    bench = Bench(columns, [1.0, 2.0, 4.0, 8.0, 16.0])
    ordered = sort_entries(bench.iterator, terms("i", "j"), bench.builder, sizes_of((4, 3)))
    found = bench.entries(coalesced(ordered, bench.builder))
    assert found == ([(0, 0), (1, 1), (3, 2)], [8.0, 18.0, 5.0])


@pytest.mark.drawn(4)
@pytest.mark.parametrize("target", ["scoo", "csf"])
@pytest.mark.parametrize("threads", [1, 2])
def test_coordinates_of_more_bits_than_a_number_has(target: str, threads: int) -> None:
    """Sizes of a tensor of tags: 20, 25, 22 and 11 bits, far more coordinates than entries."""
    shape, count = (532_924, 17_262_471, 2_480_308, 1_443), 3_000
    rng = np.random.default_rng(7)
    columns = [
        np.where(rng.random(count) < 0.5, rng.integers(0, size, count), size - 1).astype(np.int32)
        for size in shape
    ]
    values = rng.random(count)
    names = [index.name for index in find("coo", 4).indices]
    tensor = sparse_tensor("coo", shape, dict(zip(names, columns, strict=True)), values)
    made = convert(convert(tensor, target, threads=threads), "scoo", threads=threads)
    right: dict[tuple[int, ...], float] = {}
    for *place, value in zip(*columns, values, strict=True):
        key = tuple(int(coordinate) for coordinate in place)
        right[key] = right.get(key, 0.0) + value
    if target == "scoo":  # which keeps what is repeated
        order = np.lexsort(columns[::-1])
        for name, column in zip(names, columns, strict=True):
            assert np.array_equal(made.arrays[name], column[order])
        assert np.array_equal(made.values, values[order])
    else:
        found = [tuple(map(int, p)) for p in zip(*(made.arrays[n] for n in names), strict=True)]
        assert found == sorted(right)
        assert made.values.tolist() == [right[key] for key in found]
