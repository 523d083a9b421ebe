"""What lanes of a warp access: broadcast, strides, sectors and banks, against an enumeration."""

from collections import defaultdict

import islpy as isl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.analysis.sharing_conditions import BlockAccess, block_accesses
from loopwright.analysis.thread_mapping import LoopTile, ThreadMapping, tiled_mapping
from loopwright.analysis.warp_access import (
    bank_passes,
    bank_phases,
    is_broadcast,
    lane_step,
    lane_stride,
    row_padding,
    sectors,
    warp_access,
)
from loopwright.ir.program import Program
from loopwright.ir.text import expr_text
from programs import Do, For, floyd_warshall, matmul, nest, program
from thread_oracle import Use, uses

Place = tuple[int, tuple[int, ...], tuple[int, ...]]  # warp, block, time


def by_warp(mapping: ThreadMapping, listed: list[Use]) -> dict[Place, dict[int, Use]]:
    """The lanes of every warp that access something at one time, in order."""
    found: dict[Place, dict[int, Use]] = defaultdict(dict)
    for use in listed:
        number, stride = 0, 1
        for coordinate, extent in zip(use.thread, mapping.shape, strict=True):
            number += coordinate * stride
            stride *= extent or 1
        found[number // 32, use.block, use.time][number % 32] = use
    return dict(sorted(found.items()))


def steps(mapping: ThreadMapping, listed: list[Use]) -> set[tuple[int, ...]]:
    """How subscripts change from a thread to the next one along the first axis that has several."""
    at = next((k for k, extent in enumerate(mapping.shape) if extent != 1), None)
    if at is None:
        return set()
    by_place = {(use.block, use.time, use.thread): use.element[1] for use in listed}
    found = set()
    for (block, time, thread), index in by_place.items():
        beside = (*thread[:at], thread[at] + 1, *thread[at + 1 :])
        if (other := by_place.get((block, time, beside))) is not None:
            found.add(tuple(b - a for a, b in zip(index, other, strict=True)))
    return found


def check(known: Program, tiles: list[LoopTile], sizes: dict[str, int]) -> None:
    """Compare all that is said of each access with a list of all instances."""
    mapping = tiled_mapping(known, tiles)
    given_ = " and ".join(f"{name} = {value}" for name, value in sizes.items())
    where = isl.Set(f"[{', '.join(sizes)}] -> {{ : {given_} }}")
    listed = uses(known, tiles, sizes)
    for access in block_accesses(known, mapping, where):
        own = [
            use
            for use in listed
            if (use.statement, use.access) == (access.statement.name, access.access)
        ]
        warps = by_warp(mapping, own)
        single = all(len({u.element for u in lanes.values()}) == 1 for lanes in warps.values())
        assert is_broadcast(mapping, access) == single
        changes = steps(mapping, own)
        assert lane_step(mapping, access) == (changes.pop() if len(changes) == 1 else None)
        full = [lanes for lanes in warps.values() if len(lanes) == 32]
        expected = full[0] if full else next(iter(warps.values()))
        assert_same_addresses(known, mapping, access, sizes, expected)


def assert_same_addresses(
    known: Program,
    mapping: ThreadMapping,
    access: BlockAccess,
    sizes: dict[str, int],
    expected: dict[int, Use],
) -> None:
    found = warp_access(known, mapping, access, sizes)
    assert found is not None
    array = known.array(access.array)
    width = array.dtype.bytes
    extents = [sizes[str(x.name)] if hasattr(x, "name") else int(x.value) for x in array.shape]
    addresses = {}
    for lane, use in expected.items():
        place = 0
        for subscript, extent in zip(use.element[1], extents, strict=True):
            place = place * extent + subscript
        addresses[lane] = width * place
    assert dict(found.addresses) == addresses
    touched = {(a + byte) // 32 for a in addresses.values() for byte in range(width)}
    assert found.sectors == len(touched)
    assert found.elements == len(set(addresses.values()))
    order = [addresses.get(lane) for lane in range(32)]
    assert found.bank_passes == served_one_by_one(order, width)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    "tiles",
    [
        [LoopTile("i", 8, 2, "y"), LoopTile("j", 32, 1, "x")],
        [LoopTile("i", 32, 1, "x"), LoopTile("j", 8, 2, "y")],
        [LoopTile("i", 8, 1, "y"), LoopTile("j", 16, 1, "x")],  # a warp has two rows
        [LoopTile("i", 4, 1, "y"), LoopTile("j", 36, 3, "x")],  # and here two and two thirds
        [LoopTile("i", 4, 1, "z"), LoopTile("j", 8, 1, "x"), LoopTile("k", 2, 1, "y")],
        [LoopTile("i", 64, 2, "x")],
    ],
)
def test_product(tiles: list[LoopTile]) -> None:
    check(matmul(), tiles, {"n": 40, "m": 40, "q": 2})


def test_shortest_paths_in_all_blocks() -> None:
    tiles = [LoopTile("k", 4), LoopTile("i", 4, 1, "y"), LoopTile("j", 8, 1, "x")]
    check(floyd_warshall(), tiles, {"n": 9})


single = {"v": "inout float32 [99]", "w": "in float64 [n, 9]"}


@st.composite
def accesses(draw: st.DrawFn) -> tuple[Program, list[LoopTile]]:
    small = st.integers(0, 3)
    first, second = (f"{draw(small)} * i + {draw(small)} * j + {draw(small)}" for _ in range(2))
    column = draw(st.sampled_from(["i // 2", "j", "(i + j) % 3", second]))
    body = For("j", 0, draw(st.sampled_from([3, 6, "i + 1"])), Do(f"v[{first}]", f"w[i, {column}]"))
    known = program("drawn", single, For("i", 0, "n", body))
    axes = draw(st.sampled_from([("x", ""), ("", "x"), ("x", "y"), ("y", "x")]))
    tiles = [
        LoopTile(loop, draw(st.sampled_from([None, 4, 40])), draw(st.integers(1, 3)), axis)
        if axis
        else LoopTile(loop, draw(st.sampled_from([None, 4])))
        for loop, axis in zip("ij", axes, strict=True)
    ]
    return known, tiles


@given(accesses())
@settings(max_examples=some(20))
def test_random_subscripts(case: tuple[Program, list[LoopTile]]) -> None:
    known, tiles = case
    mapping = tiled_mapping(known, tiles)
    if None in mapping.shape[:-1]:
        access = block_accesses(known, mapping)[0]
        assert is_broadcast(mapping, access) is None
        assert warp_access(known, mapping, access, {"n": 33}) is None
        return
    check(known, tiles, {"n": 33})


def test_strides_are_products_of_extents() -> None:
    arrays = {"T": "inout float64 [a, b, c]", "x": "in float64 [b]"}
    body = nest((("i", "a"), ("j", "b"), ("k", "c")), Do("T[i, j, k]", "x[j] + T[i, 2 * j, j]"))
    known = program("strides", arrays, body, params="a b c")
    found = {}
    for loop in "ijk":
        mapping = tiled_mapping(known, [LoopTile(loop, 32, 1, "x")])
        for access in block_accesses(known, mapping):
            step = lane_step(mapping, access)
            assert step is not None
            text = expr_text(lane_stride(known, access, step))
            found.setdefault(loop, []).append(text)
    assert found == {
        "i": ["b * c", "0", "b * c"],
        "j": ["c", "1", "2 * c + 1"],
        "k": ["1", "0", "0"],
    }


def test_subscripts_that_change_unevenly_have_no_stride() -> None:
    known = program("uneven", single, For("i", 0, "n", Do("v[i // 2]", "w[i, 0]")))
    mapping = tiled_mapping(known, [LoopTile("i", 32, 1, "x")])
    write, read = block_accesses(known, mapping)
    assert (lane_step(mapping, write), lane_step(mapping, read)) == (None, (1, 0))
    down = tiled_mapping(known, [LoopTile("i", 32, 1, "y")])
    assert lane_step(down, block_accesses(known, down)[1]) == (1, 0)
    nobody = tiled_mapping(known, [LoopTile("i", 32)])
    assert lane_step(nobody, block_accesses(known, nobody)[1]) is None


@pytest.mark.parametrize(("divisor", "expected"), [(32, True), (64, True), (16, False)])
def test_broadcast_in_each_warp_of_a_longer_row(divisor: int, expected: bool) -> None:
    known = program("parts", single, For("i", 0, "n", Do(f"v[i // {divisor}]", "w[i, 0]")))
    mapping = tiled_mapping(known, [LoopTile("i", 128, 1, "x")])
    assert is_broadcast(mapping, block_accesses(known, mapping)[0]) is expected


def test_lanes_that_are_idle_part_those_that_run() -> None:
    """Every second lane runs: none has a neighbour, and yet they access different elements."""
    body = For("i", 0, "n", Do("v[i]", "w[0, i % 2]"), step=2)
    known = program("even", single, body)
    mapping = tiled_mapping(known, [LoopTile("i", 64, 1, "x")])
    write, read = block_accesses(known, mapping)
    assert is_broadcast(mapping, write) is False
    assert is_broadcast(mapping, read) is True
    assert lane_step(mapping, write) is None


def test_lanes_lie_along_y_where_x_has_one_thread() -> None:
    known = matmul()
    tiles = [LoopTile("j", 4, 4, "x"), LoopTile("i", 32, 1, "y")]
    mapping = tiled_mapping(known, tiles)
    assert mapping.shape == (1, 32)
    found = [lane_step(mapping, access) for access in block_accesses(known, mapping)]
    assert found == [(1, 0), (1, 0), (1, 0), (0, 0)]
    check(known, tiles, {"n": 40, "m": 8, "q": 2})


def test_a_warp_whose_lanes_all_run_is_preferred() -> None:
    """In the first block lane 0 is idle; the first full warp has the elements from 32 on."""
    known = program("from_one", single, For("i", 1, "n", Do("v[i]", "w[i, 0]")))
    mapping = tiled_mapping(known, [LoopTile("i", 32, 1, "x")])
    access = block_accesses(known, mapping)[0]
    whole = warp_access(known, mapping, access, {"n": 64})
    assert whole is not None
    assert whole.addresses == tuple((lane, 4 * (32 + lane)) for lane in range(32))
    short = warp_access(known, mapping, access, {"n": 20})
    assert short is not None
    assert short.addresses == tuple((lane, 4 * lane) for lane in range(1, 20))
    assert warp_access(known, mapping, access, {"n": 1}) is None


# -- sectors and banks ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "stride", "start", "expected"),
    [
        (4, 0, 0, 1),  # broadcast
        (4, 1, 0, 4),  # coalesced
        (4, 1, 1, 5),  # not aligned
        (8, 1, 0, 8),
        (8, -1, 31, 8),
        (4, 2, 0, 8),
        (4, 8, 0, 32),
        (8, 100, 0, 32),
        (16, 1, 0, 16),
    ],
)
def test_sectors(size: int, stride: int, start: int, expected: int) -> None:
    assert sectors([size * (start + stride * lane) for lane in range(32)], size) == expected


