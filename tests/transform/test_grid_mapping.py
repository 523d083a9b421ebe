"""MapToBlocks and MapToThreads: what they rewrite, and everything that they refuse."""

from __future__ import annotations

import pytest

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.loops import Axis, Mark
from loopwright.ir.program import Program
from loopwright.ir.text import schedule_text
from loopwright.lower.passes import lower_schedule
from loopwright.transform.grid_mapping import MapToBlocks, MapToThreads
from loopwright.transform.plan import Plan, apply_plan, apply_step, initial_schedule
from loopwright.transform.step import Step
from loopwright.transform.tiling import Tile
from oracle import assert_same
from programs import Do, For, jacobi, matmul, program

GRID = "inout float64 [n, n]"
TILES = Tile(("i", "j"), (2, 4))
BLOCKS = (TILES, MapToBlocks("i_t", "x"), MapToBlocks("j_t", "y"))


def box() -> Program:
    body = For("i", 0, "n", For("j", 0, "n", Do("A[i, j]", "2 * A[i, j]")))
    return program("box", {"A": GRID}, body, known="n >= 1")


def two() -> Program:
    inner = For("j", 0, "n", Do("A[i, j]", "b[i]"))
    body = For("i", 0, "n", Do("b[i]", "1"), inner)
    return program("two", {"A": GRID, "b": "inout float64 [n]"}, body, known="n >= 1")


def test_rewrite() -> None:
    steps = (
        TILES,
        MapToBlocks("i_t", "y"),
        MapToBlocks("j_t", "x"),
        MapToThreads("i", "y", 2),
        MapToThreads("j", "x", 4),
    )
    found = apply_plan(box(), steps)
    assert (
        schedule_text(found)
        == """\
schedule of box:
    block y for i_t: S0[i, j] -> [(i - (i) mod 2)]
        block x for j_t: S0[i, j] -> [(j - (j) mod 4)]
            thread(2) y for i: S0[i, j] -> [(i)]
                thread(4) x for j: S0[i, j] -> [(j)]"""
    )
    assert found.axis("i_t") is Axis.Y
    assert found.mark("j") is Mark.THREAD
    assert found.is_for_device


def test_json() -> None:
    plan = Plan((*BLOCKS, MapToThreads("i", "y", 2)))
    assert Plan.loads(plan.dumps()) == plan
    assert '"map_to_threads"' in plan.dumps()


