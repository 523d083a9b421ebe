"""C assignments (`x = y`, `x += 2`, `x++`) and declarations with initial values."""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.diagnostics import Span
from loopwright.frontends.affine_check import why_no_affine_condition, why_not_piecewise
from loopwright.frontends.c.arithmetic_types import INT, CValue, constant, convert, data
from loopwright.frontends.c.c_expressions import POINTERS, CExpressionReader, why_unusable
from loopwright.frontends.c.operators import binary
from loopwright.frontends.c.region_scope import element_of
from loopwright.frontends.c.syntax_tree import (
    AssignExpr,
    Declaration,
    IndexExpr,
    InitList,
    Name,
    StepExpr,
    SyntaxExpr,
    UnaryExpr,
    UnsupportedExpr,
)
from loopwright.frontends.constant_folding import zero
from loopwright.frontends.flat_rows import is_product
from loopwright.frontends.refusal import Refusal, Reported
from loopwright.frontends.source_tree import Assign, Local, Node
from loopwright.frontends.tree_rewrites import (
    assignments,
    fill_nest,
    forward_substitute,
    split_selects,
)
from loopwright.ir.expr import Expr, Select
from loopwright.ir.program import Access
from loopwright.ir.visit import loads, walk

__all__ = ["CAssignmentReader"]


