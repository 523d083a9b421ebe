"""A Python function to a SourceTree: its parameters, its statements, the ranges of its loops."""

from __future__ import annotations

import ast
import builtins
import itertools
from collections.abc import Callable, Sequence
from types import FunctionType

from loopwright.diagnostics import Collector, Diagnostic, UsageError
from loopwright.frontends.affine_check import why_no_affine_condition
from loopwright.frontends.constant_folding import negated
from loopwright.frontends.fresh_names import FreshNames
from loopwright.frontends.python.fingerprint import ArgType, Captures
from loopwright.frontends.python.function_source import FunctionSource, read_source
from loopwright.frontends.python.merged_types import join
from loopwright.frontends.python.name_resolution import FunctionScope, assigned_names, loop_names
from loopwright.frontends.python.py_assignments import PyAssignmentReader
from loopwright.frontends.python.py_expressions import PyExpressionReader
from loopwright.frontends.python.python_grammar import STATEMENTS
from loopwright.frontends.python.python_values import PyType, PyValue, leaves
from loopwright.frontends.python.raise_conditions import collecting
from loopwright.frontends.refusal import Refusal, Reported
from loopwright.frontends.source_tree import (
    ArrayParam,
    Assign,
    ForLoop,
    IfElse,
    IntParam,
    Local,
    Node,
    Param,
    ReturnValues,
    ScalarParam,
    SourceTree,
)
from loopwright.frontends.tree_rewrites import (
    assignments,
    divides_integers,
    eliminate_dead_locals,
    merge_branches,
    predicate_assignments,
)
from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.program import Access

__all__ = ["PyStatementReader", "parse_function", "read_range"]

_RANGE = "for i in range(start, stop, step)"
_STEP = "a constant such as 2 or -1"
_MOST_PASSES = 16


# -- the function ---------------------------------------------------------------------------


def parse_function(
    function: Callable[..., object], argument_types: Sequence[ArgType], *, raises: bool = False
) -> SourceTree:
    """The SourceTree of a function for argument types, one per parameter in order.

    With `raises` a flag is returned behind the result, which is set where Python may raise. Raises
    SourceError with every fault found. Types of locals are inferred by reading the body
    until a fixed point, which takes a few passes.
    """
    source = read_source(function)
    assert isinstance(function, FunctionType)
    arguments = _arguments(source, len(argument_types))
    captures = Captures(function)
    types: dict[str, PyType] = {}
    for count in itertools.count(1):
        names, faults = FreshNames(), Collector()
        params, sizes = _params(source, arguments, argument_types, names)
        scope = FunctionScope(
            names,
            _by_name(arguments, params, argument_types),
            assigned_names(source.definition.body),
            loop_names(source.definition.body),
            types,
        )
        scope.flag = names.fresh("raises") if raises else None
        reader = PyStatementReader(source, captures, scope, faults)
        body = reader.block(source.definition.body)
        found = reader.assignments.types
        if count > _MOST_PASSES:  # types that depend on each other in a circle are joined
            found |= {name: join([types.get(name, kind), kind]) for name, kind in found.items()}
        if found == types:
            break
        types = found
    if not len(faults):
        reader.report_untyped()
    faults.raise_if_any()
    span = source.span(source.definition)
    locals_, result = reader.assignments.locals(), reader.result
    if scope.flag is not None:
        flag = Local(scope.flag, BOOL, (), span)
        target = Access(scope.flag, (), BOOL)
        body = (Assign(target, Const(False, BOOL), span), *body)
        locals_, result = (*locals_, flag), _with_flag(result, scope.flag)
    return eliminate_dead_locals(
        SourceTree(
            FreshNames().fresh(source.definition.name),
            params,
            sizes,
            locals_,
            body,
            result,
            captures.items(),
            span,
        )
    )


def _with_flag(result: ReturnValues | None, flag: str) -> ReturnValues:
    """What a function returns, and the flag; how many values there are says what it returns.

    The flag alone: nothing. A value and the flag: that value. A flag on both ends: a tuple.
    """
    if result is None:
        return ReturnValues((flag,), is_tuple=True)
    names = (flag, *result.names, flag) if result.is_tuple else (*result.names, flag)
    return ReturnValues(names, is_tuple=True)


