"""Which loops go to threads, and that the nests are right for any number of them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import loopwright as lw
from loopwright.ir.loops import Mark
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load import load_machine
from loopwright.planner.draft import Draft
from loopwright.planner.generic import default_plan, extend_plan
from loopwright.planner.loop_plans.affine_parallel import mark_parallel
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_fusion import Distribute
from loopwright.transform.loop_marks import Parallel, ParallelChunks
from loopwright.transform.outer_vectors import OuterVectors
from loopwright.transform.partial_sums import PartialSums
from loopwright.transform.plan import Plan, apply_plan
from loopwright.transform.reschedule import Reschedule
from loopwright.transform.scalar_expansion import ExpandScalar
from loopwright.transform.schedule_legality import initial_schedule
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine, Tile
from oracle import assert_same
from programs import Do, For, program

MACHINE = load_machine("neoverse-n1")
PARTS = 2 * MACHINE.cores
TWO = replace(MACHINE, cores=2)


def shared(source: Program, *before: Step) -> tuple[Step, ...]:
    """The steps that share loops out, after some others; the nest they lead to is proven right."""
    draft = Draft(initial_schedule(source))
    assert draft.take(*before)
    mark_parallel(draft, MACHINE)
    steps = tuple(draft.steps[len(before) :])
    assert Plan.loads(Plan(steps).dumps()) == Plan(steps)
    nest = lower_schedule(draft.schedule)
    for n, threads in ((0, 2), (5, 3), (66, 2)):
        assert_same(
            source, nest, {name: n if name == "n" else 2 for name in source.params}, threads=threads
        )
    return steps


def marked(steps: tuple[Step, ...]) -> list[str]:
    return [step.loop for step in steps if isinstance(step, Parallel | ParallelChunks)]


def rows() -> Program:
    arrays = {"A": "inout float64 [n, n]"}
    return program("rows", arrays, For("i", 0, "n", For("j", 0, "n", Do("A[i, j]", "A[i, j] + 1"))))


def column_sums(*, reassoc: bool) -> Program:
    arrays = {"A": "in float64 [n, n]", "y": "inout float64 [n]"}
    body = For("i", 0, "n", For("j", 0, "n", Do("y[j]", "y[j] + A[i, j]")))
    return program("columns", arrays, body, reassoc=reassoc)


def test_the_outermost_loop() -> None:
    assert shared(rows()) == (Parallel("i"),)


def test_strips_of_a_single_loop() -> None:
    one = program("one", {"x": "inout float64 [n]"}, For("i", 0, "n", Do("x[i]", "2 * x[i]")))
    assert shared(one) == (StripMine("i", 8), ParallelChunks("i_t", PARTS))


@pytest.mark.parametrize(
    ("dtype", "extent", "size"),
    [("float64", 200, 8), ("int32", 200, 16), ("int8", 5000, 64), ("int8", 200, 8)],
)
def test_strips_are_whole_lines_of_all_that_is_written(dtype: str, extent: int, size: int) -> None:
    """A line of the shorter elements would go from thread to thread; short loops have no choice."""
    arrays = {
        "x": f"in float64 [m, {extent}]",
        "y": f"out float64 [{extent}]",
        "z": f"out {dtype} [{extent}]",
    }
    body = Do("y[i]", "y[i] + x[t, i]"), Do("z[i]", "z[i] + 1")
    source = program("both", arrays, For("t", 0, "m", For("i", 0, extent, *body)), params="m")
    steps = default_plan(source, TWO, parallel=True)[0]
    assert {step.size for step in steps if isinstance(step, StripMine)} == {size}


def test_copies_of_a_scalar_where_it_needs_them() -> None:
    arrays = {"x": "inout float64 [n]", "s": "local float64 []"}
    body = For("i", 0, "n", Do("s", "x[i]"), For("k", 0, 3, Do("x[i]", "x[i] + s")))
    steps = shared(program("copies", arrays, body))
    assert [step.kind for step in steps] == ["privatize", "parallel"]


def test_strips_around_a_sum_of_fixed_order() -> None:
    steps = shared(column_sums(reassoc=False))
    assert steps == (StripMine("j", 8), Interchange(("j_t", "i")), ParallelChunks("j_t", PARTS))


def test_strips_around_a_sum_where_they_part_no_rows() -> None:
    assert marked(shared(column_sums(reassoc=True))) == ["j_t"]


def fused_sums() -> Program:
    """Rows and columns of one matrix at once: neither loop is free."""
    arrays = {"A": "in int64 [n, n]", "x": "inout int64 [n]", "y": "inout int64 [n]"}
    both = Do("x[i]", "x[i] + A[i, j]"), Do("y[j]", "y[j] + A[i, j]")
    return program("both", arrays, For("i", 0, "n", For("j", 0, "n", *both)))


def test_sums_in_parts() -> None:
    steps = shared(fused_sums())
    assert isinstance(steps[0], PartialSums)
    assert (steps[0].statement, steps[0].iterator) == ("S1", "i")
    assert steps[1:] == (StripMine("i", steps[0].size), Parallel("i_t"))


@pytest.mark.parametrize("rows", [700, 1000, 1900, 4096])
def test_parts_of_sums_are_shared_evenly(rows: int) -> None:
    """No thread has a tenth more than the mean, and blocks fit unrolled loops."""
    arrays = {"A": f"in int64 [{rows}, 64]", "x": f"inout int64 [{rows}]", "y": "inout int64 [64]"}
    both = Do("x[i]", "x[i] + A[i, j]"), Do("y[j]", "y[j] + A[i, j]")
    source = program("both", arrays, For("i", 0, rows, For("j", 0, 64, *both)))
    draft = Draft(initial_schedule(source))
    mark_parallel(draft, TWO)
    (size,) = (step.size for step in draft.steps if isinstance(step, PartialSums))
    assert size % 8 == 0
    most = size * math.ceil(math.ceil(rows / size) / 2)
    assert most <= 1.1 * rows / 2


def test_walks_from_line_to_line_are_worth_threads() -> None:
    """A loop inside a serial one, along a column or along a row: the column costs more."""

    def loops(element: str) -> list[str]:
        arrays = {"A": "inout float64 [2000, 2000]", "s": "inout float64 []"}
        scaled = For("i", 0, 2000, Do(f"A[{element}]", f"A[{element}] * s"))
        body = For("k", 0, 2000, Do("s", "s + A[k, k]"), scaled)
        draft = Draft(initial_schedule(program("walk", arrays, body)))
        mark_parallel(draft, TWO)
        return marked(tuple(draft.steps))

    assert loops("i, k") == ["i_t"]
    assert loops("k, i") == []


def test_sums_in_parts_inside_a_serial_loop() -> None:
    """Strips would part the rows that are summed; the parts are those of one row."""
    arrays = {"A": "inout int64 [n, n]", "R": "inout int64 [few, n]"}
    body = For(
        "k",
        0,
        "few",
        For("i", 0, "n", For("j", 0, "n", Do("R[k, j]", "R[k, j] + A[i, j]"))),
        For("l", 0, "n", Do("A[l, 0]", "A[l, 0] + R[k, l]")),
    )
    source = program("inside", arrays, body, params="few n")
    steps = shared(source)
    assert isinstance(steps[0], PartialSums)
    assert apply_plan(source, steps).program.array("R_parts").rank == 2


def test_waves_where_no_loop_is_free() -> None:
    arrays = {"A": "inout int64 [n, n]"}
    step = Do("A[i, j]", "max(A[i, j], A[i - 1, j] + A[i, j - 1])")
    source = program("wave", arrays, For("i", 1, "n", For("j", 1, "n", step)))
    steps = shared(source)
    assert [type(step) for step in steps] == [Tile, Reschedule, Parallel]


def test_waves_of_a_loop_with_statements_beside_it() -> None:
    """Borders of a grid are parted from the recurrence, whose tiles go to threads in waves."""
    arrays = {"A": "inout int64 [n, n]"}
    inner = For("j", 1, "n", Do("A[i, j]", "A[i - 1, j] + A[i, j - 1]"))
    source = program("grid", arrays, For("i", 1, "n", Do("A[i, 0]", "A[i - 1, 0]"), inner))
    steps = shared(source)
    assert isinstance(steps[0], Distribute)
    (tile,) = (step for step in steps if isinstance(step, Tile))
    height, width = tile.sizes
    assert width % height == 0  # tiles of a wave are neighbours
    assert isinstance(steps[-1], Parallel)


def test_tables_over_stretches_go_in_waves_of_blocks() -> None:
    """The loops need not stand directly inside each other, nor keep the order of the source."""
    arrays = {"t": "inout float64 [n, n]", "w": "in float64 [n]"}
    split = For("r", "i + 1", "j", Do("t[i, j]", "min(t[i, j], t[i, r] + t[r, j])"))
    first = For("j", "i + 1", "n", Do("t[i, j]", "w[i] + w[j]"))
    rows = For("i", "n - 1", -1, first, For("j", "i + 1", "n", split), step=-1)
    source = program("stretches", arrays, rows)
    steps = shared(source)
    assert [type(step) for step in steps] == [Reschedule, Parallel]
    assert marked(steps) == ["i_t"]


def test_short_loops_beside_shared_ones_go_along() -> None:
    """A copy that is not worth meeting for is shared all the same: threads meet after it anyway."""
    arrays = {"V": "inout float64 [3000]", "W": "inout float64 [3000]", "d": "in float64 []"}
    value = "V[i - 1] * d + V[i] * d * d + V[i + 1] * d"
    work = For("i", 1, 2999, Do("W[i]", value), Do("W[i]", "W[i] + V[i] * d"))
    copy = For("j", 0, 3000, Do("V[j]", "W[j]"))
    both = program("both", arrays, For("t", 0, "n", For("k", 0, 4, work), copy), params="n")
    draft = Draft(initial_schedule(both))
    mark_parallel(draft, TWO)
    assert "j_t" in marked(tuple(draft.steps))


def test_few_planes_leave_the_rows_inside_to_threads() -> None:
    arrays = {"A": "inout float64 [3, n, n]"}
    cell = Do("A[c, i, j]", "A[c, i, j] + 1")
    source = program("planes", arrays, For("c", 0, 3, For("i", 0, "n", For("j", 0, "n", cell))))
    draft = Draft(initial_schedule(source))
    mark_parallel(draft, TWO)
    assert marked(tuple(draft.steps)) == ["i"]


def test_a_scalar_of_several_loops_is_one_for_each() -> None:
    arrays = {"A": "inout float64 [n, n]", "B": "inout float64 [n, n]", "x": "local float64 []"}

    def nest(array: str, i: str, j: str) -> For:
        element = f"{array}[{i}, {j}]"
        return For(i, 0, "n", For(j, 0, "n", Do("x", element), Do(element, "x * x + x")))

    source = program("scalars", arrays, nest("A", "i", "j"), nest("B", "k", "l"))
    steps = extend_plan(initial_schedule(source), TWO, parallel=True)
    assert marked(steps) == ["i", "k"]


def test_nothing_where_everything_depends() -> None:
    arrays = {"x": "inout float64 [n]"}
    assert shared(program("scan", arrays, For("i", 1, "n", Do("x[i]", "x[i] + x[i - 1]")))) == ()


def test_nests_in_a_serial_loop_go_along() -> None:
    """The second nest is taken in the strips of the first one: its data stay with their thread."""
    arrays = {"A": "inout float64 [n, n]", "r": "inout float64 [n]"}
    body = For(
        "k",
        0,
        "few",
        For("i", 0, "n", For("j", 0, "n", Do("r[j]", "r[j] + A[i, j]"))),
        For("l", 0, "n", For("m", 0, "n", Do("A[l, m]", "A[l, m] - r[m]"))),
    )
    steps = shared(program("along", arrays, body, params="few n"))
    assert [step.kind for step in steps][-2:] == ["fuse", "parallel_chunks"]
    assert marked(steps) == ["j_t"]


def test_short_loops_inside_serial_ones_are_left_alone() -> None:
    arrays = {"x": "inout float64 [8]", "y": "in float64 [n]"}
    body = For("k", 0, "n", For("i", 0, 8, Do("x[i]", "x[i] + y[k]")))
    assert marked(shared(program("short", arrays, body))) == []


@pytest.mark.parametrize("reassoc", [False, True])
def test_one_loop_of_every_nest_at_most(reassoc: bool) -> None:
    source = column_sums(reassoc=reassoc)
    steps = shared(source)
    schedule = apply_plan(source, steps)
    assert sum(mark is Mark.PARALLEL for _, mark in schedule.marks) == 1


def test_counts_of_integers_with_scalars_of_their_own() -> None:
    """Every thread counts for itself: scalars have copies, and several statements may count."""
    arrays = {"x": "in int32 [n]", "y": "inout int32 [n]", "d": "local int32 []"}
    pair = (Do("d", "x[i] - x[j]"), Do("y[i]", "y[i] + d"), Do("y[j]", "y[j] + d * d"))
    steps = shared(program("counts", arrays, For("i", 0, "n", For("j", 0, "i", *pair))))
    kinds = [step.kind for step in steps]
    assert kinds == ["privatize", "partial_sums", "strip_mine", "parallel"]


def test_loops_of_few_iterations_may_stand_around() -> None:
    arrays = {"A": "inout float64 [n, n]"}
    cell = Do("A[i, j]", "A[i, j] + A[i, j] * A[i, j]")
    sweep = For("c", 0, 2, For("i", 0, "n", For("j", 0, "n", cell)))
    source = program("sweeps", arrays, For("t", 0, "n", sweep))
    draft = Draft(initial_schedule(source))
    mark_parallel(draft, TWO)
    assert marked(tuple(draft.steps))


def test_the_independent_part_of_a_loop() -> None:
    """A sum of fixed order waits for what is computed in any order, strip by strip."""
    arrays = {
        "A": "in float64 [n, n]",
        "x": "local float64 []",
        "s": "inout float64 []",
        "y": "inout float64 [n]",
    }
    body = (
        Do("x", "0"),
        For("j", 0, "n", Do("x", "x + A[i, j]")),
        Do("y[i]", "2 * x"),
        Do("s", "s + x"),
    )
    steps = shared(program("apart", arrays, For("i", 0, "n", *body)))
    kinds = [step.kind for step in steps]
    assert kinds == ["expand_scalar", "distribute_statements", "parallel"]
    assert marked(steps) == ["i"]


def test_scalars_of_loops_with_gaps_are_not_spread_for_threads() -> None:
    """`saved` cannot have an element for each iteration: the steps of i are two apart."""
    text = """
void f(int n, float a[n + 1][n + 1], float b[n + 1]) {
#pragma scop
    for (int i = 0; i < n; i += 2) {
        float saved = b[i];
        b[n - i] = saved;
        b[i] = saved;
        for (int j = 0; j < n; j++)
            a[i][i] = a[i][i];
    }
#pragma endscop
}
"""
    (found,) = lw.parse_c(text)
    plan, _ = default_plan(found, load_machine("neoverse-n1"), parallel=True)
    assert not any(isinstance(step, ExpandScalar) for step in plan)


def test_loops_inside_lanes_are_not_cut() -> None:
    """A loop in vectors is shared as it is: strips of the loop inside it are refused."""
    arrays = {"c": "inout float64 [n]", "x": "in float64 [n]"}
    body = For("j", 0, "n", For("k", 0, "n", Do("c[j]", "c[j] + x[k]")))
    source = program("repeated", arrays, For("i", 0, "n", body))
    assert shared(source, OuterVectors("j", 4, 1)) == (Parallel("j"),)
