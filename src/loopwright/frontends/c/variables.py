"""A variable of C and its place in the tree: array, scalar or integer parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from loopwright.frontends.c.refusal import Refusal
from loopwright.frontends.c.scope import Scope, Variable
from loopwright.frontends.c.syntax import (
    BinaryExpr,
    CastExpr,
    Declaration,
    Dim,
    Name,
    SyntaxExpr,
    TernaryExpr,
    UnaryExpr,
)
from loopwright.frontends.c.types import CType
from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.visit import names

__all__ = ["element_of", "place"]

# Reads an extent as an affine expression; the text names its use in messages.
ReadExtent: TypeAlias = Callable[[SyntaxExpr, str], Expr]

_MOST_RANK = 32  # dimensions of one array; C's own limit on brackets is hardly higher


def element_of(declaration: Declaration) -> CType:
    """The type of a variable's elements, or a refusal."""
    kind = declaration.type
    name = declaration.name
    if "()" in kind.derivations:
        raise Refusal("LW135", f"the function '{name}' is used as a value")
    if "*" in kind.derivations[1:]:
        hint = f"declare '{name}' as an array of all its dimensions"
        raise Refusal("LW134", f"'{name}' leads to its elements over several pointers", hint=hint)
    if kind.element is None:
        hint = "char, short, int, long, float, double and _Bool are, signed or unsigned"
        raise Refusal("LW134", f"'{name}' has the type '{kind.text}', not supported", hint=hint)
    unsafe = kind.qualifiers & {"volatile", "_Atomic"}
    if unsafe:
        word = sorted(unsafe)[0]
        raise Refusal("LW134", f"'{name}' is {word}", hint="copy it to a plain variable")
    return kind.element


def place(scope: Scope, declaration: Declaration, read: ReadExtent) -> Variable:
    """Give a variable that is met for the first time its name and extents in the tree."""
    element = element_of(declaration)
    kind = declaration.type
    if kind.is_scalar:
        is_outside = declaration.where != "region"
        is_stored = declaration in scope.assigned and declaration not in scope.counters
        is_integer = is_outside and not element.is_floating and not is_stored
        name = scope.naming.fresh(declaration.name)
        variable = Variable(declaration, name, element, (), is_integer)
        if is_integer and element.dtype.kind in "bu":
            scope.always.append(Var(name) >= 0)
        return variable
    if len(kind.derivations) > _MOST_RANK:
        raise Refusal("LW118", f"'{declaration.name}' has more than {_MOST_RANK} dimensions")
    name = scope.naming.fresh(declaration.name)
    shape = tuple(
        _extent(scope, declaration, name, at, dim, read) for at, dim in enumerate(kind.derivations)
    )
    return Variable(declaration, name, element, shape, is_integer=False)


def _extent(
    scope: Scope, declaration: Declaration, name: str, at: int, dim: Dim | str, read: ReadExtent
) -> Expr:
    extent = dim.extent if isinstance(dim, Dim) else None
    if extent is None:
        if at > 0:
            hint = "only the first extent may be left open"
            raise Refusal("LW118", f"an extent of '{declaration.name}' is missing", hint=hint)
        size = scope.naming.fresh(f"{name}_0")
        scope.sizes.append(size)
        return Var(size)
    for used in _variables(extent):
        if used.where == "global" and "const" not in used.type.qualifiers:
            message = (
                f"an extent of '{declaration.name}' uses '{used.name}', which others may change"
            )
            raise Refusal("LW118", message, hint="use a parameter or a constant")
        if used in scope.assigned or used in scope.counters or used.name in scope.changing:
            raise Refusal(
                "LW118",
                f"an extent of '{declaration.name}' uses '{used.name}', which changes",
                hint=f"leave '{used.name}' as it is, and use another variable",
            )
    found = read(extent, f"an extent of '{declaration.name}'")
    match found:
        case Const(value=int() as value) if value <= 0:
            raise Refusal("LW118", f"an extent of '{declaration.name}' is {value}")
    if not isinstance(found, Const) and names(found):
        scope.always.append(found >= 0)
    return found


def _variables(expr: SyntaxExpr) -> list[Declaration]:
    """The variables in an extent."""
    match expr:
        case Name(meaning=Declaration() as declaration):
            return [declaration]
        case BinaryExpr(x=x, y=y):
            return [*_variables(x), *_variables(y)]
        case UnaryExpr(x=x) | CastExpr(x=x):
            return _variables(x)
        case TernaryExpr(cond=cond, x=x, y=y):
            return [*_variables(cond), *_variables(x), *_variables(y)]
        case _:
            return []
