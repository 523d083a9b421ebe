"""The machine that code is planned and emitted for: this one, unless another is named.

Asked where a user's call comes in; from there on the machine is an argument.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopwright.diagnostics import UsageError
from loopwright.ir.machine import Machine
from loopwright.machines.host import host

if TYPE_CHECKING:
    from loopwright.ir.gpu_machine import GpuMachine
    from loopwright.ir.mesh_machine import MeshMachine

__all__ = ["require_runnable", "target_gpu", "target_machine", "target_mesh"]

_DEFAULT_GPU = "sm_90"
_DEFAULT_MESH = "sw26010"


def target_machine(wanted: str | Machine | None = None) -> Machine:
    """This machine, or the one that a user names: by the name of a data file, or as a Machine."""
    if wanted is None:
        return host()
    if isinstance(wanted, Machine):
        return wanted
    from loopwright.machines.load import load_machine  # lazy: almost nobody asks for another

    return load_machine(wanted)


def target_gpu(wanted: str | GpuMachine | None = None, arch: str | None = None) -> GpuMachine:
    """The GPU that code is for: the one that a user names, else that of the architecture `arch`.

    Of an architecture that has no data file the nearest older one is taken; without one an H200.
    """
    from loopwright.ir.gpu_machine import GpuMachine  # lazy: for users of GPUs
    from loopwright.machines.load_gpu import gpu_names, load_gpu

    if isinstance(wanted, GpuMachine):
        return wanted
    if wanted is not None:
        return load_gpu(wanted)
    if arch is None:
        return load_gpu(_DEFAULT_GPU)
    if arch in gpu_names():
        return load_gpu(arch)
    older = [name for name in gpu_names() if _number(name) <= _number(arch)]
    return load_gpu(max(older, key=_number, default=_DEFAULT_GPU))


def target_mesh(wanted: str | None = None) -> MeshMachine:
    """The mesh of cores that code is for; where none is named, a group of SW26010."""
    from loopwright.machines.load_mesh import load_mesh  # lazy: for users of meshes

    return load_mesh(_DEFAULT_MESH if wanted is None else wanted)


def _number(arch: str) -> int:
    return int(arch.removeprefix("sm_"))


def require_runnable(machine: Machine) -> None:
    """Refuse to run machine code that is made for another machine than this one."""
    own = host()
    if machine.name != own.name or machine.isa != own.isa:
        raise UsageError(
            f"machine code for '{machine.name}' cannot run here",
            found=f"this is {own.name}, {own.isa}",
            hint='inspect it, or compile for target="openmp" or "c": its plan runs anywhere',
        )
