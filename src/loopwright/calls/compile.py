"""`compile` and `parse_c`: C files and programs as callables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any, TypeAlias, overload

from loopwright.calls.c_function import CFunction, RegionCode, known_functions
from loopwright.calls.call_race import checked_race
from loopwright.calls.compiled_program import CompiledProgram
from loopwright.calls.function_summary import FunctionSummary, summary_key
from loopwright.calls.specialisation import Specialisation, TuneFirst
from loopwright.diagnostics import LoopwrightError, UsageError
from loopwright.frontends.c import CFile, CRegion, read_c
from loopwright.frontends.extract import program_of
from loopwright.frontends.source_tree import SourceTree
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.machines.machine_argument import target_gpu, target_machine
from loopwright.planner.grid_plans.gpu import gpu_planner
from loopwright.planner.planners import Planner, given_planner
from loopwright.runtime.thread_pool import checked_threads, num_threads
from loopwright.targets import TARGETS, MachineKind
from loopwright.tracebacks import public_edge
from loopwright.transform.plan import Plan

__all__ = ["CompiledFile", "char_flags", "compile", "machine_of", "parse_c"]

Source: TypeAlias = str | bytes | PathLike[str]
Defines: TypeAlias = Mapping[str, str | int | None]


def parse_c(
    source: Source,
    *,
    reassoc: bool = False,
    defines: Defines | None = None,
    cpp_args: Sequence[str] = (),
) -> tuple[Program, ...]:
    """What the regions of a C file mean, in the order of the text.

    `source` is a path, or the text itself: bytes, or a str of several lines. `reassoc` allows
    floating sums in another order; `defines` and `cpp_args` (-D, -I) are for the preprocessor.
    """
    file = read_c(source, defines=defines, cpp_args=cpp_args)
    return tuple(program_of(region.tree, reassoc=reassoc) for region in file.regions)


class CompiledFile:
    """The compiled functions of a C file, by name; a file of one function is callable itself."""

    def __init__(self, name: str, functions: Mapping[str, CFunction], globals_: dict[str, Any]):
        self.name = name
        self.globals = globals_  # the file's variables that the functions use, as arrays
        self._functions = dict(functions)

    @public_edge
    def __getitem__(self, name: str) -> CFunction:
        if name not in self._functions:
            raise UsageError(f"no function '{name}' in {self.name}", hint=", ".join(self))
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    @public_edge
    def __call__(self, *args: Any, **named: Any) -> None:
        """Call the only function."""
        self._only()(*args, **named)

    @public_edge
    def explain(self, *args: Any, **named: Any) -> str:
        """What was recognised and decided, in all functions; with arguments, in the only one."""
        if args or named:
            return self._only().explain(*args, **named)
        return "\n\n".join(f"{f.name}:\n{f.explain()}" for f in self._functions.values())

    @public_edge
    def inspect_schedule(self) -> str:
        """The statements of every region and the order they run in."""
        return "\n\n".join(f.inspect_schedule() for f in self._functions.values())

    @public_edge
    def inspect_loops(self, *args: Any, **named: Any) -> str:
        """The loop nests of a call of the only function."""
        return self._only().inspect_loops(*args, **named)

    @public_edge
    def inspect_c(self, *args: Any, **named: Any) -> str:
        """C with OpenMP pragmas for a call of the only function."""
        return self._only().inspect_c(*args, **named)

    @public_edge
    def inspect_llvm(self, *args: Any, **named: Any) -> str:
        """The LLVM IR for a call of the only function."""
        return self._only().inspect_llvm(*args, **named)

    @public_edge
    def save(self, folder: str) -> None:
        """Write the only function as a bundle, which `loopwright.load` takes."""
        self._only().save(folder)

    @public_edge
    def inspect_asm(self, *args: Any, **named: Any) -> str:
        """The machine code for a call of the only function."""
        return self._only().inspect_asm(*args, **named)

    def __repr__(self) -> str:
        return f"<loopwright file {self.name}: {', '.join(self)}>"

    def _only(self) -> CFunction:
        if len(self) != 1:
            name = next(iter(self))
            raise UsageError(
                f"{self.name} has {len(self)} functions with regions",
                found=", ".join(self),
                hint=f"compiled['{name}'](...), or compile(..., function='{name}')",
            )
        return next(iter(self._functions.values()))


@overload
def compile(
    source: Program,
    target: str = ...,
    plan: str | Plan = ...,
    *,
    threads: int | None = ...,
    machine: str | Machine | GpuMachine | None = ...,
    registers: int | None = ...,
    privatize: bool = ...,
    atomics: bool = ...,
    tune: str | float | None = ...,
    race: bool | None = ...,
) -> CompiledProgram: ...


@overload
def compile(
    source: Source,
    target: str = ...,
    plan: str | Plan | Sequence[Plan] = ...,
    *,
    reassoc: bool = ...,
    threads: int | None = ...,
    function: str | None = ...,
    defines: Defines | None = ...,
    cpp_args: Sequence[str] = ...,
    machine: str | Machine | GpuMachine | None = ...,
    registers: int | None = ...,
    privatize: bool = ...,
    atomics: bool = ...,
    tune: str | float | None = ...,
    race: bool | None = ...,
) -> CompiledFile: ...


def compile(
    source: Source | Program,
    target: str = "host",
    plan: str | Plan | Sequence[Plan] = "model",
    *,
    reassoc: bool = False,
    threads: int | None = None,
    function: str | None = None,
    defines: Defines | None = None,
    cpp_args: Sequence[str] = (),
    machine: str | Machine | GpuMachine | None = None,
    registers: int | None = None,
    privatize: bool = True,
    atomics: bool = False,
    tune: str | float | None = None,
    race: bool | None = None,
) -> CompiledFile | CompiledProgram:
    """Compile the functions of a C file that hold regions between `#pragma scop` and `endscop`.

    `source` is a path, or the text itself: bytes, or a str of several lines. The functions take
    their parameters in the order of C: integers and numbers, and NumPy arrays of the declared
    types and extents, which change in place. A function must consist of regions and declarations,
    whose values are computed once for each call. A Program takes its parameters, then its arrays,
    by position or by name.

    `target`: machine code made here by LLVM ("host"), C with OpenMP ("openmp") or without ("c")
    that the system's compiler translates, or kernels for a GPU ("cuda"), which take arrays of CuPy,
    PyTorch or Numba in place, and arrays of NumPy through copies; "opencl" is to be saved. `plan`:
    what the model decides ("model"), the order of the source ("source"), or a Plan; for a file of
    several regions a plan for each, as `plans` of its functions gives them. `reassoc` allows
    floating sums in another order; `threads` fixes the number of threads; `function` names one
    function of several; `defines` and `cpp_args` (-D, -I) are for the preprocessor. `machine` names
    another machine to plan and emit for, a GPU by its architecture ("sm_80"): its
    loops, C, LLVM IR and assembly can be inspected, and its C runs here.

    Of GPUs, `registers` caps those of a thread, which the model's tiles keep to. Without
    `privatize` no element lives in registers while a loop runs, to show what it brings. With
    `atomics` blocks of a GPU that share a reduction update its element together, where the type has
    such an update: one launch in place of two, and floating-point sums whose bits may change from
    call to call.

    `tune="search"`, or a number of seconds, measures plans before the first call with new sizes,
    where none have been recorded for them: for "host" and "model". See `loopwright.tune`.

    For "host" and "model" functions that are called often are raced against the order of their
    source, by their own calls, which leaves every bit as it is; with `race=False` never.
    """
    tune_first = _tune_first(source, target, plan, machine, tune)
    if checked_race(race) and (target, plan) != ("host", "model"):
        what = "race=True is for the target 'host' and the plan 'model'"
        raise UsageError(what, hint="loopwright cc --measure, for C")
    _check(target, plan, threads)
    own_planner = _gpu_planner(target, plan, registers, privatize, atomics)
    chosen_machine = machine_of(target, machine)

    def count() -> int:
        return num_threads() if threads is None else threads

    if isinstance(source, Program):
        (plan,) = _plans(plan, 1)
        planner = own_planner or _planner(plan)
        by_records = target == "host" and plan == "model"
        return CompiledProgram(
            source, planner, target, chosen_machine, count, tune, race, by_records=by_records
        )
    signs: tuple[str, ...] = ()
    if machine is not None and isinstance(chosen_machine, Machine):
        signs = char_flags(chosen_machine, cpp_args)
    file = read_c(source, defines=defines, cpp_args=(*signs, *cpp_args))
    chosen = known_functions(file, function)
    globals_: dict[str, Any] = {}
    regions = [region for name in chosen for region in _regions(file, name)]
    plans = _plans(plan, len(regions))

    def make(region: CRegion) -> RegionCode:
        own = plans[regions.index(region)]
        if isinstance(chosen_machine, GpuMachine):
            from loopwright.calls.device_code import DeviceCode  # lazy: for users of GPUs

            planner = own_planner or _planner(own)
            return DeviceCode.of_tree(region.tree, planner, target, chosen_machine, reassoc=reassoc)
        return _code(
            region.tree, target, own, chosen_machine, count(), tune_first, race, reassoc=reassoc
        )

    on_device = TARGETS[target].kind is MachineKind.GPU
    functions = {
        name: CFunction(file, _regions(file, name), make, globals_, count, on_device=on_device)
        for name in chosen
    }
    return CompiledFile(file.name, functions, globals_)


def _regions(file: CFile, name: str) -> tuple[CRegion, ...]:
    return tuple(region for region in file.regions if region.function == name)


def _code(
    tree: SourceTree,
    target: str,
    plan: str | Plan,
    machine: Machine,
    threads: int,
    tune: TuneFirst | None,
    race: bool | None,
    *,
    reassoc: bool,
) -> RegionCode:
    definition = _TreeDefinition(tree, reassoc)
    if target == "host" and plan == "model":
        return Specialisation(definition, machine, None, tune, race)
    if target == "host" and isinstance(plan, Plan) and plan.whole_contract is not None:
        return Specialisation(definition, machine, plan)
    # lazy: the C printer and the toolchain, which machine code by the model does without
    from loopwright.calls.compiled_program import PlannedCode

    count = TARGETS[target].threads(threads)
    return PlannedCode.of_tree(tree, _planner(plan), target, machine, count, reassoc=reassoc)


def _tune_first(
    source: object, target: str, plan: object, machine: object, tune: str | float | None
) -> TuneFirst | None:
    """What tunes the regions of a file before they run; None where nothing was asked for."""
    if tune is None:
        return None
    if (target, plan, machine) != ("host", "model", None):
        what = "tune= is for the target 'host' on this machine, and the plan 'model'"
        hint = "compile(source, tune='search'), then plan=compiled['name'].plans(...) elsewhere"
        raise UsageError(what, hint=hint)
    from loopwright.calls.tune_first import tuning_first  # lazy: almost nobody tunes

    return tuning_first(tune)


def _gpu_planner(
    target: str,
    plan: str | Plan | Sequence[Plan],
    registers: int | None,
    privatize: bool,
    atomics: bool,
) -> Planner | None:
    """The model of GPUs with what is said to it; None where nothing is."""
    if registers is None and privatize and not atomics:
        return None
    if TARGETS[target].kind is not MachineKind.GPU:
        what = "registers, privatize and atomics are for GPUs"
        raise UsageError(what, found=f"target '{target}'")
    if plan != "model":
        hint = "a plan has steps for it: cap_registers, keep_in_memory, map_reduction"
        raise UsageError("registers, privatize and atomics are for the plan 'model'", hint=hint)
    return partial(gpu_planner, registers=registers, in_registers=privatize, atomics=atomics)


def _planner(plan: str | Plan) -> Planner | None:
    """The planner of a plan; None: that of the target's model."""
    if isinstance(plan, Plan):
        return given_planner(plan)
    return given_planner(Plan(())) if plan == "source" else None


