"""A compiled function for one tuple of argument types: summary, kernels, launches, reports.

A function that is one contraction runs as its prologues, the contraction's kernel and its epilogue;
any other one as the loop nest of the generic road. What was found out about it lies in the disk
cache beside the kernels; isl is loaded only where the cache has no answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from loopwright import options
from loopwright.calls.arguments import (
    Arrays,
    Fresh,
    Signature,
    Strides,
    Values,
    row_major,
    short_strides,
    stride_values,
)
from loopwright.calls.call_race import CallRace, Rival
from loopwright.calls.function_summary import FunctionSummary, compile_test
from loopwright.calls.launches import Launches
from loopwright.diagnostics import SourceError, ToolchainError, UsageError
from loopwright.faults import FAULTS, survive
from loopwright.ir.contraction import Contraction
from loopwright.ir.program import Role
from loopwright.ir.serial import Malformed
from loopwright.kernels import (
    Unproven,
    nest_kernel,
    recall,
    remember,
    stage_text,
    thread_pool,
)
from loopwright.lazy_dataclass import dataclass
from loopwright.log import log
from loopwright.machines.machine_argument import require_runnable
from loopwright.memo import BoundedCache
from loopwright.runtime.array_arguments import element_strides
from loopwright.runtime.kernel import CompiledKernel
from loopwright.tuning.recall import origin_line, plan_digest, recorded_loops
from loopwright.tuning.records import program_key

if TYPE_CHECKING:
    from loopwright.calls.contraction_unit import ContractionUnit
    from loopwright.calls.polyhedral_function import PolyhedralFunction
    from loopwright.frontends.source_tree import SourceTree
    from loopwright.ir.loops import LoopNest
    from loopwright.ir.machine import Machine
    from loopwright.planner.contraction_plans.choice import Choice
    from loopwright.transform.plan import Plan
    from loopwright.tuning.records import Record
    from loopwright.tuning.tasks import Task

__all__ = ["Specialisation", "TuneFirst"]

Run: TypeAlias = Callable[[Arrays], None]
# Of a function, the arguments of a call and its threads.
TuneFirst: TypeAlias = "Callable[[Specialisation, tuple[Any, ...], int], object]"

_MOST_READY = 1024  # calls remembered with their launch
_ACROSS = "no kernel: sums in source order lie across its vectors, and loops are faster"
_BY_COMPILER = "; calls run what the C compiler makes of this plan: inspect_asm shows it\n"
_NO_TABLE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class _Ready:
    """The calls with one set of shapes and integers: what to allocate, what to run."""

    fresh: tuple[Fresh, ...]
    run: Run


class Definition(Protocol):
    """Where a function comes from."""

    reassoc: bool
    captured: tuple[tuple[str, object], ...]  # outer names that count, the values they had

    @property
    def tree(self) -> SourceTree: ...

    def known(self) -> tuple[str, FunctionSummary] | None:
        """Key and summary, where they are known without reading the function."""

    def key(self) -> str:
        """A hash of all that the meaning depends on."""

    def keep(self, key: str, summary: FunctionSummary) -> None:
        """Let later processes know them."""


class Specialisation:
    """A function for one tuple of argument types. Safe to call from several threads at once."""

    def __init__(
        self,
        definition: Definition,
        machine: Machine,
        plan: Plan | None = None,
        tune: TuneFirst | None = None,
        race: bool | None = None,
    ) -> None:
        self._definition = definition
        self._race = race  # None: where that leaves every bit as it is
        self._told: BoundedCache[tuple[Any, ...], str] = BoundedCache(_MOST_READY)  # ends of races
        self._tune = tune  # called before code for new sizes is made
        self.on_forget: Callable[[], None] | None = None  # of others who remember calls
        self._machine = machine
        self._constructions: dict[bool, str] = {}  # digests of the model's plans
        self._decided: dict[int, Plan] = {}  # the model's plans by threads, for all strides
        self._plan = plan  # of the user; None: what the model decides
        known = definition.known()
        log("cache", lambda: f"{'miss' if known is None else 'hit'}, {definition}")
        if known is None:
            self._key = definition.key()
            self.summary = self._recalled() or self._analysed()
            definition.keep(self._key, self.summary)
        else:
            self._key, self.summary = known
        self._is_unsafe = compile_test(self.summary.unsafe, self.summary.params)
        self._signature = Signature(self.summary)
        self._ready: BoundedCache[tuple[Any, ...], _Ready] = BoundedCache(_MOST_READY)

    @property
    def captured(self) -> tuple[tuple[str, object], ...]:
        """The outer names that count, with the values they had."""
        return self._definition.captured

    def __call__(self, args: tuple[Any, ...], threads: int) -> Any:
        key, arrays = self._bound(args, threads)
        ready = self._ready.get(key)
        if ready is None:
            if self._tune is not None:
                self._tune(self, args, threads)
            ready = self._prepare(key, args, arrays, threads)
            self._ready[key] = ready
        for name, shape, dtype in ready.fresh:
            arrays[name] = np.empty(shape, dtype)
        ready.run(arrays)
        return self._signature.result(args, arrays)

    def _bound(self, args: tuple[Any, ...], threads: int) -> tuple[tuple[Any, ...], Arrays]:
        """The key of a call among those that are ready, and its arrays by name."""
        key, arrays = self._signature.bind(args)
        settings = options.current()
        return (threads, settings.interpret, settings.boundscheck, *key), arrays

    def launches(
        self, args: tuple[Any, ...], threads: int
    ) -> tuple[tuple[Fresh, ...], Launches] | None:
        """What a call that was made before allocates and runs; None where that is not known."""
        ready = self._ready.get(self._bound(args, threads)[0])
        if ready is None or not isinstance(ready.run, Launches):
            return None
        return ready.fresh, ready.run

    def is_contracted(self, args: tuple[Any, ...]) -> bool:
        """Whether a call runs as the kernel of a contraction, unless none can be proven."""
        return self._unit(*self._call(args)) is not None

    def is_racing(self, args: tuple[Any, ...], threads: int) -> bool:
        """Whether it is open which code serves such calls."""
        ready = self._ready.get(self._bound(args, threads)[0])
        return ready is not None and isinstance(ready.run, CallRace)

    @property
    def written(self) -> tuple[str, ...]:
        """The arguments that the function writes."""
        return self._signature.written

    @property
    def written_places(self) -> tuple[int, ...]:
        """The positions of the arguments that the function writes."""
        names = [argument.name for argument in self.summary.arguments]
        return tuple(names.index(name) for name in self._signature.written if name in names)

    # -- knowledge --------------------------------------------------------------------------------

    def _recalled(self) -> FunctionSummary | None:
        """The summary that an earlier process stored."""
        facts = recall(self._key)
        try:
            return None if facts is None else FunctionSummary.from_json(facts)
        except Malformed:
            return None

    def _analysed(self) -> FunctionSummary:
        summary = self._polyhedral().summary()
        remember(self._key, summary.to_json())
        return summary

    def _polyhedral(self) -> PolyhedralFunction:
        """The function in the polyhedral model, for the calling thread."""
        # lazy: loads isl, which a call that finds its summary and kernels does without
        from loopwright.calls.polyhedral_function import PolyhedralFunction

        return PolyhedralFunction(self._definition.tree, reassoc=self._definition.reassoc)

    # -- code -------------------------------------------------------------------------------------

    def _prepare(
        self, key: tuple[Any, ...], args: tuple[Any, ...], arrays: Arrays, threads: int
    ) -> _Ready:
        """Check sizes and layouts, fetch kernels and bind launches."""
        require_runnable(self._machine)
        params = self._checked(args, arrays)
        fresh = self._signature.fresh(params)
        if options.current().interpret:
            return _Ready(fresh, lambda given: self._polyhedral().run(given, params))
        strides = _strides(arrays, fresh)
        run = self._contracted(params, strides, threads)
        if run is None:
            run, is_recorded = self._looped(params, strides, threads)
            if not is_recorded and self._may_race():
                is_plain = all(strides[name] == row_major(x.shape) for name, x in arrays.items())
                # What threads share is not raced against code for one.
                is_alone = is_plain and not run.is_parallel
                run = self._raced(key, fresh, run, params, strides, threads, is_alone=is_alone)
        return _Ready(fresh, run)

    def _contracted(self, params: Values, strides: Strides, threads: int) -> Run | None:
        """The contraction that a call runs as; None for loops, or where it is not proven to be one.

        That of the user's plan must be legal.
        """
        try:
            unit = self._unit(params, strides)
            if unit is None:
                return None
            return unit.prepare(params, strides, threads, self._kernel_nest)
        except Unproven as error:
            if self._plan is None:
                return None
            message = f"the plan of '{self.summary.name}' is too hard to check"
            raise UsageError(message, found=str(error)) from error
        except FAULTS as error:
            if self._plan is not None:
                raise
            survive(error, f"the kernel of '{self.summary.name}'")
            return None

    def _kernel_nest(self, choice: Choice) -> LoopNest:
        """The loops of the contraction that the function is."""
        return self._polyhedral().kernel_nest(choice, is_given=self._plan is not None)

    def _unit(self, params: Values, strides: Strides) -> ContractionUnit | None:
        """The contraction that a call with these sizes and strides runs as; None: loops.

        The user's plan decides, else what the function is and how its arrays lie in memory. Calls,
        plans, tuning and reports ask here.
        """
        found = self._planned_contraction()
        if found is None:
            return None
        # lazy: loads the planner of contractions, which other functions do without
        from loopwright.calls.contraction_unit import ContractionUnit

        unit = ContractionUnit(self.summary, found, self._machine, self._plan)
        is_free = self._plan is None
        return None if is_free and unit.is_faster_as_loops(params, strides) else unit

    def _planned_contraction(self) -> Contraction | None:
        """The contraction that the function is, unless the user's plan is one for loops."""
        found = self.summary.contraction
        if self._plan is None:
            return found
        if self._plan.whole_contract is None:
            return None
        if found is None:
            reasons = "; ".join(self._polyhedral().explain())
            hint = "a plan of this function's plan(...)"
            raise UsageError(f"'{self.summary.name}' as a whole is no contraction", reasons, hint)
        return found

    def _looped(self, params: Values, strides: Strides, threads: int) -> tuple[Launches, bool]:
        """The function as loops, the generic road; and whether that is by a record."""
        kernel, is_recorded = self._kernel(params, strides, threads)
        return self._launches(kernel, params, strides, threads), is_recorded

    def _launches(
        self, kernel: CompiledKernel, params: Values, strides: Strides, threads: int
    ) -> Launches:
        values = params | stride_values(strides)
        bound = kernel.bind(values, _NO_TABLE, threads, thread_pool)
        return Launches((), ((bound, kernel.buffers),))

    def _checked(self, args: tuple[Any, ...], arrays: Arrays) -> Values:
        """The parameters of a call that stays inside its arrays."""
        params = self._signature.params(args)
        self._signature.check_layout(arrays)
        if self._is_unsafe(params):
            raise SourceError(self._polyhedral().violation(params))
        return params

    def _may_race(self) -> bool:
        """Whether the model's plan may be raced against the source order."""
        settings = options.current()
        is_free = self._plan is None and self._tune is None
        return is_free and self._race is not False and settings.race and not settings.careful

    def _raced(
        self,
        key: tuple[Any, ...],
        fresh: tuple[Fresh, ...],
        plan: Launches,
        params: Values,
        strides: Strides,
        threads: int,
        *,
        is_alone: bool,
    ) -> CallRace:
        """The launches of the model's plan, which calls race against others.

        With `is_alone` also against the code of the C compiler, which is for one thread.
        """

        def prepare() -> Rival | None:
            # lazy: in a thread of its own; loads isl
            from loopwright.calls.compiler_code import has_compiler
            from loopwright.calls.source_race import Contest, first_rival  # lazy: likewise

            def make(source: Plan) -> Launches:
                kernel = self._planned_kernel(strides, threads, source)
                return self._launches(kernel, params, strides, threads)

            def make_by_compiler(plan: Plan) -> Launches:
                kernel = self._compiler_kernel(plan)
                return self._launches(kernel, params, strides, threads)

            where = self._dtype, self._machine, threads
            name = program_key(self._key, params, strides, *where)
            contest = Contest(
                lambda: self._polyhedral().program,
                self._machine,
                params,
                name,
                make,
                lambda: self._construction(threads > 1),
                make_by_compiler if is_alone and has_compiler(self._machine) else None,
            )
            return first_rival(contest)

        def settle(run: Run, *, told: str) -> None:
            ready = self._ready.get(key)
            if ready is not None and ready.run is race:  # else there are other records
                self._told[key] = told
                self._ready[key] = _Ready(fresh, run)

        race = CallRace(plan, prepare, settle)
        return race

    def _kernel(
        self, params: Values, strides: Strides, threads: int
    ) -> tuple[CompiledKernel, bool]:
        """The kernel of the generic road for arrays with these unit strides.

        And whether its plan is a record's.
        """
        recorded = self._recorded(params, strides, threads)
        if recorded is not None:
            plan, record = recorded
            try:
                if record.by_compiler:
                    return self._compiler_kernel(plan), True
                return self._planned_kernel(strides, threads, plan), True
            except (UsageError, ToolchainError, *FAULTS) as error:
                reason = str(error)
                log("tune", lambda: f"a record is set aside: {reason}")
        return self._planned_kernel(strides, threads, self._plan), False

    def _planned_kernel(self, strides: Strides, threads: int, plan: Plan | None) -> CompiledKernel:
        unit, parallel = short_strides(strides), threads > 1
        made_for = self._machine.content_hash
        given = "" if plan is None else plan.dumps()
        key = f"{self._key} {sorted(unit.items())} {parallel} {made_for} {given}"
        what = f"loops of '{self.summary.name}'"
        return nest_kernel(key, lambda: self._nest(strides, threads, plan), what)

    def _compiler_kernel(self, plan: Plan) -> CompiledKernel:
        """The C compiler's code of a plan, for arrays without gaps and one thread."""
        # lazy: for races and what they have found
        from loopwright.calls.compiler_code import compiler_kernel

        what = f"loops of '{self.summary.name}'"
        return compiler_kernel(
            self._key, lambda: self._polyhedral().program, plan, self._machine, what
        )

    def _nest(self, strides: Strides, threads: int, plan: Plan | None) -> LoopNest:
        """The loops of the generic road."""
        unit = short_strides(strides)
        earlier = self._decided.get(threads)
        made = self._polyhedral().compiled(self._machine, threads, plan, unit, earlier)
        if plan is None:
            self._decided[threads] = made.plan
        return made.nest

    def _recorded(
        self, params: Values, strides: Strides, threads: int
    ) -> tuple[Plan, Record] | None:
        """The plan that tuning has recorded for such loops."""
        if self._plan is not None:
            return None
        where = self._dtype, self._machine, threads
        given = self._key, params, strides
        found = recorded_loops(*given, *where, lambda: self._construction(threads > 1))
        settings = options.current()
        # The C compiler's code checks no bounds.
        may_compile = settings.race_compiler and not settings.careful
        return None if found is not None and found[1].by_compiler and not may_compile else found

    def _construction(self, parallel: bool) -> str:
        """A digest of the model's plan; earlier processes with the same compiler have left it."""
        known = self._constructions.get(parallel)
        if known is None:
            content = f"construction {self._key} {parallel} {self._machine.content_hash}"
            match recall(content):
                case {"digest": str(known)}:
                    pass
                case _:
                    plan = self._polyhedral().plan(self._machine, 2 if parallel else 1)
                    known = plan_digest(plan.to_json())
                    remember(content, {"digest": known})
            self._constructions[parallel] = known
        return known

    @property
    def _dtype(self) -> str:
        """The type of the first array that is written."""
        written = (a.dtype.name for a in self.summary.arrays if a.role in (Role.INOUT, Role.OUT))
        return next(written, "")

    # -- tuning -----------------------------------------------------------------------------------

    def task(self, args: tuple[Any, ...], threads: int, *, as_loops: bool = False) -> Task | None:
        """What tuning measures for a call; None where there is nothing to compute.

        With `as_loops` that is the generic road, also of a call that is one contraction.
        """
        # lazy: tuning loads isl
        from loopwright.tuning.tasks import ContractionTask, ProgramTask

        require_runnable(self._machine)
        _, arrays = self._signature.bind(args)
        params, strides = self._call(args)
        unit = None if as_loops else self._unit(params, strides)
        if unit is not None:
            shape = unit.shape(params, strides)
            if shape is None:
                return None
            return ContractionTask(unit.algebra, shape, self._machine, threads, unit.reassoc)
        for name, extents, dtype in self._signature.fresh(params):
            arrays[name] = np.zeros(extents, dtype)
        roles = (Role.INOUT, Role.OUT)
        written = tuple(a.name for a in self.summary.arrays if a.role in roles)
        definition = self._definition
        tree = replace(definition.tree, captured=())  # which may be anything
        where = self._machine, threads
        return ProgramTask(tree, definition.reassoc, self._key, params, arrays, written, *where)

    def check_call(self, args: tuple[Any, ...]) -> None:
        """Refuse a call that would leave an array, which is not made."""
        self._call(args)

    def forget(self) -> None:
        """Make code anew: there are other records."""
        self._ready.clear()
        self._told.clear()
        if self.on_forget is not None:
            self.on_forget()

    def plan_of(self, args: tuple[Any, ...], threads: int) -> Plan:
        """The plan of a call: given again, it makes the same code."""
        params, strides = self._call(args)
        if self._plan is not None:
            return self._plan
        unit = self._unit(params, strides)
        if unit is not None:
            choice = unit.choice(params, strides, threads)
            if choice is not None:
                # lazy: plans load isl
                from loopwright.planner.contraction_plans.given_choice import plan_of

                return plan_of(choice)
        recorded = self._recorded(params, strides, threads)
        if recorded is not None:
            return recorded[0]
        return self._polyhedral().plan(self._machine, threads)

    # -- reports ----------------------------------------------------------------------------------

    def inspect_schedule(self, args: tuple[Any, ...] = (), threads: int = 1) -> str:
        """The statements and their order; with arguments, the loops that such a call runs."""
        function = self._polyhedral()
        if not args:
            return function.text()
        plan = self.plan_of(args, threads)
        from loopwright.ir.text import schedule_text, statement_text  # lazy: for reports only

        schedule = function.schedule(self._machine, threads, plan)
        statements = map(statement_text, schedule.program.statements)
        return "\n".join([*statements, schedule_text(schedule)])

    def inspect(self, stage: str, args: tuple[Any, ...], threads: int) -> str:
        """The text of a stage for one call: loops, llvm or asm."""
        params, strides = self._call(args)
        unit = self._unit(params, strides)
        if unit is not None:
            try:
                nests = unit.nests(params, strides, threads, self._kernel_nest)
            except Unproven:  # such calls run as loops
                nests = [self._nest(strides, threads, self._plan)]
        else:
            recorded = self._recorded(params, strides, threads)
            plan = self._plan if recorded is None else recorded[0]
            if recorded is not None and recorded[1].by_compiler and stage != "loops":
                if stage == "llvm":
                    return _BY_COMPILER
                # lazy: what a race has found
                from loopwright.calls.compiler_code import compiler_assembly

                return compiler_assembly(self._polyhedral().program, recorded[0], self._machine)
            nests = [self._nest(strides, threads, plan)]
        return "\n".join(stage_text(nest, stage, self._machine) for nest in nests)

    def explain(self, args: tuple[Any, ...] = (), threads: int = 1) -> str:
        """What each statement is taken for, and the plan of a call when its arguments are given."""
        function = self._polyhedral()
        lines = list(function.explain())
        if not args:
            return "\n".join(lines)
        call = self._call(args)
        unit = self._unit(*call)
        if unit is not None:
            lines.append(unit.explain(*call, threads))
        else:
            if self._planned_contraction() is not None:
                lines.append(_ACROSS)
            recorded = self._recorded(*call, threads)
            own = self._plan if recorded is None else recorded[0]
            plan = function.plan(self._machine, threads) if own is None else own
            lines.append(f"loops in source order{', but for' if len(plan) else ''}")
            lines += (f"  {step}" for step in plan)
            if recorded is not None:
                lines.append(origin_line(recorded[1]))
            told = self._told.get(self._bound(args, threads)[0])
            if told is not None:
                lines.append(f"race against another order: {told}")
        return "\n".join(lines)

    def _call(self, args: tuple[Any, ...]) -> tuple[Values, Strides]:
        """Parameters and strides of a call that is only asked about."""
        _, arrays = self._signature.bind(args)
        params = self._checked(args, arrays)
        return params, _strides(arrays, self._signature.fresh(params))


def _strides(arrays: Arrays, fresh: tuple[Fresh, ...]) -> Strides:
    """Strides in elements by array."""
    found = {name: element_strides(array) for name, array in arrays.items()}
    return found | {name: row_major(shape) for name, shape, _ in fresh}
