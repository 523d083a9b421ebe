"""Waves over passes and recurrences: with small tiles they keep every bit, and where none are."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from drawn import combined
from loopwright.ir.loops import LoopNest
from loopwright.ir.schedule import Schedule
from loopwright.lower.passes import lower_schedule
from loopwright.planner.draft import Draft
from loopwright.planner.generic import default_plan
from loopwright.planner.loop_plans.shared_waves import take_shared_waves
from loopwright.planner.loop_plans.wavefronts import columns_of, part_wavefronts
from loopwright.planner.planners import model_planner
from loopwright.transform.diagonals import Diagonals
from loopwright.transform.loop_fusion import Distribute
from loopwright.transform.plan import initial_schedule
from loopwright.transform.skew import Skew, smallest_skew
from loopwright.transform.tiling import Tile
from oracle import assert_same
from planner.corpus import machine_of, program_named
from programs import Do, For, program

N1 = machine_of("n1")


@cache
def in_waves(words: str, width: int, passes: int, of_tile: int = 0) -> tuple[Draft, LoopNest]:
    """The loops of waves that threads share, for all sizes."""
    draft = Draft(initial_schedule(program_named(words)))
    skew = smallest_skew(draft.schedule, "t", passes, apart=False, width=width)
    assert skew is not None
    assert take_shared_waves(draft, skew, of_tile)
    return draft, lower_schedule(draft.schedule)


PASSES = combined(
    ["jacobi T=long", "in_place T=long", "edges T=long"],
    [1, 2],
    [(0, 3), (1, 2), (2, 5), (3, 1), (7, 0), (11, 9), (37, 5), (41, 8)],
    one_in=2,
)
ELEMENTS = [("option", of_tile, at) for of_tile in (1, 3) for at in ((1, 3), (9, 1), (23, 9))]


@pytest.mark.drawn(8)
@pytest.mark.parametrize(("words", "width", "sizes"), PASSES + ELEMENTS)
def test_waves_keep_every_bit(words: str, width: int, sizes: tuple[int, int]) -> None:
    """Tiles of as many waves as passes, of rows or of several elements each."""
    draft, nest = in_waves(words, width, 5) if words != "option" else in_waves(words, 4, 6, width)
    if words == "option":
        assert [s.sizes for s in draft.steps if isinstance(s, Tile)] == [(4 * width, width)]
    n, m = sizes
    assert_same(program_named(words), nest, {"n": n, "m": m}, threads=2)


def test_blocks_are_whole_tiles_and_one_pass_is_no_wave() -> None:
    draft, alone = (Draft(initial_schedule(program_named("jacobi T=long"))) for _ in range(2))
    skew = smallest_skew(draft.schedule, "t", 5, apart=False)
    assert skew is not None
    assert take_shared_waves(draft, skew)
    skewed, tile, *_ = draft.steps
    assert isinstance(skewed, Skew)
    assert isinstance(tile, Tile)
    assert (skewed.block, tile.sizes[1]) == (4, 2)
    assert tile.sizes[0] % 2 == 0
    skew = smallest_skew(alone.schedule, "t", 1, apart=False)
    assert skew is not None
    assert not take_shared_waves(alone, skew)
    assert alone.steps == []


@pytest.mark.parametrize(("streams", "columns"), [(None, 64), (32, 512), (64, 64), (128, 64)])
def test_blocks_are_long_where_rows_outnumber_streams(streams: int | None, columns: int) -> None:
    machine = replace(N1, prefetch_streams=streams)
    assert columns_of(machine) == columns
    found, _ = model_planner(program_named("align n=2000"), machine, 1)
    (taken,) = (step for step in found.steps if isinstance(step, Diagonals))
    assert (taken.rows, taken.columns) == (64, columns)


def test_no_proof_is_asked_for_loops_that_do_not_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Distribute] = []
    apply = Distribute.apply

    def noted(step: Distribute, schedule: Schedule) -> Schedule:
        tried.append(step)
        return apply(step, schedule)

    monkeypatch.setattr(Distribute, "apply", noted)
    for n, count in ((100, 0), (2000, 1)):
        draft = Draft(initial_schedule(program_named(f"align_beside_border n={n}")))
        assert bool(part_wavefronts(draft, N1)) == bool(count)
        assert len(tried) == count


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
    source = program("recurrence", arrays, body)
    for threads in (1, 2):
        _, schedule = default_plan(source, machine_of("n1", threads), parallel=threads > 1)
        nest = lower_schedule(schedule)
        for n in (0, 1, 2, 5, 11):
            assert_same(source, nest, {"n": n}, threads=threads)
