"""Module: emitted code and what a caller must know to run it. No tool has been called yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwright.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from loopwright.ir.device import DeviceProgram

__all__ = ["CodeUnit", "Module"]


@dataclass(frozen=True, slots=True)
class CodeUnit:
    """Functions that are compiled alike; the units of a module are linked into one object."""

    text: str
    # Whether LLVM's whole pipeline optimises them (see LoopNest); else they are explicit: vectors
    # and registers are written out, and few passes are needed.
    leave_to_llvm: bool
    # With leave_to_llvm: many loops, each of which runs a small part of the time.
    has_many_loops: bool = False


@dataclass(frozen=True, slots=True)
class Module:
    """The text of one kernel in a target's language.

    The entry takes (launch, team, thread, buffer...): `launch` points to the int64 scalars, `team`
    to the thread team (see backends/llvm/llvm_team), `thread` is the number of the calling thread.
    `<entry>_scratch(launch)` and `<entry>_private(launch)` return the bytes of scratch memory the
    call needs once and once per thread.
    """

    language: str  # "llvm", "c", "cuda" or "opencl"
    text: str
    entry: str  # name of the kernel's function
    buffers: tuple[str, ...]  # names of the array arguments in call order
    scalars: tuple[str, ...]  # names of the kernel arguments that are int64, in order
    units: tuple[CodeUnit, ...] = ()  # LLVM only: the same functions, as they are compiled
    device: DeviceProgram | None = None  # of GPUs: kernels, and the host's part that launches them