def _arguments(source: FunctionSource, given: int) -> list[ast.arg]:
    """The parameters of the definition, in call order."""
    signature = source.definition.args
    faults = Collector()
    for star in (signature.vararg, signature.kwarg):
        if star is not None:
            message, hint = "a starred parameter cannot be compiled", "name every parameter"
            faults.add(Diagnostic(source.span(star), message, "LW127", hint=hint))
    faults.raise_if_any()
    arguments = [*signature.posonlyargs, *signature.args, *signature.kwonlyargs]
    if len(arguments) != given:
        raise UsageError(
            f"'{source.definition.name}' takes {len(arguments)} arguments", found=f"{given}"
        )
    return arguments


def _params(
    source: FunctionSource,
    arguments: Sequence[ast.arg],
    types: Sequence[ArgType],
    names: FreshNames,
) -> tuple[tuple[Param, ...], tuple[str, ...]]:
    """The parameters under unique names, and the names of their extents."""
    # Arguments first, so that they keep the user's names.
    unique = [names.fresh(argument.arg) for argument in arguments]
    params: list[Param] = []
    sizes: list[str] = []
    for argument, name, given in zip(arguments, unique, types, strict=True):
        span = source.span(argument)
        if given.kind == "array":
            extents = [names.fresh(f"{name}_{k}") for k in range(given.rank)]
            params.append(ArrayParam(name, given.element, tuple(map(Var, extents)), span))
            sizes += extents
        elif given.element.kind in "biu":
            params.append(IntParam(name, span))
        else:
            params.append(ScalarParam(name, given.element, span))
    return tuple(params), tuple(sizes)


def _by_name(
    arguments: Sequence[ast.arg], params: Sequence[Param], types: Sequence[ArgType]
) -> dict[str, tuple[Param, ArgType]]:
    """The parameters and their types by Python name."""
    rows = zip(arguments, params, types, strict=True)
    return {argument.arg: (param, given) for argument, param, given in rows}


# -- its statements -------------------------------------------------------------------------