def machine_of(
    target: str, wanted: str | Machine | GpuMachine | None = None
) -> Machine | GpuMachine:
    """The machine that code of a target is for: the one that is named, else this one."""
    if TARGETS[target].kind is MachineKind.PROCESSOR:
        if isinstance(wanted, GpuMachine):
            raise UsageError(f"target '{target}' is for processors", found=wanted.name)
        return target_machine(wanted)
    if isinstance(wanted, Machine):
        raise UsageError(f"target '{target}' is for GPUs", found=wanted.name)
    arch = None
    if wanted is None:
        from loopwright.runtime.cuda_driver import cuda_device  # lazy: for users of GPUs

        with contextlib.suppress(LoopwrightError):
            arch = cuda_device().arch
    return target_gpu(wanted, arch)


# Instruction sets whose C compilers take plain char for signed.
_SIGNED_CHAR = frozenset({"x86_64"})


def char_flags(machine: Machine, given: Sequence[str] = ()) -> tuple[str, ...]:
    """What tells the preprocessor whether plain char has a sign on a machine; () if it is told."""
    if any(flag in ("-fsigned-char", "-funsigned-char") for flag in given):
        return ()
    return ("-fsigned-char" if machine.isa in _SIGNED_CHAR else "-funsigned-char",)


def _plans(plan: str | Plan | Sequence[Plan], count: int) -> list[str | Plan]:
    """The plan of each region."""
    if isinstance(plan, str | Plan):
        return [plan] * count
    if len(plan) != count:
        raise UsageError(f"there are {count} regions", found=f"{len(plan)} plans")
    return list(plan)


