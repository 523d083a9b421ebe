"""Computations written as text: spaces, and statements with their domains, times and assignments.

    in val[NNZ]: float64, out y[NR]: float64

    add: {[i,k] : 0<=i<NR && rowptr(i)<=k<rowptr(i+1)} at (1, i, 0, k, 0): y(i) += val(k)*x(col(k))

A statement stands on a line of its own. The right-hand side is a Python expression in which
elements are written as calls; ` if ` and a condition may follow it. Names that are neither
variables of the domain nor spaces are symbolic constants. Numbers take the type of the other
operand, other types are promoted as in NumPy, and a value is converted to the type of its target.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NoReturn, TypeAlias

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.frontends.python.python_grammar import BINARY, COMPARE
from loopwright.ir import expr as ir
from loopwright.ir.check_expr import InvalidExpr, Scope, check_expr
from loopwright.ir.dtypes import BOOL, DTYPES, INT64, DType, dtype_of
from loopwright.ir.program import Role
from loopwright.ir.text import expr_text
from loopwright.ir.visit import walk
from loopwright.lazy_dataclass import dataclass
from loopwright.python_text import parse_expression
from loopwright.sparse.curves import CURVES
from loopwright.sparse.format import Format
from loopwright.sparse.invariants import facts_of
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt
from loopwright.sparse.spf.term_exprs import element
from loopwright.sparse.uf import NO_FACTS, Facts, IntegerSet, parse_set, symbols

__all__ = ["computation"]

_SPACE = re.compile(r"\s*(?:(in|out|inout|local)\s+)?(\w+)\s*(?:\[(.*?)\])?\s*:\s*(\w+)\s*$")
_LINE = re.compile(r"\s*(\w+)\s*:\s*(\{.*\})\s*at\s*\((.*?)\)\s*:\s*(.*?)\s*$")
_ASSIGNMENT = re.compile(r"(.*?[)\w])\s*(\+|\*|min|max)?=(?!=)\s*(.*)$")
_UPDATES = {"+": "add", "*": "mul", "min": "min", "max": "max"}
_JOINED: dict[type[ast.boolop], str] = {ast.And: "and", ast.Or: "or"}

Operand: TypeAlias = ir.Expr | int | float | complex | bool  # a number has no type yet


def computation(
    name: str, spaces: str, statements: str, *, facts: Facts | Format = NO_FACTS
) -> Computation:
    """The computation of texts; `facts` of its index arrays may be those of a format."""
    found = tuple(_space(part) for part in re.split(r"[;\n]|,(?![^\[]*\])", spaces) if part.strip())
    lines = [line for line in statements.splitlines() if line.strip()]
    by_name = {space.name: space for space in found}
    read = tuple(_statement(line, by_name) for line in lines)
    wanted = {s for space in found for extent in space.shape for s in symbols(extent)}
    for stmt in read:
        wanted |= {*stmt.domain.symbols, *(s for entry in stmt.index for s in symbols(entry))}
    known = facts_of(facts) if isinstance(facts, Format) else facts
    return Computation(name, found, read, tuple(sorted(wanted)), known)


def _space(text: str) -> DataSpace:
    parts = _SPACE.match(text)
    if parts is None or parts[4] not in DTYPES:
        raise UsageError(
            "a space is written as its role, name, extents and type",
            text.strip(),
            "such as in val[NNZ]: float64, or local s: int32",
        )
    shape = [extent for extent in (parts[3] or "").split(",") if extent.strip()]
    return DataSpace.of(parts[2], DTYPES[parts[4]], shape, Role(parts[1] or "in"))


def _statement(line: str, spaces: Mapping[str, DataSpace]) -> Stmt:
    parts = _LINE.match(line)
    if parts is None:
        raise UsageError(
            "a statement is written as name: {domain} at (times): assignment",
            line.strip(),
            "such as zero: {[i] : 0<=i<N} at (0, i): y(i) = 0",
        )
    name, domain, times, text = parts.groups()
    points = parse_set(domain)
    whole, _, condition = text.partition(" if ")
    split = _ASSIGNMENT.match(whole)
    if split is None:
        raise UsageError(f"statement '{name}' assigns nothing", text, "such as y(i) += x(i)")
    target, update, right = split.groups()
    target = target if "(" in target else f"{target}()"
    entries = [entry.strip() for entry in times.split(",") if entry.strip()]
    plain = Stmt.of(name, points, entries, target, ir.Const(0))
    if plain.target not in spaces:
        raise UsageError(f"statement '{name}' stores into '{plain.target}'", hint="declare it")
    reader = _Reader(name, spaces, points)
    value = reader.read(right)
    dtype = spaces[plain.target].dtype
    if update:
        strange = [c.name for c in plain.index_calls if c.name not in {*spaces, *CURVES}]
        if strange:
            reader.refuse(target, f"'{strange[0]}' is no space")
        # As terms are written: floor(i/2) is no expression of Python's that means the same.
        before = element(plain.target, plain.index, spaces)
        value = reader.binary(_UPDATES[update], before, value)
    guard = reader.as_type(reader.read(condition), BOOL) if condition else None
    found = replace(plain, value=reader.as_type(value, dtype), guard=guard)
    for part in found.expressions:
        reader.require_operators(part)
    return found


@dataclass(frozen=True)
class _Reader:
    """Reads the expressions of one statement."""

    stmt: str
    spaces: Mapping[str, DataSpace]
    domain: IntegerSet

    def read(self, text: str) -> Operand:
        try:
            node = parse_expression(text.strip())
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.refuse(text, "it is no expression")
        try:
            return self.node(node)
        except RecursionError:  # Python's own parser goes deeper from 3.12 on
            self.refuse(text, "it is no expression of less than a thousand levels")

    def require_operators(self, expr: ir.Expr) -> None:
        """Refuse an operator or function for types that it has no meaning for."""
        names = {part.name: part.dtype for part in walk(expr) if isinstance(part, ir.Var)}
        arrays = {name: (space.dtype, space.rank) for name, space in self.spaces.items()}
        try:
            check_expr(expr, Scope(names, arrays))
        except InvalidExpr as fault:
            hint = " (// is the quotient of whole numbers)" if "'div'" in fault.rule else ""
            self.refuse("" if fault.expr is None else expr_text(fault.expr), fault.rule + hint)

    def refuse(self, text: str, why: str) -> NoReturn:
        raise UsageError(f"statement '{self.stmt}' cannot be read: {why}", text)

    def node(self, node: ast.expr) -> Operand:
        match node:
            case ast.Constant(value=bool() | int() | float() | complex() as value):
                return value
            case ast.Name(id=name):
                scalar = self.spaces.get(name)
                return ir.Var(name) if scalar is None else ir.Load(name, (), scalar.dtype)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self.call(name, [self.node(arg) for arg in args], ast.unparse(node))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
                return self.binary(BINARY[type(op)], self.node(left), self.node(right))
            case ast.Compare(left=left, ops=[test], comparators=[right]) if type(test) in COMPARE:
                return self.binary(COMPARE[type(test)], self.node(left), self.node(right))
            case ast.BoolOp(op=joint, values=[first, *others]):
                joined = self.node(first)
                for other in others:
                    joined = self.binary(_JOINED[type(joint)], joined, self.node(other))
                return joined
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                x = self.node(operand)
                return ir.Unary("neg", x) if isinstance(x, ir.Expr) else -x
        return self.refuse(ast.unparse(node), "this is not among the operators")

    def call(self, name: str, args: list[Operand], text: str) -> Operand:
        if name in self.spaces:
            space = self.spaces[name]
            if len(args) != space.rank:
                self.refuse(text, f"'{name}' has {space.rank} dimensions")
            return ir.Load(name, tuple(self.as_type(a, INT64) for a in args), space.dtype)
        if name in ("min", "max") and len(args) == 2:
            return self.binary(name, *args)
        typed = [self.typed(arg) for arg in args]
        if name == "abs" and len(args) == 1:
            return ir.Unary("abs", typed[0])
        if ir.FUNCTIONS.get(name) == len(args):
            return ir.Call(name, tuple(typed))
        return self.refuse(text, f"'{name}' is neither a space nor a function of so many arguments")

    def typed(self, x: Operand) -> ir.Expr:
        return x if isinstance(x, ir.Expr) else ir.Const(x, dtype_of(np.asarray(x).dtype))

    def binary(self, op: str, x: Operand, y: Operand) -> Operand:
        if not isinstance(x, ir.Expr) and not isinstance(y, ir.Expr):
            x = self.typed(x)
        dtype = _common(x, y)
        return ir.Binary(op, self.as_type(x, dtype), self.as_type(y, dtype))

    def as_type(self, x: Operand, dtype: DType) -> ir.Expr:
        """A value converted to a type; a number that the type cannot hold is refused."""
        if isinstance(x, ir.Expr):
            return x if x.dtype == dtype else ir.Cast(x, dtype)
        try:
            held = dtype.numpy.type(x)
        except (OverflowError, TypeError):
            self.refuse(str(x), f"{dtype} does not hold it")
        if held != x and x == x:
            self.refuse(str(x), f"{dtype} does not hold it")
        return ir.Const(held.item(), dtype)


def _common(x: Operand, y: Operand) -> DType:
    """The common type of two operands, at least one of which has a type."""
    known = [z.dtype for z in (x, y) if isinstance(z, ir.Expr)]
    if len(known) == 2:
        return known[0] if known[0] == known[1] else dtype_of(np.result_type(*_numpy(known)))
    number = next(z for z in (x, y) if not isinstance(z, ir.Expr))
    (dtype,) = known
    return dtype_of(np.result_type(dtype.numpy, number)) if _is_wider(number, dtype) else dtype


def _numpy(types: list[DType]) -> list[np.dtype[np.generic]]:
    return [dtype.numpy for dtype in types]


def _is_wider(number: int | float | complex | bool, dtype: DType) -> bool:
    """Whether a number needs a wider kind than a type has: a fraction with integers."""
    kinds: dict[type, Callable[[DType], bool]] = {
        float: lambda t: t.is_integer or t == BOOL,
        complex: lambda t: t.kind != "c",
        int: lambda t: t == BOOL,
    }
    return type(number) in kinds and kinds[type(number)](dtype)
