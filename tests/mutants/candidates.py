"""All small faults that a file can have: one operator, bound, condition, statement or constant."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from .mutant import Function, Mutant, functions

__all__ = ["KINDS", "candidates"]

KINDS = ("operator", "comparison", "bound", "condition", "statement", "constant")
_OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitOr: ("|", "&"),
    ast.BitAnd: ("&", "|"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
}
_COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_ORDERS = ast.Lt | ast.LtE | ast.Gt | ast.GtE
# Calls that only make text for people.
_TALK = re.compile(r"(Error|IllegalStep|Warning|Diagnostic|TypeVar|cast|warn|log|debug|info)$")
_TEXT = ast.Constant | ast.JoinedStr | ast.Tuple | ast.List


@dataclass(frozen=True)
class _Change:
    """A node of the text, and what stands there instead."""

    kind: str
    start: tuple[int, int]  # line, byte in it
    end: tuple[int, int]
    rewrite: Callable[[str], str]  # of the text between; unchanged: there is no such fault


def candidates(file: str, source: str) -> Iterator[Mutant]:
    """Yield the faults of a file in the order of its text, each at a place found by its text."""
    lines = source.split("\n")
    for function in functions(source):
        text = "\n" + source[function.start : function.end]
        for change in _changes(function):
            (first, at), (last, end) = change.start, change.end
            before = "\n".join(lines[first - 1 : last])
            if text.count(f"\n{before}\n") != 1:
                continue
            whole = before.encode()
            stop = len(whole) - len(lines[last - 1].encode()) + end
            old = whole[at:stop].decode()
            after = whole[:at].decode() + change.rewrite(old) + whole[stop:].decode()
            if after != before:
                yield Mutant(file, function.name, first, change.kind, before, after)


def _changes(function: Function) -> Iterator[_Change]:
    """Yield the changes of a function, without those of functions inside it."""
    for node in _own_nodes(function.node):
        yield from _changes_at(node)
    yield from _dropped(function)


def _own_nodes(root: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that decide what a function does: no texts, no types, no inner functions."""
    children: list[ast.AST]
    match root:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            children = [*root.body]
        case ast.ClassDef():
            children = [*root.body]
        case ast.AnnAssign():
            children = [root.value] if root.value is not None else []
        case _:
            children = list(ast.iter_child_nodes(root))
    for child in children:
        if _is_left_out(child):
            continue
        yield child
        yield from _own_nodes(child)


def _is_left_out(node: ast.AST) -> bool:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Raise() | ast.Assert():
            return True
        case ast.Import() | ast.ImportFrom() | ast.JoinedStr() | ast.pattern():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name.startswith("__") or (name[:1].isupper() and not name.isupper())
        case ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return _TALK.search(name) is not None
    return False


def _start(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def _changes_at(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            is_text = isinstance(left, _TEXT) or isinstance(right, ast.JoinedStr | ast.Tuple)
            is_type = isinstance(op, ast.BitOr) and (_is_type(left) or _is_type(right))
            if type(op) in _OPERATORS and not is_type and not (is_text and not _is_number(left)):
                yield from _between("operator", left, right, *_OPERATORS[type(op)])
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in _OPERATORS:
            old, new = _OPERATORS[type(op)]
            yield from _between("operator", target, value, f"{old}=", f"{new}=")
        case ast.BoolOp(op=op, values=[left, right]):
            yield from _between("operator", left, right, *_OPERATORS[type(op)])
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            yield from _between("comparison", left, right, *_COMPARISONS[type(op)])
            if isinstance(op, _ORDERS):
                yield from _shifted(right)
        case ast.Call(func=ast.Name(id="range"), args=args):
            for bound in args:
                yield from _shifted(bound)
        case ast.Slice(lower=lower, upper=upper):
            for bound in (lower, upper):
                if bound is not None:
                    yield from _shifted(bound)
        case ast.Constant(value=value):
            yield from _other_constant(node, value)
        case ast.Dict(values=[*values]):
            for left, right in pairwise(values):
                yield from _swapped(left, right)
        case ast.Tuple(elts=[*values], ctx=ast.Load()) | ast.Call(args=[*values]):
            for left, right in pairwise(values):
                yield from _swapped(left, right)
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield from _negated(node.test)
    elif isinstance(node, ast.comprehension):
        for test in node.ifs:
            yield from _negated(test)


def _is_type(node: ast.expr) -> bool:
    """Return whether an operand of `|` looks like a class."""
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name[:1].isupper() or isinstance(node, ast.Constant | ast.Subscript)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _between(kind: str, left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[_Change]:
    """Yield the change of an operator, where nothing but parentheses stands beside it."""

    def rewrite(text: str) -> str:
        return text.replace(old, new) if text.strip(" ()\n") == old else text

    yield _Change(kind, _end(left), _start(right), rewrite)


def _shifted(bound: ast.expr) -> Iterator[_Change]:
    if not isinstance(bound, ast.Constant):  # of which there is another kind
        for sign in "+-":
            rewrite = partial(_inside, end=f" {sign} 1")
            yield _Change("bound", _start(bound), _end(bound), rewrite)


def _negated(test: ast.expr) -> Iterator[_Change]:
    yield _Change("condition", _start(test), _end(test), lambda text: f"not ({text})")


def _inside(text: str, end: str) -> str:
    return text + end if re.fullmatch(r"[\w.]+", text) else f"({text}){end}"


def _put(text: str) -> Callable[[str], str]:
    return lambda _: text


def _other_constant(node: ast.Constant, value: object) -> Iterator[_Change]:
    others: tuple[object, ...] = ()
    if isinstance(value, bool):
        others = (not value,)
    elif isinstance(value, int):
        others = (value + 1, value - 1) if value else (1,)
    elif isinstance(value, float):
        others = (2 * value,)
    for other in others:
        yield _Change("constant", _start(node), _end(node), _put(repr(other)))


def _swapped(left: ast.expr, right: ast.expr) -> Iterator[_Change]:
    if not (isinstance(left, ast.Constant) and isinstance(right, ast.Constant)):
        return
    if left.value != right.value and isinstance(right.value, type(left.value)):
        yield _Change("constant", _start(left), _end(left), _put(repr(right.value)))


def _dropped(function: Function) -> Iterator[_Change]:
    """Yield the statements that can go: the file still means something without them."""
    stores = [
        node.id
        for node in ast.walk(function.node)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    if not function.name:
        return  # without it, the module has a name less
    for node in _own_nodes(function.node):
        match node:
            case ast.Expr(value=ast.Call() | ast.YieldFrom() | ast.Yield()) | ast.AugAssign():
                instead = "pass"
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                instead = "pass"
            case ast.Assign(targets=[ast.Name(id=name)]) if stores.count(name) > 1:
                instead = "pass"
            case ast.Return(value=value) if value is not None and not _is_none(value):
                instead = "return None"
            case _:
                continue
        assert isinstance(node, ast.stmt)
        yield _Change("statement", _start(node), _end(node), _put(instead))


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None