class PyStatementReader:
    """Reads the statements of one function in one pass.

    Afterwards `assignments.types` holds the types that the assignments give to scalar locals; the
    caller reads the body again with them until they no longer change.
    """

    def __init__(
        self, source: FunctionSource, captures: Captures, scope: FunctionScope, faults: Collector
    ) -> None:
        self._source = source
        self._scope = scope
        self._read = PyExpressionReader(source, captures, scope, faults)
        self._last = source.definition.body[-1]
        self.assignments = PyAssignmentReader(source, scope, self._read)
        self.result: ReturnValues | None = None
        self._assigned: set[str] = set()  # names that statements before assign

    def report_untyped(self) -> None:
        """Report locals that are read but never get a type from an assignment."""
        for node in self._read.names.untyped:
            message = f"'{node.id}' is used before it is assigned"
            self._read.report(Refusal("LW108", message, hint="assign it first"), node)

    def block(self, body: Sequence[ast.stmt]) -> tuple[Node, ...]:
        """The nodes of consecutive statements."""
        nodes: list[Node] = []
        for statement in body:
            nodes += self._statement(statement)
            self._assigned |= assigned_names([statement])
        return tuple(nodes)

    def _statement(self, node: ast.stmt) -> Sequence[Node]:
        try:
            with collecting(wanted=self._scope.flag is not None):
                nodes = self._accept(node)
                return [*self.assignments.noted(node), *nodes]
        except Refusal as refusal:
            self._read.report(refusal, node)
        except Reported:
            pass
        except RecursionError:
            hint = "split it into several statements"
            deep = Refusal("LW121", "this statement is nested too deeply", hint=hint)
            self._read.report(deep, node)
        return ()

    def _accept(self, node: ast.stmt) -> Sequence[Node]:
        match node:
            case ast.Pass() | ast.AnnAssign(value=None):
                return ()
            case ast.Expr(value=ast.Constant(value=str())):
                return ()  # a docstring
            case ast.For():
                return self._for(node)
            case ast.If():
                return self._if(node)
            case ast.Assign(targets=targets, value=value):
                return self.assignments.assign(targets, value, node)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                return self.assignments.assign([target], value, node)
            case ast.AugAssign():
                return self.assignments.update(node)
            case ast.Return():
                return self._return(node)
            case ast.Expr(value=value):
                self._read.need(value)
                raise Refusal("LW121", "this expression has no effect", hint="assign its value")
            case _:
                return self._refuse(node)

    def _refuse(self, node: ast.stmt) -> Sequence[Node]:
        """Report an unsupported statement, and the faults inside it."""
        word, hint = STATEMENTS.get(type(node), (type(node).__name__, ""))
        self._read.report(Refusal("LW121", f"{word} cannot be compiled", hint=hint), node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = _inner_statements(node)
            with self._scope.inside(inner):
                self.block(inner)
        return ()

    # -- loops and branches -----------------------------------------------------------------

    def _for(self, node: ast.For) -> Sequence[Node]:
        scope = self._scope
        bounds = read_range(self._read, node.iter)
        if node.orelse:
            hint = "write it after the loop"
            refusal = Refusal("LW121", "an else clause of a loop cannot be compiled", hint=hint)
            self._read.report(refusal, node.orelse[0])
        if not isinstance(node.target, ast.Name):
            self._read.report(Refusal("LW106", "a loop variable is one name"), node.target)
            with scope.inside(node.body):
                self.block(node.body)
            return ()
        name = node.target.id
        self._check_counter(name, node.target)
        unique = scope.names.fresh(name)
        facts = () if bounds is None else _within(unique, *bounds)
        with scope.inside(node.body, loop=(name, unique), facts=facts):
            body = self.block(node.body)
        if bounds is None:
            return ()
        return (ForLoop(unique, *bounds, body, self._source.span(node)),)

    def _check_counter(self, name: str, node: ast.Name) -> None:
        scope = self._scope
        if name in scope.params:
            refusal = Refusal("LW106", f"the argument '{name}' is used as a loop variable")
        elif name in scope.loops:
            refusal = Refusal("LW106", f"'{name}' is the variable of an outer loop already")
        else:
            return
        refusal.hint = "give the loop a variable of its own"
        self._read.report(refusal, node)

    def _if(self, node: ast.If) -> Sequence[Node]:
        scope = self._scope
        cond = self._try_condition(node.test)
        if isinstance(cond, Const):  # constant: literals or captured numbers
            return self.block(node.body if cond.value else node.orelse)
        if cond is not None and why_no_affine_condition(cond) is not None:
            return self._on_data(cond, node)
        body, orelse = self._branches(node, cond)
        scope.forget(assigned_names(node.body))
        return () if cond is None else (IfElse(cond, body, orelse, self._source.span(node)),)

    def _branches(
        self, node: ast.If, cond: Expr | None = None
    ) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
        """Both branches; an affine condition holds in the first, and not in the second."""
        scope = self._scope
        known = dict(scope.known)
        with scope.inside(node.body, facts=() if cond is None else (cond,)):
            body = self.block(node.body)
        scope.known = known
        with scope.inside(node.orelse, facts=() if cond is None else (negated(cond),)):
            orelse = self.block(node.orelse)
        return body, orelse

    def _try_condition(self, node: ast.expr) -> Expr | None:
        try:
            return self._read.condition(node)
        except Refusal as refusal:
            self._read.report(refusal, node)
        except Reported:
            pass
        return None

    def _on_data(self, cond: Expr, node: ast.If) -> Sequence[Node]:
        """An `if` on data, if-converted: both sides run and keep old values where not selected.

        Of `i > 0 and a[i - 1] == x` the first part stays a condition on iterations.
        """
        outer, inner = self._split(node)
        if outer and inner and not node.orelse:
            within = ast.If(_conjunction(inner), node.body, [])
            around = ast.If(_conjunction(outer), [ast.copy_location(within, node)], [])
            return self._if(ast.copy_location(around, node))
        before = frozenset(self._assigned)
        body, orelse = self._branches(node)
        changed = assigned_names(node.body) | assigned_names(node.orelse)
        self._scope.forget(changed)
        if any(divides_integers(one.value) for one in assignments((*body, *orelse))):
            hint = "both sides are computed: divide by what is never 0, n // (x if x != 0 else 1)"
            message = "integers are divided under a condition on data"
            self._read.report(Refusal("LW101", message, hint=hint), node.test)
            raise Reported
        whole = merge_branches(cond, body, orelse)
        if whole is not None and changed <= before:
            return (whole,)
        mask, kept = self.assignments.keep(PyValue(cond), "mask", node)
        holds = Access(mask.name, (), mask.dtype).load()
        # What a branch assigns first has no old value to keep.
        first = {self._scope.scalar(name) for name in assigned_names(node.body) - before}
        second = {self._scope.scalar(name) for name in assigned_names(node.orelse) - before} - first
        return (
            kept,
            *predicate_assignments(body, holds, first),
            *predicate_assignments(orelse, negated(holds), second),
        )

    def _split(self, node: ast.If) -> tuple[list[ast.expr], list[ast.expr]]:
        """The parts of a conjunction that are affine, and those that are not."""
        match node.test:
            case ast.BoolOp(op=ast.And(), values=values):
                parts = [(value, self._try_condition(value)) for value in values]
            case test:
                parts = [(test, self._try_condition(test))]
        affine = [v for v, c in parts if c is not None and why_no_affine_condition(c) is None]
        return affine, [value for value, _ in parts if value not in affine]

    # -- the end ----------------------------------------------------------------------------

    def _return(self, node: ast.Return) -> Sequence[Node]:
        if node is not self._last:
            hint = "end the function with its only return"
            raise Refusal("LW128", "a return before the end of the function", hint=hint)
        value = node.value
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            return ()
        nodes: list[Node] = []
        items = value.elts if isinstance(value, ast.Tuple) else [value]
        names = [self._returned(item, nodes, node) for item in items]
        self.result = ReturnValues(tuple(names), isinstance(value, ast.Tuple))
        return nodes

    def _returned(self, item: ast.expr, nodes: list[Node], node: ast.stmt) -> str:
        """The unique name of a returned array or scalar; other values get a scalar of their own."""
        scope = self._scope
        if isinstance(item, ast.Name):
            param = scope.params.get(item.id)
            if item.id in scope.arrays or (param and isinstance(param[0], ArrayParam)):
                return self._read.names.array(item).name
            if self.assignments.is_scalar(item.id):
                return scope.scalar(item.id)
        value = self._read.single(item)
        local, assign = self.assignments.keep(value, "result", node)
        nodes.append(assign)
        return local.name


def _inner_statements(node: ast.AST) -> list[ast.stmt]:
    """The statements directly inside a compound statement."""
    found: list[ast.stmt] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            found.append(child)
        elif not isinstance(child, ast.expr):
            found += _inner_statements(child)  # an except clause, a case of a match
    return found


# -- the `range(...)` of a for loop ---------------------------------------------------------


def read_range(read: PyExpressionReader, node: ast.expr) -> tuple[Expr, Expr, int] | None:
    """Start, stop and step of a call of range; None when it was refused (and reported)."""
    try:
        return _range(read, node)
    except Refusal as refusal:
        read.report(refusal, node)
    except Reported:
        pass
    return None


def _within(var: str, start: Expr, stop: Expr, step: int) -> tuple[Expr, Expr]:
    """What holds of a loop variable inside of its loop."""
    at = Var(var)
    return (at >= start, at < stop) if step > 0 else (at <= start, at > stop)


def _range(read: PyExpressionReader, node: ast.expr) -> tuple[Expr, Expr, int]:
    if not isinstance(node, ast.Call) or read.names.resolve(node.func)[1] is not builtins.range:
        found = ast.unparse(node)
        raise Refusal("LW126", "the loop does not run over a range", found=found, hint=_RANGE)
    args = node.args
    if node.keywords or not 1 <= len(args) <= 3 or any(isinstance(a, ast.Starred) for a in args):
        raise Refusal("LW124", "range takes one to three plain arguments", hint=_RANGE)
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


def _step(read: PyExpressionReader, node: ast.expr) -> int | None:
    value = read.try_value(node)
    if value is None:
        return None
    match next(leaves(value)).expr:
        case Const(value=int() as step) if step and not isinstance(step, bool):
            return step
        case Const(value=int()):
            refusal = Refusal("LW105", "the step of the loop is zero", hint=_STEP)
        case _:
            message = "the step of the loop is not an integer constant"
            refusal = Refusal("LW105", message, found=ast.unparse(node), hint=_STEP)
    read.report(refusal, node)
    return None


def _conjunction(parts: list[ast.expr]) -> ast.expr:
    if len(parts) == 1:
        return parts[0]
    return ast.copy_location(ast.BoolOp(ast.And(), parts), parts[0])
