"""The `range(...)` of a for loop: start, stop and step."""

from __future__ import annotations

import ast
import builtins

from loopwright.frontends.python.expressions import ExpressionReader
from loopwright.frontends.python.values import Refusal, Reported
from loopwright.ir.expr import Const, Expr

__all__ = ["read_range"]

_HINT = "for i in range(start, stop, step)"
_STEP = "a constant such as 2 or -1"


def read_range(read: ExpressionReader, node: ast.expr) -> tuple[Expr, Expr, int] | None:
    """Start, stop and step of a call of range; None when it was refused (and reported)."""
    try:
        return _range(read, node)
    except Refusal as refusal:
        read.report(refusal, node)
    except Reported:
        pass
    return None


def _range(read: ExpressionReader, node: ast.expr) -> tuple[Expr, Expr, int]:
    if not isinstance(node, ast.Call) or read.names.resolve(node.func)[1] is not builtins.range:
        found = ast.unparse(node)
        raise Refusal("LW126", "the loop does not run over a range", found=found, hint=_HINT)
    args = node.args
    if node.keywords or not 1 <= len(args) <= 3 or any(isinstance(a, ast.Starred) for a in args):
        raise Refusal("LW124", "range takes one to three plain arguments", hint=_HINT)
    step = _step(read, args[2]) if len(args) == 3 else 1
    bounds: list[Expr] = [] if len(args) > 1 else [Const(0)]
    for bound in args[:2]:
        try:
            bounds.append(read.affine(bound, "LW100", "the bound of the loop"))
        except Reported:
            step = None
    if step is None:
        raise Reported
    return bounds[0], bounds[1], step


def _step(read: ExpressionReader, node: ast.expr) -> int | None:
    value = read.lower(node)
    if value is None:
        return None
    match value.expr:
        case Const(value=int() as step) if step and not isinstance(step, bool):
            return step
        case Const(value=int()):
            refusal = Refusal("LW105", "the step of the loop is zero", hint=_STEP)
        case _:
            message = "the step of the loop is not an integer constant"
            refusal = Refusal("LW105", message, found=ast.unparse(node), hint=_STEP)
    read.report(refusal, node)
    return None
