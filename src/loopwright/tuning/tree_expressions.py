"""The expressions of a loop tree's text, with the place of each part."""

from __future__ import annotations

import ast

from loopwright.diagnostics import column_of_byte
from loopwright.ir.dtypes import DTYPES, INT64, DType
from loopwright.ir.expr import (
    BINARY_OPS,
    FUNCTIONS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
)
from loopwright.lazy_dataclass import dataclass
from loopwright.python_text import parse_expression

__all__ = ["ExpressionReader", "NotUnderstood"]

_MOST_DEPTH = 60  # operators around each other
_PYTHON_OPS: dict[type, str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.RShift: "shr",
    ast.Pow: "pow",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.USub: "neg",
    ast.Invert: "not",
}


class NotUnderstood(Exception):  # noqa: N818, says what is the matter with a text
    """A part of an expression that has no meaning, from one column of its line to another."""

    def __init__(self, message: str, start: int, end: int, found: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end
        self.found = found
        self.hint = hint


@dataclass(frozen=True, slots=True)
class _Text:
    """An expression's text, and the column of its line that it begins in."""

    text: str
    column: int

    def place(self, node: ast.expr) -> tuple[int, int]:
        """The columns of a node in the line."""
        return self._at(node.col_offset), self._at(node.end_col_offset or 0)

    def _at(self, offset: int) -> int:
        before = column_of_byte(self.text, offset) - 1
        # An element of an array of rank 0 was spelled `s[]`.
        return self.column + before - 2 * self.text.count("[()]", 0, before)


class ExpressionReader:
    """Reads what `expr_text` writes; a number has the type of what it stands beside."""

    def __init__(self, dtypes: dict[str, DType]) -> None:
        self.dtypes = dtypes
        self.places: dict[Expr, tuple[int, int]] = {}  # columns of the first part that is the same
        self.text = _Text("", 0)

    def read(self, text: str, column: int, wanted: DType) -> Expr:
        """The expression of a text that begins in a column; numbers alone have the type `wanted`.

        Raises NotUnderstood.
        """
        bare = text.rstrip()
        self.text = _Text(
            bare.lstrip().replace("[]", "[()]"), column + len(bare) - len(text.strip())
        )
        try:
            node = parse_expression(self.text.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            at = self.text.column
            raise NotUnderstood(
                "this is no expression", at, column + len(bare), text.strip()
            ) from None
        return self._expr(node, wanted, 0)

    def _refuse(
        self, node: ast.expr, message: str, found: str = "", hint: str = ""
    ) -> NotUnderstood:
        return NotUnderstood(message, *self.text.place(node), found, hint)

    def _expr(self, node: ast.expr, wanted: DType, depth: int) -> Expr:
        if depth > _MOST_DEPTH:
            raise self._refuse(node, f"more than {_MOST_DEPTH} operators stand around each other")
        found = self._part(node, wanted, depth + 1)
        self.places.setdefault(found, self.text.place(node))
        return found

    def _part(self, node: ast.expr, wanted: DType, depth: int) -> Expr:
        match node:
            case ast.Constant(value=bool() | int() | float() | complex() as value):
                return Const(value, wanted)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return Const(-value, wanted)
            case ast.Name(id=name):
                return Var(name)
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                return self._element(node, name, index, depth)
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _PYTHON_OPS:
                x, y = self._pair(left, right, wanted, depth)
                return Binary(_PYTHON_OPS[type(op)], x, y)
            case ast.Compare(ops=[op], left=left, comparators=[right]) if type(op) in _PYTHON_OPS:
                x, y = self._pair(left, right, wanted, depth)
                return Binary(_PYTHON_OPS[type(op)], x, y)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _PYTHON_OPS:
                return Unary(_PYTHON_OPS[type(op)], self._expr(operand, wanted, depth))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                x, y = self._pair(body, orelse, wanted, depth)
                return Select(self._expr(test, wanted, depth), x, y)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self._call(node, name, args, wanted, depth)
        raise self._refuse(node, "this is not among the operators", ast.unparse(node))

    def _element(self, node: ast.expr, name: str, index: ast.expr, depth: int) -> Load:
        if name not in self.dtypes:
            known = ", ".join(self.dtypes) or "none"
            raise self._refuse(node, f"array '{name}' is not declared", f"arrays {known}")
        entries = index.elts if isinstance(index, ast.Tuple) else [index]
        subscripts = tuple(self._expr(entry, INT64, depth) for entry in entries)
        return Load(name, subscripts, self.dtypes[name])

    def _pair(
        self, left: ast.expr, right: ast.expr, wanted: DType, depth: int
    ) -> tuple[Expr, Expr]:
        """Two operands of one type: a number takes that of the other."""
        if _is_number(left):
            y = self._expr(right, wanted, depth)
            return self._expr(left, y.dtype, depth), y
        x = self._expr(left, wanted, depth)
        return x, self._expr(right, x.dtype, depth)

    def _call(
        self, node: ast.expr, name: str, args: list[ast.expr], wanted: DType, depth: int
    ) -> Expr:
        if name in DTYPES and len(args) == 1:
            return Cast(self._expr(args[0], wanted, depth), DTYPES[name])
        if name == "abs" and len(args) == 1:
            return Unary("abs", self._expr(args[0], wanted, depth))
        if name in BINARY_OPS and name not in FUNCTIONS and len(args) == 2:
            return Binary(name, *self._pair(args[0], args[1], wanted, depth))
        if name in FUNCTIONS and len(args) == FUNCTIONS[name]:
            return Call(name, tuple(self._expr(arg, wanted, depth) for arg in args))
        raise self._refuse(node, f"'{name}' is no function of {len(args)} arguments")


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
    )