class CAssignmentReader:
    """Reads the assignments of one region."""

    def __init__(self, read: CExpressionReader) -> None:
        self._read = read
        self._scope = read.scope

    def assign(self, node: AssignExpr, span: Span) -> Sequence[Node]:
        """`target op value`, where value may be an assignment itself: a = b = 0."""
        before: Sequence[Node] = ()
        try:
            value, before = self._assigned_value(node.value, span)
        except Reported:
            self._read_target(node.target)
            raise
        if node.op != "=":
            (old,) = self._read.need(node.target)
            value = binary(node.op[:-1], old, value, self._scope.prove)
        return [*before, *self._store_at(node.target, value, span)]

    def _assigned_value(self, node: SyntaxExpr, span: Span) -> tuple[CValue, Sequence[Node]]:
        if isinstance(node, AssignExpr):
            nodes = self.assign(node, span)
            return self._read.need(node.target)[0], nodes
        return self._read.need(node)[0], ()

    def _read_target(self, target: SyntaxExpr) -> None:
        """Report the faults of the target after those of the value."""
        if isinstance(target, IndexExpr):
            self._read.try_value(target)

    def step(self, node: StepExpr, span: Span) -> Sequence[Node]:
        """`x++` and `x--` as statements."""
        (old,) = self._read.need(node.x)
        value = binary(node.op[0], old, constant(1), self._scope.prove)
        return self._store_at(node.x, value, span)

    def _store_at(self, target: SyntaxExpr, value: CValue, span: Span) -> Sequence[Node]:
        try:
            return self._store(target, value, span)
        except Refusal as refusal:
            self._read.report(refusal, target.at)
            raise Reported from None

    def _store(self, target: SyntaxExpr, value: CValue, span: Span) -> Sequence[Node]:
        match target:
            case Name(meaning=Declaration() as declaration):
                return self._store_scalar(declaration, value, span)
            case IndexExpr():
                access, variable = self._read.access(target)
                _check_writable(variable.declaration)
                new = convert(value, variable.ctype, self._scope.prove)
                return self._nodes(access, data(new), span)
            case UnaryExpr(op="*"):
                raise Refusal("LW135", "a pointer is followed", hint=POINTERS)
            case Name() | UnsupportedExpr():
                self._read.need(target)
        hint = "assign to a variable or an array element"
        raise Refusal("LW106", "this cannot be assigned", hint=hint)

    def _store_scalar(self, declaration: Declaration, value: CValue, span: Span) -> Sequence[Node]:
        scope, name = self._scope, declaration.name
        if declaration in scope.loops:
            message = f"the loop variable '{name}' cannot be assigned"
            hint = "loops change their variables themselves; use another variable"
            raise Refusal("LW106", message, hint=hint)
        _check_writable(declaration)
        return self._give(declaration, value, span)

    def _give(self, declaration: Declaration, value: CValue, span: Span) -> Sequence[Node]:
        """Assign a scalar; an affine value is remembered for bounds and subscripts."""
        scope = self._scope
        element = element_of(declaration)
        if declaration.type.derivations:
            message = f"the array or pointer '{declaration.name}' is assigned as a whole"
            raise Refusal("LW135", message, hint="assign its elements in a loop")
        new = convert(value, element, scope.prove)
        scope.forget([declaration])
        is_place = why_not_piecewise(new.expr) is None
        if not is_place and scope.flat is not None:  # int k = i*m + j; a[k] = 0;
            is_place = value.ctype.dtype.bits <= element.dtype.bits and is_product(new.expr)
        is_known = new.is_index and element.rank >= INT.rank and is_place
        if is_known:
            scope.known[declaration] = new
        if declaration in scope.counters:
            if not is_known:
                message = f"the loop variable '{declaration.name}' is assigned data"
                raise Refusal(
                    "LW106", message, found=why_unusable(new.expr), hint="use another variable"
                )
            return []
        variable = self._read.variable(declaration)
        return self._nodes(Access(variable.name, (), element.dtype), data(new), span)

    def _nodes(self, target: Access, value: Expr, span: Span) -> Sequence[Node]:
        """An assignment, preceded by those of the temporaries that it reads."""
        shared = tuple(self._read.pending)
        self._read.pending.clear()
        chain = forward_substitute((*shared, Assign(target, value, span)))
        return [self._node(assign) for assign in chain]

    def shared(self) -> Sequence[Node]:
        """The assignments of the temporaries of the expression that was read last."""
        pending = tuple(self._read.pending)
        self._read.pending.clear()
        return [self._node(assign) for assign in pending]

    def split(self, assign: Assign) -> Sequence[Node]:
        """A merged assignment, with loads that affine conditions guard in branches."""
        return [self._node(assign)]

    def _node(self, assign: Assign) -> Node:
        given = [
            v.name
            for v in self._scope.variables.values()
            if not v.shape and v.declaration not in self._scope.assigned
        ]
        given += [local.name for local in self._scope.temporaries]
        node = split_selects(assign, given)
        if any(_is_guarded(x) for one in assignments((node,)) for x in walk(one.value)):
            message = "too many conditions on loop variables in one statement"
            raise Refusal("LW133", message, hint="use if statements")
        return node

    # -- declarations -----------------------------------------------------------------------

    def declare(self, declaration: Declaration, span: Span) -> Sequence[Node]:
        """A variable that the region declares, with its initial value if it has one."""
        storage = declaration.type.qualifiers & {"static", "extern", "_Thread_local"}
        if storage:
            word = sorted(storage)[0]
            message = f"a {word} variable cannot be declared inside a region"
            raise Refusal("LW133", message, hint="declare it before the region")
        self._scope.forget([declaration])
        element_of(declaration)
        match declaration.init:
            case None:
                if declaration.type.is_scalar:
                    self._scope.unset.add(declaration)
                return ()
            case InitList(is_zero=True):
                if declaration.type.is_scalar:
                    return self._give(declaration, constant(0), span)
                variable = self._read.variable(declaration)
                dtype = variable.ctype.dtype
                target = Local(variable.name, dtype, variable.shape, span)
                return [fill_nest(target, zero(dtype), self._scope.names)]
            case InitList(at=at):
                hint = "assign the elements, or write {0}"
                refusal = Refusal("LW133", "an initializer list cannot be compiled", hint=hint)
                self._read.report(refusal, at)
                raise Reported
            case init:
                (value,) = self._read.need(init)
                return self._give(declaration, value, span)


def _check_writable(declaration: Declaration) -> None:
    if "const" in declaration.type.qualifiers:
        message = f"'{declaration.name}' is const and cannot be assigned"
        raise Refusal("LW106", message, hint="assign another variable, or drop the const")


def _is_guarded(expr: Expr) -> bool:
    """Whether a select on an affine condition still guards loads of array elements."""
    if not isinstance(expr, Select) or why_no_affine_condition(expr.cond) is not None:
        return False
    return any(load.index for load in (*loads(expr.x), *loads(expr.y)))