def test_an_access_across_a_border_touches_two_sectors() -> None:
    assert sectors([28], 8) == 2
    assert sectors([24], 8) == 1


def served_one_by_one(addresses: list[int | None], size: int) -> int:
    """Passes of shared memory, bank by bank: each pass serves one word of each bank."""
    passes = 0
    lanes = 32 * 4 // max(4, size)
    for first in range(0, len(addresses), lanes):
        waiting = {
            (address + byte) // 4
            for address in addresses[first : first + lanes]
            if address is not None
            for byte in range(size)
        }
        while waiting:
            served: dict[int, int] = {}
            for word in sorted(waiting):
                served.setdefault(word % 32, word)
            waiting -= set(served.values())
            passes += 1
    return passes


@pytest.mark.parametrize(
    ("size", "stride", "expected"),
    [
        (4, 1, 1),
        (4, 0, 1),
        (4, 2, 2),
        (4, 32, 32),
        (4, 33, 1),
        (8, 1, 2),  # two phases without conflicts
        (8, 0, 2),
        (8, 16, 32),
        (8, 17, 2),
        (16, 1, 4),
        (2, 1, 1),
        (1, 1, 1),
    ],
)
def test_bank_passes(size: int, stride: int, expected: int) -> None:
    addresses = [size * stride * lane for lane in range(32)]
    assert bank_passes(addresses, size) == served_one_by_one([*addresses], size) == expected
    assert bank_passes(addresses, size) >= bank_phases(size)


