"""C statements to nodes of a SourceTree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce

from loopwright.diagnostics import Span
from loopwright.frontends.affine_check import (
    not_affine,
    why_no_affine_condition,
    why_not_affine,
    why_not_piecewise,
)
from loopwright.frontends.affine_terms import as_terms, summed
from loopwright.frontends.c.arithmetic_types import CValue, index
from loopwright.frontends.c.c_assignments import CAssignmentReader
from loopwright.frontends.c.c_expressions import CExpressionReader, why_unusable
from loopwright.frontends.c.for_loops import (
    final_value,
    iterations,
    read_bound,
    read_header,
    step_amount,
    steps_before,
)
from loopwright.frontends.c.operators import select
from loopwright.frontends.c.source_map import SourceMap
from loopwright.frontends.c.syntax_tree import (
    UNSUPPORTED_STATEMENTS,
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
    NumberLiteral,
    ReturnStmt,
    StepExpr,
    SyntaxExpr,
    SyntaxStmt,
    UnsupportedStmt,
    changed_by,
    counter_of,
    declared_in,
)
from loopwright.frontends.constant_folding import negated
from loopwright.frontends.refusal import Refusal, Reported
from loopwright.frontends.source_tree import Assign, ForLoop, IfElse, Node
from loopwright.frontends.tree_rewrites import (
    assigned_elements,
    assignments,
    certain_loads,
    merge_branches,
    only_inside,
    predicate_assignments,
    set_before_read,
    unproven_bounds,
)
from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Select, Var
from loopwright.ir.program import Access

__all__ = ["CStatementReader"]

_MOST_STATEMENTS = 4000  # of one region; isl takes too long for more


class CStatementReader:
    """Reads the statements of one region."""

    def __init__(self, read: CExpressionReader, source_map: SourceMap) -> None:
        self._read = read
        self._source_map = source_map
        self._scope = read.scope
        self._assign = CAssignmentReader(read)
        self._count = 0

    def block(self, body: Iterable[SyntaxStmt]) -> tuple[Node, ...]:
        """The nodes of consecutive statements."""
        return tuple(node for statement in body for node in self._statement(statement))

    def _statement(self, node: SyntaxStmt) -> tuple[Node, ...]:
        self._read.pending.clear()  # left by a statement that was refused
        try:
            return tuple(self._accept(node))
        except Refusal as refusal:
            self._read.report(refusal, node.at)
        except Reported:
            pass
        return ()

    def _accept(self, node: SyntaxStmt) -> Iterable[Node]:
        match node:
            case ExprStmt(expr=expr):
                return () if expr is None else self._effect(expr, self._source_map.span(node.at))
            case DeclarationStmt(declarations=declarations):
                return self._declarations(declarations)
            case BlockStmt(body=body):
                return self.block(body)
            case ForStmt():
                return self._for(node)
            case IfStmt():
                return self._if(node)
            case UnsupportedStmt():
                return self._refuse(node)
            case ReturnStmt():
                return self._refuse(UnsupportedStmt("return", (), node.at))

    def _counted(self) -> None:
        self._count += 1
        if self._count == _MOST_STATEMENTS + 1:
            message = f"the region has more than {_MOST_STATEMENTS} statements"
            raise Refusal("LW130", message, hint="split it into several regions")
        if self._count > _MOST_STATEMENTS:
            raise Reported

    # -- plain statements -------------------------------------------------------------------

    def _effect(self, expr: SyntaxExpr, span: Span) -> Iterable[Node]:
        self._counted()
        match expr:
            case AssignExpr():
                return self._assign.assign(expr, span)
            case StepExpr():
                return self._assign.step(expr, span)
            case Comma(parts=parts):
                return [node for part in parts for node in self._effect(part, span)]
            case CallExpr():
                self._read.need(expr)
            case CastExpr(type=kind) if kind.text == "void" and not kind.derivations:
                self._read.need(expr.x)
                return ()
            case _:
                self._read.need(expr)
        raise Refusal("LW133", "this statement has no effect", hint="assign its value")

    def _declarations(self, declarations: Iterable[Declaration]) -> Iterator[Node]:
        for declaration in declarations:
            self._counted()
            try:
                yield from self._assign.declare(declaration, self._source_map.span(declaration.at))
            except Refusal as refusal:
                self._read.report(refusal, declaration.at)
            except Reported:
                continue

    def _refuse(self, node: UnsupportedStmt) -> Iterable[Node]:
        """Report an unsupported statement, and the faults inside it."""
        if node.word == "do" and self._runs_once(node):
            return self.block(node.body)
        word, hint = UNSUPPORTED_STATEMENTS[node.word]
        refusal = Refusal("LW133", f"{word} cannot be compiled", hint=hint)
        self._read.report(refusal, node.at)
        changed = changed_by(node.body)
        self._scope.forget(changed)
        with self._scope.branch():
            self.block(node.body)
        self._scope.forget(changed)
        return ()

    def _runs_once(self, node: UnsupportedStmt) -> bool:
        """Whether a do loop is `do ... while (0)`, the idiom of macros with several statements."""
        (cond,) = node.conditions
        return isinstance(cond, NumberLiteral) and cond.text == "0"

    # -- loops and branches -----------------------------------------------------------------

    def _for(self, node: ForStmt) -> Iterable[Node]:
        scope = self._scope
        body = node.body
        changed = changed_by([body])
        try:
            head = read_header(self._read, node, changed)
        except Reported:
            self._check_body(node, changed)
            return ()
        if head.counter in changed:
            self._refuse_change(node, head.counter)
            return ()
        name = head.counter.name
        unique = scope.names.fresh(name)
        stop: Expr | None = None
        stepped = self._stepped(body, changed)
        with scope.loop(head.counter, unique, changed):
            for declaration, (first, amount) in stepped.items():
                scope.known[declaration] = self._value_after(
                    first, amount, steps_before(head, unique)
                )
            try:
                stop = read_bound(self._read, node, head, unique)
                var = Var(unique)
                up = head.step > 0
                scope.facts += (
                    [var >= head.start, var < stop] if up else [var <= head.start, var > stop]
                )
            except Reported:
                pass
            nodes = self._statement(body)
        if stop is None:
            return ()
        if not head.is_own:
            scope.known[head.counter] = index(final_value(head, stop), head.ctype)
        for declaration, (first, amount) in stepped.items():
            scope.known[declaration] = self._value_after(first, amount, iterations(head, stop))
        span = self._source_map.span(node.head)
        return (ForLoop(unique, head.start, stop, head.step, nodes, span),)

    def _stepped(
        self, body: SyntaxStmt, changed: frozenset[Declaration]
    ) -> dict[Declaration, tuple[CValue, int]]:
        """Induction variables of a loop: their initial values and their steps per iteration."""
        children = list(_in_order(body))
        found: dict[Declaration, tuple[CValue, int]] = {}
        for declaration in changed & self._scope.known.keys():
            setting = [child for child in children if declaration in changed_by((child,))]
            with self._scope.unknown(changed):
                amounts = [self._step_of(child, declaration) for child in setting]
            whole = [amount for amount in amounts if amount is not None]
            if len(whole) == len(amounts):
                found[declaration] = (self._scope.known[declaration], sum(whole))
        return found

    def _step_of(self, node: SyntaxStmt, declaration: Declaration) -> int | None:
        if not isinstance(node, ExprStmt):
            return None
        with self._read.separate_faults():  # reported when the statement itself is read
            try:
                return step_amount(self._read, node.expr, declaration)
            except (Refusal, Reported):
                return None

    def _value_after(self, first: CValue, amount: int, count: Expr) -> CValue:
        """The value of an induction variable after `count` iterations."""
        return index(summed(as_terms(first.expr + count * amount)), first.ctype)

    def _check_body(self, node: ForStmt, changed: frozenset[Declaration]) -> None:
        """Report the faults in the body of a loop whose head was refused."""
        counter = counter_of(node)
        if counter is None or counter in self._scope.loops or counter.type.element is None:
            self._scope.forget(changed)
            with self._scope.branch():
                self._statement(node.body)
        else:
            unique = self._scope.names.fresh(counter.name)
            with self._scope.loop(counter, unique, changed):
                self._statement(node.body)

    def _refuse_change(self, node: ForStmt, counter: Declaration) -> None:
        message = f"the loop variable '{counter.name}' is changed inside its loop"
        hint = "loops change their variables themselves; use another variable"
        self._read.report(Refusal("LW106", message, hint=hint), node.head)

    def _if(self, node: IfStmt) -> Iterable[Node]:
        cond = self._condition(node.cond)
        others = () if node.orelse is None else (node.orelse,)
        if isinstance(cond, Const):  # a constant condition
            return self.block((node.body,) if cond.value else others)
        if cond is None:
            for side in ((node.body,), others):
                with self._scope.branch():
                    self.block(side)
            self._scope.forget(changed_by((node.body, *others)))
            return ()
        shared = self._assign.shared()
        return (*shared, *self._if_on(cond, node, others))

    def _if_on(self, cond: Expr, node: IfStmt, others: tuple[SyntaxStmt, ...]) -> Sequence[Node]:
        """An `if` as a branch on the affine parts of its condition, predicated on the rest."""
        match cond:
            case _ if why_no_affine_condition(cond) is None:
                return self._branch(
                    cond, node, lambda: self.block((node.body,)), lambda: self.block(others)
                )
            case (
                Select(cond=first, x=second, y=Const(value=False))
                | Binary(op="and", x=first, y=second)
            ) if why_no_affine_condition(first) is None:
                return self._branch(
                    first,
                    node,
                    lambda: self._if_on(second, node, others),
                    lambda: self.block(others),
                )
            case (
                Select(cond=first, x=Const(value=True), y=second)
                | Binary(op="or", x=first, y=second)
            ) if why_no_affine_condition(first) is None:
                return self._branch(
                    first,
                    node,
                    lambda: self.block((node.body,)),
                    lambda: self._if_on(second, node, others),
                )
        return self._predicated(cond, node, others)

    def _branch(
        self,
        cond: Expr,
        node: IfStmt,
        read_body: Callable[[], Sequence[Node]],
        read_other: Callable[[], Sequence[Node]],
    ) -> Sequence[Node]:
        """A branch on an affine condition; variables have piecewise affine values after it."""
        scope = self._scope
        with scope.branch(cond):
            body = tuple(read_body())
            first = dict(scope.known)
        with scope.branch(negated(cond)):
            orelse = tuple(read_other())
            second = dict(scope.known)
        changed = changed_by((node.body, *(() if node.orelse is None else (node.orelse,))))
        scope.forget(changed)
        for declaration in changed & first.keys() & second.keys():
            value = select(cond, first[declaration], second[declaration], scope.prove)
            is_place = value.is_index and why_not_piecewise(value.expr) is None
            if is_place and self._read.is_short(value):
                scope.known[declaration] = value
        if not (body or orelse):
            return ()
        return (IfElse(cond, body, orelse, self._source_map.span(node.cond.at)),)

    def _predicated(
        self, cond: Expr, node: IfStmt, others: tuple[SyntaxStmt, ...]
    ) -> Sequence[Node]:
        """An `if` on data, if-converted: both sides run and keep old values where not selected."""
        scope = self._scope
        with self._read.guarded(cond), scope.branch():
            body = self.block((node.body,))
        with self._read.guarded(cond), scope.branch():
            orelse = self.block(others)
        syntax = (node.body, *others)
        unset = {scope.variables[d].name for d in scope.unset if d in scope.variables}
        scope.forget(changed_by(syntax))
        body, orelse = self._with_targets(cond, node, (body, orelse))
        whole = merge_branches(cond, body, orelse)
        if whole is not None:
            has_old = orelse or whole.target.array not in unset
            return self._assign.split(whole) if has_old else body
        span = self._source_map.span(node.cond.at)
        mask = self._read.temporary("mask", BOOL, span)
        own = {scope.variables[d].name for d in declared_in(syntax) if d in scope.variables}
        own |= {local.name for local in scope.temporaries}
        given = {one.target.array for one in assignments(body)}
        return (
            *self._assign.split(Assign(Access(mask.array, (), BOOL), cond, span)),
            *predicate_assignments(body, mask, own | unset | set_before_read(orelse)),
            *predicate_assignments(orelse, negated(mask), own | (unset - given)),
        )

    def _with_targets(
        self, cond: Expr, node: IfStmt, sides: tuple[Sequence[Node], Sequence[Node]]
    ) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
        """Both sides of a predicated `if`, within the bounds of the elements that they assign.

        Where `cond` is false, an assignment that is predicated still touches its element. One that
        may lie outside its array is left out there, whatever `cond` says: a program that assigns
        it has no meaning.
        """
        scope = self._scope
        shapes = {v.name: v.shape for v in scope.variables.values()}
        # Of a flat array an element may exist where the end of its row does not.
        whole = {v.name: v.shape for v in scope.variables.values() if v.length is None}
        first, second = (assigned_elements(side) for side in sides)
        both = {target for target, _ in first} & {target for target, _ in second}
        # What the condition reads exists.
        read = [
            fact
            for load in certain_loads(cond)
            for entry, extent in zip(load.index, whole.get(load.array, ()), strict=False)
            for fact in (entry >= 0, entry < extent)
            if why_not_affine(entry) is None
        ]
        inside: dict[Access, Expr] = {}
        for target, facts in (*first, *second):
            if target in both or not target.index:
                continue
            with scope.branch(*facts, *read):
                bounds = unproven_bounds(target, shapes[target.array], cond, scope.prove)
            if not bounds:
                continue
            if any(why_no_affine_condition(bound) is not None for bound in bounds):
                hint = "where it depends on data, write A[i] = condition ? x : A[i];"
                condition = self._read.source_text(node.cond)
                refusal = not_affine("LW101", "the condition", condition, why_unusable(cond), hint)
                self._read.report(refusal, node.cond.at)
                raise Reported
            inside[target] = reduce(partial(Binary, "and"), bounds)
        first_side, second_side = (only_inside(side, inside) for side in sides)
        return first_side, second_side

    def _condition(self, node: SyntaxExpr) -> Expr | None:
        """A condition as a boolean expression; None when it was refused (and reported)."""
        try:
            return self._read.condition(node)
        except Refusal as refusal:
            self._read.report(refusal, node.at)
        except Reported:
            pass
        return None


def _in_order(body: SyntaxStmt) -> Iterator[SyntaxStmt]:
    """The statements of a body, nested blocks flattened."""
    if isinstance(body, BlockStmt):
        for child in body.body:
            yield from _in_order(child)
    else:
        yield body
