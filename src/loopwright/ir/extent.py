"""The iterations of a loop, where their number is the same whatever the variables hold."""

from __future__ import annotations

from collections import Counter

from loopwright.ir.expr import Binary, Const, Expr, Unary
from loopwright.ir.loops import For

__all__ = ["constant_trips"]


def constant_trips(loop: For) -> int | None:
    """How often the body runs when stop - start and the step are constants; None otherwise."""
    if loop.until is not None:
        return None
    terms = _terms(loop.stop, 1)
    terms.subtract(_terms(loop.start, 1))
    if not isinstance(loop.step, Const) or any(terms[x] for x in terms if x is not None):
        return None
    assert isinstance(loop.step.value, int)
    return max(0, -(-terms[None] // loop.step.value))


def _terms(expr: Expr, factor: int) -> Counter[Expr | None]:
    """`factor * expr` as a sum: how often each term occurs; None stands for the number 1."""
    match expr:
        case Const(value=int(value)):
            return Counter({None: factor * value})
        case Unary(op="neg", x=x):
            return _terms(x, -factor)
        case Binary(op="add" | "sub", x=x, y=y):
            total = _terms(x, factor)
            total.update(_terms(y, factor if expr.op == "add" else -factor))
            return total
        case Binary(op="mul", x=x, y=Const(value=int(value))):
            return _terms(x, factor * value)
        case Binary(op="mul", x=Const(value=int(value)), y=y):
            return _terms(y, factor * value)
        case _:
            return Counter({expr: factor})
