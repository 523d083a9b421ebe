"""The text of a LoopTree, for people to read and write, and back.

    contraction, reassociation allowed
    in A: float32[64, 48]
    in B: float32[48, 70]
    out out: float32[64, 70]

      for m in 64
    >   for n in 4, tail 6 (by 16), pack b
          for k in 48
            for n in 16, vector
              out[m, n] add= A[m, k] * B[k, n]

The cursor is `>`. `(by 16)` says how many points an iteration covers and is left out where that is
1; it follows from the loops inside. Dimensions are listed in the order of the source, `dims`, where
that is not the order in which the loops name them first.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from loopwright.diagnostics import UsageError
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
from loopwright.ir.loops import Mark
from loopwright.ir.program import Access, Array, Role
from loopwright.ir.text import access_text, expr_text
from loopwright.tuning.loop_tree import LoopTree, TreeLoop, TreeNest, TreeStatement

__all__ = ["parse_tree", "tree_text"]

_REASSOC = ", reassociation allowed"
_ARRAY = re.compile(r"(in|out|inout|local) (\w+): (\w+)\[([\d, ]*)\]")
_LOOP = re.compile(r"for (\w+) in (\d+)(?:, tail (\d+))?(?: \(by \d+\))?((?:, [\w ]+)*)")
_STATEMENT = re.compile(r"(.+?) (\w*)= (.+)")
_DIMS = re.compile(r"dims (.*)")
_ACCUMULATORS = re.compile(r"accumulators (\d+)")


def tree_text(tree: LoopTree) -> str:
    """The text of a tree, with its cursor."""
    head = tree.name + (_REASSOC if tree.reassoc else "")
    lines = [head, *map(_array_text, tree.arrays), ""]
    number = 0
    for nest in tree.nests:
        for line in _nest_lines(nest):
            is_loop = line.lstrip().startswith("for ")
            here = is_loop and number == tree.cursor
            lines.append(f"{'>' if here else ' '} {line}")
            number += is_loop
    return "\n".join(lines) + "\n"


def _array_text(array: Array) -> str:
    shape = ", ".join(map(expr_text, array.shape))
    return f"{array.role.value} {array.name}: {array.dtype}[{shape}]"


def _nest_lines(nest: TreeNest) -> Iterator[str]:
    statement = nest.statement
    given = [f"{name} {extent}" for name, extent in statement.dims]
    if [name for name, _ in statement.dims] != list(dict.fromkeys(x.dim for x in nest.loops)):
        yield f"dims {', '.join(given)}"
    if nest.accumulators:
        yield f"accumulators {nest.accumulators}"
    margin = ""
    for loop, step in zip(nest.loops, nest.steps, strict=True):
        words = [f"for {loop.dim} in {loop.size}"]
        words += [f"tail {loop.tail}"] if loop.tail else []
        words[-1] += f" (by {step})" if step > 1 else ""
        words += [loop.mark.value] if loop.mark is not Mark.SERIAL else []
        words += [f"pack {'ab'[operand]}" for operand in loop.packs]
        yield margin + ", ".join(words)
        margin += "  "
    sign = f"{statement.plus or ''}="
    yield f"{margin}{access_text(statement.write)} {sign} {expr_text(statement.value)}"


def parse_tree(text: str) -> LoopTree:
    """The tree of a text; raises UsageError at a line that is not understood."""
    lines = text.split("\n")
    name, comma, _ = lines[0].partition(_REASSOC)
    arrays: list[Array] = []
    nests: list[TreeNest] = []
    loops: list[TreeLoop] = []
    dims: list[str] = []
    accumulators, cursor, count = 0, 0, 0
    for number, line in enumerate(lines[1:], 2):
        words = line.removeprefix(">").strip()
        if not words:
            continue
        if found := _ARRAY.fullmatch(words):
            arrays.append(_parsed_array(*found.groups()))
        elif found := _LOOP.fullmatch(words):
            cursor = count if line.startswith(">") else cursor
            count += 1
            loops.append(_parsed_loop(*found.groups()))
        elif found := _DIMS.fullmatch(words):
            dims = [entry.split()[0] for entry in found[1].split(",")]
        elif found := _ACCUMULATORS.fullmatch(words):
            accumulators = int(found[1])
        elif found := _STATEMENT.fullmatch(words):
            order = dims or list(dict.fromkeys(loop.dim for loop in loops))
            write, plus, value = found.groups()
            nests.append(
                _parsed_nest(arrays, order, loops, (write, plus, value), accumulators, number)
            )
            loops, dims, accumulators = [], [], 0
        else:
            raise UsageError(f"line {number} of a loop tree is not understood", words)
    if loops:
        raise UsageError("the last loops of a loop tree have no statement")
    return LoopTree(name, tuple(arrays), tuple(nests), bool(comma), cursor)


def _parsed_array(role: str, name: str, dtype: str, shape: str) -> Array:
    if dtype not in DTYPES:
        raise UsageError(f"array {name} has no dtype", dtype, ", ".join(DTYPES))
    extents = tuple(Const(int(x)) for x in shape.split(",") if x.strip())
    return Array(name, DTYPES[dtype], extents, Role(role))


def _parsed_loop(dim: str, size: str, tail: str | None, words: str) -> TreeLoop:
    loop = TreeLoop(dim, int(size), int(tail or 0))
    for word in words.split(", ")[1:]:
        if word.startswith("pack "):
            loop = replace(loop, packs=(*loop.packs, "ab".index(word[-1])))
        elif word in (Mark.VECTOR.value, Mark.UNROLL.value, Mark.PARALLEL.value):
            loop = replace(loop, mark=Mark(word))
        else:
            raise UsageError(f"loop of {dim}: not understood", word, "vector, unroll, parallel")
    return loop


def _parsed_nest(
    arrays: Sequence[Array],
    order: Sequence[str],
    loops: Sequence[TreeLoop],
    statement: tuple[str, str, str],
    accumulators: int,
    line: int,
) -> TreeNest:
    extents = dict.fromkeys(order, 1)
    for loop in reversed(loops):
        if loop.dim not in extents:
            raise UsageError(f"line {line}: dims do not name a loop", loop.dim)
        extents[loop.dim] = extents[loop.dim] * loop.size + loop.tail
    reader = _ExpressionReader({a.name: a.dtype for a in arrays}, line)
    target = reader.read(statement[0], INT64)
    if not isinstance(target, Load):
        raise UsageError(f"line {line}: no array element is written", statement[0])
    write = Access(target.array, target.index, target.dtype)
    value = reader.read(statement[2], target.dtype)
    made = TreeStatement(tuple(extents.items()), write, value, statement[1] or None)
    return TreeNest(made, tuple(loops), accumulators)


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


class _ExpressionReader:
    """Reads what `expr_text` writes; a number has the type of what it stands beside."""

    def __init__(self, dtypes: dict[str, DType], line: int) -> None:
        self.dtypes = dtypes
        self.line = line

    def read(self, text: str, wanted: DType) -> Expr:
        """The expression of a text; numbers alone have the type `wanted`."""
        try:
            node = ast.parse(text.strip(), mode="eval").body
        except SyntaxError:
            raise UsageError(f"line {self.line}: not an expression", text) from None
        return self._expr(node, wanted)

    def _expr(self, node: ast.expr, wanted: DType) -> Expr:
        match node:
            case ast.Constant(value=bool() | int() | float() | complex() as value):
                return Const(value, wanted)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return Const(-value, wanted)
            case ast.Name(id=name):
                return Var(name)
            case ast.Subscript(value=ast.Name(id=name), slice=index) if name in self.dtypes:
                entries = index.elts if isinstance(index, ast.Tuple) else [index]
                subscripts = tuple(self._expr(entry, INT64) for entry in entries)
                return Load(name, subscripts, self.dtypes[name])
            case ast.BinOp(op=op, left=left, right=right):
                x, y = self._pair(left, right, wanted)
                return Binary(_PYTHON_OPS[type(op)], x, y)
            case ast.Compare(ops=[op], left=left, comparators=[right]):
                x, y = self._pair(left, right, wanted)
                return Binary(_PYTHON_OPS[type(op)], x, y)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _PYTHON_OPS:
                return Unary(_PYTHON_OPS[type(op)], self._expr(operand, wanted))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                x, y = self._pair(body, orelse, wanted)
                return Select(self._expr(test, wanted), x, y)
            case ast.Call(func=ast.Name(id=name), args=args):
                return self._call(name, args, wanted)
        raise UsageError(f"line {self.line}: not understood", ast.unparse(node))

    def _pair(self, left: ast.expr, right: ast.expr, wanted: DType) -> tuple[Expr, Expr]:
        """Two operands of one type: a number takes that of the other."""
        if _is_number(left):
            y = self._expr(right, wanted)
            return self._expr(left, y.dtype), y
        x = self._expr(left, wanted)
        return x, self._expr(right, x.dtype)

    def _call(self, name: str, args: list[ast.expr], wanted: DType) -> Expr:
        if name in DTYPES and len(args) == 1:
            return Cast(self._expr(args[0], wanted), DTYPES[name])
        if name == "abs" and len(args) == 1:
            return Unary("abs", self._expr(args[0], wanted))
        if name in BINARY_OPS and name not in FUNCTIONS and len(args) == 2:
            return Binary(name, *self._pair(args[0], args[1], wanted))
        if name in FUNCTIONS and len(args) == FUNCTIONS[name]:
            return Call(name, tuple(self._expr(arg, wanted) for arg in args))
        raise UsageError(f"line {self.line}: unknown function", name)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
    )
