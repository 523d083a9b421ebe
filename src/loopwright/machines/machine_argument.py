"""The machine that code is planned and emitted for: this one, unless another is named.

Asked where a user's call comes in; from there on the machine is an argument.
"""

from __future__ import annotations

from loopwright.diagnostics import UsageError
from loopwright.ir.machine import Machine
from loopwright.machines.host import host

__all__ = ["require_runnable", "target_machine"]


def target_machine(wanted: str | Machine | None = None) -> Machine:
    """This machine, or the one that a user names: by the name of a data file, or as a Machine."""
    if wanted is None:
        return host()
    if isinstance(wanted, Machine):
        return wanted
    from loopwright.machines.load import load_machine  # lazy: almost nobody asks for another

    return load_machine(wanted)


def require_runnable(machine: Machine) -> None:
    """Refuse to run machine code that is made for another machine than this one."""
    own = host()
    if machine.name != own.name or machine.isa != own.isa:
        raise UsageError(
            f"machine code for '{machine.name}' cannot run here",
            found=f"this is {own.name}, {own.isa}",
            hint='inspect it, or compile for target="openmp" or "c": its plan runs anywhere',
        )
