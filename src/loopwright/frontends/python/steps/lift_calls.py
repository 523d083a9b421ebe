"""Calls that Python makes, taken out of expressions; everything is evaluated in Python's order."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

from loopwright.diagnostics import SourceError

__all__ = ["CallLifter", "holders", "is_cheap", "is_scalar_work"]

Node = TypeVar("Node", bound=ast.AST)
_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr)
_CHEAP_CALLS = frozenset({"abs", "bool", "float", "int", "len"})
_PARTS = (ast.Slice, ast.Starred, ast.Tuple, ast.List)  # which have no value of their own


def holders(root: ast.AST, marked: Collection[int]) -> set[int]:
    """The nodes that hold a marked one, or are marked, by id."""
    found: set[int] = set()

    def visit(node: ast.AST) -> bool:
        holds = [visit(child) for child in ast.iter_child_nodes(node)]
        if id(node) in marked or any(holds):
            found.add(id(node))
        return id(node) in found

    visit(root)
    return found


def is_cheap(node: ast.expr) -> bool:
    """Whether Python gets at a value without computing: names, parts of arrays, tuples."""
    match node:
        case ast.Name() | ast.Constant():
            return True
        case ast.Attribute(value=value) | ast.Starred(value=value):
            return is_cheap(value)
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            return all(map(is_cheap, elts))
        case ast.Subscript(value=value, slice=index):
            return is_cheap(value) and is_scalar_work(index)
        case ast.UnaryOp(operand=ast.Constant()):
            return True
        case ast.Slice():
            return is_scalar_work(node)
    return False


def is_scalar_work(node: ast.expr) -> bool:
    """Whether an expression computes a few numbers at most, if it is a condition or a bound."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            name = part.func.id if isinstance(part.func, ast.Name) else ""
            if name not in _CHEAP_CALLS or part.keywords:
                return False
        elif isinstance(part, (ast.MatMult, *_SCOPES)):
            return False
    return True