def _check(target: str, plan: str | Plan | Sequence[Plan], threads: int | None) -> None:
    runnable = [name for name, t in TARGETS.items() if t.kind is not MachineKind.MESH]
    if target not in TARGETS:
        raise UsageError("unknown target", found=repr(target), hint=", ".join(runnable))
    if target not in runnable:
        hint = f"loopwright cc FILE --target {target} -o FOLDER"
        raise UsageError(f"target '{target}' writes the files of a program", hint=hint)
    known = isinstance(plan, Plan) or plan in ("model", "source")
    is_list = isinstance(plan, list | tuple) and all(isinstance(x, Plan) for x in plan)
    if not known and not is_list:
        hint = "'model', 'source', a Plan, or a plan for each region"
        raise UsageError("unknown plan", found=repr(plan)[:80], hint=hint)
    if threads is not None:
        checked_threads(threads)


class _TreeDefinition:
    """A source tree that was read already: see Definition in `specialisation`."""

    def __init__(self, tree: SourceTree, reassoc: bool) -> None:
        self.tree = tree
        self.reassoc = reassoc
        self.captured: tuple[tuple[str, object], ...] = ()

    def known(self) -> tuple[str, FunctionSummary] | None:
        return None

    def key(self) -> str:
        return summary_key(self.tree, reassoc=self.reassoc)

    def keep(self, key: str, summary: FunctionSummary) -> None:
        """The summary lies in the cache by its key."""

    def __str__(self) -> str:
        return f"region of '{self.tree.name}'"
