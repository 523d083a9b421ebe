"""LoopNest -> DeviceProgram: the outermost loops over blocks and threads are kernels.

The host keeps what stands around them. A statement that no mapped loop holds runs as a kernel of
one thread, so that all data stay on the device.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from itertools import groupby

from loopwright.diagnostics import InternalError
from loopwright.ir.device import (
    Bind,
    DeviceKernel,
    DeviceMemory,
    DeviceProgram,
    HostStep,
    LaunchKernel,
    Repeat,
    When,
    shared_part,
)
from loopwright.ir.expr import Const, Expr
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Block,
    Buffer,
    Commit,
    Copy,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Prefetch,
    Space,
    Stmt,
    Store,
    Wait,
    WarpMma,
)
from loopwright.ir.text import stmt_text
from loopwright.ir.visit import expressions, loads, names, statements
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.build import touches
from loopwright.lower.grid_nests.map_to_grid import is_mapped

__all__ = ["split_kernels"]

_AXES = (Axis.X, Axis.Y, Axis.Z)


def split_kernels(nest: LoopNest) -> DeviceProgram:
    """The kernels of a nest whose mapped loops are boxes (`map_to_grid`), and the host's part."""
    split = _Split(nest.name, nest.registers)
    host = split.steps(nest.body, dict.fromkeys(nest.scalars), {b.name: b for b in nest.buffers})
    return DeviceProgram(nest.name, nest.buffers, nest.scalars, tuple(split.kernels), host)


@dataclass(slots=True)
class _Split:
    name: str
    registers: int  # of a thread, at most
    kernels: list[DeviceKernel] = field(default_factory=list)

    def steps(
        self, stmt: Stmt, variables: dict[str, None], buffers: dict[str, Buffer]
    ) -> tuple[HostStep, ...]:
        """What the host does for a statement; `variables` are those that it knows there."""
        if not _holds_kernel(stmt):
            return (self._launch(stmt, variables, buffers),) if _does_something(stmt) else ()

        def down(inner: Stmt, *added: str) -> tuple[HostStep, ...]:
            return self.steps(inner, variables | dict.fromkeys(added), buffers)

        match stmt:
            case For() if is_mapped(stmt):
                return (self._launch(stmt, variables, buffers),)
            case For(var=var, start=start, stop=stop, step=step, body=body, until=until):
                self._require_host(start, stop, step)
                if until is not None:
                    self._require_host(until)
                return (Repeat(var, start, stop, step, down(body, var), until),)
            case If(cond=cond, body=body, orelse=orelse):
                self._require_host(cond)
                return (When(cond, down(body), () if orelse is None else down(orelse)),)
            case Let(name=name, value=value, body=body):
                self._require_host(value)
                return (Bind(name, value, down(body, name)),)
            case Alloc(buffer=buffer, shape=shape, body=body):
                inner = self.steps(body, variables, buffers | {buffer.name: buffer})
                return (DeviceMemory(buffer, shape, inner),)
            case Block(body=children):
                return tuple(step for child in _runs(children) for step in down(child))
        raise InternalError("the host cannot run a statement", stmt_text(stmt))

    def _require_host(self, *exprs: Expr) -> None:
        for expr in exprs:
            if loads(expr):
                raise InternalError(f"the host's part of {self.name} depends on data")

    def _launch(
        self, stmt: Stmt, variables: dict[str, None], buffers: dict[str, Buffer]
    ) -> HostStep:
        grid: dict[Axis, Expr] = {}
        block: dict[Axis, int] = {}
        body = stmt
        shared: list[Alloc] = []
        resident = 0
        while True:
            match body:
                case For(mark=Mark.BLOCK, stop=stop, axis=axis):
                    grid[axis or Axis.X] = stop
                    resident = max(resident, body.resident)
                case For(mark=Mark.THREAD, stop=Const(value=int(count)), axis=axis):
                    block[axis or Axis.X] = count
                case Alloc(buffer=buffer) if buffer.space is Space.SHARED:
                    shared.append(body)
                case _:
                    break
            body = body.body
        for alloc in reversed(shared):
            body = Alloc(alloc.buffer, alloc.shape, body)
        used = [b for b in buffers.values() if any(touches(s, b.name) for s in statements(body))]
        free = _free(body).union(*(names(stride) for b in used for stride in b.strides))
        kernel = DeviceKernel(
            f"{self.name}_{len(self.kernels)}",
            tuple(used),
            tuple(name for name in variables if name in free),
            (grid.get(_AXES[0], _ONE), grid.get(_AXES[1], _ONE), grid.get(_AXES[2], _ONE)),
            (block.get(_AXES[0], 1), block.get(_AXES[1], 1), block.get(_AXES[2], 1)),
            body,
            sum(shared_part(_bytes(alloc)) for alloc in shared),
            resident,
            self.registers,
        )
        for known in self.kernels:
            if _same(known, kernel):
                return LaunchKernel(known.name)
        self.kernels.append(kernel)
        return LaunchKernel(kernel.name)


_ONE = Const(1)


def _same(one: DeviceKernel, other: DeviceKernel) -> bool:
    """Whether two kernels differ in their names only."""
    return (one.buffers, one.scalars, one.grid, one.block, one.body) == (
        other.buffers,
        other.scalars,
        other.grid,
        other.block,
        other.body,
    )


def _bytes(alloc: Alloc) -> int:
    total = alloc.buffer.dtype.bytes
    for extent, stride in zip(alloc.shape[:1], alloc.buffer.strides[:1], strict=True):
        assert isinstance(extent, Const)
        assert isinstance(stride, Const)
        total *= int(extent.value.real) * int(stride.value.real)
    return total


def _holds_kernel(stmt: Stmt) -> bool:
    """Whether the host has something to do for a statement but launch it: loops, memory."""
    return any(is_mapped(inner) or _is_memory(inner) for inner in statements(stmt))


def _runs(children: Iterable[Stmt]) -> list[Stmt]:
    """Statements in order; neighbours that one thread runs are one, launched together."""
    found: list[Stmt] = []
    for is_host, group in groupby(children, _holds_kernel):
        run = tuple(group)
        found += run if is_host or len(run) == 1 else (Block(run),)
    return found


def _is_memory(stmt: Stmt) -> bool:
    """Whether a statement allocates what only the host can: memory of many elements."""
    return isinstance(stmt, Alloc) and stmt.buffer.space is Space.SCRATCH and bool(stmt.shape)


def _does_something(stmt: Stmt) -> bool:
    kinds = (Store, Copy, Commit, Wait, Prefetch, WarpMma)
    return any(isinstance(inner, kinds) for inner in statements(stmt))


def _free(stmt: Stmt) -> set[str]:
    """The variables that a statement uses; those that it binds have other names."""
    found: set[str] = set()
    for inner in statements(stmt):
        for expr in expressions(inner):
            found |= names(expr)
        if isinstance(inner, Alloc):
            found.update(*(names(stride) for stride in inner.buffer.strides))
    return found
