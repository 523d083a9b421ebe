"""Targets: what code can be emitted as. A row here is all that it takes to add one.

`compile_program`, `lw.compile` and the command `cc` know targets by this table only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from loopwright.backends.c_dialect import CUDA, OPENCL, OPENMP, C, Dialect
from loopwright.backends.c_module import emit_c
from loopwright.backends.c_syntax import as_identifier
from loopwright.backends.device_module import emit_kernels
from loopwright.backends.llvm_emitter import emit_module
from loopwright.ir.grid_check import require_fit
from loopwright.ir.loops import LoopNest
from loopwright.ir.module import Module
from loopwright.ir.program import Program, Role
from loopwright.kernels import ENTRY
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.buffers import contiguous
from loopwright.lower.origins import origins
from loopwright.lower.split_kernels import split_kernels
from loopwright.planner.gpu import gpu_planner
from loopwright.planner.planners import Planner, model_planner

__all__ = ["TARGETS", "MachineKind", "Target"]


class MachineKind(Enum):
    """What a target's code runs on, and which data files describe it."""

    PROCESSOR = "processor"  # ir/machine
    GPU = "GPU"  # ir/gpu_machine


@dataclass(frozen=True, slots=True)
class Target:
    """A language that nests are printed in, who plans for it, and who runs it."""

    name: str
    kind: MachineKind
    planner: Planner  # of the plan "model"
    emit: Callable[[Program, LoopNest, Any], Module]  # for a machine of the kind
    is_parallel: bool  # its loops may be shared out to threads of a processor
    dialect: Dialect | None = None  # of C; None: machine code through LLVM, loaded here

    def threads(self, count: int) -> int:
        """How many threads code is planned for when `count` will run it."""
        return count if self.is_parallel else 1

    @property
    def is_c(self) -> bool:
        """Whether a C compiler takes its text, between the lines of a user's file too."""
        return self.dialect is not None and self.kind is MachineKind.PROCESSOR


def _emit_llvm(program: Program, nest: LoopNest, machine: Any) -> Module:
    return emit_module(replace(nest, name=ENTRY), machine.features)


def _c(dialect: Dialect) -> Callable[[Program, LoopNest, Any], Module]:
    def emit(program: Program, nest: LoopNest, machine: Any) -> Module:
        plain = replace(nest, name=as_identifier(program.name), scalars=program.params)
        return emit_c(plain, dialect, shapes=_shapes(program), origin=origins(program))

    return emit


def _kernels(dialect: Dialect) -> Callable[[Program, LoopNest, Any], Module]:
    def emit(program: Program, nest: LoopNest, machine: Any) -> Module:
        packed = contiguous(nest, _shapes(program), program.params)
        device = split_kernels(replace(packed, name=as_identifier(program.name)))
        require_fit(device, machine)
        text = emit_kernels([device], dialect, origin=origins(program))
        names = tuple(buffer.name for buffer in device.buffers)
        return Module(dialect.name, text, device.name, names, device.scalars, device=device)

    return emit


def _shapes(program: Program) -> dict[str, Any]:
    return {a.name: a.shape for a in program.arrays if a.role is not Role.LOCAL}


_PROCESSOR, _GPU = MachineKind.PROCESSOR, MachineKind.GPU
TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target("host", _PROCESSOR, model_planner, _emit_llvm, is_parallel=True),
        Target("openmp", _PROCESSOR, model_planner, _c(OPENMP), is_parallel=True, dialect=OPENMP),
        Target("c", _PROCESSOR, model_planner, _c(C), is_parallel=False, dialect=C),
        Target("cuda", _GPU, gpu_planner, _kernels(CUDA), is_parallel=False, dialect=CUDA),
        Target("opencl", _GPU, gpu_planner, _kernels(OPENCL), is_parallel=False, dialect=OPENCL),
    )
}
