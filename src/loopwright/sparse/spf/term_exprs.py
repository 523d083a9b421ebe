"""Terms of the algebra as expressions of loop nests, and back.

f(a, b)        the element f[a, b], converted to int64
floor(x / y)   x // y, which rounds down
A product of atoms is a product, a variable or a symbolic constant a variable of type int64.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import assert_never

from loopwright.ir import expr as ir
from loopwright.ir.dtypes import BOOL, INT64, DType
from loopwright.sparse.curves import CURVES, curve
from loopwright.sparse.spf.computation import DataSpace
from loopwright.sparse.uf import Atom, AtomProduct, Constraint, Floor, Sym, Term, TupleVar, UFCall

__all__ = ["as_condition", "as_expr", "as_term", "element"]

Spaces = Mapping[str, DataSpace]


def as_expr(term: Term, spaces: Spaces) -> ir.Expr:
    """The int64 value of a term; calls become loads of the spaces of their names."""
    added = [(atom, factor) for atom, factor in term.terms if factor > 0]
    taken = [(atom, factor) for atom, factor in term.terms if factor < 0]
    total: ir.Expr | None = None
    for atom, factor in added:
        part = _atom(atom, spaces) * factor
        total = part if total is None else total + part
    if total is None:
        total = ir.Const(term.constant)
    elif term.constant > 0:
        total = total + term.constant
    for atom, factor in taken:
        total = total - _atom(atom, spaces) * -factor
    return total - -term.constant if added and term.constant < 0 else total


def _atom(atom: Atom, spaces: Spaces) -> ir.Expr:
    match atom:
        case TupleVar(name=name) | Sym(name=name):
            return ir.Var(name)
        case UFCall(name=name, args=args) if name in CURVES and name not in spaces:
            return curve(name, [as_expr(argument, spaces) for argument in args])
        case UFCall(name=name, args=args):
            return element(name, args, spaces, INT64)
        case Floor(x=x, by=by):
            return as_expr(x, spaces) // as_expr(by, spaces)
        case AtomProduct(factors=(first, *others)):
            product = _atom(first, spaces)
            for factor in others:
                product = product * _atom(factor, spaces)
            return product
        case _:
            raise AssertionError(f"an empty product: {atom}")


def element(
    name: str, index: Collection[Term], spaces: Spaces, dtype: DType | None = None
) -> ir.Expr:
    """The element name[index], converted to `dtype` where that is another one."""
    load = ir.Load(name, tuple(as_expr(entry, spaces) for entry in index), spaces[name].dtype)
    return load if dtype in (None, load.dtype) else ir.Cast(load, dtype)


def as_condition(constraint: Constraint, spaces: Spaces) -> ir.Expr:
    """The truth of a constraint, written with both sides positive."""
    term = constraint.term
    left = Term(tuple((a, f) for a, f in term.terms if f > 0), max(term.constant, 0))
    right = Term(tuple((a, -f) for a, f in term.terms if f < 0), max(-term.constant, 0))
    if not constraint.is_equality and term.constant == -1:
        bigger, smaller = as_expr(left, spaces), as_expr(right - 1, spaces)
        return smaller < bigger
    x, y = as_expr(left, spaces), as_expr(right, spaces)
    return x.equals(y) if constraint.is_equality else y <= x


def as_term(expr: ir.Expr, variables: Collection[str]) -> Term | None:
    """An int64 expression as a term; names not in `variables` are symbolic constants.

    None for what the algebra cannot say, such as minima.
    """
    match expr:
        case ir.Const(value=value):
            return Term.of(int(value)) if _is_index(expr) and isinstance(value, int) else None
        case ir.Var(name=name):
            return Term.of(TupleVar(name) if name in variables else Sym(name))
        case ir.Load(array=array, index=index):
            args = [as_term(entry, variables) for entry in index]
            known = [arg for arg in args if arg is not None]
            if not expr.dtype.is_integer or len(known) < len(args):
                return None
            return Term.of(UFCall(array, tuple(known)))
        case ir.Cast(x=x):
            # Only loads: the arithmetic of narrow types wraps around.
            is_load = isinstance(x, ir.Load) and expr.dtype == INT64 and _fits(x.dtype)
            return as_term(x, variables) if is_load else None
        case ir.Binary():
            return _binary(expr, variables)
        case ir.Unary(op="neg", x=x) if _is_index(expr):
            term = as_term(x, variables)
            return None if term is None else -term
        case ir.Unary() | ir.Select() | ir.Call():
            return None
        case _:
            assert_never(expr)


def _binary(expr: ir.Binary, variables: Collection[str]) -> Term | None:
    if expr.dtype == BOOL or not _is_index(expr.x):
        return None
    x, y = as_term(expr.x, variables), as_term(expr.y, variables)
    if x is None or y is None:
        return None
    match expr.op:
        case "add":
            return x + y
        case "sub":
            return x - y
        case "mul":
            return x * y
        case "floordiv" if y.is_constant and y.constant > 0:
            return x.floor(y)
        case "mod" if y.is_constant and y.constant > 0:
            return x % y
    return None


def _is_index(expr: ir.Expr) -> bool:
    return expr.dtype == INT64


def _fits(dtype: DType) -> bool:
    """Whether int64 holds every value of a type."""
    return dtype.is_integer and not (dtype.kind == "u" and dtype.bits == 64)
