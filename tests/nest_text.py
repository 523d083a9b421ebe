"""Read the text of a loop nest back: `read_nest(nest_text(nest)) == nest`, for tables of nests.

Literals take the type of what they meet: the other operand, the element that is assigned, the
variable that is bound; int64 in bounds and subscripts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loopwright.ir.dtypes import BOOL, DTYPES, FLOAT64, INT64, DType
from loopwright.ir.expr import (
    BINARY_OPS,
    COMPARISONS,
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
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Barrier,
    BarrierScope,
    Block,
    Buffer,
    Commit,
    Copy,
    For,
    If,
    LabelledBlock,
    Leave,
    Let,
    LoopNest,
    Mark,
    Prefetch,
    Space,
    Stmt,
    Store,
    Wait,
)

_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.Pow: "pow",
    ast.LShift: "shl", ast.RShift: "shr", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt",
    ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip
_NAMED = {name for name in BINARY_OPS if name.isidentifier() and name not in COMPARISONS}
_KINDS = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


@dataclass(frozen=True)
class Names:
    """The types of buffers and of bound variables; other variables are int64."""

    buffers: Mapping[str, DType]
    bound: Mapping[str, DType] = field(default_factory=dict)

    def binding(self, name: str, dtype: DType) -> Names:
        return Names(self.buffers, {**self.bound, name: dtype})

    def holding(self, buffer: Buffer) -> Names:
        return Names({**self.buffers, buffer.name: buffer.dtype}, self.bound)


def read_nest(text: str) -> LoopNest:
    """The nest of a text, of which the first line may be left out but for its arguments."""
    head, *lines = text.rstrip().splitlines()
    name, scalars = re.fullmatch(r"nest (\w+)\((.*)\):", head.strip()).groups()  # type: ignore[union-attr]
    buffers: list[Buffer] = []
    while lines and (found := re.fullmatch(r" +(in|inout) (.*): (\w+) strides \[(.*)\]", lines[0])):
        role, names, dtype, strides = found.groups()
        steps = tuple(read_expr(x) for x in _entries(strides))
        kind, is_written = DTYPES[dtype], role == "inout"
        buffers += [Buffer(x, kind, steps, writable=is_written) for x in names.split(", ")]
        del lines[0]
    body = read_stmt("\n".join(lines), {b.name: b.dtype for b in buffers})
    return LoopNest(name, tuple(buffers), tuple(x for x in scalars.split(", ") if x), body)


def read_stmt(text: str, buffers: Mapping[str, DType]) -> Stmt:
    """The statements of a text, over buffers of these types."""
    lines = [line for line in text.splitlines() if line.strip()]
    depth = len(lines[0]) - len(lines[0].lstrip())
    return _block([line[depth:] for line in lines], Names(dict(buffers)))


def read_expr(text: str, names: Names | None = None, wanted: DType = INT64) -> Expr:
    """The expression of a text; a literal alone has the type that is wanted."""
    names = names or Names({})
    return _expr(ast.parse(text.strip(), mode="eval").body, names, wanted)


def _entries(text: str) -> list[str]:
    if not text.strip():
        return []
    parsed = ast.parse(f"[{text}]", mode="eval").body
    assert isinstance(parsed, ast.List)
    return [ast.unparse(entry) for entry in parsed.elts]


def _dotted(node: ast.Attribute) -> str:
    """`block.x` is the name of a variable."""
    return ast.unparse(node)


def _type_of(node: ast.expr, names: Names) -> DType | None:
    """The type of an expression, where it has one by itself: literals have none."""
    match node:
        case ast.Constant(value=bool()):
            return BOOL
        case ast.Constant():
            return None
        case ast.Name(id=name):
            return names.bound.get(name, INT64)
        case ast.Attribute():
            return names.bound.get(_dotted(node), INT64)
        case ast.Subscript(value=value):
            return names.buffers[ast.unparse(value)]
        case ast.Compare():
            return BOOL
        case ast.BinOp(left=x, right=y):
            return _type_of(x, names) or _type_of(y, names)
        case ast.IfExp(body=x, orelse=y):
            return _type_of(x, names) or _type_of(y, names)
        case ast.UnaryOp(operand=x):
            return _type_of(x, names)
        case ast.Call(func=ast.Name(id=name)) if name in DTYPES:
            return DTYPES[name]
        case ast.Call(func=ast.Name(id="abs" | "real" | "imag"), args=[x]):
            found = _type_of(x, names)
            return found and found.real
        case ast.Call(args=args):
            return next((t for x in reversed(args) if (t := _type_of(x, names))), None)
    raise AssertionError(f"no expression of a nest: {ast.unparse(node)}")


def _expr(node: ast.expr, names: Names, wanted: DType) -> Expr:
    own = _type_of(node, names) or wanted

    def down(child: ast.expr, dtype: DType = own) -> Expr:
        return _expr(child, names, dtype)

    match node:
        case ast.Constant(value=value):
            return Const(_KINDS[own.kind](value), own)
        case ast.Name(id=name):
            return Var(name, own)
        case ast.Attribute():
            return Var(_dotted(node), own)
        case ast.Subscript(value=value, slice=index):
            entries = index.elts if isinstance(index, ast.Tuple) else [index]
            return Load(ast.unparse(value), tuple(down(x, INT64) for x in entries), own)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)):
            return Const(_KINDS[own.kind](-value), own)
        case ast.UnaryOp(op=op, operand=x):
            return Unary("neg" if isinstance(op, ast.USub) else "not", down(x))
        case ast.BinOp(left=x, op=op, right=y):
            return Binary(_OPERATORS[type(op)], down(x), down(y))
        case ast.Compare(left=x, ops=[op], comparators=[y]):
            kind = _type_of(x, names) or _type_of(y, names) or INT64
            return Binary(_OPERATORS[type(op)], down(x, kind), down(y, kind))
        case ast.IfExp(test=cond, body=x, orelse=y):
            return Select(down(cond, BOOL), down(x), down(y))
        case ast.Call(func=ast.Name(id=name), args=[x]) if name in DTYPES:
            is_real = isinstance(x, ast.Constant) and isinstance(x.value, float)
            return Cast(down(x, _type_of(x, names) or (FLOAT64 if is_real else INT64)), own)
        case ast.Call(func=ast.Name(id="abs"), args=[x]):
            return Unary("abs", down(x))
        case ast.Call(func=ast.Name(id=name), args=[x, y]) if name in _NAMED - set(FUNCTIONS):
            return Binary(name, down(x), down(y))
        case ast.Call(func=ast.Name(id=name), args=args):
            return Call(name, tuple(map(down, args)))
    raise AssertionError(f"no expression of a nest: {ast.unparse(node)}")


def _element(text: str, names: Names) -> tuple[str, tuple[Expr, ...]]:
    """`a[i, j]`, of which a scalar has no subscripts."""
    name, index = re.fullmatch(r"([\w.]+)\[(.*)\]", text.strip()).groups()  # type: ignore[union-attr]
    return name, tuple(read_expr(x, names) for x in _entries(index))


def _without_empty(text: str) -> str:
    """Elements of scalars as Python reads them: `s[]` has an empty tuple."""
    return re.sub(r"(?<=[\w.])\[\]", "[()]", text)


def _block(lines: Sequence[str], names: Names) -> Stmt:
    """Statements of equal indentation, none."""
    found: list[Stmt] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        body_ends = next(
            (k for k in range(at + 1, len(lines)) if not lines[k].startswith(" ")), len(lines)
        )
        inside = [x[4:] for x in lines[at + 1 : body_ends]]
        if re.match(r"(let|alloc) ", line):
            found.append(_binding(line, lines[at + 1 :], names))
            break
        if line.endswith(":"):
            ends = body_ends
            orelse = None
            if body_ends < len(lines) and lines[body_ends] == "else:":
                ends = next(
                    (k for k in range(body_ends + 1, len(lines)) if lines[k][0] != " "), len(lines)
                )
                orelse = [x[4:] for x in lines[body_ends + 1 : ends]]
            found.append(_around(line[:-1], inside, orelse, names))
            at = ends
            continue
        if line != "pass":
            found.append(_simple(line, names))
        at += 1
    return found[0] if len(found) == 1 else Block(tuple(found))


def _binding(line: str, rest: Sequence[str], names: Names) -> Stmt:
    if line.startswith("let"):
        pattern = r"let (anew )?([\w.]+): (\w+) = (.*?)(?: for (\d+) parts)?"
        anew, name, dtype, value, parts = re.fullmatch(pattern, line).groups()  # type: ignore[union-attr]
        bound = read_expr(_without_empty(value), names, DTYPES[dtype])
        body = _block(rest, names.binding(name, DTYPES[dtype]))
        return Let(name, bound, body, is_anew=bool(anew), parts=int(parts or 0))
    pattern = r"alloc (\w+) ([\w.]+): (\w+)\[(.*)\] strides \[(.*)\]"
    space, name, dtype, shape, strides = re.fullmatch(pattern, line).groups()  # type: ignore[union-attr]
    steps = tuple(read_expr(x, names) for x in _entries(strides))
    buffer = Buffer(name, DTYPES[dtype], steps, Space(space), writable=True)
    extents = tuple(read_expr(x, names) for x in _entries(shape))
    return Alloc(buffer, extents, _block(rest, names.holding(buffer)))


def _around(head: str, body: Sequence[str], orelse: Sequence[str] | None, names: Names) -> Stmt:
    if head.startswith("if "):
        cond = read_expr(_without_empty(head[3:]), names, BOOL)
        return If(cond, _block(body, names), None if orelse is None else _block(orelse, names))
    if head.startswith("scope "):
        return LabelledBlock(head.split()[1], _block(body, names))
    pattern = r"(?:(\w+) )??(?:(\w+) )?for ([\w.]+) in range\((.*?)\)(?: until (.*))?"
    mark, axis, var, limits, until = re.fullmatch(pattern, head).groups()  # type: ignore[union-attr]
    if mark is None and axis is not None:
        mark, axis = axis, None
    numbers = [read_expr(_without_empty(x), names) for x in _entries(_without_empty(limits))]
    start = numbers[0] if len(numbers) > 1 else Const(0)
    step = numbers[2] if len(numbers) > 2 else Const(1)
    return For(
        var,
        start,
        numbers[0] if len(numbers) == 1 else numbers[1],
        _block(body, names.binding(var, INT64)),
        step,
        Mark(mark or "serial"),
        until=None if until is None else read_expr(_without_empty(until), names, BOOL),
        axis=None if axis is None else Axis(axis),
    )


def _simple(line: str, names: Names) -> Stmt:
    if line.startswith("leave "):
        return Leave(line.split()[1])
    if line.startswith("barrier"):
        return Barrier(BarrierScope(line.split()[-1]) if " of " in line else BarrierScope.TEAM)
    if line == "commit":
        return Commit()
    if line.startswith("wait"):
        return Wait(int(line.split()[-1]) if " for " in line else 0)
    if found := re.fullmatch(r"prefetch L(\d) (write )?(.*)", line):
        level, write, element = found.groups()
        return Prefetch(*_element(element, names), write=bool(write), level=int(level))
    pattern = r"(async )?copy \[(.*?)\](?: by (\d+))? to (.*) from (.*?)(, after puts|, lands)?"
    if found := re.fullmatch(pattern, line):
        way, shape, width, target, source, late = found.groups()
        extents = tuple(read_expr(x, names) for x in _entries(shape))
        return Copy(
            *_element(target, names), *_element(source, names), extents, bool(way),
            int(width or 1), late == ", after puts", late == ", lands",
        )  # fmt: skip
    element, value = line.split(" = ", 1)
    is_atomic = element.startswith("atomically ")
    name, index = _element(element.removeprefix("atomically "), names)
    wanted = names.buffers[name]
    return Store(name, index, read_expr(_without_empty(value), names, wanted), is_atomic=is_atomic)
