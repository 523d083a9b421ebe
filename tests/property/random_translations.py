"""Random programs under random legal plans: the translations that must make no difference.

Everything follows from a seed: the program (affine_programs), its sizes, its data and its plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, cycle
from random import Random

from loopwright.diagnostics import IllegalStep
from loopwright.frontends.extract import extract
from loopwright.frontends.source_tree import SourceTree
from loopwright.frontends.tree_text import tree_text
from loopwright.ir.analysis_manager import AnalysisManager
from loopwright.ir.check import check_nest
from loopwright.ir.islkit import GaveUp, attempt
from loopwright.ir.loops import For, LoopNest, Mark, Stmt
from loopwright.ir.memory import UndefinedRead
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.machines.host import host
from loopwright.planner.generic import default_plan
from loopwright.transform.loop_marks import Unroll, Vectorize
from loopwright.transform.map_reduction import MapReduction
from loopwright.transform.partial_sums import PartialSums
from loopwright.transform.plan import Plan, apply_plan, candidates, initial_schedule
from loopwright.transform.schedule_legality import conflicts, validity_dependences
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine, Tile
from loopwright.validate.check_data import check_data
from loopwright.validate.check_order import check_order
from loopwright.validate.difference import Difference
from loopwright.validate.problem_sizes import pick_sizes
from loopwright.validate.reference_run import ReferenceRun, Signs, run_reference
from loopwright.validate.runners import c_runners, jit_runner
from property.affine_programs import random_program, shrink

ISL_QUOTA = 500_000  # operations for one program or one plan, a fraction of a second
MOST_ACCESSES = 800
MOST_STEPS = 5
C_FLAGS = ("-O1", "-fopenmp", "-w")


@dataclass(frozen=True)
class Case:
    """A random program, what it means at some sizes."""

    seed: int
    tree: SourceTree
    program: Program
    references: tuple[ReferenceRun, ...]


@dataclass(frozen=True)
class Translation:
    """A plan for a program and the nest it leads to."""

    case: Case
    plan: Plan
    nest: LoopNest

    @property
    def is_compiled(self) -> bool:
        """Whether it is worth compiling: the source order, of every program, is so now and then."""
        is_chosen = bool(self.plan.steps) or self.case.seed % 4 == 0
        return is_chosen and not any(map(_is_for_device, statements(self.nest.body)))

    def __str__(self) -> str:
        return f"seed {self.case.seed}\n{self.plan.dumps()}\n{tree_text(self.case.tree)}"


def _is_for_device(stmt: Stmt) -> bool:
    """Whether a statement is a loop over blocks, threads or cores, which no processor runs."""
    return isinstance(stmt, For) and stmt.mark in (Mark.BLOCK, Mark.THREAD)


def draw_case(seed: int) -> Case | None:
    """The program of a seed; None when isl gives it up or it has no statements."""
    tree = random_program(seed)
    return case_of(seed, tree)


def case_of(seed: int, tree: SourceTree) -> Case | None:
    """The case of a tree that may be a smaller one than its seed gives."""
    try:
        with attempt(ISL_QUOTA):
            program = replace(extract(tree), reassoc=seed % 4 == 0)
            if not program.statements:
                return None
            values = (0, 1, 2, 3, 5, 7)
            sizes = pick_sizes(program, values=values, most=MOST_ACCESSES, count=4, seed=seed)
    except GaveUp:
        return None
    try:
        references = [
            run_reference(program, params, seed=seed, signs=signs)
            for params, signs in zip(sizes, cycle(Signs), strict=False)
        ]
    except UndefinedRead:
        # What set a local variable may be what was cut away.
        return None
    return Case(seed, tree, program, tuple(references))


def draw_translations(case: Case, count: int) -> Iterator[Translation]:
    """The source order, the default plan and `count` random ones; fewer where isl gives up."""
    yield from _lowered(case, Plan())
    if not has_facts(case.program):
        return
    for at in range(-1, count):
        random = Random(f"{case.seed} {at}")
        try:
            with attempt(ISL_QUOTA):
                if at < 0:
                    plan, _ = default_plan(case.program, host(), parallel=case.seed % 2 == 0)
                else:
                    plan = draw_plan(random, initial_schedule(case.program))
        except GaveUp:
            continue
        if plan.steps:
            yield from _lowered(case, plan)


def has_facts(program: Program) -> bool:
    """Whether isl finds the dependences; without them no step is legal."""
    try:
        with attempt(ISL_QUOTA):
            analyses = AnalysisManager(program)
            analyses.derive(validity_dependences)
            analyses.derive(conflicts)
    except GaveUp:
        return False
    return True


def _lowered(case: Case, plan: Plan) -> Iterator[Translation]:
    """A plan is stored and read back on its way, as files of plans are."""
    try:
        with attempt(ISL_QUOTA):
            schedule = apply_plan(case.program, Plan.loads(plan.dumps()))
            nest = lower_schedule(schedule)
    except (GaveUp, IllegalStep):
        return
    yield Translation(case, plan, nest)


def draw_plan(random: Random, schedule: Schedule) -> Plan:
    """Up to five steps, each legal after those before it."""
    steps: list[Step] = []
    for _ in range(random.randint(1, MOST_STEPS)):
        by_kind: dict[str, list[Step]] = {}
        for offered in candidates(schedule):
            by_kind.setdefault(offered.kind, []).append(offered)
        by_kind.pop("contract", None)
        if not by_kind:
            break
        step = varied(random, random.choice(by_kind[random.choice(sorted(by_kind))]))
        try:
            schedule = step.apply(schedule)
        except IllegalStep:
            continue
        steps.append(step)
    return Plan(tuple(steps))


def varied(random: Random, step: Step) -> Step:
    """The step with sizes that fit small loops."""
    match step:
        case Tile(loops=loops):
            return replace(step, sizes=tuple(random.randint(1, 5) for _ in loops))
        case StripMine() | PartialSums():
            return replace(step, size=random.randint(1, 5))
        case MapReduction():
            return replace(step, threads=random.choice((2, 4, 8)))
        case Vectorize():
            return replace(step, lanes=random.randint(2, 4))
        case Unroll():
            return replace(step, factor=random.randint(2, 4))
    return step


# -- comparing -------------------------------------------------------------------------------


def differences(translation: Translation, threads: int = 3) -> tuple[Difference, ...]:
    """What the interpreter and LLVM make of a translation that its program does not say."""
    nest, references = translation.nest, translation.case.references
    check_nest(nest)
    for at, reference in enumerate(references):
        found = check_order(reference, nest, threads=1 + at % threads, seed=at)
        if found:
            return found
    if not translation.is_compiled:
        return ()
    run = jit_runner(nest, threads=1 + translation.case.seed % 2)
    return tuple(found for reference in references for found in check_data(reference, run, "jit"))


def differences_in_c(
    translations: Sequence[Translation], flags: Sequence[str] = C_FLAGS
) -> Iterator[tuple[Translation, Difference]]:
    """What C makes of translations that their programs do not say; one run of the compiler."""
    chosen = [translation for translation in translations if translation.is_compiled]
    runs = c_runners([translation.nest for translation in chosen], flags)
    for translation, run in zip(chosen, runs, strict=True):
        for reference in translation.case.references:
            for found in check_data(reference, run, "c"):
                yield translation, found


def smallest(translation: Translation) -> Translation:
    """A smaller program, with a plan of its own, that differs too; where there is none, itself."""
    found = translation

    def fails(tree: SourceTree) -> bool:
        nonlocal found
        case = case_of(translation.case.seed, tree)
        if case is None:
            return False
        offers = chain(_lowered(case, translation.plan), draw_translations(case, 4))
        for offer in offers:
            if differences(offer) or any(differences_in_c([offer])):
                found = offer
                return True
        return False

    shrink(translation.case.tree, fails)
    return found
