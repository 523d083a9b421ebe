"""Inline expansion: calls of functions that the file defines, replaced by their value.

A body is executed symbolically: its parameters and variables hold expressions, assignments replace
them, an `if` selects between the values of its two sides. Arguments are converted to the
types of the parameters, results to the type of the function, as C does. Both sides of an `if` on
data are evaluated, as those of `?:` are; conditions on loop variables guard what they guard in C.
A parameter that is a pointer stands for the array it is given, or for a row of it.

Side effects (assignments to other variables or to elements), loops of unknown length and recursion
are refused, with their location in the function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from loopwright.diagnostics import Collector
from loopwright.frontends.affine_check import why_no_affine_condition
from loopwright.frontends.affine_terms import as_terms
from loopwright.frontends.c.arithmetic_types import CType, CValue, constant, convert
from loopwright.frontends.c.file_outline import DefinedFunction, FunctionTable
from loopwright.frontends.c.lexer import Range, SyntaxFault
from loopwright.frontends.c.operators import binary, select
from loopwright.frontends.c.region_scope import Alias, RegionScope
from loopwright.frontends.c.syntax_tree import (
    UNSUPPORTED_STATEMENTS,
    ArrayDim,
    AssignExpr,
    BlockStmt,
    CallExpr,
    CastExpr,
    Comma,
    Declaration,
    DeclarationStmt,
    ExprStmt,
    ForStmt,
    IfStmt,
    InitList,
    Name,
    ReturnStmt,
    StepExpr,
    SyntaxExpr,
    SyntaxStmt,
    UnsupportedStmt,
    declarations_in,
    expressions_in,
    statements_in,
)
from loopwright.frontends.constant_folding import negated
from loopwright.frontends.refusal import Refusal, Reported
from loopwright.ir.expr import Const, Expr

__all__ = ["Inliner"]

_MOST_STEPS = 2000  # statements executed for one call, in unrolled loops and both sides of ifs
_MOST_OF_REGION = 8000  # the same for all calls of a region
_MOST_DEPTH = 24  # of nested calls


class ExpressionEvaluator(Protocol):
    """What inline expansion needs of `CExpressionReader`, which depends on it."""

    @property
    def scope(self) -> RegionScope: ...

    def need(self, *nodes: SyntaxExpr) -> list[CValue]: ...

    def condition(self, node: SyntaxExpr) -> Expr: ...

    def array_part(self, node: SyntaxExpr) -> Alias: ...

    def extent(self, node: SyntaxExpr, what: str) -> Expr: ...

    def report(self, refusal: Refusal, at: Range) -> None: ...

    def separate_faults(self) -> AbstractContextManager[Collector]: ...

    def computed_once(self, name: str, value: CValue, at: Range) -> CValue: ...

    def guarded(self, cond: Expr) -> AbstractContextManager[None]: ...


@dataclass(slots=True)
class _Call:
    """One call being executed."""

    result: CType
    own: set[Declaration]  # its parameters and variables
    uses: Counter[Declaration]  # number of occurrences of each variable
    steps: int = 0


@dataclass(slots=True)
class Inliner:
    """Evaluates calls of the file's functions while a region is read."""

    read: ExpressionEvaluator
    functions: FunctionTable
    active: list[str] = field(default_factory=list)  # functions being executed, outermost first
    steps: int = 0  # statements executed for all calls of the region
    sizes: dict[str, int] = field(default_factory=dict)  # statements of calls, see `_size`

    def value(self, node: CallExpr, name: str) -> CValue:
        """The value of a call of the function `name`, which the file defines."""
        function = self._find(name)
        if len(node.args) != len(function.head.parameters):
            count = len(function.head.parameters)
            message = f"'{name}' takes {count} argument{'s' if count != 1 else ''}"
            raise Refusal("LW137", message, found=f"{len(node.args)}")
        if not self.active:
            self._require_budget(name)
        pairs = list(zip(function.head.parameters, node.args, strict=True))
        scalars = [(p, arg) for p, arg in pairs if p.type.is_scalar]
        values = self.read.need(*(arg for _, arg in scalars))
        parts = [(p, self._part(name, p, arg)) for p, arg in pairs if not p.type.is_scalar]
        with self.read.separate_faults() as faults:
            found = self._run_apart(name, function, [p for p, _ in scalars], values, parts)
        if found is not None:
            return found
        first = faults.first()
        place = f"{first.span.file}:{first.span.line}"
        found_there = f" ({first.found})" if first.found else ""
        raise Refusal(
            "LW137",
            f"the function '{name}' cannot be inlined",
            found=f"at {place}: {first.message}{found_there}",
            hint=first.hint,
        )

    def _find(self, name: str) -> DefinedFunction:
        if name in self.active:
            message = f"the function '{name}' calls itself"
            raise Refusal("LW137", message, hint="recursion cannot be compiled; write a loop")
        if len(self.active) >= _MOST_DEPTH:
            raise Refusal("LW137", f"more than {_MOST_DEPTH} calls inside each other")
        function = self.functions.find(name)
        if isinstance(function, SyntaxFault):
            message = f"the text of the function '{name}' cannot be read"
            raise Refusal("LW137", message, found=function.message, hint=function.hint)
        kind = function.head.result
        if kind is None or kind.derivations or kind.element is None:
            what = "nothing" if kind is not None and kind.text == "void" else "no number"
            message = f"the function '{name}' returns {what}"
            hint = "a function that returns a number of its arguments"
            raise Refusal("LW137", message, hint=hint)
        return function

    def _require_budget(self, name: str) -> None:
        """Refuse a call whose text alone is more than the region's budget, before it is expanded.

        Functions that call another one twice double what is expanded with each of their lines.
        """
        size = self._size(name, 0)
        if self.steps + size > _MOST_OF_REGION:
            raise _over_budget(f"{size} for this call of '{name}'")

    def _size(self, name: str, depth: int) -> int:
        """The statements of a call and of the calls in it, both sides of ifs, loops once.

        Calls of functions that are being counted, or too deep, count as nothing: they are refused.
        """
        if name not in self.sizes:
            self.sizes[name] = 0
            function = self.functions.find(name)
            if depth > _MOST_DEPTH or isinstance(function, SyntaxFault):
                return 0
            body = (function.body,)
            called = Counter(
                expr.function.name
                for expr in expressions_in(body)
                if isinstance(expr, CallExpr) and isinstance(expr.function, Name)
            )
            self.sizes[name] = sum(1 for _ in statements_in(body)) + sum(
                count * self._size(inner, depth + 1)
                for inner, count in called.items()
                if self.functions.defines(inner)
            )
        return self.sizes[name]

    def _part(self, name: str, parameter: Declaration, arg: SyntaxExpr) -> Alias:
        """The array or row that is passed to a pointer or array parameter."""
        if parameter.type.element is None or "()" in parameter.type.derivations:
            message = f"'{parameter.name}' of '{name}' is neither a number nor an array of numbers"
            raise Refusal("LW137", message, hint="pass numbers and arrays")
        try:
            return self.read.array_part(arg)
        except Refusal as refusal:
            self.read.report(refusal, arg.at)
            raise Reported from None

    def _run_apart(
        self,
        name: str,
        function: DefinedFunction,
        scalars: Sequence[Declaration],
        values: Sequence[CValue],
        parts: Sequence[tuple[Declaration, Alias]],
    ) -> CValue | None:
        """The value of a call; None when something in the function was refused and reported."""
        head, scope = function.head, self.read.scope
        assert head.result is not None
        assert head.result.element is not None
        uses = Counter(declarations_in((function.body,)))
        call = _Call(head.result.element, set(head.parameters), uses)
        self.active.append(name)
        try:
            with scope.branch(), scope.aliased(dict(parts)):
                for parameter, value in zip(scalars, values, strict=True):
                    self._set(call, parameter, self._as_parameter(parameter, value))
                for parameter, part in parts:
                    self._check_extents(parameter, part)
                found = self._run(call, (function.body,))
                if found is None:
                    raise Refusal("LW137", f"'{name}' may end without a return")
                return found
        except Refusal as refusal:
            self.read.report(refusal, function.body.at)
        except Reported:
            pass
        finally:
            self.active.pop()
        return None

    def _as_parameter(self, parameter: Declaration, value: CValue) -> CValue:
        element = parameter.type.element
        if element is None:
            message = f"'{parameter.name}' has the type '{parameter.type.text}', not supported"
            raise Refusal("LW134", message)
        return convert(value, element, self.read.scope.prove)

    def _check_extents(self, parameter: Declaration, part: Alias) -> None:
        """Refuse an array whose extents differ from those that the parameter declares."""
        kind, variable = parameter.type, part.variable
        name = parameter.name
        if kind.element != variable.ctype:
            message = f"'{name}' is an array of '{kind.text}'"
            raise Refusal("LW137", message, found=f"an array of '{variable.ctype}'")
        rest = variable.extents[len(part.prefix) :]
        if len(rest) != len(kind.derivations):
            message = f"'{name}' has {len(kind.derivations)} dimensions"
            raise Refusal("LW137", message, found=f"an array of {len(rest)}")
        for dim, extent in zip(kind.derivations[1:], rest[1:], strict=True):
            is_open = not isinstance(dim, ArrayDim) or dim.extent is None
            if is_open or not self._is_equal(self._extent(name, dim), extent):
                message = f"the extents of '{name}' are not those of the array it is given"
                raise Refusal("LW137", message, hint="declare it as the array is declared")

    def _extent(self, name: str, dim: ArrayDim | str) -> Expr:
        assert isinstance(dim, ArrayDim)
        assert dim.extent is not None
        return self.read.extent(dim.extent, f"an extent of '{name}'")

    def _is_equal(self, x: Expr, y: Expr) -> bool:
        return as_terms(x) == as_terms(y) or (
            self.read.scope.prove(x >= y) and self.read.scope.prove(y >= x)
        )

    # -- statements -------------------------------------------------------------------------

    def _run(self, call: _Call, body: Sequence[SyntaxStmt]) -> CValue | None:
        """The value that consecutive statements return; None when they return nothing."""
        waiting = list(reversed(body))
        while waiting:
            node = waiting.pop()
            call.steps += 1
            self.steps += 1
            if self.steps > _MOST_OF_REGION:
                raise _over_budget()
            if call.steps > _MOST_STEPS:
                message = f"it runs more than {_MOST_STEPS} statements"
                raise Refusal("LW137", message, hint="write it shorter")
            with self._at(node.at):
                match node:
                    case ExprStmt(expr=expr):
                        if expr is not None:
                            self._effect(call, expr)
                    case DeclarationStmt(declarations=declarations):
                        for declaration in declarations:
                            self._declare(call, declaration)
                    case BlockStmt(body=inner):
                        waiting += reversed(inner)
                    case ReturnStmt(expr=expr):
                        return self._returned(call, expr)
                    case ForStmt():
                        waiting += self._iteration(call, node)
                    case IfStmt():
                        cond = self.read.condition(node.cond)
                        sides = ((node.body,), () if node.orelse is None else (node.orelse,))
                        if isinstance(cond, Const):
                            waiting += sides[0 if cond.value else 1]
                        elif any(_may_return(side) for side in sides):
                            return self._choose(call, cond, sides, waiting[::-1])
                        else:
                            self._merge(call, cond, sides)
                    case UnsupportedStmt(word=word):
                        text, hint = UNSUPPORTED_STATEMENTS[word]
                        raise Refusal("LW137", f"{text} cannot be inlined", hint=hint)
        return None

    @contextmanager
    def _at(self, at: Range) -> Iterator[None]:
        """Report a refusal inside a statement at its range."""
        try:
            yield
        except Refusal as refusal:
            self.read.report(refusal, at)
            raise Reported from None

    def _returned(self, call: _Call, expr: SyntaxExpr | None) -> CValue:
        if expr is None:
            raise Refusal("LW137", "the return has no value")
        (value,) = self.read.need(expr)
        return convert(value, call.result, self.read.scope.prove)

    def _choose(
        self,
        call: _Call,
        cond: Expr,
        sides: tuple[Sequence[SyntaxStmt], Sequence[SyntaxStmt]],
        rest: Sequence[SyntaxStmt],
    ) -> CValue | None:
        """The value that an `if` and the statements after it return."""
        found: list[CValue | None] = []
        for test, side in zip((cond, negated(cond)), sides, strict=True):
            with self._branch(test):
                found.append(self._run(call, (*side, *rest)))
        x, y = found
        if x is None or y is None:
            return None
        return select(cond, x, y, self.read.scope.prove)

    def _merge(
        self,
        call: _Call,
        cond: Expr,
        sides: tuple[Sequence[SyntaxStmt], Sequence[SyntaxStmt]],
    ) -> None:
        """Execute both sides of an `if`; variables hold selects afterwards."""
        scope = self.read.scope
        ends: list[dict[Declaration, CValue]] = []
        for test, side in zip((cond, negated(cond)), sides, strict=True):
            with self._branch(test):
                self._run(call, side)
                ends.append(dict(scope.known))
        x, y = ends
        for declaration in call.own:
            if declaration in x and declaration in y:
                if x[declaration] != y[declaration]:
                    chosen = select(cond, x[declaration], y[declaration], scope.prove)
                    scope.known[declaration] = chosen
                else:
                    scope.known[declaration] = x[declaration]
            else:  # one side leaves it without a value
                scope.known.pop(declaration, None)

    @contextmanager
    def _branch(self, cond: Expr) -> Iterator[None]:
        is_affine = why_no_affine_condition(cond) is None
        with self.read.guarded(cond), self.read.scope.branch(*((cond,) if is_affine else ())):
            yield

    def _iteration(self, call: _Call, node: ForStmt) -> list[SyntaxStmt]:
        """The next iteration of a loop of constant length and the rest of the loop, last first."""
        match node.init:
            case DeclarationStmt(declarations=declarations):
                for declaration in declarations:
                    self._declare(call, declaration)
            case None:
                pass
            case init:
                self._effect(call, init)
        cond = Const(True) if node.cond is None else self.read.condition(node.cond)
        if not isinstance(cond, Const) or node.cond is None:
            hint = "a loop of constant length, such as for (k = 0; k < 9; k++)"
            raise Refusal("LW137", "a loop of unknown length cannot be inlined", hint=hint)
        if not cond.value:
            return []
        again = ForStmt(None, node.cond, node.step, node.body, node.at, node.head)
        step = ExprStmt(node.step, node.head)
        return [again, step, node.body]

    # -- variables --------------------------------------------------------------------------

    def _declare(self, call: _Call, declaration: Declaration) -> None:
        kind, scope = declaration.type, self.read.scope
        is_const = "const" in kind.qualifiers
        if kind.qualifiers & {"static", "extern", "_Thread_local"} and not is_const:
            message = f"'{declaration.name}' keeps its value between calls"
            raise Refusal("LW137", message, hint="make it an argument")
        if kind.derivations or kind.element is None:
            what = f"{kind.text} {declaration.name}"
            raise Refusal("LW137", f"'{what}' is no number", hint="scalars in functions only")
        call.own.add(declaration)
        match declaration.init:
            case None:
                scope.known.pop(declaration, None)
            case InitList(is_zero=True):
                scope.known[declaration] = convert(constant(0), kind.element, scope.prove)
            case InitList():
                raise Refusal("LW137", "an initializer list cannot be inlined")
            case init:
                (value,) = self.read.need(init)
                self._set(call, declaration, convert(value, kind.element, scope.prove))

    def _set(self, call: _Call, declaration: Declaration, value: CValue) -> None:
        """Assign a variable; a value that is used several times is computed once."""
        if call.uses[declaration] > 1:
            value = self.read.computed_once(declaration.name, value, declaration.at)
        self.read.scope.known[declaration] = value

    def _effect(self, call: _Call, expr: SyntaxExpr) -> None:
        prove = self.read.scope.prove
        match expr:
            case AssignExpr(op=op, target=target, value=node):
                if isinstance(node, AssignExpr):  # a = b = 0
                    self._effect(call, node)
                    node = node.target
                (value,) = self.read.need(node)
                if op != "=":
                    (old,) = self.read.need(target)
                    value = binary(op[:-1], old, value, prove)
                self._give(call, target, value)
            case StepExpr(op=op, x=target):
                (old,) = self.read.need(target)
                self._give(call, target, binary(op[0], old, constant(1), prove))
            case Comma(parts=parts):
                for part in parts:
                    self._effect(call, part)
            case CastExpr(type=kind) if kind.text == "void" and not kind.derivations:
                return
            case CallExpr():
                raise Refusal("LW137", "a function is called for its effect")
            case _:
                return  # an unused value

    def _give(self, call: _Call, target: SyntaxExpr, value: CValue) -> None:
        match target:
            case Name(meaning=Declaration() as declaration) if declaration in call.own:
                element = declaration.type.element
                if "const" in declaration.type.qualifiers or element is None:
                    raise Refusal("LW106", f"'{declaration.name}' is const and cannot be assigned")
                self._set(call, declaration, convert(value, element, self.read.scope.prove))
            case Name(name=name):
                message = f"it changes '{name}', which others see"
                raise Refusal("LW137", message, hint="return the new value")
            case _:
                message = "it changes memory that others see"
                raise Refusal("LW137", message, hint="return the new value")


def _over_budget(found: str = "") -> Refusal:
    message = f"calls in the region run more than {_MOST_OF_REGION} statements"
    hint = "store the values of functions that are called again and again, or write them shorter"
    return Refusal("LW137", message, found=found, hint=hint)


def _may_return(body: Sequence[SyntaxStmt]) -> bool:
    return any(isinstance(s, ReturnStmt | UnsupportedStmt) for s in statements_in(body))
