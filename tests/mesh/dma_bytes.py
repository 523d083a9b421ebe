"""The bytes that the cores of a mesh move by DMA, counted without running the arithmetic.

A nest becomes a function of Python in which copies count and loops without copies are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from loopwright.ir.expr import BINARY_OPS, Binary, Cast, Const, Expr, Select, Unary, Var
from loopwright.ir.loops import Alloc, Block, Buffer, Copy, For, If, Let, LoopNest, Space, Stmt
from loopwright.ir.visit import statements

__all__ = ["dma_bytes"]


def dma_bytes(nest: LoopNest, sizes: Mapping[str, int]) -> int:
    """Bytes from and to main memory, of all cores."""
    writer = _Writer({buffer.name: buffer for buffer in nest.buffers})
    writer.add(nest.body, 0)
    values: dict[str, object] = {_name(name): value for name, value in sizes.items()}
    values["moved"] = 0
    exec("\n".join(writer.lines), values)
    moved = values["moved"]
    assert isinstance(moved, int)
    return moved


class _Writer:
    def __init__(self, buffers: dict[str, Buffer]) -> None:
        self.buffers = buffers
        self.lines: list[str] = []

    def add(self, stmt: Stmt, depth: int) -> None:
        if not any(isinstance(inner, Copy) for inner in statements(stmt)):
            self._line("pass", depth)
            return
        match stmt:
            case Block(body=body):
                for child in body:
                    self.add(child, depth)
            case For():
                bounds = ", ".join(map(_text, (stmt.start, stmt.stop, stmt.step)))
                self._line(f"for {_name(stmt.var)} in range({bounds}):", depth)
                self.add(stmt.body, depth + 1)
            case Let():
                self._line(f"{_name(stmt.name)} = {_text(stmt.value)}", depth)
                self.add(stmt.body, depth)
            case If():
                self._line(f"if {_text(stmt.cond)}:", depth)
                self.add(stmt.body, depth + 1)
                if stmt.orelse is not None:
                    self._line("else:", depth)
                    self.add(stmt.orelse, depth + 1)
            case Alloc():
                self.buffers[stmt.buffer.name] = stmt.buffer
                self.add(stmt.body, depth)
            case Copy():
                is_put = self.buffers[stmt.source].space is Space.SCRATCHPAD
                far = self.buffers[stmt.target if is_put else stmt.source]
                extents = " * ".join(f"max({_text(extent)}, 0)" for extent in stmt.shape)
                self._line(f"moved += {extents} * {far.dtype.bytes}", depth)

    def _line(self, text: str, depth: int) -> None:
        self.lines.append("  " * depth + text)


def _name(name: str) -> str:
    return "v_" + name.replace(".", "_")


def _text(expr: Expr) -> str:
    match expr:
        case Const(value=value):
            return repr(value if isinstance(value, bool) else int(value.real))
        case Var(name=name):
            return _name(name)
        case Binary(op="min" | "max" as op, x=x, y=y):
            return f"{op}({_text(x)}, {_text(y)})"
        case Binary(op=op, x=x, y=y):
            return f"({_text(x)} {BINARY_OPS[op]} {_text(y)})"
        case Select(cond=cond, x=x, y=y):
            return f"({_text(x)} if {_text(cond)} else {_text(y)})"
        case Unary(op="neg", x=x):
            return f"(-{_text(x)})"
        case Cast(x=x):
            return _text(x)
    raise AssertionError(f"no bound: {expr}")
