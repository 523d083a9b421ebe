"""Code of loops by the system's C compiler, as a kernel like those of LLVM.

Where a race of calls (calls/source_race) finds that this compiler does better by a program than
LLVM, its code serves the calls. It has the bits of LLVM's code: what is fused is written down, and
the compiler fuses nothing by itself. Programs of which that cannot be had have no such code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from loopwright import options
from loopwright.backends.c_text.c_entry import c_entries
from loopwright.diagnostics import ToolchainError, UsageError
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.kernels import ENTRY, object_kernel
from loopwright.machines.host import host
from loopwright.pipeline import compile_program
from loopwright.planner.planners import given_planner
from loopwright.runtime.disk_cache import Entry
from loopwright.runtime.kernel import CompiledKernel
from loopwright.runtime.toolchain import Compiler, build_object, find_compiler, tuning_flags
from loopwright.targets import text_with_bits
from loopwright.transform.plan import Plan

__all__ = ["compiler_assembly", "compiler_kernel", "has_compiler"]

_AS_WRITTEN = "-ffp-contract=off"
_BODY = "kernel_body"


def has_compiler(machine: Machine) -> bool:
    """Whether a C compiler may make code for a machine, which is to be this one."""
    settings = options.current()
    if not settings.race_compiler or settings.cpu is not None or machine != host():
        return False
    try:
        return find_compiler().accepts(_AS_WRITTEN)
    except (ToolchainError, UsageError):
        return False


def compiler_kernel(
    key: str, program: Callable[[], Program], plan: Plan, machine: Machine, what: str
) -> CompiledKernel:
    """The kernel of a program by a plan, for arrays without gaps on one thread.

    `key` names the program. Raises UsageError where the bits would be others, and ToolchainError.
    """
    compiler = find_compiler()
    flags = _flags(compiler)
    made_by = f"{' '.join(compiler.command)} {compiler.version} {' '.join(flags)}"

    def make() -> Entry:
        text, header = _text(program(), plan, machine)
        return Entry(header, build_object(text, flags, compiler))

    content = f"{key} {plan.dumps()} {machine.content_hash} by {made_by}"
    return object_kernel(content, make, f"{what} by {compiler.command[0]}")


def compiler_assembly(program: Program, plan: Plan, machine: Machine) -> str:
    """The same as assembly."""
    compiler = find_compiler()
    text = _text(program, plan, machine)[0]
    return build_object(text, (*_flags(compiler), "-S"), compiler).decode()


def _flags(compiler: Compiler) -> tuple[str, ...]:
    return (*tuning_flags(compiler, openmp=False), _AS_WRITTEN)


def _text(program: Program, plan: Plan, machine: Machine) -> tuple[str, dict[str, object]]:
    """C of a program with entry points, and what calls must know of its kernel."""
    found = compile_program(program, machine, 1, given_planner(plan))
    module = text_with_bits(program, replace(found.nest, name=_BODY), machine)
    if module is None:
        raise UsageError(f"the C compiler's code of '{program.name}' might have other bits")
    entries = c_entries(ENTRY, _BODY, len(module.scalars), module.buffers)
    header: dict[str, object] = {
        "buffers": list(module.buffers),
        "scalars": list(module.scalars),
        "is_parallel": False,
        "needs_memory": False,
    }
    return f"{module.text}\n{entries}", header
