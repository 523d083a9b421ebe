"""Tables filled by intervals: orders whose innermost loops walk along rows, on any threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from drawn import combined
from loopwright.ir.loops import Alloc, Space
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import bands, directions, nodes_of
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load import load_machine
from loopwright.planner.generic import default_plan
from loopwright.transform.plan import Plan
from oracle import assert_same
from programs import Do, For, program

MACHINE = replace(load_machine("neoverse-n1"), cores=2)
SIZES = (0, 1, 2, 5, 11)


def planned(source: Program, *, parallel: bool = False) -> Schedule:
    """The schedule of the default plan, whose nest is proven right."""
    plan, schedule = default_plan(source, MACHINE, parallel=parallel)
    assert Plan.loads(plan.dumps()) == plan
    nest = lower_schedule(schedule)
    for n in SIZES:
        assert_same(source, nest, {"n": n}, threads=2 if parallel else 1)
    return schedule


def innermost(schedule: Schedule, statement: str) -> str:
    """The iterator of a statement that its innermost loop follows."""
    found = [band for band in bands(nodes_of(schedule)) if statement in band.statements]
    at, _ = directions(found[-1])[statement]
    return schedule.program.statement(statement).iterators[at]


def by_lengths(value: str, dtype: str) -> Program:
    """The cheapest split of every stretch [i, i + length], shorter stretches first."""
    arrays = {"A": f"inout {dtype} [n, n]", "p": f"in {dtype} [n + 1]", "c": f"local {dtype} []"}
    split = For(
        "k",
        "i",
        "i + d",
        Do("c", value),
        Do("A[i, i + d]", "c if c < A[i, i + d] else A[i, i + d]"),
    )
    return program("lengths", arrays, For("d", 1, "n", For("i", 0, "n - d", split)))


def by_rows(update: str) -> Program:
    """The best split of every stretch from i = n - 1 - u to j, gathered in a scalar."""
    arrays = {"A": "inout int64 [n + 2, n + 2]", "t": "local int64 []"}
    split = For("k", "n - u", "j", Do("t", update))
    first, last = Do("t", "A[n - u, j]"), Do("A[n - 1 - u, j]", "t + 1")
    return program("rows", arrays, For("u", 0, "n", For("j", "n - u", "n + 1", first, split, last)))


BEST = "max(t, A[n - 1 - u, k] + A[k + 1, j])"


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("dtype", "parallel"), combined(["float32", "float64", "int32"], [True, False], one_in=2)
)
def test_stretches_by_length_run_along_rows(dtype: str, *, parallel: bool) -> None:
    source = by_lengths("A[i, k] + A[k + 1, i + d] + p[i] * p[k + 1] * p[i + d + 1]", dtype)
    schedule = planned(source, parallel=parallel)
    if parallel:
        assert_same(source, lower_schedule(schedule), {"n": 37}, threads=2)  # several tiles
    assert innermost(schedule, "S1") == "d"
    shared = [step for step in schedule.marks if step[1].value == "parallel"]
    assert bool(shared) == parallel  # tiles of rows and lengths, in waves


def test_scalars_of_an_iteration_need_no_memory() -> None:
    """`c` has an element for every iteration while an order is looked for, none in the end."""
    schedule = planned(by_lengths("A[i, k] + A[k + 1, i + d]", "float64"))
    allocated = [s for s in statements(lower_schedule(schedule).body) if isinstance(s, Alloc)]
    assert [s.buffer.name for s in allocated if s.buffer.space is not Space.STACK] == []


@pytest.mark.drawn(2)
@pytest.mark.parametrize("parallel", [False, True])
def test_statements_of_different_depth_share_a_loop(*, parallel: bool) -> None:
    """Sums of `t` go by k, what they end in by j: both in one loop, with j innermost."""
    schedule = planned(by_rows(BEST), parallel=parallel)
    assert innermost(schedule, "S1") == "j"
    kept = [s for s in statements(lower_schedule(schedule).body) if isinstance(s, Alloc)]
    assert all(len(s.shape) <= 1 for s in kept)  # a row of sums


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    "update",
    [
        "max(t, A[n - 1 - u, k - 1] + A[k + 1, j])",
        "max(t, A[n - 1 - u, k + 1] + A[k + 1, j])",  # the last one before it is written
        "t * 3 + A[n - 1 - u, k - 1] + A[k + 1, j]",  # no reduction of free order
        "max(t, A[n - u, k] + A[n - 1 - u, j - 1])",
    ],
)
def test_other_uses_of_a_row_stay_right(update: str) -> None:
    planned(by_rows(update))


def test_loops_that_may_go_neither_way_stay() -> None:
    arrays = {"A": "inout int64 [n, n]"}
    value = "A[i, j] + A[n - 1 - i, j]"
    body = For("j", 0, "n", For("i", 0, "n", Do("A[i, j]", value)))
    planned(program("mirrored", arrays, body))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(8))
def test_random_recurrences(seed: int) -> None:
    """Tables of which an element depends on some before it, in any direction of both loops."""
    random = np.random.default_rng(seed)
    ops = ("min({}, {})", "max({}, {})", "{} + {}", "{0} if {0} < {1} else {1}", "{} - {}")
    up, right = (bool(random.integers(2)) for _ in range(2))
    i = "i" if up else "n - 1 - i"
    j = "j" if right else "n - 1 - j"
    back = [(1, int(random.integers(-2, 3))) for _ in range(2)] + [(0, 1), (2, 0)]
    value = "B[i, j]"
    for rows, columns in (back[k] for k in random.permutation(len(back))[:3]):
        there = 2 - rows if up else 2 + rows, 2 - columns if right else 2 + columns
        other = f"A[{i} + {there[0]}, {j} + {there[1]}]"
        value = ops[random.integers(len(ops))].format(other, value)
    arrays = {"A": "inout int64 [n + 4, n + 4]", "B": "in int64 [n, n]", "t": "local int64 []"}
    body = For("i", 0, "n", For("j", 0, "n", Do("t", value), Do(f"A[{i} + 2, {j} + 2]", "t")))
    for parallel in (False, True):
        planned(program("recurrence", arrays, body), parallel=parallel)
