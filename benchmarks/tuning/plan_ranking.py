"""The price of every schedule beside measured time: programs of the corpora by several plans each.

    python -m benchmarks tuning.plan_ranking                  # 220 programs, some 45 minutes
    python -m benchmarks tuning.plan_ranking --count 40       # every fifth of them
    python -m benchmarks tuning.plan_ranking --families random  # the random ones alone
    python -m benchmarks tuning.plan_ranking --aside          # the set-aside third, by its figures

Programs are those of the wide corpus that are not set aside, those of the kernels' corpus and
random affine ones (drawn_plans), or the wide corpus's set-aside third; on that and on the random
ones no constant of the model was chosen. Of the third the figures are told and no program. The
plans of a program:

    source     the order of the source, its marks
    marks      the planner's marks on that order
    plan       all planners
    no ...     all but one of them, where that makes another plan
    tiles ...  of several shapes
    drawn ...  steps at random and the planner's marks

Told are Spearman's rank correlation of predicted and measured seconds over all, and in the mean
over programs; how many pairs of plans of a program, more than 5% apart, are ranked as measured; how
the choice by the model (planner/plan_choice) fares; and the worst mispredictions.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import loopwright as lw
from benchmarks.corpus_contestants import Contestant
from benchmarks.corpus_kernels import (
    KERNELS,
    WIDE,
    Inputs,
    Kernel,
    fresh,
    is_set_aside,
    make_inputs,
    wide_inputs,
    write_source,
)
from benchmarks.corpus_race import Effort, race_in_place
from benchmarks.measure import Bar, Outcome, Setting, geometric_mean
from benchmarks.tuning.drawn_plans import RandomProgram, drawn_plans, random_programs
from loopwright import options
from loopwright.analysis.size_estimates import likely_sizes
from loopwright.diagnostics import LoopwrightError
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.machines.host import host
from loopwright.planner import generic
from loopwright.planner.cost.schedule_cost import schedule_seconds
from loopwright.planner.planners import tile_planner
from loopwright.planner.source_order import source_order
from loopwright.transform.plan import Plan, apply_plan

__all__ = ["Ranked", "pairs_right", "rank_correlation", "run"]

EFFORT = Effort(rounds=4, seconds=1.0, least=2)
SIZE = "LARGE"
APART = 0.05  # pairs of plans nearer than this are not told apart
WORTH = 0.95  # see planner/plan_choice
QUICK_COUNT = 24
RANDOM = 72  # random programs
DRAWN = 2  # random plans of a program
TOLD = 12  # mispredictions

TILES = ((32, 32, 32), (4, 256), (128, 16, 64))
DROPPED = {
    "no order": ("plan_order",),
    "no stencils": ("plan_stencils",),
    "no products": ("plan_contractions", "plan_closures"),
}
# How far the prediction is off in octaves, the program, two of its plans, and the ratio of their
# times as measured and as predicted; times as long as the better one, the program, what was taken.
Mistake: TypeAlias = tuple[float, str, str, str, float, float]
Loss: TypeAlias = tuple[float, str, str]


@dataclass(frozen=True)
class Ranked:
    """Seconds of the plans of one program, by name."""

    program: str
    measured: Mapping[str, float]
    predicted: Mapping[str, float]  # finite ones

    @property
    def both(self) -> list[str]:
        return [name for name in self.predicted if name in self.measured]


def run(setting: Setting) -> Outcome:
    """Measure, predict, rank."""
    lw.set_num_threads(1)
    machine = host()
    found: list[Ranked] = []
    count = setting.count or (QUICK_COUNT if setting.quick else 0)
    known = _known_rows(setting.rows)
    for name, made in _programs(setting, count):
        ranked = known.get(name) or (
            _ranked_random(made, machine)
            if isinstance(made, RandomProgram)
            else _ranked(name, made, setting.size or SIZE, machine)
        )
        if ranked is not None and len(ranked.both) > 1:
            found.append(ranked)
            if not setting.aside:
                print(_line(ranked), flush=True)
            if setting.rows and name not in known:
                with Path(setting.rows).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(_row(ranked)) + "\n")
    return Outcome(tuple(_row(r) for r in found), _told(found, is_named=not setting.aside))


def _row(ranked: Ranked) -> dict[str, Any]:
    measured, predicted = dict(ranked.measured), dict(ranked.predicted)
    return {"program": ranked.program, "measured": measured, "predicted": predicted}


def _known_rows(file: str) -> dict[str, Ranked]:
    """What an earlier run found, by program."""
    if not file or not Path(file).exists():
        return {}
    rows = map(json.loads, Path(file).read_text(encoding="utf-8").splitlines())
    return {row["program"]: Ranked(**row) for row in rows}


def _told(found: list[Ranked], *, is_named: bool) -> tuple[Bar, ...]:
    """Print what was found, programs by name where `is_named`; the figures as bars."""
    right, wrong, mistakes = pairs_right(found)
    everything = [(r.measured[x], r.predicted[x]) for r in found for x in r.both]
    overall = rank_correlation(*zip(*everything, strict=True))
    each = [_of_program(r) for r in found if len(r.both) > 2]
    inside = float(np.mean(each)) if each else math.nan
    share = right / max(1, right + wrong)
    gains, losses = _choices(found)
    print(f"{len(found)} programs, {len(everything)} plans")
    print(f"Spearman over all {overall:.3f}, mean over programs {inside:.3f}")
    print(f"pairs {right} of {right + wrong} right, {share:.3f}")
    for what, value in gains.items():
        print(f"times the source order, geometric mean: {what} {value:.3f}")
    if is_named:
        _print_worst(losses, mistakes)
    return (
        Bar("rank correlation over all", overall, 0.8),
        Bar("rank correlation in the mean over programs", inside, 0.6),
        Bar("pairs ranked as measured", share, 0.8),
        Bar("chosen over the better of both", gains["chosen"] / gains["the better"], 0.95),
    )


def _print_worst(losses: list[Loss], mistakes: list[Mistake]) -> None:
    print("choices that lose most to the better of plan and source order:")
    for factor, name, taken in losses[:TOLD]:
        print(f"  {name}: {taken} taken, {factor:.2f} times as long")
    print("pairs that are farthest from what was measured:")
    for size, name, one, other, measured, predicted in mistakes[:TOLD]:
        told = f"measured {measured:.2f}, predicted {predicted:.2f}"
        print(f"  {name}: time of {one} over {other} {told} (off {2**size:.1f} times)")


def rank_correlation(one: Any, other: Any) -> float:
    """Spearman's coefficient: the correlation of ranks, equal values at their mean rank."""
    first, second = _ranks(np.asarray(one)), _ranks(np.asarray(other))
    if not first.std() or not second.std():
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: Any) -> Any:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]


