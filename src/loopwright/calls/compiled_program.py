"""A Program as a callable: its parameters, then its arrays, by position or by name."""

from __future__ import annotations

import ctypes
import hashlib
import pickle
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from loopwright import options
from loopwright.analysis.find_contractions import explain
from loopwright.analysis.subscript_bounds import find_violation
from loopwright.calls.arguments import (
    Arrays,
    Signature,
    Values,
    Violation,
    short_strides,
    stride_values,
)
from loopwright.calls.c_function import checked_array
from loopwright.calls.call_race import CallRace, Rival
from loopwright.calls.function_summary import Argument, FunctionSummary, compile_test
from loopwright.calls.polyhedral_function import PolyhedralFunction, unsafe_sizes
from loopwright.diagnostics import Diagnostic, SourceError, UsageError
from loopwright.faults import FAULTS
from loopwright.frontends.source_tree import SourceTree
from loopwright.ir.expr import Var
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.loops import LoopNest
from loopwright.ir.machine import Machine
from loopwright.ir.module import Module
from loopwright.ir.program import Array, Program, Role
from loopwright.ir.text import program_text, schedule_text
from loopwright.kernels import nest_kernel, stage_text, thread_pool
from loopwright.log import log
from loopwright.lower.buffers import specialise
from loopwright.machines.machine_argument import require_runnable
from loopwright.memo import BoundedCache, computed_once
from loopwright.pipeline import compile_program
from loopwright.planner.contraction_plans.call_shape import value_of
from loopwright.planner.planners import Planner, given_planner, model_planner
from loopwright.runtime.address import data_address
from loopwright.runtime.array_arguments import element_strides
from loopwright.runtime.toolchain import (
    build_library,
    find_compiler,
    find_function,
    load_library,
    openmp_threads,
    tuning_flags,
)
from loopwright.targets import TARGETS
from loopwright.tracebacks import public_edge
from loopwright.transform.plan import Plan
from loopwright.tuning.recall import plan_digest, recorded_loops
from loopwright.tuning.records import Key, program_key

if TYPE_CHECKING:
    from loopwright.calls.device_code import DeviceCode
    from loopwright.tuning.tasks import ProgramTask

__all__ = ["CompiledProgram", "PlannedCode"]


_MOST_READY = 1024  # sizes remembered with their code
_Run: TypeAlias = Callable[[tuple[Any, ...], int], None]