class CallLifter:
    """Takes marked expressions out of others, as assignments to temporary names."""

    def __init__(
        self,
        marked: Collection[int],
        holding: set[int],
        own: frozenset[str],
        fresh: Callable[[], str],
        put: Callable[[ast.stmt, bool], None],
        refused: Callable[[ast.expr, str, str], SourceError],
    ) -> None:
        """`put` takes each statement made, and whether Python runs it."""
        self._refused = refused
        self._marked, self._holding = marked, holding
        self._own, self._fresh, self._put = own, fresh, put
        self.temporaries: list[str] = []

    def lift(self, node: ast.expr) -> ast.expr:
        """The expression without marked ones; what is evaluated before it has been put."""
        if id(node) not in self._holding:
            return node
        if id(node) in self._marked and not isinstance(node, ast.IfExp):
            return self._keep(self.by_python(node), node, by_python=True)
        match node:
            case ast.BoolOp():
                return self._logical(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                name, test = self._temporary(), self.lift(test)
                sides = [self._inside(name, side) for side in (body, orelse)]
                self._put(_at(ast.If(test, *sides), node), True)
                return _name(name, node)
            case ast.Compare(comparators=[_, *rest]) if any(id(x) in self._holding for x in rest):
                text = "a chained comparison calls what Python runs"
                raise self._refused(node, text, "name the result of the call first")
        if isinstance(node, _SCOPES):
            text = "a comprehension or lambda calls what Python runs"
            raise self._refused(node, text, "a loop that calls it")
        children = list(_operands(node))
        last = max(k for k, child in enumerate(children) if id(child) in self._holding)
        found: dict[int, ast.expr] = {}
        for child in children[:last]:
            found[id(child)] = self._kept(self.lift(child))
        found[id(children[last])] = self.lift(children[last])
        return _rebuilt(node, found)

    def by_python(self, node: ast.expr) -> ast.expr:
        """A marked expression of operands that Python gets at without computing."""
        children = list(_operands(node))
        found: dict[int, ast.expr] = {}
        for place, child in enumerate(children):
            is_kept = any(id(x) in self._holding for x in children[place + 1 :])
            is_kept = is_kept and not all(map(self.is_of_python, children[place + 1 :]))
            is_method = isinstance(node, ast.Call) and not place
            if is_method and isinstance(child, ast.Attribute) and not is_cheap(child):
                found[id(child)] = _rebuilt(child, {id(child.value): self.cheap(child.value)})
            elif place and isinstance(node, ast.Subscript) and is_scalar_work(child):
                continue
            else:
                given = self.cheap(child)
                found[id(child)] = self._kept(given) if is_kept else given
        return _rebuilt(node, found)

    def is_of_python(self, node: ast.expr) -> bool:
        """Whether Python computes an expression by calls that it makes alone."""
        if id(node) not in self._marked:
            return is_cheap(node)
        parts = list(_operands(node))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            parts[0] = node.func.value
        if isinstance(node, ast.Subscript) and is_scalar_work(node.slice):
            parts.pop()
        return all(map(self.is_of_python, parts))

    def value(self, node: ast.expr) -> ast.expr:
        """An expression by a temporary name, as it is now."""
        return self._keep(self.lift(node), node, by_python=False)

    def target(self, node: ast.Subscript) -> ast.Subscript:
        """A target of which the array and the subscript are as they are now."""
        kept = {id(child): self._kept(self.lift(child)) for child in _operands(node)}
        return _rebuilt(node, kept)

    def cheap(self, node: ast.expr) -> ast.expr:
        """An expression that Python gets at without computing."""
        if self.is_of_python(node):
            return node
        node = self.lift(node)
        if is_cheap(node):
            return node
        if isinstance(node, _PARTS):
            return _rebuilt(node, {id(x): self.cheap(x) for x in _operands(node)})
        return self._keep(node, node, by_python=False)

    def _kept(self, node: ast.expr) -> ast.expr:
        """An operand that is evaluated before a call is made, as it is then."""
        if isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in self._own):
            return node
        if isinstance(node, ast.Name) and node.id in self.temporaries:
            return node
        if isinstance(node, _PARTS):
            return _rebuilt(node, {id(x): self._kept(x) for x in _operands(node)})
        if isinstance(node, ast.Attribute | ast.Name) and not loaded(node) & self._own:
            return node  # of a module
        return self._keep(node, node, by_python=False)

    def _logical(self, node: ast.BoolOp) -> ast.expr:
        first, *rest = node.values
        name = self._temporary()
        self._put(_assign(name, self.lift(first), node), False)
        test: ast.expr = _name(name, node)
        if isinstance(node.op, ast.Or):
            test = _at(ast.UnaryOp(ast.Not(), test), node)
        other = rest[0] if len(rest) == 1 else _at(ast.BoolOp(node.op, rest), node)
        if len(rest) > 1 and any(id(x) in self._holding for x in rest):
            self._holding.add(id(other))
        self._put(_at(ast.If(test, self._inside(name, other), []), node), True)
        return _name(name, node)

    def _inside(self, name: str, node: ast.expr) -> list[ast.stmt]:
        """A branch that gives a temporary name its value; its calls are taken out later."""
        return [_assign(name, node, node)]

    def _keep(self, node: ast.expr, place: ast.expr, *, by_python: bool) -> ast.expr:
        name = self._temporary()
        self._put(_assign(name, node, place), by_python)
        return _name(name, place)

    def _temporary(self) -> str:
        self.temporaries.append(self._fresh())
        return self.temporaries[-1]


def loaded(node: ast.AST) -> set[str]:
    """Names in a node."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _operands(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions that a node is made of, in the order of evaluation."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.keyword):
            yield child.value
        elif isinstance(child, ast.expr):
            yield child


def _rebuilt(node: Node, found: dict[int, ast.expr]) -> Node:
    """A copy of a node with other operands, by the ids of the old ones."""
    new = copy.copy(node)
    for field, value in ast.iter_fields(node):
        if isinstance(value, list):
            setattr(new, field, [_replaced(x, found) for x in value])
        elif isinstance(value, ast.AST):
            setattr(new, field, _replaced(value, found))
    return new


def _replaced(node: ast.AST, found: dict[int, ast.expr]) -> ast.AST:
    if isinstance(node, ast.keyword):
        return _rebuilt(node, found)
    return found.get(id(node), node)


def _name(name: str, place: ast.expr) -> ast.Name:
    return ast.copy_location(ast.Name(name, ast.Load()), place)


def _assign(name: str, value: ast.expr, place: ast.expr) -> ast.stmt:
    target = ast.copy_location(ast.Name(name, ast.Store()), place)
    return _at(ast.Assign([target], value), place)


def _at(node: Node, place: ast.expr) -> Node:
    return ast.copy_location(node, place)
