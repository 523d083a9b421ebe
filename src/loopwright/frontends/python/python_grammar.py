"""Python's grammar in tables: operators that are accepted, names of syntax that is refused."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

__all__ = [
    "ACCEPTED",
    "AFFINE",
    "BINARY",
    "COMPARE",
    "EXPRESSIONS",
    "STATEMENTS",
    "UNARY",
    "as_load",
    "bound_by",
    "nodes_of_scope",
]

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
}
UNARY: dict[type[ast.unaryop], str] = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}
COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}
EXPRESSIONS: dict[type[ast.AST], str] = {
    ast.Constant: "a value that is not a number",
    ast.JoinedStr: "a string",
    ast.Lambda: "a lambda",
    ast.ListComp: "a list comprehension",
    ast.SetComp: "a set comprehension",
    ast.DictComp: "a dictionary comprehension",
    ast.GeneratorExp: "a generator expression",
    ast.List: "a list",
    ast.Tuple: "a tuple",
    ast.Set: "a set",
    ast.Dict: "a dictionary",
    ast.Yield: "a yield",
    ast.YieldFrom: "a yield",
    ast.NamedExpr: "an assignment inside an expression",
    ast.Starred: "a starred expression",
    ast.Slice: "a slice",
    ast.LShift: "a shift",
    ast.RShift: "a shift",
    ast.MatMult: "a matrix product",
    ast.Is: "an 'is' test",
    ast.IsNot: "an 'is' test",
    ast.In: "an 'in' test",
    ast.NotIn: "an 'in' test",
}
# Statement -> (what it is, what to write instead).
STATEMENTS: dict[type[ast.stmt], tuple[str, str]] = {
    ast.While: ("a while loop", "a for loop over range(...) states how often it runs"),
    ast.Break: ("a break", "give the loop its exact bounds"),
    ast.Continue: ("a continue", "put the rest of the body under an if"),
    ast.Try: ("a try statement", "kernels raise no exceptions"),
    ast.TryStar: ("a try statement", "kernels raise no exceptions"),
    ast.With: ("a with statement", "move it outside the function"),
    ast.Assert: ("an assert", "check the arguments before the call"),
    ast.Raise: ("a raise", "check the arguments before the call"),
    ast.Delete: ("a del", "leave it out"),
    ast.Global: ("a global declaration", "pass the value as an argument and return the result"),
    ast.Nonlocal: ("a nonlocal declaration", "pass the value as an argument and return the result"),
    ast.Import: ("an import", "import outside the function"),
    ast.ImportFrom: ("an import", "import outside the function"),
    ast.FunctionDef: ("a nested function", "write its body where it is called"),
    ast.AsyncFunctionDef: ("a nested function", "write its body where it is called"),
    ast.ClassDef: ("a class", "move it outside the function"),
    ast.Match: ("a match statement", "an if on affine conditions"),
}
ACCEPTED = "numbers, array elements, + - * / // % ** & | ^ and calls of known functions"
AFFINE = (
    "sums of loop variables and sizes times integer constants,"
    " // and % by positive constants, min, max and abs"
)


def as_load(node: ast.expr) -> ast.expr:
    """An assignment's target as an expression."""
    match node:
        case ast.Name(id=name):
            return ast.Name(name, ast.Load())
        case ast.Subscript(value=value, slice=at):
            return ast.Subscript(value, at, ast.Load())
        case _:
            return node


_SCOPES = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp,
    ast.GeneratorExp,
)  # fmt: skip


def nodes_of_scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes in the scope of `nodes`: not what stands in functions defined there."""
    for node in nodes:
        yield node
        if not isinstance(node, _SCOPES):
            yield from nodes_of_scope(ast.iter_child_nodes(node))


def bound_by(node: ast.AST) -> str:
    """The name that a node binds by itself, "" for none."""
    if isinstance(node, ast.FunctionDef):
        return node.name
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        return node.id
    return ""
