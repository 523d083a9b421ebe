"""Parts of panels that cores give to each other: factors made before, own copies kept, tiles."""

from __future__ import annotations

import pytest

from loopwright.ir.loops import For, LoopNest, MeshBroadcast, Stmt, Store
from loopwright.ir.program import Program
from loopwright.ir.text import nest_text
from loopwright.ir.visit import loads, rebuild, statements
from loopwright.lower.build import seq
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans.mesh import scratchpad_room
from loopwright.planner.mesh_plans.mesh_product_tiles import product_sizes
from loopwright.planner.mesh_plans.mesh_tiles import MovedBox, NestWork, TiledLoop
from loopwright.planner.mesh_plans.mesh_vectors import vector_nest
from loopwright.planner.mesh_plans.mesh_windows import tile_steps, window_loop
from loopwright.transform.mesh_mapping import MapToMesh
from loopwright.transform.plan import apply_plan
from loopwright.transform.share_box import ShareBox
from loopwright.transform.stage_box import StageBox
from loopwright.transform.step import Step
from loopwright.transform.tiling import Tile, TileWithin
from loopwright.validate import check_translation
from programs import Do, nest, program

SW = load_mesh("sw26010")
PLAN: tuple[Step, ...] = (
    Tile(("i", "j", "k"), (4, 8, 4)),
    Tile(("i", "j", "k"), (4, 8, 2)),
    MapToMesh("i_t", "row", 2, 2),
    MapToMesh("j_t", "column", 2, 2),
    StageBox("C", "j_t", (), 1),
    ShareBox("A", "k_t", "k_t_2", (), "row"),
    ShareBox("B", "k_t", "k_t_2", (), "column"),
)


def scaled(term: str, *extra: str, steps: int | str = "q") -> Program:
    """C += a product with a factor."""
    arrays = {
        "A": "in float64 [n, q]", "B": "in float64 [q, m]", "C": "inout float64 [n, m]",
        "alpha": "in float64 []", "x": "in float64 [q]",
    }  # fmt: skip
    update = Do("C[i, j]", f"C[i, j] + {term}")
    body = nest((("i", "n"), ("j", "m"), ("k", steps)), update)
    return program("f", arrays, body, *(Do(*e.split(" = ")) for e in extra), params="n m q")


def lowered(source: Program) -> LoopNest:
    made = lower_schedule(apply_plan(source, PLAN))
    sizes = [dict(zip("nmq", each, strict=True)) for each in ((5, 9, 3), (11, 19, 9), (0, 3, 2))]
    assert check_translation(source, made, sizes) == ()
    return made


def stores_with(made: LoopNest, name: str) -> list[str]:
    """The buffers that values with a scalar are stored to."""
    return [
        stmt.buffer
        for stmt in statements(made.body)
        if isinstance(stmt, Store) and any(load.array == name for load in loads(stmt.value))
    ]


def test_a_factor_is_made_by_the_core_that_brings_the_element() -> None:
    made = lowered(scaled("alpha * A[i, k] * B[k, j]"))
    assert "for A_part_0 in range(" in nest_text(made)
    # Registers hold alpha for the loops over a part, and nothing else is made with it.
    factors = [f for f in stores_with(made, "alpha") if not f.startswith("factor")]
    assert factors == []
    assert len(stores_with(made, "alpha")) == 2  # by vectors, and the rest of a row
    assert not any(s.buffer == "A_box" and "factor" in str(s) for s in _stores(made))


def test_on_the_other_side_too() -> None:
    text = nest_text(lowered(scaled("A[i, k] * (B[k, j] * alpha)")))
    assert "for B_part_0 in range(" in text
    assert "for A_part_0 in range(" not in text


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    "term",
    [
        "x[k] * A[i, k] * B[k, j]",  # another factor for each step
        "alpha * A[i, k] * (A[i, k] + B[k, j])",  # used in two ways
        "alpha * (A[i, k] * B[k, j])",  # no factor of an element
    ],
)
def test_what_is_no_factor_of_an_element_stays(term: str) -> None:
    assert "_part_0 in range(" not in nest_text(lowered(scaled(term)))


def _stores(made: LoopNest) -> list[Store]:
    return [stmt for stmt in statements(made.body) if isinstance(stmt, Store)]


