"""Expressions of isl's syntax trees, functions and sets of parameters, as expressions of ours."""

from __future__ import annotations

from collections.abc import Mapping

from loopwright.diagnostics import InternalError
from loopwright.ir.expr import Binary, Const, Expr, Select, Unary, Var
from loopwright.ir.islkit import isl

__all__ = ["arguments_of", "parameter_condition", "parameter_expr", "read_expr"]

# isl has a division for each thing it knows about the operands; all of ours round down.
_BINARY = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "floordiv",
    "fdiv_q": "floordiv",
    "pdiv_q": "floordiv",
    "pdiv_r": "mod",
    "zdiv_r": "mod",
    "min": "min",
    "max": "max",
    "and_": "and",
    "and_then": "and",
    "or_": "or",
    "or_else": "or",
    "eq": "eq",
    "lt": "lt",
    "le": "le",
    "gt": "gt",
    "ge": "ge",
}


def parameter_expr(function: isl.PwAff, known: isl.Set) -> Expr:
    """A function of the parameters as an expression, for parameters of the set `known`."""
    return read_expr(isl.AstBuild.from_context(known).expr_from_pw_aff(function), {})


def parameter_condition(holds: isl.Set, known: isl.Set) -> Expr:
    """Whether parameters are in the set `holds`, for those of the set `known`."""
    return read_expr(isl.AstBuild.from_context(known).expr_from_set(holds), {})


def read_expr(node: isl.AstExpr, values: Mapping[str, Expr]) -> Expr:
    """An integer or boolean expression of isl's, with `values` for its identifiers."""
    match isl.ast_expr_type(node.get_type()).name:
        case "int":
            return Const(node.int_get_val().to_python())
        case "id":
            name = node.id_get_id().get_name()
            return values.get(name, Var(name))
    op = isl.ast_expr_op_type(node.op_get_type()).name
    arguments = [read_expr(argument, values) for argument in arguments_of(node)]
    if op == "minus":
        return Unary("neg", arguments[0])
    if op in ("cond", "select"):
        return Select(*arguments)
    if op not in _BINARY:
        raise InternalError("isl made an expression we do not know", node.to_C_str())
    result = arguments[0]
    for argument in arguments[1:]:
        result = Binary(_BINARY[op], result, argument)
    return result


def arguments_of(node: isl.AstExpr) -> list[isl.AstExpr]:
    """The operands of an operation, or what is called and the arguments of a call."""
    return [node.op_get_arg(k) for k in range(node.op_get_n_arg())]