class CompiledProgram:
    """A compiled Program. A parameter that is the extent of an array need not be given.

    With `by_records` calls run by the plan that tuning has recorded for their sizes, where there is
    one; `tune` has it searched for before. Without a record calls that come often race the model's
    plan against the source order (calls/call_race), as `race` allows.
    """

    def __init__(
        self,
        program: Program,
        planner: Planner | None,
        target: str,
        machine: Machine | GpuMachine,
        threads: Callable[[], int],
        tune: str | float | None = None,
        race: bool | None = None,
        *,
        by_records: bool = False,
    ) -> None:
        self.program = program
        self._race = race
        self._saved = pickle.dumps(program)  # for threads that did not make it
        self._tune = tune
        self._by_records = by_records
        self._ready: BoundedCache[tuple[int, ...], _Run] = BoundedCache(_MOST_READY)
        self._owner = threading.get_ident()
        self._threads = threads
        self._arrays = tuple(a for a in program.arrays if a.role is not Role.LOCAL)
        self._names = (*program.params, *(a.name for a in self._arrays))
        count = TARGETS[target].threads(threads())
        summary, violation = _summary(program), self._violation
        self._on_device = isinstance(machine, GpuMachine)
        self._code: PlannedCode | DeviceCode
        if isinstance(machine, GpuMachine):
            # lazy: for users of GPUs
            from loopwright.calls.device_code import DeviceCode

            self._code = DeviceCode(
                program, summary, planner, target, violation, machine, self._program_here
            )
        else:
            self._code = PlannedCode(program, summary, planner, target, violation, machine, count)
        self.plan = self._code.plan

    @public_edge
    def __call__(self, *args: Any, **named: Any) -> None:
        """Run the program on the arrays, in place."""
        given, threads = self._bound(args, named), self._threads()
        code = self._recorded(given, threads) if self._by_records else self._code
        code(given, threads)

    @public_edge
    def explain(self) -> str:
        """What each statement is taken for, and the steps that were taken."""
        return self._code.explain()

    @public_edge
    def inspect_schedule(self) -> str:
        """The loops in the order they run."""
        return self._code.inspect_schedule()

    @public_edge
    def inspect_loops(self) -> str:
        """The loop nest that is emitted."""
        return self._code.inspect("loops", (), 1)

    @public_edge
    def save(self, folder: str) -> None:
        """Write code for a GPU as a bundle, which `loopwright.load` takes."""
        if not self._on_device:
            raise UsageError("bundles are of code for a GPU", hint='compile(..., target="cuda")')
        self._code.save(folder)  # type: ignore[union-attr]

    @public_edge
    def inspect_c(self) -> str:
        """The loop nest as C."""
        return self._code.inspect("c", (), 1)

    @public_edge
    def inspect_llvm(self) -> str:
        """The loop nest as LLVM IR."""
        return self._code.inspect("llvm", (), 1)

    @public_edge
    def inspect_asm(self) -> str:
        """The machine code, as assembly."""
        return self._code.inspect("asm", (), 1)

    # -- tuning -----------------------------------------------------------------------------------

    def task(self, *args: Any, **named: Any) -> ProgramTask:
        """What tuning measures for a call, which is not made."""
        if not self._by_records:
            what = "tune is for the target 'host' and the plan 'model'"
            raise UsageError(what, hint="compile(program), without them")
        return self._task(self._bound(args, named), self._threads())

    def forget(self) -> None:
        """Make code anew: there are other records."""
        self._ready.clear()

    def _task(self, given: tuple[Any, ...], threads: int) -> ProgramTask:
        assert isinstance(self._code, PlannedCode), "code for this machine"
        return self._code.task(self._program_here(), given, threads)

    def _recorded(self, given: tuple[Any, ...], threads: int) -> _Run:
        """The code for the sizes of a call: by the best record, else by the model."""
        # Arrays are laid out as in C, with extents that the parameters give.
        sizes = (threads, *given[: len(self.program.params)])
        ready = self._ready.get(sizes)
        if ready is None:
            if self._tune is not None:
                from loopwright.calls.tune_first import tune_once  # lazy: almost nobody tunes

                tune_once(self._task(given, threads), self._tune)
            assert isinstance(self._code, PlannedCode), "code for this machine"
            code = self._code.recorded(self._program_here, given, threads)
            ready = self._raced(sizes, given, threads) if code is self._code else code
            self._ready[sizes] = ready
        return ready

    def _raced(self, sizes: tuple[int, ...], given: tuple[Any, ...], threads: int) -> _Run:
        """The code of the model, which calls race against the source order where they may."""
        settings, code = options.current(), self._code
        is_free = self._race is not False and self._tune is None
        if not (is_free and settings.race) or settings.careful:
            return code
        assert isinstance(code, PlannedCode), "code for this machine"
        key, params = code.key(given, threads)

        def prepare() -> Rival | None:
            # lazy: in a thread of its own
            from loopwright.calls.source_race import Contest, first_rival

            def make(source: Plan) -> PlannedCode:
                return code.by_plan(self._program_here(), source, threads)

            program = self._program_here
            where = code.machine, params, key, make, lambda: code.construction(program, threads)
            return first_rival(Contest(program, *where))

        def settle(run: _Run, *, told: str) -> None:
            if self._ready.get(sizes) is race:  # else there are other records
                self._ready[sizes] = run

        race = CallRace(code, prepare, settle)
        return race

    def __repr__(self) -> str:
        return f"<loopwright program {self.program.name}({', '.join(self._names)})>"

    def _bound(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        names = self._names
        # Without parameters, positions are those of the arrays.
        if len(args) <= len(self._arrays) and not set(named) & set(names[-len(self._arrays) :]):
            names = tuple(a.name for a in self._arrays)
        given = dict(zip(names, args, strict=False))
        wrong = sorted(set(named) - set(self._names) | set(named) & set(given))
        if wrong or len(args) > len(names):
            what = wrong[0] if wrong else f"{len(args)} arguments"
            raise UsageError(f"'{self.program.name}' takes other arguments", what, self._hint())
        given |= named
        params = {name: self._param(name, given) for name in self.program.params}
        arrays = [self._array(array, given, params) for array in self._arrays]
        return (*params.values(), *arrays)

    def _hint(self) -> str:
        return ", ".join(self._names)

    def _param(self, name: str, given: dict[str, Any]) -> int:
        if name in given:
            value = given[name]
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise UsageError(f"'{name}' is an integer", found=repr(value)[:60])
            return int(value)
        for array in self._arrays:
            extents = getattr(given.get(array.name), "shape", ())
            for extent, size in zip(array.shape, extents, strict=False):
                if extent == Var(name):
                    return int(size)
        raise UsageError(f"'{name}' is missing", hint=self._hint())

    def _array(self, array: Array, given: dict[str, Any], params: Values) -> Any:
        if array.name not in given:
            raise UsageError(f"'{array.name}' is missing", hint=self._hint())
        value = given[array.name]
        if not array.shape and array.role is Role.IN:
            return value
        shape = tuple(value_of(extent, params) for extent in array.shape)
        return checked_array(array.name, value, array.dtype, shape, on_device=self._on_device)

    def _program_here(self) -> Program:
        """The program for the calling thread: isl objects belong to the one that makes them."""
        if threading.get_ident() == self._owner:
            return self.program
        program: Program = pickle.loads(self._saved)
        return program

    def _violation(self, params: Values) -> Diagnostic:
        found = find_violation(self._program_here(), params)
        assert found is not None, f"{self.program.name} is safe for {params}"
        return found


def _summary(program: Program) -> FunctionSummary:
    unsafe = unsafe_sizes(program)
    arguments = [Argument("int", name, "int64", ()) for name in program.params]
    for array in program.arrays:
        if array.role is not Role.LOCAL:
            kind = "scalar" if not array.shape and array.role is Role.IN else "array"
            sizes = tuple(e.name if isinstance(e, Var) else "" for e in array.shape)
            arguments.append(Argument(kind, array.name, array.dtype.name, sizes))
    return FunctionSummary(
        program.name, tuple(arguments), None, program.params, program.arrays, unsafe, None
    )


# -- code of a program for a plan and a target of the caller's choice -----------------------------
# The road of `specialisation` decides for each call anew, by the model. Here the plan is made or
# given once; the code is LLVM's, or C compiled by the system's compiler.


_NO_TABLE = np.zeros(0, dtype=np.int64)


class PlannedCode:
    """The code of one program. Arrays of calls are laid out as in C, with the declared extents."""

    def __init__(
        self,
        program: Program,
        summary: FunctionSummary,
        planner: Planner | None,
        target: str,
        violation: Violation,
        machine: Machine,
        threads: int,
    ) -> None:
        self._target = target
        self._summary = summary
        self._signature = Signature(summary)
        self._is_unsafe = compile_test(summary.unsafe, summary.params)
        self._violation = violation
        self._machine = machine
        self._is_parallel = threads > 1
        self._reassoc = program.reassoc
        # Also of machine code the C can be inspected.
        printed = target if TARGETS[target].is_c else "openmp"
        found = compile_program(program, machine, threads, planner, printed)
        # isl objects belong to this thread: what reports need is made now.
        self.plan, self._nest = found.plan, found.nest
        self._text = program_text(program)
        self._schedule = schedule_text(found.schedule)
        self._taken_for = explain(program)
        assert found.module is not None
        self._module = found.module

    @classmethod
    def of_tree(
        cls,
        tree: SourceTree,
        planner: Planner | None,
        target: str,
        machine: Machine,
        threads: int,
        *,
        reassoc: bool,
    ) -> PlannedCode:
        """The code of a source tree."""
        function = PolyhedralFunction(tree, reassoc=reassoc)

        def violation(params: Values) -> Diagnostic:
            return PolyhedralFunction(tree, reassoc=reassoc).violation(params)

        summary = function.summary()
        return cls(function.program, summary, planner, target, violation, machine, threads)

    def __call__(self, args: tuple[Any, ...], threads: int) -> None:
        _, arrays = self._signature.bind(args)
        params = self._checked(args, arrays)
        if self._target == "host":
            require_runnable(self._machine)
            self._run_nest(params, arrays, threads)
        else:
            self._library.run(params, arrays, threads)

    def _checked(self, args: tuple[Any, ...], arrays: Arrays) -> Values:
        params = self._signature.params(args)
        self._signature.check_layout(arrays)
        if self._is_unsafe(params):
            raise SourceError(self._violation(params))
        return params

    def _run_nest(self, params: Values, arrays: Arrays, threads: int) -> None:
        strides = {name: element_strides(array) for name, array in arrays.items()}
        unit = short_strides(strides)
        made_for = self._machine.content_hash
        key = f"planned {self._text} {self.plan.dumps()} {sorted(unit.items())} {made_for}"
        kernel = nest_kernel(key, lambda: specialise(self._nest, unit))
        bound = kernel.bind(params | stride_values(strides), _NO_TABLE, threads, thread_pool)
        bound(*(arrays[name] for name in kernel.buffers))

    @computed_once
    def _library(self) -> _Library:
        return _Library(self._module, self._nest, openmp=self._target == "openmp")

    # -- tuning -----------------------------------------------------------------------------------

    @computed_once
    def _name(self) -> str:
        """What names the program in records."""
        return hashlib.sha256(f"{self._text} {self._reassoc}".encode()).hexdigest()

    def task(self, program: Program, args: tuple[Any, ...], threads: int) -> ProgramTask:
        """What tuning measures for a call of the program that this code is of."""
        from loopwright.tuning.tasks import ProgramTask  # lazy: almost nobody tunes

        require_runnable(self._machine)
        _, arrays = self._signature.bind(args)
        params = self._checked(args, arrays)
        where = self._machine, threads
        return ProgramTask(
            program, program.reassoc, self._name, params, arrays, self._written, *where
        )

    @property
    def machine(self) -> Machine:
        return self._machine

    def key(self, args: tuple[Any, ...], threads: int) -> tuple[Key, Values]:
        """What names the records of a call, and its parameters."""
        _, arrays = self._signature.bind(args)
        strides = {name: element_strides(array) for name, array in arrays.items()}
        dtype = next((str(arrays[name].dtype) for name in self._written), "")
        params = self._signature.params(args)
        return program_key(self._name, params, strides, dtype, self._machine, threads), params

    def construction(self, program: Callable[[], Program], threads: int) -> str:
        """A digest of the model's plan for a number of threads."""
        plan = self.plan
        if (threads > 1) != self._is_parallel:
            plan = model_planner(program(), self._machine, threads)[0]
        return plan_digest(plan.to_json())

    def by_plan(self, program: Program, plan: Plan, threads: int) -> PlannedCode:
        """The code of the same program by another plan, which must be legal."""
        given = self._target, self._violation, self._machine, threads
        return PlannedCode(program, self._summary, given_planner(plan), *given)

    def recorded(
        self, program: Callable[[], Program], args: tuple[Any, ...], threads: int
    ) -> PlannedCode:
        """The code by the best record for the sizes of a call; this one where there is none."""
        _, arrays = self._signature.bind(args)
        strides = {name: element_strides(array) for name, array in arrays.items()}
        dtype = next((str(arrays[name].dtype) for name in self._written), "")
        params = self._signature.params(args)

        where = dtype, self._machine, threads
        given = self._name, params, strides, *where
        found = recorded_loops(*given, lambda: self.construction(program, threads))
        if found is None:
            return self
        try:
            return self.by_plan(program(), found[0], threads)
        except (UsageError, *FAULTS) as error:
            reason = str(error)
            log("tune", lambda: f"a record is set aside: {reason}")
            return self

    @property
    def _written(self) -> tuple[str, ...]:
        roles = (Role.INOUT, Role.OUT)
        return tuple(a.name for a in self._summary.arrays if a.role in roles)

    # -- reports ----------------------------------------------------------------------------------

    def explain(self, args: tuple[Any, ...] = (), threads: int = 1) -> str:
        """What each statement is taken for, and the steps."""
        steps = [f"  {step}" for step in self.plan] or ["  none: loops in source order"]
        return "\n".join([*self._taken_for, "steps:", *steps])

    def plan_of(self, args: tuple[Any, ...] = (), threads: int = 1) -> Plan:
        """The plan, whatever the call."""
        return self.plan

    def inspect(self, stage: str, args: tuple[Any, ...], threads: int) -> str:
        """The text of a stage."""
        return self._module.text if stage == "c" else stage_text(self._nest, stage, self._machine)

    def inspect_schedule(self) -> str:
        return self._schedule


class _Library:
    """The C of a nest, compiled and loaded."""

    def __init__(self, module: Module, nest: LoopNest, *, openmp: bool) -> None:
        compiler = find_compiler()
        code = build_library(module.text, tuning_flags(compiler, openmp=openmp), compiler)
        library = load_library(code, shared=True)  # it has functions, and no variables
        self._scalars = module.scalars
        self._buffers = module.buffers
        self._function = library[module.entry]
        self._function.restype = None
        kinds: list[Any] = [ctypes.c_int64] * len(module.scalars)
        self._function.argtypes = kinds + [ctypes.c_void_p] * len(module.buffers)
        # The OpenMP runtime comes with the library, if there is one.
        self._set_threads = find_function(library, "omp_set_num_threads") if openmp else None

    def run(self, params: Values, arrays: Arrays, threads: int) -> None:
        if self._set_threads is not None:
            self._set_threads(openmp_threads(threads))
        places = (data_address(arrays[name]) for name in self._buffers)
        self._function(*(params[name] for name in self._scalars), *places)