def _of_program(ranked: Ranked) -> float:
    names = ranked.both
    # Plans that are expected to be equal, or nearly so, share a rank.
    predicted = [float(f"{ranked.predicted[x]:.2g}") for x in names]
    return rank_correlation([ranked.measured[x] for x in names], predicted)


def pairs_right(
    found: list[Ranked],
) -> tuple[int, int, list[Mistake]]:
    """Pairs of plans of a program ranked as measured and not; all pairs, the farthest off first."""
    right = wrong = 0
    mistakes: list[Mistake] = []
    for ranked in found:
        for one, other in combinations(ranked.both, 2):
            measured = ranked.measured[one] / ranked.measured[other]
            predicted = ranked.predicted[one] / ranked.predicted[other]
            if abs(math.log(measured)) > APART:
                is_right = (measured > 1.0) == (predicted > 1.0) and predicted != 1.0
                right, wrong = right + is_right, wrong + (not is_right)
            off = abs(math.log2(measured / predicted))
            mistakes.append((off, ranked.program, one, other, measured, predicted))
    return right, wrong, sorted(mistakes, reverse=True)


def _choices(found: list[Ranked]) -> tuple[dict[str, float], list[Loss]]:
    """Speed over the source order: of all plans, of those chosen, of the better; what lost."""
    gains: dict[str, list[float]] = {"the plan": [], "chosen": [], "the better": []}
    losses: list[Loss] = []
    for ranked in found:
        names = [x for x in ("source", "plan") if x in ranked.both]
        if len(names) < 2:
            continue
        source, plan = (ranked.measured[x] for x in names)
        is_taken = ranked.predicted["plan"] <= WORTH * ranked.predicted["source"]
        chosen, best = plan if is_taken else source, min(plan, source)
        for what, seconds in (("the plan", plan), ("chosen", chosen), ("the better", best)):
            gains[what].append(source / seconds)
        losses.append((chosen / best, ranked.program, "plan" if is_taken else "source order"))
    means = {what: geometric_mean(values) if values else 1.0 for what, values in gains.items()}
    return means, sorted(losses, reverse=True)


def _line(ranked: Ranked) -> str:
    parts = [
        f"{x} {1e3 * ranked.measured[x]:.2f} ({1e3 * ranked.predicted[x]:.2f})" for x in ranked.both
    ]
    return f"{ranked.program:24s} ms: {', '.join(parts)}"


# -- programs and plans ---------------------------------------------------------------------------


