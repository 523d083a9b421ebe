"""Functions of a module: how they begin and end, and the procedures that a kernel invokes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from loopwright.backends import llvm_memory as memory
from loopwright.backends.llvm_expr import Expressions
from loopwright.backends.llvm_outline import Invocation, Procedure
from loopwright.backends.llvm_text import Code, Value, type_name
from loopwright.ir.loops import LoopNest
from loopwright.ir.visit import loop_depth

__all__ = ["Invocations", "joined", "kernel_attributes"]

# LLVM's work on loop variables grows exponentially with the loops around them: where there are
# more, it is asked not to optimise.
_MOST_LOOPS = 16


def kernel_attributes(nest: LoopNest) -> str:
    """How LLVM is to treat the function of a nest."""
    if loop_depth(nest.body) > _MOST_LOOPS:
        return "noinline optnone"
    # Both entries call a plain kernel: one copy is enough to optimise.
    return "noinline" if nest.is_plain else ""


class Invocations(Expressions):
    """A function that invokes procedures, or is one."""

    def __init__(self, readonly: set[str], features: frozenset[str]) -> None:
        super().__init__(readonly, features)
        self.outlined: dict[int, Invocation] = {}  # loops that are procedures, by identity
        self.procedures: dict[Procedure, str] = {}  # those invoked so far, and their names

    def open_arguments(self, procedure: Procedure) -> str:
        """Bring the arguments of a procedure into scope: its variables, then its buffers."""
        arguments = []
        for name, dtype in procedure.variables:
            self.scope[name] = Value(f"%{name}", dtype)
            arguments.append(str(self.scope[name]))
        for buffer in procedure.buffers:
            # Arrays are apart from each other, and what one of them is for is one argument.
            arguments.append(f"ptr noalias %{buffer.name}")
            self.declare(buffer, memory.Memory(f"%{buffer.name}", buffer.dtype))
        return ", ".join(arguments)

    def closed_function(self, head: str, attributes: str = "noinline") -> str:
        """The whole text of a function that begins with `head`."""
        self.code.effect("ret void")
        head += f" nounwind {attributes}"
        if self.code.features:
            # LLVM ends the process when it cannot select an instruction, as for a processor whose
            # name it does not know: what the code uses is said here.
            head += f' "target-features"="{",".join(self.code.features)}"'
        return "\n".join([f"{head} {{", "entry:", *self.code.entry, *self.code.lines, "}"])

    def invoke(self, kernel: str, invocation: Invocation) -> None:
        """Call the procedure of a loop."""
        known = self.procedures
        name = known.setdefault(invocation.procedure, f"{kernel}_{len(known)}")
        values = [str(self.scope[variable]) for variable in invocation.variables]
        for buffer in invocation.buffers:
            place = self.buffers[buffer]
            assert isinstance(place, memory.Memory)
            values.append(f"ptr {place.pointer}")
        self.code.effect(f"call void @{name}({', '.join(values)})")


class _Writer(Protocol):
    """Writes the function of a procedure."""

    code: Code

    def procedure(self, procedure: Procedure) -> str: ...


def joined(
    kernel: Invocations, parts: Sequence[str], writer: Callable[[LoopNest], _Writer]
) -> tuple[str, tuple[str, str] | None]:
    """The text of a module with the procedures of its kernel, and the same as two modules.

    Declarations stand first; `parts` is everything but those. There are no two modules where there
    is no procedure.
    """
    declared = kernel.code.declarations
    own: dict[str, None] = {}
    heads, texts = [], []
    for procedure, name in kernel.procedures.items():
        scalars = tuple(variable for variable, _ in procedure.variables)
        written = writer(LoopNest(name, procedure.buffers, scalars, procedure.body))
        texts.append(written.procedure(procedure))
        types = [type_name(dtype) for _, dtype in procedure.variables]
        heads.append(f"declare void @{name}({', '.join(types + ['ptr'] * len(procedure.buffers))})")
        own.update(written.code.declarations)
    text = "\n".join([*{**declared, **own}, *texts, *parts])
    if not texts:
        return text, None
    return text, ("\n".join([*declared, *heads, *parts]), "\n".join([*own, *texts]))
