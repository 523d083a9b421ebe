"""KeepInMemory and CapRegisters: which registers of a GPU's threads a plan may use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from loopwright.diagnostics import UsageError
from loopwright.ir.gpu_machine import LEAST_REGISTERS
from loopwright.ir.schedule import Schedule
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.step import Step, refuse

__all__ = ["CapRegisters", "KeepInMemory"]

_MOST_REGISTERS = 255  # of a thread, on every CUDA device since compute capability 3.5


@dataclass(frozen=True, slots=True)
class KeepInMemory(Step):
    """Switch privatisation off: no element lives in registers of a thread while a loop runs.

    rewrite:  t = C[i, j]; for k: t = t + A[i, k] * B[k, j]; C[i, j] = t
              ->  for k: C[i, j] = C[i, j] + A[i, k] * B[k, j]
    needs:    nothing is in registers yet
    refuses:  IllegalStep with what is

    Later steps keep to it: promotion is refused, and products and closures of a GPU have their
    sums and panels in shared memory, where each use is an access. It is there to be compared with.
    """

    kind: ClassVar[str] = "keep_in_memory"

    def apply(self, schedule: Schedule) -> Schedule:
        if schedule.promoted:
            statement, loop = schedule.promoted[0]
            refuse(self, f"elements of '{statement}' are in registers in loop '{loop}'")
        if schedule.contractions or schedule.closure is not None:
            refuse(self, "a kernel keeps sums in registers already")
        return replace(schedule, in_registers=False)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[KeepInMemory]:
        is_used = schedule.promoted or schedule.contractions or schedule.closure is not None
        if schedule.in_registers and not is_used:
            yield cls()


@dataclass(frozen=True, slots=True)
class CapRegisters(Step):
    """Let no kernel of a GPU have more than some number of registers to a thread.

    rewrite:  __launch_bounds__(threads)  ->  __maxnreg__(registers), in CUDA
    needs:    a number that compilers can keep to
    refuses:  UsageError where it is too low, or more than a thread has

    What does not fit is spilled to memory of the thread by the compiler: planners that know the cap
    take smaller tiles.
    """

    kind: ClassVar[str] = "cap_registers"

    registers: int

    def __post_init__(self) -> None:
        if not LEAST_REGISTERS <= self.registers <= _MOST_REGISTERS:
            raise UsageError(
                f"a thread has from {LEAST_REGISTERS} to {_MOST_REGISTERS} registers",
                found=str(self.registers),
                hint="below that compilers do not go",
            )

    def apply(self, schedule: Schedule) -> Schedule:
        return replace(schedule, registers=self.registers)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[CapRegisters]:
        if schedule.is_for_device and not schedule.registers:
            yield cls(64)
