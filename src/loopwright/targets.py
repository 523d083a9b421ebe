"""Targets: what code can be emitted as. A row here is all that it takes to add one.

`compile_program`, `lw.compile` and the command `cc` know targets by this table only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from loopwright.backends.c_dialect import OPENMP, C, Dialect
from loopwright.backends.c_module import emit_c
from loopwright.backends.c_syntax import as_identifier
from loopwright.backends.llvm_emitter import emit_module
from loopwright.ir.loops import LoopNest
from loopwright.ir.machine import Machine
from loopwright.ir.module import Module
from loopwright.ir.program import Program, Role
from loopwright.kernels import ENTRY
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.origins import origins

__all__ = ["TARGETS", "Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """A language that nests are printed in, and who runs it."""

    name: str
    emit: Callable[[Program, LoopNest, Machine], Module]
    is_parallel: bool  # its loops may be shared out to threads
    dialect: Dialect | None = None  # of C; None: machine code through LLVM, loaded here

    def threads(self, count: int) -> int:
        """How many threads code is planned for when `count` will run it."""
        return count if self.is_parallel else 1


def _emit_llvm(program: Program, nest: LoopNest, machine: Machine) -> Module:
    return emit_module(replace(nest, name=ENTRY), machine.features)


def _c(dialect: Dialect) -> Callable[[Program, LoopNest, Machine], Module]:
    def emit(program: Program, nest: LoopNest, machine: Machine) -> Module:
        shapes = {a.name: a.shape for a in program.arrays if a.role is not Role.LOCAL}
        plain = replace(nest, name=as_identifier(program.name), scalars=program.params)
        return emit_c(plain, dialect, shapes=shapes, origin=origins(program))

    return emit


TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target("host", _emit_llvm, is_parallel=True),
        Target("openmp", _c(OPENMP), is_parallel=True, dialect=OPENMP),
        Target("c", _c(C), is_parallel=False, dialect=C),
    )
}