BLOCK, THREADS = "map_to_blocks", "map_to_threads"
FLOW = "loop 'k' carries flow S0[0, 0, 0] -> S0[0, 0, 1] (matmul.py:1 -> matmul.py:1)"
REFUSED: tuple[tuple[Program, tuple[Step, ...], str], ...] = (
    (
        matmul(),
        (MapToBlocks("x", "x"),),
        f"{BLOCK}(loop='x', axis='x'): there is no loop 'x'; the loops are i, j, k",
    ),
    (matmul(), (MapToBlocks("k", "x"),), f"{BLOCK}(loop='k', axis='x'): {FLOW}"),
    (
        jacobi(),
        (MapToBlocks("t", "x"),),
        f"{BLOCK}(loop='t', axis='x'): loop 't' carries flow S1[0, 1] -> S0[1, 1] "
        "(jacobi.py:2 -> jacobi.py:1)",
    ),
    (
        matmul(),
        (MapToBlocks("i", "x"), MapToBlocks("j", "x")),
        f"{BLOCK}(loop='j', axis='x'): loop 'i' is laid along axis x already",
    ),
    (
        matmul(),
        (MapToBlocks("i", "x"), MapToBlocks("i", "y")),
        f"{BLOCK}(loop='i', axis='y'): loop 'i' is marked block; marks come after other steps",
    ),
    (
        box(),
        (*BLOCKS, MapToThreads("i", "x", 2), MapToBlocks("j", "z")),
        f"{BLOCK}(loop='j', axis='z'): loop 'i' around it is mapped to threads",
    ),
    (
        two(),
        (MapToBlocks("i", "x"), MapToBlocks("j", "y")),
        f"{BLOCK}(loop='j', axis='y'): block 'i' holds statements outside 'j'",
    ),
    (
        two(),
        (MapToBlocks("j", "y"), MapToBlocks("i", "x")),
        f"{BLOCK}(loop='i', axis='x'): block 'i' holds statements outside 'j'",
    ),
    (
        matmul("ikj"),
        (MapToBlocks("i", "x"), MapToBlocks("j", "y")),
        f"{BLOCK}(loop='j', axis='y'): loop 'k' stands between loops of blocks",
    ),
    (
        matmul(),
        (MapToThreads("i", "x", 4),),
        f"{THREADS}(loop='i', axis='x', threads=4): no loop around it is mapped to blocks",
    ),
    (
        matmul(),
        (MapToThreads("y", "x", 4),),
        f"{THREADS}(loop='y', axis='x', threads=4): there is no loop 'y'; the loops are i, j, k",
    ),
    (
        matmul(),
        (MapToBlocks("i", "x"), MapToThreads("j", "x", 4), MapToThreads("k", "y", 4)),
        f"{THREADS}(loop='k', axis='y', threads=4): {FLOW}",
    ),
    (
        matmul(),
        (MapToBlocks("i", "x"), MapToThreads("k", "x", 4)),
        f"{THREADS}(loop='k', axis='x', threads=4): loop 'j' stands between it and its block",
    ),
    (
        two(),
        (MapToBlocks("i", "x"), MapToThreads("j", "x", 4)),
        f"{THREADS}(loop='j', axis='x', threads=4): block 'i' holds statements outside the loop",
    ),
    (
        box(),
        (*BLOCKS, MapToThreads("i", "x", 2), MapToThreads("j", "x", 4)),
        f"{THREADS}(loop='j', axis='x', threads=4): loop 'i' is laid along axis x already",
    ),
)


@pytest.mark.parametrize(("source", "steps", "told"), REFUSED, ids=lambda x: str(x)[:30])
def test_refused(source: Program, steps: tuple[Step, ...], told: str) -> None:
    *before, last = steps
    schedule = apply_plan(source, tuple(before))
    with pytest.raises(IllegalStep) as raised:
        apply_step(schedule, last)
    assert str(raised.value) == told


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda: MapToBlocks("i", "w"),
            f"{BLOCK} takes an axis of x, y and z\nnote: found {BLOCK}(loop='i', axis='w')",
        ),
        (
            lambda: MapToThreads("i", "w", 3),
            f"{THREADS} takes an axis of x, y and z\n"
            f"note: found {THREADS}(loop='i', axis='w', threads=3)",
        ),
        (
            lambda: MapToThreads("i", "x", 0),
            f"{THREADS} takes one or more threads\n"
            f"note: found {THREADS}(loop='i', axis='x', threads=0)",
        ),
    ],
)
def test_bad_fields(make: object, told: str) -> None:
    assert callable(make)
    with pytest.raises(UsageError) as raised:
        make()
    assert str(raised.value) == told


@pytest.mark.drawn(2)
@pytest.mark.parametrize("source", [box(), two(), jacobi(), matmul()], ids=lambda p: p.name)
def test_candidates_are_legal_or_refused(source: Program) -> None:
    """Every loop along every axis; what is legal computes the same."""
    first = initial_schedule(source)
    offered = list(MapToBlocks.candidates(first))
    assert {step.axis for step in offered} == {"x", "y", "z"}
    assert not list(MapToThreads.candidates(first))
    params = dict.fromkeys(source.params, 5)
    legal = 0
    for step in offered:
        try:
            schedule = apply_step(first, step)
        except IllegalStep:
            continue
        inner = list(MapToThreads.candidates(schedule))
        for chosen in (None, *inner[:2]):
            try:
                mapped = schedule if chosen is None else apply_step(schedule, chosen)
            except IllegalStep:
                continue
            legal += 1
            assert_same(source, lower_schedule(mapped), params, threads=1)
    assert legal >= 3
