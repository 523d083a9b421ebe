"""Mappings of instances to blocks and threads: from tile sizes, and from marked schedules."""

from dataclasses import replace

import islpy as isl
import pytest

from loopwright.analysis.thread_mapping import (
    LoopTile,
    ThreadMapping,
    scheduled_mappings,
    tiled_mapping,
)
from loopwright.diagnostics import UsageError
from loopwright.ir.loops import Mark
from loopwright.ir.schedule import Schedule
from loopwright.transform.tiling import Tile
from programs import Do, For, floyd_warshall, matmul, matmul_in_nest, nest, program
from thread_oracle import uses


def values(relation: isl.UnionMap, name: str, point: tuple[int, ...], params: dict[str, int]):
    """The image of one instance, which must have one."""
    given = ", ".join(f"{param} = {value}" for param, value in params.items())
    head = f"[{', '.join(params)}] -> "
    at = ", ".join(map(str, point))
    one = isl.UnionSet(f"{head}{{ {name}[{at}] : {given.replace(', ', ' and ')} }}")
    found: list[isl.Set] = []
    relation.intersect_domain(one).range().foreach_set(found.append)
    (image,) = found
    sample = image.sample_point()
    kind = isl.dim_type.set
    assert image.subtract(isl.Set.from_point(sample)).is_empty()
    return tuple(sample.get_coordinate_val(kind, k).to_python() for k in range(image.dim(kind)))


@pytest.mark.parametrize(
    "tiles",
    [
        [LoopTile("i", 4, 2, "y"), LoopTile("j", 6, 1, "x")],
        [LoopTile("k", 3), LoopTile("i", 5, 2, "x", origin=1), LoopTile("j", None, 4, "z")],
        [LoopTile("i", 4, 4, "x")],
    ],
)
def test_tiles_give_the_coordinates_of_the_definition(tiles: list[LoopTile]) -> None:
    known, params = floyd_warshall(), {"n": 7}
    mapping = tiled_mapping(known, tiles)
    for use in uses(known, tiles, params)[::40]:
        at = use.statement, use.point, params
        assert values(mapping.blocks, *at) == use.block
        assert values(mapping.threads, *at) == use.thread
        assert values(mapping.times, *at) == use.time


def test_instances_of_a_block_have_its_coordinates_as_parameters() -> None:
    mapping = tiled_mapping(floyd_warshall(), [LoopTile("i", 8), LoopTile("j", 4)])
    assert mapping.coordinates == ("i_b", "j_b")
    expected = isl.Set(
        "[n, i_b, j_b] -> { S0[k, i, j] : 0 <= k, i, j < n and"
        " 8 i_b <= i < 8 i_b + 8 and 4 j_b <= j < 4 j_b + 4 }"
    )
    assert mapping.instances()["S0"].is_equal(expected)
    some = isl.Set("[i_b, j_b] -> { : i_b = j_b }")
    assert mapping.instances(some)["S0"].is_equal(expected.intersect_params(some))


def test_block_coordinates_are_no_parameters() -> None:
    body = For("i", 0, "i_b", Do("x[i]", "2 * x[i]"))
    known = program("scale", {"x": "inout float64 [i_b]"}, body, params="i_b")
    assert tiled_mapping(known, [LoopTile("i", 8)]).coordinates == ("i_b_2",)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: LoopTile("i", 8, 2),
            "threads divide a loop along an axis\n"
            "note: found LoopTile(loop='i', block=8, thread=2, axis='', origin=0)\n"
            "try: one of x, y, z",
        ),
        (
            lambda: LoopTile("i", 8, 2, "w"),
            "threads divide a loop along an axis\n"
            "note: found LoopTile(loop='i', block=8, thread=2, axis='w', origin=0)\n"
            "try: one of x, y, z",
        ),
        (
            lambda: LoopTile("i", -1),
            "tiles have sizes of at least 1\n"
            "note: found LoopTile(loop='i', block=-1, thread=None, axis='', origin=0)",
        ),
        (
            lambda: tiled_mapping(matmul_in_nest(), [LoopTile("k", 8)]),
            "statement S0 is in no loop 'k'\n"
            "try: a set of statements shares the loops that are tiled",
        ),
        (
            lambda: tiled_mapping(matmul(), [LoopTile("i", 8, 1, "x"), LoopTile("j", 8, 1, "x")]),
            "two loops are divided along one axis\nnote: found loops 'i' and 'j' along x",
        ),
    ],
)
def test_refusals(make, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert str(caught.value) == message


# -- from a schedule ------------------------------------------------------------------------------


def marked(known, *steps, blocks: str, threads: str) -> Schedule:
    schedule = Schedule(known, known.schedule)
    for step in steps:
        schedule = step.apply(schedule)
    marks = [(loop, Mark.BLOCK) for loop in blocks.split()]
    marks += [(loop, Mark.THREAD) for loop in threads.split()]
    return replace(schedule, marks=tuple(marks))


def assert_same_threads(one: ThreadMapping, two: ThreadMapping) -> None:
    assert (one.axes, one.shape) == (two.axes, two.shape)
    assert one.threads.is_equal(two.threads)
    # Blocks may be counted in other ways, but divide the instances in the same one.
    assert together(one.blocks).is_equal(together(two.blocks))
    assert together(one.times.flat_range_product(one.threads)).is_equal(
        together(two.times.flat_range_product(two.threads))
    )


def together(places: isl.UnionMap) -> isl.UnionMap:
    return places.apply_range(places.reverse())


def test_marked_schedule_is_the_mapping_of_its_tiles() -> None:
    schedule = marked(matmul(), Tile(("i", "j"), (16, 32)), blocks="i_t j_t", threads="i j")
    (mapping,) = scheduled_mappings(schedule)
    assert mapping.coordinates == ("i_t", "j_t")
    tiles = [LoopTile("i", 16, 1, "y"), LoopTile("j", 32, 1, "x")]
    assert_same_threads(mapping, tiled_mapping(matmul(), tiles))


def test_a_statement_outside_a_loop_over_threads_runs_in_thread_zero() -> None:
    arrays = {"A": "in float64 [n, n]", "y": "out float64 [n]"}
    inner = nest((("i", "n"),), Do("y[i]", "0"), For("k", 0, "n", Do("y[i]", "y[i] + A[i, k]")))
    known = program("sums", arrays, inner)
    (mapping,) = scheduled_mappings(marked(known, blocks="i", threads="k"))
    assert values(mapping.threads, "S0", (3,), {"n": 5}) == (0,)
    assert values(mapping.threads, "S1", (3, 2), {"n": 5}) == (2,)


@pytest.mark.parametrize(
    ("blocks", "threads", "axes", "message"),
    [
        (
            "i k",
            "j",
            {},
            "block loop 'k' does not stand directly inside 'i'\n"
            "try: block loops of a kernel are nested perfectly",
        ),
        (
            "i",
            "j k",
            {"j": "x", "k": "x"},
            "the loop 'j' over threads has no axis of its own\n"
            "note: found x\ntry: one of x, y, z for each",
        ),
    ],
)
def test_marks_that_no_kernel_has(blocks: str, threads: str, axes: dict, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        scheduled_mappings(marked(matmul(), blocks=blocks, threads=threads), axes)
    assert str(caught.value) == message