@given(
    st.sampled_from([1, 2, 4, 8, 16]),
    st.lists(st.none() | st.integers(0, 300), min_size=1, max_size=32),
)
def test_bank_passes_of_any_lanes(size: int, places: list[int | None]) -> None:
    addresses = [None if x is None else size * x for x in places]
    assert bank_passes(addresses, size) == served_one_by_one(addresses, size)


ROW = [(0, lane) for lane in range(32)]
COLUMN = [(lane, 0) for lane in range(32)]
SQUARE = [(lane // 8, lane % 8) for lane in range(32)]


@pytest.mark.parametrize(
    ("patterns", "shape", "size", "expected"),
    [
        ([COLUMN], (32, 32), 4, 1),
        ([ROW, COLUMN], (32, 32), 4, 1),
        ([COLUMN], (32, 33), 4, 0),
        ([COLUMN], (32, 32), 8, 1),
        ([ROW], (32, 32), 4, 0),
        ([SQUARE], (32, 32), 4, 8),
        ([], (32, 32), 4, 0),
    ],
)
def test_padding(patterns: list, shape: tuple[int, int], size: int, expected: int) -> None:
    assert row_padding(patterns, shape, size) == expected


def test_the_worst_pattern_decides_about_padding() -> None:
    """Padding 3 has fewer passes in all, but 4 in one pattern; with padding 2 none has over 3."""
    strides = [(6, 2, 16, 8), (5, 1, 4, 16), (5, 7, 8, 8), (1, 9, 32, 4), (4, 8, 32, 16)]
    patterns = [[((a * x) % r, (b * x) % c) for x in range(32)] for a, b, r, c in strides]

    def passes(padding: int) -> list[int]:
        rows = ([4 * (r * (23 + padding) + c) for r, c in lanes] for lanes in patterns)
        return [served_one_by_one([*addresses], 4) for addresses in rows]

    assert (max(passes(2)), sum(passes(2))) == (3, 10)
    assert (max(passes(3)), sum(passes(3))) == (4, 9)
    assert row_padding(patterns, (32, 23), 4) == 2


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 15)), min_size=32, max_size=32),
             min_size=1, max_size=3),
    st.integers(1, 40),
    st.sampled_from([4, 8]),
)  # fmt: skip
def test_no_padding_is_better(patterns: list, width: int, size: int) -> None:
    def worst(padding: int) -> tuple[int, int]:
        passes = [
            served_one_by_one([size * (r * (width + padding) + c) for r, c in lanes], size)
            for lanes in patterns
        ]
        return max(passes), sum(passes)

    chosen = row_padding(patterns, (8, width), size)
    assert worst(chosen) == min(map(worst, range(70)))
    assert all(worst(less) > worst(chosen) for less in range(chosen))
