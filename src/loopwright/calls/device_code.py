"""Code of a program for a GPU: compiled once, run on the arrays of a call where they lie.

Arrays of a device (CuPy, PyTorch, Numba, DLPack) are used in place, in the current stream of their
library, and the call does not wait. Arrays of NumPy are brought to the device and back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from loopwright.analysis.find_contractions import explain
from loopwright.analysis.live_arrays import arrays_brought_in
from loopwright.calls.arguments import Values, Violation
from loopwright.calls.explain_kernels import kernel_lines, register_lines
from loopwright.calls.function_summary import FunctionSummary, compile_test
from loopwright.calls.polyhedral_function import PolyhedralFunction
from loopwright.diagnostics import Diagnostic, SourceError, UsageError
from loopwright.frontends.source_tree import SourceTree
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.islkit import bounded
from loopwright.ir.program import Program, Role
from loopwright.ir.schedule import Schedule
from loopwright.ir.text import nest_text, program_text, schedule_text
from loopwright.memo import computed_once
from loopwright.pipeline import compile_program
from loopwright.planner.planners import Planner
from loopwright.runtime.cuda_driver import cuda_device
from loopwright.runtime.cuda_executable import CudaExecutable
from loopwright.runtime.cuda_transfers import run_from_host
from loopwright.runtime.device_arrays import check_arguments, is_device_array
from loopwright.runtime.device_bundle import save_bundle
from loopwright.transform.plan import Plan, apply_plan

__all__ = ["DeviceCode"]


class DeviceCode:
    """The code of one program. Arrays of calls are laid out as in C, with the declared extents."""

    def __init__(
        self,
        program: Program,
        summary: FunctionSummary,
        planner: Planner | None,
        target: str,
        violation: Violation,
        machine: GpuMachine,
        anew: Callable[[], Program],
    ) -> None:
        """`anew` makes the program for a report, in the thread that asks for it."""
        self._target = target
        self.summary = summary
        self._is_unsafe = compile_test(summary.unsafe, summary.params)
        self._violation = violation
        self._machine = machine
        self._anew = anew
        found = compile_program(program, machine, 1, planner, target)
        # isl objects belong to this thread: what reports need is made now.
        self.plan, self._nest = found.plan, found.nest
        self._text = program_text(program)
        self._schedule = schedule_text(found.schedule)
        self._taken_for = explain(program)
        assert found.module is not None
        assert found.module.device is not None
        self.module, self.device = found.module, found.module.device
        self._arrays = {a.name: a for a in program.arrays if a.role is not Role.LOCAL}
        # A result that the program writes whole is not brought in: nobody reads what was there.
        needed = arrays_brought_in(program)
        self._reads = [name in needed for name in self.module.buffers]

    @classmethod
    def of_tree(
        cls,
        tree: SourceTree,
        planner: Planner | None,
        target: str,
        machine: GpuMachine,
        *,
        reassoc: bool,
    ) -> DeviceCode:
        """The code of a source tree."""
        function = PolyhedralFunction(tree, reassoc=reassoc)

        def violation(params: Values) -> Diagnostic:
            return PolyhedralFunction(tree, reassoc=reassoc).violation(params)

        def anew() -> Program:
            return PolyhedralFunction(tree, reassoc=reassoc).program

        summary = function.summary()
        return cls(function.program, summary, planner, target, violation, machine, anew)

    def __call__(self, args: tuple[Any, ...], threads: int = 1) -> None:
        given = dict(zip((a.name for a in self.summary.arguments), args, strict=True))
        self.run(given, {name: int(given[name]) for name in self.summary.params})

    def run(self, given: Mapping[str, Any], params: Values) -> None:
        """Run the program on arrays and numbers by name, for these sizes and integers."""
        if self._is_unsafe(params):
            raise SourceError(self._violation(params))
        arrays = [given[name] for name in self.module.buffers]
        scalars = [params[name] for name in self.module.scalars]
        if any(map(is_device_array, arrays)):
            views = check_arguments(self.device.buffers, arrays)
            for name, view in zip(self.module.buffers, views, strict=True):
                if view.shape and not _is_packed(view.shape, view.strides):
                    hint = "a contiguous copy of it"
                    raise UsageError(f"'{name}' is not laid out as in C", hint=hint)
            self._executable.run(views, scalars)
            return
        run_from_host(self._executable, arrays, lambda views: scalars, self._reads)

    @computed_once
    def _executable(self) -> CudaExecutable:
        if self.module.language != "cuda":
            raise UsageError(
                f"code for '{self._target}' is not run here",
                hint='save it, or compile for target="cuda"',
            )
        cuda_device()  # tells what is missing, where something is
        return CudaExecutable(self.device, self.module.text)

    def save(self, folder: str) -> None:
        """Write the program as a bundle, which runs where neither isl nor LLVM is."""
        images = {}
        if self.module.language == "cuda":
            executable = CudaExecutable(self.device, self.module.text)
            arch = self._machine.target
            images[arch, "int"] = executable.compile(arch)
        shapes = {name: array.shape for name, array in self._arrays.items()}
        save_bundle(
            folder,
            self.device,
            self.module.text,
            images=images,
            shapes=shapes,
            reads=self._reads,
            options=(),
            language=self.module.language,
        )

    # -- reports ----------------------------------------------------------------------------------

    def explain(self, args: tuple[Any, ...] = (), threads: int = 1) -> str:
        """What each statement is taken for, the kernels with their accesses, and the steps."""
        steps = [f"  {step}" for step in self.plan] or ["  none: loops in source order"]
        schedule = bounded(self._schedule_anew, lambda _: None)
        kernels = kernel_lines(self.device, schedule, self._machine)
        limits = register_lines(self.plan)
        return "\n".join([*self._taken_for, *limits, "kernels:", *kernels, "steps:", *steps])

    def _schedule_anew(self) -> Schedule | None:
        """The schedule, made of objects that belong to the thread which asks."""
        return apply_plan(self._anew(), self.plan)

    def plan_of(self, args: tuple[Any, ...] = (), threads: int = 1) -> Plan:
        """The plan, whatever the call."""
        return self.plan

    def inspect(self, stage: str, args: tuple[Any, ...], threads: int) -> str:
        """The text of a stage: the loops, or the kernels."""
        if stage == "loops":
            return nest_text(self._nest)
        if stage == "c":
            return self.module.text
        raise UsageError(f"there is no {stage} for target '{self._target}'", hint="loops, c")

    def inspect_schedule(self, args: tuple[Any, ...] = (), threads: int = 1) -> str:
        """The loops in the order they run, whatever the call."""
        return self._schedule


def _is_packed(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent > 1 and stride != expected:
            return False
        expected *= max(extent, 1)
    return True
