"""What variables are declared with, as expressions of C: `double h = 1.0 / n, c = dt * h * h;`.

C text leaves declarations where they are. A call of the function from Python computes them, from
the expressions that are found here.
"""

from __future__ import annotations

from loopwright.diagnostics import Span
from loopwright.frontends.c.arithmetic_types import convert, data
from loopwright.frontends.c.c_expressions import CExpressionReader
from loopwright.frontends.c.file_outline import TranslationUnit
from loopwright.frontends.c.region_scope import RegionScope, element_of
from loopwright.frontends.c.syntax_tree import (
    Declaration,
    DeclarationStmt,
    InitList,
    Name,
    expressions_in,
)
from loopwright.frontends.fresh_names import FreshNames
from loopwright.frontends.refusal import Refusal, Reported
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Const, Expr
from loopwright.lazy_dataclass import dataclass

__all__ = ["DeclaredValue", "InitialValue", "initial_value_of"]

_MOST_STEPS = 100  # variables that one value is computed from, one from the other


@dataclass(frozen=True, slots=True)
class DeclaredValue:
    """The value of one variable."""

    name: str  # unique in its InitialValue
    expr: Expr  # in the type of the variable
    span: Span  # of the declaration


@dataclass(frozen=True, slots=True)
class InitialValue:
    """The value that a scalar is declared with, computed in steps.

    The expression of a step reads, as `Load(name, ())`, parameters of the function and the steps
    before it. The last step is the variable itself. A quotient of integers by zero has no value.
    """

    parameters: tuple[tuple[str, str, DType], ...]  # the name in the steps, in C, and the type
    steps: tuple[DeclaredValue, ...]


def initial_value_of(
    unit: TranslationUnit, declaration: Declaration, changing: frozenset[str], first: int
) -> InitialValue | None:
    """How the value of a scalar is computed; None where it is not by what a call knows.

    A call knows the parameters of the function, constants of the file and what is declared from
    these. `changing` are the names that some statement of the function changes and `first` is where
    its first region begins: a declaration behind it may not read them.
    """
    order = _in_order(declaration, changing, first)
    if order is None:
        return None
    # As if the region assigned them: each is read as data of its own type, not as an index.
    scope = RegionScope(FreshNames(), frozenset(order), frozenset(), frozenset(), set())
    read = CExpressionReader(unit, scope)
    parameters: list[tuple[str, str, DType]] = []
    steps: list[DeclaredValue] = []
    try:
        # Under a condition nothing is computed ahead of what guards it.
        with read.separate_faults(), read.guarded(Const(0) >= 0):
            for one in order:
                element, name = element_of(one), read.variable(one).name
                if one.where == "parameter":
                    parameters.append((name, one.name, element.dtype))
                    continue
                assert one.init is not None
                assert not isinstance(one.init, InitList)
                (value,) = read.need(one.init)
                expr = data(convert(value, element, scope.prove))
                steps.append(DeclaredValue(name, expr, unit.source_map.span(one.at)))
    except (Refusal, Reported):
        return None
    is_closed = len(scope.variables) == len(order) and not scope.temporaries
    return InitialValue(tuple(parameters), tuple(steps)) if is_closed else None


def _in_order(
    declaration: Declaration, changing: frozenset[str], first: int
) -> list[Declaration] | None:
    """The variables that a value is made of, each after those it reads; None: not all are known."""
    found: dict[Declaration, None] = {}
    waiting = [(declaration, False)]
    while waiting:
        one, is_read = waiting.pop()
        if one in found:
            continue
        if is_read or one.where == "parameter":
            found[one] = None
            continue
        reads = _read_by(one)
        if reads is None or len(waiting) > _MOST_STEPS:
            return None
        is_late = one.where != "global" and one.at[0] > first
        if any(not _is_known(d) or (is_late and d.name in changing) for d in reads):
            return None
        waiting.append((one, True))
        waiting += ((d, False) for d in reversed(reads))
    return list(found) if len(found) <= _MOST_STEPS else None


def _read_by(declaration: Declaration) -> list[Declaration] | None:
    """The variables in the value of a scalar; None where it has no such value.

    A declaration that mentions its own name reads itself in C, without a value.
    """
    init = declaration.init
    if init is None or isinstance(init, InitList) or not declaration.type.is_scalar:
        return None
    found: dict[Declaration, None] = {}
    for expr in expressions_in((DeclarationStmt((declaration,), declaration.at),)):
        match expr:
            case Name(name=name) if name == declaration.name:
                return None
            case Name(meaning=Declaration() as used) if "()" not in used.type.derivations:
                found[used] = None
    return list(found)


def _is_known(declaration: Declaration) -> bool:
    """Whether a call knows a scalar: no region declares it, and nothing else changes it."""
    qualifiers = declaration.type.qualifiers
    is_shared = declaration.where == "global" or bool(qualifiers & {"static", "_Thread_local"})
    is_outer = declaration.where in ("parameter", "local", "global")
    return is_outer and declaration.type.is_scalar and (not is_shared or "const" in qualifiers)
