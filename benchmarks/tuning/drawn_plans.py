"""Programs and plans that nobody chose: random affine programs at sizes that can be timed, and
random legal plans of any program, for ranking predictions.

Everything follows from a seed. Loops of a random program get as many iterations as come nearest to
a given number of instances; plans are lists of up to four steps for one thread, of the sizes that
the steps offer themselves, and the marks that the planner gives such loops.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

TESTS = Path(__file__).parent.parent.parent / "tests"
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))

from loopwright.analysis.size_estimates import average_trips  # noqa: E402
from loopwright.diagnostics import IllegalStep, LoopwrightError  # noqa: E402
from loopwright.frontends.extract import extract  # noqa: E402
from loopwright.ir.evaluate import evaluate  # noqa: E402
from loopwright.ir.islkit import GaveUp, attempt  # noqa: E402
from loopwright.ir.machine import Machine  # noqa: E402
from loopwright.ir.program import Program, Role  # noqa: E402
from loopwright.planner.generic import extend_plan  # noqa: E402
from loopwright.transform.plan import Plan, candidates, initial_schedule  # noqa: E402
from loopwright.transform.step import Step  # noqa: E402
from property.affine_programs import random_program  # noqa: E402

__all__ = ["RandomProgram", "drawn_plans", "random_programs"]

SIZES = (2000, 1000, 500, 200, 100, 50, 24, 12)
FEWEST, MOST = 3e5, 3e7  # instances of all statements together
MOST_BYTES = 1 << 27  # of all arrays
ISL_QUOTA = 500_000  # operations for one program or one plan
MOST_STEPS = 4
TRIES = 12  # plans drawn for each that is wanted
# Kinds of steps that one thread of a processor runs, but for products as a whole.
KINDS = {
    *("fuse", "distribute", "interchange", "tile", "strip_mine", "skew", "split_index_set"),
    *("unroll", "unroll_and_jam", "privatize", "expand_scalar", "outer_vectors"),
}


@dataclass(frozen=True)
class RandomProgram:
    """A random program with sizes at which it takes some milliseconds."""

    name: str
    program: Program
    params: dict[str, int]
    kind = "random"  # its family

    def arrays(self) -> list[Any]:
        """Data of the arguments, small numbers that are never zero, the same each time."""
        random = np.random.default_rng(0)
        found = []
        for array in self.program.arrays:
            if array.role is Role.LOCAL:
                continue
            shape = [int(evaluate(x, self.params, {})) for x in array.shape]
            drawn = random.integers(1, 5, size=shape)
            values = drawn if array.dtype.is_integer else drawn / 4
            found.append(np.asarray(values, array.dtype.numpy))
        return found


def random_programs(seed: int, count: int) -> Iterator[RandomProgram]:
    """The first `count` random programs from a seed on that can be timed."""
    while count:
        found = _sized(seed)
        seed += 1
        if found is not None:
            yield found
            count -= 1


def _sized(seed: int) -> RandomProgram | None:
    try:
        with attempt(ISL_QUOTA):
            program = extract(random_program(seed))
            for size in SIZES:
                params = dict.fromkeys(program.params, size)
                made = RandomProgram(f"random {seed}", program, params)
                if _fits(made):
                    return made
    except (GaveUp, LoopwrightError):
        pass
    return None


def _fits(made: RandomProgram) -> bool:
    """Whether a program runs neither too long nor too short, within some memory."""
    trips = average_trips(made.program, made.params)
    instances = sum(
        float(np.prod([max(trips[s.name][x], 0.0) for x in s.iterators]))
        for s in made.program.statements
    )
    extents = [
        [int(evaluate(x, made.params, {})) for x in array.shape] for array in made.program.arrays
    ]
    if any(n < 1 for shape in extents for n in shape):
        return False
    sizes = [
        float(np.prod(shape)) * array.dtype.bytes
        for shape, array in zip(extents, made.program.arrays, strict=True)
    ]
    return FEWEST <= instances <= MOST and sum(sizes) <= MOST_BYTES


def drawn_plans(program: Program, machine: Machine, count: int, seed: int = 0) -> list[Plan]:
    """Up to `count` different random plans, each of legal steps and the planner's marks."""
    found: list[Plan] = []
    for at in range(count * TRIES):
        try:
            with attempt(ISL_QUOTA):
                plan = _drawn(Random(f"{seed} {at}"), program, machine)
        except (GaveUp, LoopwrightError):
            continue
        if plan.steps and plan not in found:
            found.append(plan)
        if len(found) == count:
            break
    return found


def _drawn(random: Random, program: Program, machine: Machine) -> Plan:
    steps: list[Step] = []
    schedule = initial_schedule(program)
    for _ in range(random.randint(1, MOST_STEPS)):
        by_kind: dict[str, list[Step]] = {}
        for offered in candidates(schedule):
            if offered.kind in KINDS:
                by_kind.setdefault(offered.kind, []).append(offered)
        if not by_kind:
            break
        step = random.choice(by_kind[random.choice(sorted(by_kind))])
        try:
            schedule = step.apply(schedule)
        except IllegalStep:
            continue
        steps.append(step)
    return Plan((*steps, *extend_plan(schedule, machine))) if steps else Plan()
