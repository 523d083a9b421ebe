"""Random nests with every array staged that can be: the interpreter and CUDA text on the shim."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from random import Random

import pytest

from drawn import HUNTS, in_all
from gpu.shim.cuda_shim import has_compiler
from gpu.shim_runner import shim_runners
from loopwright.ir.check import check_nest
from loopwright.ir.islkit import bounded
from loopwright.ir.loops import Alloc, LoopNest, Mark, Space
from loopwright.ir.program import Program
from loopwright.ir.schedule_tree import bands, nodes_of
from loopwright.ir.text import nest_text
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.planner.draft import Draft
from loopwright.transform.grid_mapping import MapToBlocks, MapToThreads
from loopwright.transform.plan import Plan, initial_schedule
from loopwright.transform.register_promotion import PromoteToRegisters
from loopwright.transform.stage import StageArray
from loopwright.transform.tiling import StripMine, Tile
from loopwright.validate.check_data import check_data
from loopwright.validate.reference_run import run_reference
from oracle import assert_same
from programs import Do, For, program

COUNT = 2000 if HUNTS else 45 if in_all() else 18
LEAST_STAGED = COUNT // 2  # else the test would test little
QUOTA = 500_000  # isl operations for one step
EXTENT = "5 * n + 5 * m + 12"
SIZES = ((0, 3), (1, 1), (3, 5), (5, 4), (7, 2))

PLACES = ("i", "j", "j", "i + j", "j + 1", "2 * j", "3 * i + 1", "i + n - 1", "m + j - i + n", "2")
STARTS: tuple[str | int, ...] = (0, 0, 0, "i", "2 * i", 1)
STOPS = ("m", "m", "m", "i + 1", "i + m", "m - 1")
CONDITIONS = ("", "", "", "i > 1", "(i + j) mod 2 = 0", "j >= 2 * i")


@dataclass(frozen=True)
class Staged:
    """A random nest under a random plan."""

    source: Program
    plan: Plan
    nest: LoopNest

    @property
    def has_boxes(self) -> bool:
        memory = (s.buffer.space for s in statements(self.nest.body) if isinstance(s, Alloc))
        return Space.SHARED in memory

    def __str__(self) -> str:
        return f"{self.plan.dumps()}\n{nest_text(self.nest)}"


def random_nest(random: Random) -> Program:
    """A sum over one or two serial loops, for every i or every i and l."""
    is_plane, is_deep = random.random() < 0.4, random.random() < 0.4
    places = PLACES + ("l", "l + i") * is_plane + ("k", "k + j", "k - 1 + n") * is_deep
    kind = random.choice(("float64", "float32", "int32", "int16"))
    terms = []
    for name in random.sample("ABC", random.randint(1, 3)):
        terms.append(f"{name}[{random.choice(places)}, {random.choice(places)}]")
        if random.random() < 0.3:
            terms.append(f"{name}[{random.choice(places)}, {random.choice(places)}]")
    target = "y[i, l]" if is_plane else "y[i]"
    term = Do(target, f"{target} + {' + '.join(terms)}", random.choice(CONDITIONS))
    body: For | Do = term
    if is_deep:
        body = For("k", 0, random.choice(("3", "j", "m")), body)
    inner: list[For | Do] = [For("j", random.choice(STARTS), random.choice(STOPS), body)]
    if not is_plane and random.random() < 0.3:
        inner.insert(0, Do(target, "0"))
    loops: For = For("i", 0, "n", *([For("l", 0, "4", *inner)] if is_plane else inner))
    shape = "[n, 4]" if is_plane else "[n]"
    arrays = dict.fromkeys("ABC", f"in {kind} [{EXTENT}, {EXTENT}]")
    return program("drawn", {**arrays, "y": f"inout {kind} {shape}"}, loops, params="n m")


def map_loops(draft: Draft, random: Random) -> None:
    loops = [band.loop for band in bands(nodes_of(draft.schedule))]
    if "l" in loops:
        x, y = random.choice((2, 3, 4)), random.choice((2, 3))
        draft.take(
            Tile(("i", "l"), (y, x)),
            MapToBlocks("i_t", "y"),
            MapToBlocks("l_t", "x"),
            MapToThreads("i", "y", y),
            MapToThreads("l", "x", x),
        )
    else:
        size = random.choice((2, 3, 4, 5))
        steps = (MapToBlocks("i_t", "x"), MapToThreads("i", "x", size))
        draft.take(StripMine("i", size), *steps)
    for loop in ("j", "k"):
        if loop in loops and random.random() < 0.7:
            draft.take(StripMine(loop, random.choice((2, 3, 4))))


@cache
def staged(seed: int) -> Staged:
    random = Random(seed)
    source = random_nest(random)
    draft = Draft(initial_schedule(source))
    map_loops(draft, random)
    offered = list(StageArray.candidates(draft.schedule))
    random.shuffle(offered)
    for step in offered:
        bounded(partial(draft.take, step), lambda _: False, QUOTA)
    for band in bands(nodes_of(draft.schedule)):
        if draft.schedule.mark(band.loop) is Mark.SERIAL and random.random() < 0.8:
            for name in sorted(band.statements):
                draft.take(PromoteToRegisters(name, band.loop))
    return Staged(source, Plan(tuple(draft.steps)), lower_schedule(draft.schedule))


def test_random_nests() -> None:
    drawn = [staged(seed) for seed in range(COUNT)]
    assert sum(one.has_boxes for one in drawn) >= LEAST_STAGED
    for seed, one in enumerate(drawn):
        n, m = SIZES[seed % len(SIZES)]
        check_nest(one.nest)
        assert_same(one.source, one.nest, {"n": n, "m": m})


@pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")
def test_random_nests_on_the_shim() -> None:
    drawn = [staged(seed) for seed in range(0, COUNT, 3)]
    runners = shim_runners([one.nest for one in drawn])
    for one, run in zip(drawn, runners, strict=True):
        for seed, (n, m) in enumerate(SIZES):
            reference = run_reference(one.source, {"n": n, "m": m}, seed=seed)
            told = check_data(reference, run, "shim")
            assert [str(difference) for difference in told] == [], str(one)