def test_roots_keep_their_own_copies() -> None:
    made = lowered(scaled("A[i, k] * B[k, j]"))
    given = [s for s in statements(made.body) if isinstance(s, MeshBroadcast)]
    assert len(given) == 2
    assert all(one.is_kept for one in given)

    def without_copies(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and stmt.var.startswith("A_box_") and "from" not in stmt.var:
            return seq()
        return stmt

    broken = LoopNest(made.name, made.buffers, made.scalars, rebuild(made.body, without_copies))
    source = scaled("A[i, k] * B[k, j]")
    found = check_translation(source, broken, [{"n": 11, "m": 19, "q": 9}])
    assert found
    assert "is read before it is written" in found[0].found


# -- sizes ----------------------------------------------------------------------------------------


def gemm(*extents: int, is_known: bool = True) -> tuple[list[TiledLoop], list[MovedBox], NestWork]:
    """The nest of a product of matrices, for the model."""
    loops = [
        TiledLoop(name, float(trips), axis, is_known=is_known)
        for name, trips, axis in zip("ijk", extents, (0, 1, -1), strict=True)
    ]

    def box(names: str, depth: int, **more: object) -> MovedBox:
        sides = tuple((((name, 1),), 0) for name in names)
        return MovedBox(8, sides, depth, **more)  # type: ignore[arg-type]

    boxes = [
        box("ij", 2, ways=2, is_ahead=False),
        box("ik", 3, ways=1, is_ahead=True, shared=8, window="k"),
        box("kj", 3, ways=1, is_ahead=True, shared=8, window="k"),
    ]
    instances = float(extents[0] * extents[1] * extents[2])
    return loops, boxes, NestWork(instances, is_vector=True, row="i", lane="j")


@pytest.mark.parametrize("extents", [(1000, 1100, 1200), (2000, 2300, 2600), (64, 64, 64)])
def test_sizes_fit_and_fill_the_last_turn(extents: tuple[int, int, int]) -> None:
    room = scratchpad_room(SW)
    found = product_sizes(*gemm(*extents), SW, (8, 8), room)
    assert found is not None
    tile = found.tiles
    for name, trips in zip("ij", extents, strict=False):
        turn = 8 * tile[name]
        assert -(-trips // turn) * turn < 1.1 * trips + 64
    parts = 2 * 8 * (-(-tile["i"] // 8) * tile["k"] + -(-tile["k"] // 8) * tile["j"])
    assert 8 * tile["i"] * tile["j"] + parts < room
    assert tile["k"] % found.windows["k"] == 0
    assert all(size < tile[name] for name, size in found.strips.items())


@pytest.mark.parametrize("rows", [800, 900, 1200])
def test_rows_that_fours_do_not_divide_fill_the_last_turn(rows: int) -> None:
    """Tiles of 4 n rows would have 5% of the rows beyond the array at least, or be small."""
    found = product_sizes(*gemm(rows, 900, 1000), SW, (8, 8), scratchpad_room(SW))
    assert found is not None
    turn = 8 * found.tiles["i"]
    assert -(-rows // turn) * turn <= 1.04 * rows
    assert found.tiles["i"] >= 24


def test_more_memory_is_no_slower() -> None:
    cycles = []
    for room in (20_000, 40_000, 60_000, 120_000):
        found = product_sizes(*gemm(1000, 1100, 1200), SW, (8, 8), room)
        assert found is not None
        cycles.append(found.cycles)
    assert cycles == sorted(cycles, reverse=True)
    assert product_sizes(*gemm(1000, 1100, 1200), SW, (8, 8), 1000) is None


def test_other_nests_have_other_models() -> None:
    loops, boxes, work = gemm(1000, 1100, 1200)
    room = scratchpad_room(SW)
    assert product_sizes(loops[:2], boxes, work, SW, (8, 8), room) is None
    assert product_sizes(loops, boxes[:1], work, SW, (8, 8), room) is None
    assert product_sizes(loops, boxes, NestWork(1e6), SW, (8, 8), room) is None


def test_tiles_of_triangles_differ_in_size() -> None:
    """Their average says nothing about the last turn: turns that have work are counted."""
    update = Do("C[i, j]", "C[i, j] + A[i, k] * B[k, j]")
    arrays = {name: f"{'inout' if name == 'C' else 'in'} float64 [n, n]" for name in "ABC"}
    for end, is_rectangle in (("n", True), ("i", False)):
        source = program("f", arrays, nest((("i", "n"), ("j", end), ("k", "n")), update))
        found = vector_nest(source, source.statements[0], ("i", "j", "k"))
        assert found is not None
        assert (found.row, found.lane, found.is_rectangle) == ("i", "j", is_rectangle)


def test_steps_of_windows_and_strips() -> None:
    found = product_sizes(*gemm(1000, 1100, 1200), SW, (8, 8), scratchpad_room(SW))
    assert found is not None
    names = ("i", "j", "k")
    steps = tile_steps(names, found)
    assert isinstance(steps[0], Tile)
    assert steps[0].sizes == tuple(found.tiles[name] for name in names)
    source = scaled("A[i, k] * B[k, j]")
    cuts: tuple[Step, ...] = (
        Tile(names, (4, 7, 4)), Tile(names, (4, 7, 2)), TileWithin(names, (4, 3, 2), (4, 7, 2)),
    )  # fmt: skip
    schedule = apply_plan(source, cuts)
    strips = {"i": "i_t", "j": "j_t", "k": "k_t"}
    for moving, loop in (({"i_t", "k_t"}, "k_t_2"), ({"k_t", "j_t"}, "j_t_3"), ({"i_t"}, "k_t")):
        assert window_loop(schedule, cuts, "k_t", strips, moving) == loop