def _programs(setting: Setting, count: int) -> Iterator[tuple[str, Kernel | RandomProgram]]:
    names = [name for name in WIDE if is_set_aside(name) == setting.aside]
    every: list[tuple[str, Kernel | RandomProgram]] = [(x, WIDE[x]) for x in names]
    if not setting.aside:
        every += KERNELS.items()
        every += ((made.name, made) for made in random_programs(setting.seed, RANDOM))
    if setting.kernels:
        every = [(name, made) for name, made in every if name in setting.kernels]
    if setting.families:
        every = [(name, made) for name, made in every if made.kind in setting.families]
    step = max(1, len(every) // count) if count else 1
    yield from every[::step]


def _plans(program: Program, machine: Machine) -> dict[str, Plan]:
    """The plans of a program that are different ones, by name."""
    makers: dict[str, Callable[[], Plan]] = {
        "source": lambda: source_order(program, machine, 1)[0],
        "marks": lambda: _planned(program, machine, lambda name: name == "plan_marks"),
        "plan": lambda: _planned(program, machine, lambda name: True),
    }
    for kind, dropped in DROPPED.items():
        makers[kind] = partial(_planned, program, machine, lambda x, d=dropped: x not in d)
    for tile in TILES:
        kind = f"tiles {' x '.join(map(str, tile))}"
        makers[kind] = partial(_tiled, tile, program, machine)
    for at, drawn in enumerate(drawn_plans(program, machine, DRAWN)):
        makers[f"drawn {at + 1}"] = partial(_given, drawn)
    found: dict[str, Plan] = {}
    for kind, make in makers.items():
        try:
            plan = make()
        except LoopwrightError:
            continue  # it has no such plan
        # A plan of all planners is told by that name, also where it only marks loops.
        if kind == "plan" and plan in found.values():
            found = {k: p for k, p in found.items() if p != plan or k == "source"}
        if plan not in found.values():
            found[kind] = plan
    return found


def _given(plan: Plan) -> Plan:
    return plan


def _tiled(tile: tuple[int, ...], program: Program, machine: Machine) -> Plan:
    return tile_planner(tile)(program, machine, 1)[0]


def _planned(program: Program, machine: Machine, is_kept: Callable[[str], bool]) -> Plan:
    every = generic._PLANNERS
    generic._PLANNERS = tuple(p for p in every if is_kept(p.__name__))
    try:
        return generic.default_plan(program, machine)[0]
    finally:
        generic._PLANNERS = every


def _ranked(name: str, kernel: Kernel, size: str, machine: Machine) -> Ranked | None:
    """Measured and predicted seconds; None for files of several regions."""
    inputs = _inputs(name, kernel, size)
    with tempfile.TemporaryDirectory() as folder, options.override(cache=False):
        source = write_source(kernel, Path(folder), extents=kernel.at(size))
        programs = list(lw.parse_c(str(source)))
        if len(programs) != 1:
            return None
        (program,) = programs
        plans = _plans(program, machine)
        contestants = []
        for kind, plan in plans.items():
            compiled = lw.compile(str(source), plan=plan)
            compiled(*fresh(inputs).values())
            contestants.append(Contestant(kind, compiled))
        times, wrong = race_in_place(kernel, contestants, inputs, EFFORT)
    for told in wrong:
        print(f"{name}: {told}")
    sizes = likely_sizes(program) | {
        x: n for x, n in kernel.at(size).items() if x in program.params
    }
    measured = {kind: found.best for kind, found in times.items()}
    return Ranked(name, measured, _predicted(program, plans, machine, sizes))


def _ranked_random(made: RandomProgram, machine: Machine) -> Ranked:
    """Measured and predicted seconds of a random program."""
    plans = _plans(made.program, machine)
    with options.override(cache=False):
        calls = {kind: lw.compile(made.program, plan=plan) for kind, plan in plans.items()}
        measured = dict.fromkeys(plans, math.inf)
        for _ in range(EFFORT.rounds):
            for kind, call in calls.items():
                arrays = made.arrays()
                start = time.perf_counter()
                call(*made.params.values(), *arrays)
                measured[kind] = min(measured[kind], time.perf_counter() - start)
    return Ranked(made.name, measured, _predicted(made.program, plans, machine, made.params))


def _predicted(
    program: Program, plans: Mapping[str, Plan], machine: Machine, sizes: Mapping[str, int]
) -> dict[str, float]:
    """Predicted seconds of the plans that have a price."""
    priced = {
        kind: schedule_seconds(apply_plan(program, plan), machine, sizes)
        for kind, plan in plans.items()
    }
    return {kind: seconds for kind, seconds in priced.items() if math.isfinite(seconds)}


def _inputs(name: str, kernel: Kernel, size: str) -> Inputs:
    return wide_inputs(kernel, size) if name in WIDE else make_inputs(kernel, kernel.at(size))
