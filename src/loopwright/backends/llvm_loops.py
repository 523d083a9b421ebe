"""Loops before they are emitted: copies as loops, and which loops can be lanes."""

from __future__ import annotations

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Const, Load, Var
from loopwright.ir.loops import Alloc, Barrier, Copy, For, If, Let, Mark, Stmt, Store
from loopwright.ir.visit import expressions, statements
from loopwright.ir.walk import names

__all__ = ["copy_loops", "has_lanes"]


def has_lanes(loop: For) -> bool:
    """Whether the body can run in lanes: no memory of their own, no control that lanes decide."""
    varying = {loop.var}
    for stmt in statements(loop.body):
        match stmt:
            case Alloc() | Copy() | Barrier() | For(mark=Mark.VECTOR | Mark.PARALLEL):
                return False
            case Let(name=name, value=value):
                if names(value) & varying:
                    varying.add(name)
            case For() | If():
                if any(names(x) & varying for x in expressions(stmt)):
                    return False
    return True


def copy_loops(copy: Copy, dtype: DType) -> Stmt:
    """A strided copy as loops over its shape."""
    here = [Var(f"{copy.target}.copy{k}") for k in range(len(copy.shape))]
    source = tuple(s + x for s, x in zip(copy.source_start, here, strict=True))
    target = tuple(t + x for t, x in zip(copy.target_start, here, strict=True))
    body: Stmt = Store(copy.target, target, Load(copy.source, source, dtype))
    for var, extent in zip(reversed(here), reversed(copy.shape), strict=True):
        body = For(var.name, Const(0), extent, body, Const(1))
    return body
