"""C for loops: `for (i = start; i < stop; i += 2)` to a variable, its start, bound and step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import reduce

from loopwright.frontends.affine_terms import as_terms, solve
from loopwright.frontends.c.arithmetic_types import INT, CType, common_type
from loopwright.frontends.c.c_expressions import CExpressionReader
from loopwright.frontends.c.region_scope import element_of
from loopwright.frontends.c.syntax_tree import (
    AssignExpr,
    BinaryExpr,
    Declaration,
    DeclarationStmt,
    ForStmt,
    InitList,
    Name,
    StepExpr,
    SyntaxExpr,
    counter_of,
)
from loopwright.frontends.refusal import Refusal, Reported
from loopwright.ir.expr import Binary, Const, Expr, Var
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "LoopHeader",
    "final_value",
    "iterations",
    "read_bound",
    "read_header",
    "step_amount",
    "steps_before",
]

_FORM = "for (i = start; i < stop; i += step)"
_STEP = "a constant step: i++, i--, i += 2 or i = i - 2"
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!="}
_UNSIGNED = "count with int or long"


@dataclass(frozen=True, slots=True)
class LoopHeader:
    """The variable, start and step of a loop; its condition is read by `read_bound`."""

    counter: Declaration
    ctype: CType  # of the counter
    start: Expr
    step: int
    is_own: bool  # the variable is declared in the head


def read_header(
    read: CExpressionReader, loop: ForStmt, changed: frozenset[Declaration]
) -> LoopHeader:
    """Variable, start and step of a loop whose body changes these variables.

    Raises Reported after reading all of them.
    """
    counter = counter_of(loop)
    try:
        if counter is None:
            raise Refusal("LW138", "the start of the loop is not understood", hint=_FORM)
        ctype = _counter_type(read, counter)
    except Refusal as refusal:
        read.report(refusal, loop.head)
        raise Reported from None
    start = step = None
    with suppress(Reported):
        start = _start(read, loop, counter)
    try:
        with read.scope.unknown(changed):
            step = _step(read, loop, counter)
    except Refusal as refusal:
        read.report(refusal, loop.head if loop.step is None else loop.step.at)
    except Reported:
        pass
    if start is None or step is None:
        raise Reported
    return LoopHeader(counter, ctype, start, step, isinstance(loop.init, DeclarationStmt))


def _counter_type(read: CExpressionReader, counter: Declaration) -> CType:
    ctype = element_of(counter)
    if ctype.is_floating or ctype.rank < INT.rank or not counter.type.is_scalar:
        what = "an array" if counter.type.derivations else f"of type '{ctype}'"
        message = f"the loop variable '{counter.name}' is {what}"
        raise Refusal("LW138", message, hint="count with int or long")
    if counter in read.scope.loops:
        message = f"'{counter.name}' is the variable of an outer loop already"
        raise Refusal("LW106", message, hint="give the loop a variable of its own")
    return ctype


def _start(read: CExpressionReader, loop: ForStmt, counter: Declaration) -> Expr:
    match loop.init:
        case AssignExpr(value=value):
            return read.affine(value, "LW100", "the start of the loop")
        case None:
            return read.affine(Name(counter.name, counter, loop.head), "LW100", "the start")
    match counter.init:
        case None | InitList():
            read.report(Refusal("LW138", "the loop has no start", hint=_FORM), counter.at)
            raise Reported
        case value:
            return read.affine(value, "LW100", "the start of the loop")


def _step(read: CExpressionReader, loop: ForStmt, counter: Declaration) -> int:
    amount = step_amount(read, loop.step, counter)
    if amount is None:
        message = f"the loop does not step '{counter.name}' by a constant"
        raise Refusal("LW138", message, hint=_STEP)
    return amount


def step_amount(
    read: CExpressionReader, step: SyntaxExpr | None, counter: Declaration
) -> int | None:
    """The constant by which `i++`, `i += 2` or `i = i - 2` steps a variable; else None.

    Raises Refusal for a step that is not constant.
    """
    match step:
        case StepExpr(op=op, x=Name(meaning=name)) if name is counter:
            return 1 if op == "++" else -1
        case AssignExpr(op="+=" | "-=" as op, target=Name(meaning=name), value=value):
            if name is counter:
                return _amount(read, value, -1 if op == "-=" else 1)
        case AssignExpr(op="=", target=Name(meaning=name), value=BinaryExpr() as value):
            is_first = isinstance(value.x, Name) and value.x.meaning is counter
            is_second = isinstance(value.y, Name) and value.y.meaning is counter
            if name is counter and value.op in ("+", "-") and is_first:
                return _amount(read, value.y, -1 if value.op == "-" else 1)
            if name is counter and value.op == "+" and is_second:
                return _amount(read, value.x, 1)
    return None


def _amount(read: CExpressionReader, node: SyntaxExpr, sign: int) -> int:
    (value,) = read.need(node)
    match value.expr:
        case Const(value=int() as amount) if value.is_index:
            if amount == 0:
                raise Refusal("LW105", "the step of the loop is zero", hint=_STEP)
            return sign * amount
    found = read.source_text(node)
    raise Refusal("LW105", "the step of the loop is not a constant", found=found, hint=_STEP)


# -- the condition --------------------------------------------------------------------------


def read_bound(read: CExpressionReader, loop: ForStmt, head: LoopHeader, unique: str) -> Expr:
    """The exclusive upper (or lower) bound of a loop whose variable the scope already has.

    Raises Reported. Of conditions joined by && the tightest bound counts.
    """
    if loop.cond is None:
        refusal = Refusal("LW138", "the loop has no condition", hint=_FORM)
        read.report(refusal, loop.head)
        raise Reported
    stops: list[Expr] = []
    failed = False
    for part in _parts(loop.cond):
        try:
            stops.append(_stop(read, part, head, unique))
        except Refusal as refusal:
            read.report(refusal, part.at)
            failed = True
        except Reported:
            failed = True
    if failed:
        raise Reported
    return reduce(lambda x, y: x.min(y) if head.step > 0 else x.max(y), stops)


def _parts(cond: SyntaxExpr) -> Iterator[SyntaxExpr]:
    match cond:
        case BinaryExpr(op="&&", x=x, y=y):
            yield from _parts(x)
            yield from _parts(y)
        case _:
            yield cond


def _stop(read: CExpressionReader, part: SyntaxExpr, head: LoopHeader, unique: str) -> Expr:
    name = head.counter.name
    if not isinstance(part, BinaryExpr) or part.op not in _TURNED:
        message = f"the condition of the loop does not compare '{name}' with a bound"
        raise Refusal("LW138", message, found=read.source_text(part), hint=_FORM)
    left, right = read.need(part.x, part.y)
    relation, limit = part.op, None
    for value, node in ((left, part.x), (right, part.y)):
        read.as_affine(value, node, "LW100", "the bound of the loop")
    solved = solve(as_terms(left.expr - right.expr), unique)
    if solved is None:
        message = f"the condition of the loop does not bound '{name}'"
        raise Refusal("LW138", message, found=read.source_text(part), hint=_FORM)
    factor, rest = solved
    if factor < 0:
        relation = _TURNED[relation]
    if left.expr == Var(unique):
        limit = right.expr
    elif right.expr == Var(unique):
        limit = left.expr
    common = common_type(left.ctype, right.ctype)
    stop = _exclusive(relation, factor, rest, limit, head)
    _check_reached(read, relation, stop, head)
    if common.is_unsigned or head.ctype.is_unsigned:
        _check_unsigned(read, stop, head)
    return stop


def _exclusive(
    relation: str, factor: int, rest: Expr, limit: Expr | None, head: LoopHeader
) -> Expr:
    """The first i that fails `factor * i + rest <relation> 0`, in the direction of the step.

    For a negative factor the relation is turned round already.
    """
    if (head.step > 0) == (relation in (">", ">=")) and relation != "!=":
        word = "upwards" if head.step > 0 else "downwards"
        message = f"the loop runs {word} and its condition bounds it on the other side"
        raise Refusal(
            "LW138", message, hint="for (i = 0; i < n; i++), for (i = n - 1; i >= 0; i--)"
        )
    size = abs(factor)
    # Solved for i: |factor| * i <relation> bound.
    bound = limit if limit is not None else (Const(0) - rest if factor > 0 else rest)
    if size > 1 and relation == "!=":
        raise Refusal("LW138", "'!=' compares a multiple of the loop variable", hint="use '<'")
    match relation:
        case "<":
            return _rounded_up(bound, size)
        case "<=":
            return bound // size + 1
        case ">":
            return bound // size
        case ">=":
            return _rounded_up(bound, size) - 1
        case _:
            return bound


def _rounded_up(bound: Expr, size: int) -> Expr:
    return bound if size == 1 else (bound + (size - 1)) // size


def _check_reached(read: CExpressionReader, relation: str, stop: Expr, head: LoopHeader) -> None:
    """Refuse `!=` unless the loop provably meets its bound."""
    if relation != "!=":
        return
    if abs(head.step) != 1:
        message = "'!=' ends a loop of steps other than one only by chance"
        raise Refusal("LW138", message, hint="use '<' or '>'")
    reaches = Binary("ge" if head.step > 0 else "le", stop, head.start)
    if not read.scope.prove(reaches):
        message = "nothing says that the loop reaches its bound"
        raise Refusal("LW138", message, hint="use '<' or '>' instead of '!='")


def _check_unsigned(read: CExpressionReader, stop: Expr, head: LoopHeader) -> None:
    """Refuse an unsigned loop variable that may wrap around below zero."""
    name = head.counter.name
    if head.step > 0:
        if not read.scope.prove(head.start >= 0):
            message = f"the unsigned '{name}' may start below zero, where it wraps around"
            raise Refusal("LW138", message, hint=_UNSIGNED)
    elif not read.scope.prove(stop >= -head.step - 1):
        message = f"the unsigned '{name}' may step below zero, where it wraps around"
        raise Refusal("LW138", message, hint=_UNSIGNED)


def final_value(head: LoopHeader, stop: Expr) -> Expr:
    """The value of the loop variable after the loop."""
    if abs(head.step) == 1:
        return head.start.max(stop) if head.step > 0 else head.start.min(stop)
    return head.start + iterations(head, stop) * head.step


def iterations(head: LoopHeader, stop: Expr) -> Expr:
    """The trip count of the loop."""
    size = abs(head.step)
    distance = stop - head.start if head.step > 0 else head.start - stop
    return (distance.max(0) + (size - 1)) // size


def steps_before(head: LoopHeader, unique: str) -> Expr:
    """The number of iterations before the current one."""
    var = Var(unique)
    return (var - head.start if head.step > 0 else head.start - var) // abs(head.step)
