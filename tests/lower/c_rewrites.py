"""Rewrites of loops that C spells: what each one is, and the regions it takes or leaves.

The regions of a rewrite stand in `rewrites/NAME.c`: a function with BODY in it, then bodies, each
behind `// taken: TITLE` or `// kept: TITLE`. A new row is a body; a new rewrite is a file and an
entry of REWRITES.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import loopwright as lw
from loopwright.ir.any_lane import any_lane
from loopwright.ir.dtypes import FLOAT32, FLOAT64
from loopwright.ir.expr import Call
from loopwright.ir.loops import For, If, LoopNest, Mark, Stmt
from loopwright.ir.program import Program, Role
from loopwright.ir.text import nest_text
from loopwright.ir.visit import expressions, rebuild, statements, statements_inside, walk
from loopwright.lower.contract_arrays import sink_scalars
from loopwright.lower.passes import lower_schedule, nest_before
from loopwright.lower.skip_idle_loops import skip_idle_loops
from loopwright.lower.split_at_borders import split_at_borders
from loopwright.lower.unswitch_loops import unswitch_loops
from loopwright.lower.values.extremes_in_lanes import extremes_in_lanes
from loopwright.lower.values.functions_apart import functions_apart
from loopwright.lower.values.lanes_in_scalars import lanes_in_scalars
from loopwright.lower.values.masked_updates import mask_updates
from loopwright.lower.values.promote_registers import promote_scalars
from loopwright.lower.values.quotients_apart import quotients_apart
from loopwright.lower.values.rare_calls import branch_around_calls
from loopwright.lower.values.rare_lanes import branch_on_lanes
from loopwright.lower.values.rare_quotients import branch_around_quotients
from loopwright.lower.values.sums_in_lanes import sums_in_lanes
from loopwright.planner.plan_choice import choose_plan
from loopwright.transform.loop_marks import Simd
from loopwright.transform.outer_vectors import OuterVectors
from loopwright.transform.plan import apply_plan, initial_schedule
from loopwright.transform.privatize import Privatize

FOLDER = Path(__file__).parent / "rewrites"
EXP = ("exp", FLOAT64)
SIZES = (0, 1, 2, 3, 15, 16, 17, 33, 65, 131)  # of a row; strips are of 16 or 64 elements
STRIPS = SIZES[3:]  # of bodies that name the first elements
FEW = (0, 1, 2, 3, 7, 13)  # of loops inside each other


@cache
def source_order(program: Program) -> LoopNest:
    return lower_schedule(initial_schedule(program))


@cache
def planned(program: Program) -> LoopNest:
    """As a machine with long vectors gets it."""
    return lower_schedule(choose_plan(program, lw.machine("skylake-avx512"), 1).schedule)


@cache
def in_lanes(program: Program, lanes: int, copies: int) -> LoopNest:
    """Iterations of the loop i in vectors, each with scalars of its own."""
    inner = {"x", "r", "d"} | {a.name for a in program.arrays if a.name.startswith("mask")}
    local = [a.name for a in program.arrays if a.role is Role.LOCAL]
    used = {loop for s in program.statements for loop in s.iterators}
    own = {name: "j" if name in inner and "j" in used else "i" for name in local}
    steps = [Privatize(name, loop) for name, loop in own.items()]
    return lower_schedule(apply_plan(program, [*steps, OuterVectors("i", lanes, copies)]))


@cache
def not_yet_skipped(program: Program, simd: str = "") -> LoopNest:
    schedule = initial_schedule(program)
    schedule = Simd(simd).apply(schedule) if simd else schedule
    return nest_before(schedule, "skip_idle_loops")[0]


def marked(program: Program, mark: Mark, loop: str) -> LoopNest:
    """The source order with scalars bound and all loops of a name marked."""

    def visit(stmt: Stmt) -> Stmt:
        is_named = isinstance(stmt, For) and stmt.var.startswith(loop)
        return replace(stmt, mark=mark) if is_named else stmt

    nest = promote_scalars(sink_scalars(source_order(program)))
    return replace(nest, body=rebuild(nest.body, visit))


def shows(pattern: str, nest: LoopNest) -> bool:
    return re.search(pattern, nest_text(nest)) is not None


def calls_under_branches(nest: LoopNest) -> bool:
    """Whether all calls of functions that are not known stand under a branch."""
    return not list(_calls_outside(nest.body))


def _calls_outside(stmt: Stmt) -> Iterator[Call]:
    for value in expressions(stmt):
        calls = (x for x in walk(value) if isinstance(x, Call))
        yield from (x for x in calls if x.function not in ("exp", "sqrt"))
    if not isinstance(stmt, If):
        for inner in statements_inside(stmt):
            yield from _calls_outside(inner)


def quotients_under_branches(nest: LoopNest) -> bool:
    """Whether quotients stand behind the one branch, and none before it."""
    before, branch = re.split(r"\n +if .*:\n", nest_text(nest), maxsplit=1)
    return "/" in branch and "/" not in before.split("for i")[1]


def one_branch_on_lanes(nest: LoopNest) -> bool:
    return sum(any_lane(stmt) is not None for stmt in statements(nest.body)) == 1


@dataclass(frozen=True)
class Rewrite:
    """A rewrite, the nests it gets, and what each nest has that it takes."""

    file: str
    rewrite: Callable[[LoopNest], LoopNest]
    has: Callable[[LoopNest], bool]
    nest: Callable[[Program], LoopNest] = source_order
    sizes: tuple[int, ...] = SIZES


REWRITES = {
    "functions apart": Rewrite(
        "functions_apart",
        lambda nest: functions_apart(nest, [EXP]),
        partial(shows, "simd for"),
        sizes=STRIPS,
    ),
    "functions in vectors": Rewrite(
        "functions_in_vectors",
        lambda nest: functions_apart(nest, [EXP], [EXP]),
        lambda nest: nest_text(nest).count("simd for") == 2,
        lambda program: marked(program, Mark.SIMD, "i"),
    ),
    "functions in copies": Rewrite(
        "functions_in_copies",
        lambda nest: functions_apart(nest, [EXP]),
        lambda nest: nest_text(nest).count("exp_of") >= 8,
        lambda program: marked(program, Mark.UNROLL, "j"),
        STRIPS,
    ),
    "quotients apart": Rewrite(
        "quotients_apart",
        lambda nest: quotients_apart(nest, [FLOAT64]),
        partial(shows, "simd for"),
        sizes=STRIPS,
    ),
    "rare calls": Rewrite(
        "rare_calls", lambda nest: branch_around_calls(nest, frozenset({EXP})), calls_under_branches
    ),
    "rare quotients": Rewrite("rare_quotients", branch_around_quotients, quotients_under_branches),
    "rare quotients, for C": Rewrite(
        "rare_quotients",
        lambda nest: branch_around_quotients(nest, singly=True),
        partial(shows, r"any\[\]|if "),
    ),
    "sums in lanes": Rewrite(
        "sums_in_lanes",
        lambda nest: sums_in_lanes(nest, (FLOAT32, FLOAT64)),
        partial(shows, r"vector for i_v in range\(16\)"),
    ),
    "extremes in lanes": Rewrite(
        "extremes_in_lanes",
        lambda nest: extremes_in_lanes(nest, lambda bits: 128 // bits, is_row_major=True),
        partial(shows, "vector for"),
    ),
    "extremes in wide lanes": Rewrite(
        "extremes_in_lanes",
        lambda nest: extremes_in_lanes(nest, lambda bits: 512 // bits, is_row_major=True),
        partial(shows, "vector for"),
    ),
    "masked updates": Rewrite(
        "masked_updates", mask_updates, partial(shows, r" & -|run\[\] - \(7 if")
    ),
    "idle loops": Rewrite(
        "skip_idle_loops", skip_idle_loops, partial(shows, r"if .*\["), not_yet_skipped, FEW
    ),
    "idle loops of vectors": Rewrite(
        "skip_idle_vectors",
        skip_idle_loops,
        partial(shows, r"if x\[0\] > 0.5"),
        lambda program: not_yet_skipped(program, "j"),
        SIZES[1:],
    ),
    "borders": Rewrite("split_at_borders", split_at_borders, partial(shows, "for"), planned, FEW),
    "unswitched": Rewrite("unswitch_loops", unswitch_loops, partial(shows, "simd for"), planned),
    "rare lanes": Rewrite(
        "rare_lanes", branch_on_lanes, one_branch_on_lanes, lambda x: in_lanes(x, 8, 2), FEW
    ),
    "rare lanes, many copies": Rewrite(
        "rare_lanes", branch_on_lanes, one_branch_on_lanes, lambda x: in_lanes(x, 4, 5), FEW
    ),
    "lanes in scalars": Rewrite(
        "lanes_in_scalars",
        lanes_in_scalars,
        partial(shows, "alloc stack"),
        lambda x: in_lanes(x, 4, 1),
        FEW,
    ),
}


@dataclass(frozen=True)
class Region:
    """A function with a region, and whether a rewrite takes it."""

    title: str
    text: str
    is_taken: bool

    @property
    def program(self) -> Program:
        return parsed(self.text)

    def with_floats(self) -> Region:
        """The same function of single precision."""
        text = re.sub(r"(\d\.\d+)", r"\1f", self.text.replace("double", "float"))
        return Region(self.title, text.replace("sqrt(", "sqrtf("), self.is_taken)


@cache
def parsed(text: str) -> Program:
    (program,) = lw.parse_c(text)
    return program


@cache
def regions(file: str) -> tuple[Region, ...]:
    """The regions of a rewrite, in their order."""
    frame, *rows = re.split(r"^// ", (FOLDER / f"{file}.c").read_text(), flags=re.MULTILINE)
    found = []
    for row in rows:
        head, body = row.split("\n", 1)
        kind, title = head.split(": ", 1)
        found.append(Region(title, frame.replace("BODY", body.strip()), kind == "taken"))
    return tuple(found)


def rows(*, taken: bool) -> list[tuple[str, Region]]:
    """Every rewrite with every region that it takes, or leaves as it is."""
    pairs = [(name, x) for name, each in REWRITES.items() for x in regions(each.file)]
    return [(name, region) for name, region in pairs if region.is_taken is taken]
