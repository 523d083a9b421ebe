"""Local arrays: `T = np.zeros((n, m))` becomes a declaration and a nest that fills it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import numpy as np

from loopwright.diagnostics import DtypeError, Span
from loopwright.frontends.names import Names
from loopwright.frontends.python.captures import MISSING
from loopwright.frontends.python.expressions import ExpressionReader
from loopwright.frontends.python.values import Refusal, Reported, constant, convert
from loopwright.frontends.tree import Assign, Local, Loop, Node
from loopwright.ir.dtypes import FLOAT64, DType, dtype_of
from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.program import Access

__all__ = ["Maker", "fill", "find_maker", "make_local"]


@dataclass(frozen=True, slots=True)
class Maker:
    """A function that makes an array."""

    is_like: bool  # shape and dtype are those of the first argument
    fill: int | None  # what the elements are; None leaves them undefined


_ROWS: dict[object, Maker] = {
    np.empty: Maker(False, None),
    np.zeros: Maker(False, 0),
    np.ones: Maker(False, 1),
    np.empty_like: Maker(True, None),
    np.zeros_like: Maker(True, 0),
    np.ones_like: Maker(True, 1),
}
# By identity, as in `calls`; the rows keep the functions.
_MAKERS: dict[int, Maker] = {id(function): maker for function, maker in _ROWS.items()}


def find_maker(read: ExpressionReader, node: ast.expr) -> Maker | None:
    """The maker that `node` calls, if it is such a call."""
    if not isinstance(node, ast.Call):
        return None
    function = read.names.resolve(node.func)[1]
    return None if function is MISSING else _MAKERS.get(id(function))


def make_local(
    read: ExpressionReader, maker: Maker, call: ast.Call, name: str, span: Span
) -> Local:
    """The local array `name` that a call makes."""
    dtypes = [keyword.value for keyword in call.keywords if keyword.arg == "dtype"]
    if len(dtypes) < len(call.keywords) or not 1 <= len(call.args) + len(dtypes) <= 2:
        raise Refusal(
            "LW124",
            f"'{ast.unparse(call.func)}' takes a shape and a dtype here",
            found=ast.unparse(call),
            hint="np.zeros((n, m), dtype=np.float32)",
        )
    first, *others = (*call.args, *dtypes)
    if maker.is_like:
        like = read.names.array(first)
        dtype = _dtype(read, others[0]) if others else like.dtype
        return Local(name, dtype, like.shape, span)
    dtype = _dtype(read, others[0]) if others else FLOAT64
    return Local(name, dtype, _shape(read, first), span)


def _shape(read: ExpressionReader, node: ast.expr) -> tuple[Expr, ...]:
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        return read.names.array(node.value).shape
    entries = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    extents: list[Expr] = []
    failed = False
    for entry in entries:
        try:
            extents.append(read.affine(entry, "LW118", "the extent"))
        except Reported:
            failed = True
    if failed:
        raise Reported
    return tuple(extents)


def _dtype(read: ExpressionReader, node: ast.expr) -> DType:
    if isinstance(node, ast.Attribute) and node.attr == "dtype":
        return read.names.array(node.value).dtype
    value = node.value if isinstance(node, ast.Constant) else read.names.resolve(node)[1]
    if isinstance(value, str | type | np.dtype):
        try:
            return dtype_of(value)
        except (DtypeError, TypeError):
            pass
    raise Refusal(
        "LW109",
        "this is not an element type",
        found=ast.unparse(node),
        hint="np.float64, np.int32, A.dtype",
    )


def fill(local: Local, maker: Maker, names: Names) -> tuple[Node, ...]:
    """The loops that give every element of a new array its first value."""
    if maker.fill is None:
        return ()
    variables = [names.fresh(f"{local.name}_i{k}") for k in range(len(local.shape))]
    target = Access(local.name, tuple(map(Var, variables)), local.dtype)
    nest: Node = Assign(target, convert(constant(maker.fill), local.dtype), local.span)
    for variable, extent in zip(reversed(variables), reversed(local.shape), strict=True):
        nest = Loop(variable, Const(0), extent, 1, (nest,), local.span)
    return (nest,)
