"""Where a plan comes from: the model, sizes of tiles that the user asks for, or the user's own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import NoReturn, TypeAlias

from loopwright.diagnostics import IllegalStep, UsageError, WrongTypeError
from loopwright.ir.islkit import GaveUp, bounded
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.pipeline import generic_schedule, given_schedule, marks_or_none
from loopwright.transform.interchange import open_chains
from loopwright.transform.plan import Plan, apply_plan, apply_steps, initial_schedule
from loopwright.transform.reschedule import Reschedule
from loopwright.transform.step import Step, Text
from loopwright.transform.tiling import Tile

__all__ = [
    "Planner",
    "checked_plan",
    "given_planner",
    "loaded_planners",
    "model_planner",
    "plans_from_text",
    "plans_text",
    "tile_planner",
]

Planner: TypeAlias = Callable[[Program], tuple[Plan, Schedule]]


def checked_plan(plan: object) -> Plan:
    """What a user passes as plan=; refuses all else than a Plan."""
    if not isinstance(plan, Plan):
        hint = "what plan(...) or einsum_plan(...) gives, or Plan.loads(text)"
        raise WrongTypeError("plan must be a Plan", found=repr(plan)[:60], hint=hint)
    return plan


def model_planner(*, parallel: bool) -> Planner:
    """What the model of the machine decides; `parallel`: for several threads."""
    return lambda program: generic_schedule(program, parallel=parallel)


def given_planner(plan: Plan) -> Planner:
    """The steps of a plan, each of which must be legal."""
    return lambda program: (plan, given_schedule(program, plan))


def plans_text(plans: Sequence[Plan]) -> str:
    """Plans of the regions of a file as JSON: of one region the plan, of several a list."""
    texts = [plan.dumps() for plan in plans]
    return f"{texts[0]}\n" if len(texts) == 1 else "[\n" + ",\n".join(texts) + "\n]\n"


def plans_from_text(text: str, count: int) -> list[Plan]:
    """The plans that `plans_text` wrote, for a file of `count` regions; refuses anything else."""
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError("plans are JSON text", found=str(error)) from error
    plans = [Plan.from_json(part) for part in (data if isinstance(data, list) else [data])]
    if len(plans) != count:
        regions = f"{count} region{'s' if count > 1 else ''}"
        raise UsageError(f"the file has {regions}", found=f"{len(plans)} plans")
    return plans


def tile_planner(sizes: Sequence[int], *, parallel: bool) -> Planner:
    """Tiles of given sizes for every nest of loops that allows them, then the usual marks.

    Of a nest the longest run of loops that may be tiled is, outermost first; a nest of more loops
    than sizes is tiled in its outermost ones. Raises UsageError when no loops can be tiled.
    """

    def first(program: Program) -> tuple[Step, ...]:
        steps, reason = _tiles(initial_schedule(program), tuple(sizes))
        if not steps:
            raise UsageError(f"no loops of '{program.name}' can be tiled", reason)
        return steps

    return partial(_marked, first, parallel=parallel)


def loaded_planners(text: str, count: int, *, parallel: bool) -> list[Planner]:
    """Schedule trees in YAML, one document per region, each followed by the usual marks.

    A tree that is not legal is refused with the pair of instances that forbids it.
    """
    documents = [part for part in re.split(r"^---[ \t]*$", text, flags=re.MULTILINE) if _says(part)]
    if len(documents) != count:
        raise UsageError(
            f"the file has {count} region{'s' if count > 1 else ''}",
            found=f"{len(documents)} schedule trees",
            hint="one YAML document per region, with --- between them, as --dump-schedule writes",
        )

    def tree(document: str, program: Program) -> tuple[Step, ...]:
        return (Reschedule(Text(document)),)

    return [partial(_marked, partial(tree, part), parallel=parallel) for part in documents]


def _says(document: str) -> bool:
    """Whether a document holds more than comments."""
    lines = (line.strip() for line in document.splitlines())
    return any(line and not line.startswith("#") for line in lines)


def _marked(
    first: Callable[[Program], tuple[Step, ...]], program: Program, *, parallel: bool
) -> tuple[Plan, Schedule]:
    """The user's steps, then vectors and threads for the loops they leave."""

    def marked() -> tuple[Plan, Schedule]:
        steps = first(program)
        schedule = apply_plan(program, steps)
        marks = marks_or_none(schedule, parallel=parallel)
        return Plan((*steps, *marks)), apply_steps(schedule, marks)

    def too_hard(error: GaveUp) -> NoReturn:
        reason = f"the order that was asked of '{program.name}' is too hard to check"
        raise UsageError(reason, found=str(error)) from error

    return bounded(marked, too_hard)


def _tiles(schedule: Schedule, sizes: tuple[int, ...]) -> tuple[tuple[Step, ...], str]:
    """Legal tiles of every nest, and why the last refused one was."""
    steps: list[Step] = []
    reason = "no nested loops"
    for chain in tuple(open_chains(schedule)):
        for step in _runs(chain, sizes):
            try:
                schedule = step.apply(schedule)
            except IllegalStep as error:
                reason = str(error)
                continue
            steps.append(step)
            break
    return tuple(steps), reason


def _runs(chain: tuple[str, ...], sizes: tuple[int, ...]) -> list[Tile]:
    """Tiles of the runs of a nest, longest first, then outermost first."""
    longest = min(len(chain), len(sizes))
    least = min(2, len(sizes))  # a loop alone keeps its order in tiles
    return [
        Tile(chain[first : first + count], sizes[:count])
        for count in range(longest, least - 1, -1)
        for first in range(len(chain) - count + 1)
    ]
