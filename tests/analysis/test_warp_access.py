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
    row_padding,
    warp_access,
)
from loopwright.ir.program import Program
from programs import Do, For, floyd_warshall, program
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


# -- sectors and banks ----------------------------------------------------------------------------


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
