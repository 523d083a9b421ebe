"""Names of a Python function: loop variables, arguments, locals, and numbers from outside."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from loopwright.frontends.fresh_names import FreshNames
from loopwright.frontends.python.fingerprint import MISSING, ArgType, Captures
from loopwright.frontends.python.python_grammar import bound_by, nodes_of_scope
from loopwright.frontends.python.python_values import PyType, PyValue, constant
from loopwright.frontends.refusal import Refusal, Reported, did_you_mean
from loopwright.frontends.source_tree import ArrayParam, IntParam, Local, Param
from loopwright.ir.dtypes import BOOL, DTYPES, INT64
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Var
from loopwright.ir.visit import rewrite

__all__ = ["FunctionScope", "NameResolver", "assigned_names", "loop_names"]


@dataclass(slots=True)
class FunctionScope:
    """The names of one function while its body is read from top to bottom.

    Names are Python's; the values hold the unique names of the tree. A local that was last
    assigned an affine or constant expression is `known`: reading it gives that expression, so that
    bounds and subscripts may use `n` after `n = A.shape[0]`, or `j` after `j = n - 1 - i`.
    """

    names: FreshNames
    params: dict[str, tuple[Param, ArgType]]
    assigned: frozenset[str]  # every name the body assigns, but for loop variables
    counters: frozenset[str]  # every name that is a loop variable anywhere in the body
    types: dict[str, PyType]  # of scalar locals, as far as inferred
    scalars: dict[str, str] = field(default_factory=dict)  # scalar local -> its unique name
    loops: dict[str, str] = field(default_factory=dict)  # loop variable -> its unique name
    known: dict[str, PyValue] = field(default_factory=dict)
    arrays: dict[str, Local] = field(default_factory=dict)  # local arrays made so far
    depth: int = 0  # number of enclosing loops and branches
    flag: str | None = None  # the local that is set where Python may raise; None: nobody asks
    facts: list[Expr] = field(default_factory=list)  # affine conditions that hold here

    def prove(self, wanted: Expr) -> bool:
        """Whether an affine condition holds whenever the statement being read is executed."""
        # lazy: isl, which few functions need before extraction
        from loopwright.frontends.extract import implies

        arrays = (p for p, _ in self.params.values() if isinstance(p, ArrayParam))
        sizes = [extent >= 0 for array in arrays for extent in array.shape]
        return implies((*sizes, *self.facts), wanted)

    def scalar(self, name: str) -> str:
        """The unique name of a scalar local."""
        if name not in self.scalars:
            self.scalars[name] = self.names.fresh(name)
        return self.scalars[name]

    def forget(self, names: Iterable[str]) -> None:
        """Drop what is known of locals that may have changed."""
        for name in names:
            self.known.pop(name, None)

    @contextmanager
    def inside(
        self,
        body: Sequence[ast.stmt],
        loop: tuple[str, str] | None = None,
        facts: Sequence[Expr] = (),
    ) -> Iterator[None]:
        """Read `body`, the body of a loop or a branch: what it assigns is not known afterwards.

        Nor is it known at the start of a loop's body, which a previous iteration may have run.
        `facts` hold inside.
        """
        changed = assigned_names(body)
        before, loops = dict(self.known), dict(self.loops)
        if loop is not None:
            self.forget(changed)
            self.loops[loop[0]] = loop[1]
        self.depth += 1
        count = len(self.facts)
        self.facts += facts
        yield
        del self.facts[count:]
        self.depth -= 1
        self.loops = loops
        self.known = before
        self.forget(changed)


def assigned_names(body: Sequence[ast.stmt]) -> frozenset[str]:
    """Every name that `body` assigns, but for loop variables."""
    nodes = list(nodes_of_scope(body))
    loops = (node for node in nodes if isinstance(node, ast.For))
    counters = {id(t) for loop in loops for t in ast.walk(loop.target)}
    return frozenset(bound_by(x) for x in nodes if id(x) not in counters) - {""}


def loop_names(body: Sequence[ast.stmt]) -> frozenset[str]:
    """Every loop variable of `body`."""
    return frozenset(
        node.id
        for loop in _loops_in(body)
        for node in ast.walk(loop.target)
        if isinstance(node, ast.Name)
    )


def _loops_in(body: Sequence[ast.stmt]) -> Iterator[ast.For]:
    return (node for node in nodes_of_scope(body) if isinstance(node, ast.For))


class NameResolver:
    """Resolves names at the statement being read."""

    def __init__(self, scope: FunctionScope, captures: Captures) -> None:
        self._scope = scope
        self._captures = captures
        self.untyped: list[ast.Name] = []  # reads of locals that have no type yet

    def array(self, node: ast.expr) -> ArrayParam | Local:
        """The array that `node` names."""
        if isinstance(node, ast.Name) and node.id not in self._scope.loops:
            if node.id in self._scope.arrays:
                return self._scope.arrays[node.id]
            param = self._scope.params.get(node.id)
            if param is not None and isinstance(param[0], ArrayParam):
                return param[0]
            if not self._is_own(node.id) and self._captures.resolve(node.id) is MISSING:
                raise self._unknown(node.id)
        raise Refusal(
            "LW115",
            f"'{ast.unparse(node)}' is not an array",
            hint="only array arguments and local arrays have elements",
        )

    def resolve(self, node: ast.expr) -> tuple[str, object]:
        """The dotted name `node` and the outer object it stands for, or MISSING."""
        parts: list[str] = []
        base = node
        while isinstance(base, ast.Attribute):
            parts.insert(0, base.attr)
            base = base.value
        if not isinstance(base, ast.Name) or self._is_own(base.id):
            return ast.unparse(node), MISSING
        dotted = ".".join([base.id, *parts])
        return dotted, self._captures.resolve(dotted)

    def _is_own(self, name: str) -> bool:
        """Whether a name is local to the function."""
        scope = self._scope
        return name in scope.params or name in scope.assigned or name in scope.counters

    def value(self, node: ast.Name) -> PyValue:
        """The value of a bare name."""
        scope, name = self._scope, node.id
        if name in scope.loops:
            return PyValue(Var(scope.loops[name]), weak=True)
        if name in scope.known:
            return scope.known[name]
        if name in scope.arrays:
            return _rank_0_element(name, scope.arrays[name])
        if name in scope.params:
            return self._param(name)
        if name in scope.counters:
            raise Refusal(
                "LW107",
                f"the loop variable '{name}' is used outside its loop",
                hint="compute the value from the bounds of the loop",
            )
        if name not in scope.assigned:
            return self.captured(node, name)
        if name in scope.types:
            dtype, weak = scope.types[name]
            return PyValue(Load(scope.scalar(name), (), dtype), weak)
        self.untyped.append(node)
        raise Reported

    def _param(self, name: str) -> PyValue:
        param, given = self._scope.params[name]
        if isinstance(param, ArrayParam):
            return _rank_0_element(name, param)
        if isinstance(param, IntParam):
            found: Expr = Var(param.name)
            if given.element == BOOL:
                found = Binary("ne", found, Const(0))
            return PyValue(found, weak=given.kind == "python")
        return PyValue(Load(param.name, (), param.dtype), weak=given.kind == "python")

    def as_integer(self, expr: Expr) -> Expr:
        """An expression whose boolean arguments count as the integers 0 and 1, which they are."""
        flags = {
            param.name
            for param, given in self._scope.params.values()
            if isinstance(param, IntParam) and given.element == BOOL
        }

        def visit(part: Expr) -> Expr:
            match part:
                case Cast(x=Binary(op="ne", x=Var(name=name) as flag, y=Const(value=0))) if (
                    name in flags and part.dtype == INT64
                ):
                    return flag
            return part

        return rewrite(expr, visit) if flags else expr

    def captured(self, node: ast.expr, dotted: str) -> PyValue:
        """The outer number `dotted` as a constant."""
        value = self._captures.resolve(dotted)
        if isinstance(value, np.generic):
            is_number = value.dtype.name in DTYPES
        else:
            is_number = isinstance(value, bool | int | float | complex)
        if is_number:
            assert isinstance(value, bool | int | float | complex | np.generic)
            return constant(value)
        if value is MISSING:
            raise self._unknown(dotted)
        raise Refusal(
            "LW129",
            f"'{ast.unparse(node)}' is not a number",
            found=f"an object of type '{type(value).__qualname__}' from outside the function",
            hint="numbers are captured by value; pass arrays as arguments",
        )

    def _unknown(self, name: str) -> Refusal:
        scope = self._scope
        known = [*scope.params, *sorted(scope.assigned), *scope.loops]
        hint = did_you_mean(name, known, "pass it as an argument")
        return Refusal("LW102", f"the name '{name}' is not defined", hint=hint)


def _rank_0_element(name: str, array: ArrayParam | Local) -> PyValue:
    """The element of an array of rank 0 that is used by its bare name."""
    if array.shape:
        subscripts = ", ".join("ijkl"[: len(array.shape)]) if len(array.shape) < 5 else "i, ..."
        raise Refusal(
            "LW116",
            f"the array '{name}' is used as a number",
            hint=f"write the loop over its elements {name}[{subscripts}]",
        )
    return PyValue(Load(array.name, (), array.dtype))
