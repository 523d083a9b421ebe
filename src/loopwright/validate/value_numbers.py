"""Value numbering of a loop nest, as a loop nest: the order check at machine speed.

Every element becomes a 64-bit value number and every operator a function of value numbers: sums and
products that may be reassociated compute modulo 2^64, other operators hash their operands. The
result is an ordinary nest on unsigned integers that any backend compiles. Two nests of one program
must leave equal value numbers whatever their order, tiles and copies are. Value numbers of 64 bits
are weaker than those of ir/terms (min and max keep one operand only) but serve sizes that need
several tiles.
"""

from __future__ import annotations

import math
from dataclasses import replace
from hashlib import blake2b
from itertools import count
from typing import assert_never

from loopwright.ir.dtypes import BOOL, DTYPES, DType
from loopwright.ir.expr import (
    SATURATING,
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
    Barrier,
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
    MeshBroadcast,
    MeshMessage,
    Prefetch,
    Space,
    Stmt,
    Store,
    Wait,
    WarpMma,
)
from loopwright.ir.visit import expressions, walk
from loopwright.lazy_dataclass import dataclass

__all__ = ["VALUE_NUMBER", "NotNumbered", "number_values"]

VALUE_NUMBER = DTYPES["uint64"]  # the dtype of value numbers
_MOST_DEPTH = 280  # statements inside one another; backends recurse over them
_UPPER_HALF = Const(1 << 32, VALUE_NUMBER)
_LEAST, _MOST = Const(0, VALUE_NUMBER), Const((1 << 64) - 1, VALUE_NUMBER)
_SYMMETRIC = frozenset({"add", "mul", "eq", "ne"}) | SATURATING
# Associative, commutative and idempotent for every type, as they are on value numbers.
_KEPT = frozenset({"min", "max", "and", "or", "xor"})
_ON_BOOLEANS = {"add": "or", "max": "or", "mul": "and", "min": "and"}
_IN_RING = frozenset({"add", "sub", "mul"})
_SIGNED = frozenset({"mul", "div"})
_MIRRORED = {"gt": "lt", "ge": "le"}


class NotNumbered(Exception):  # noqa: N818, names what was found
    """Raised when the data of a nest decide which statements run, or on which elements."""


def number_values(nest: LoopNest, *, reassociate: bool) -> LoopNest:
    """The nest on value numbers; `reassociate` says whether floating sums may be reordered."""
    tables = {b.name for b in nest.buffers if b.space is Space.TABLE}
    numbering = _Numbering(tables, reassociate, count())
    buffers = tuple(b if b.name in tables else replace(b, dtype=VALUE_NUMBER) for b in nest.buffers)
    body = numbering.statement(nest.body, frozenset())
    if _depth(body) > _MOST_DEPTH:
        raise NotNumbered("its statements compute too much at once")
    return replace(nest, buffers=buffers, body=body)


def _depth(stmt: Stmt) -> int:
    """The greatest number of statements inside one another."""
    deepest, waiting = 0, [(stmt, 1)]
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        match node:
            case Block(body=body):
                waiting += ((child, depth + 1) for child in body)
            case For(body=inner) | Let(body=inner) | Alloc(body=inner):
                waiting.append((inner, depth + 1))
            case If(body=inner, orelse=orelse):
                waiting.append((inner, depth + 1))
                waiting += () if orelse is None else ((orelse, depth + 1),)
    return deepest


@dataclass(frozen=True, slots=True)
class _Numbering:
    """Rewrites statements; `data` are the let-bound variables that hold data, not integers."""

    tables: set[str]
    reassociate: bool
    serial: count[int]  # numbers the variables that are made

    def statement(self, stmt: Stmt, data: frozenset[str]) -> Stmt:
        def down(child: Stmt) -> Stmt:
            return self.statement(child, data)

        match stmt:
            case Block(body=body):
                return Block(tuple(map(down, body)))
            case For(body=body):
                self._require_integers(data, *expressions(stmt))
                return replace(stmt, body=down(body))
            case If(cond=cond, body=body, orelse=orelse):
                self._require_integers(data, cond)
                return If(cond, down(body), None if orelse is None else down(orelse))
            case Let(name=name, value=value, body=body):
                if self._is_index(value, data):
                    return replace(stmt, body=down(body))
                chain = _Chain(self, data)
                numbered = chain.number(value)
                return chain.around(Let(name, numbered, self.statement(body, data | {name})))
            case Store(index=index, value=value):
                self._require_integers(data, *index)
                chain = _Chain(self, data)
                numbered = chain.number(value)
                return chain.around(replace(stmt, value=numbered))
            case Alloc(buffer=buffer, shape=shape, body=body):
                self._require_integers(data, *shape)
                return replace(stmt, buffer=_of_numbers(buffer), body=down(body))
            case Copy() | MeshBroadcast() | MeshMessage() | Commit() | Wait() | Barrier():
                return stmt
            case LabelledBlock(body=body):
                return replace(stmt, body=down(body))
            case Prefetch() | WarpMma() | Leave():
                return stmt
            case _:
                assert_never(stmt)

    def is_data(self, expr: Expr, data: frozenset[str]) -> bool:
        """Whether the contents of arrays decide the value of `expr`."""
        return any(
            (isinstance(x, Load) and x.array not in self.tables)
            or (isinstance(x, Var) and x.name in data)
            for x in walk(expr)
        )

    def _is_index(self, value: Expr, data: frozenset[str]) -> bool:
        """Whether a bound value serves as a subscript or a guard: it stays what it is."""
        return value.dtype.kind in "bi" and not self.is_data(value, data)

    def _require_integers(self, data: frozenset[str], *exprs: Expr) -> None:
        if any(self.is_data(expr, data) for expr in exprs):
            raise NotNumbered("its data decide which statements run, or on which elements")


def _of_numbers(buffer: Buffer) -> Buffer:
    return replace(buffer, dtype=VALUE_NUMBER)


class _Chain:
    """The value numbers of the parts of an expression, each bound once, in order."""

    def __init__(self, numbering: _Numbering, data: frozenset[str]) -> None:
        self.numbering = numbering
        self.data = data
        self.bindings: list[tuple[str, Expr]] = []
        self._bound: dict[Expr, Expr] = {}  # what is bound already, by its value

    def around(self, body: Stmt) -> Stmt:
        for name, value in reversed(self.bindings):
            body = Let(name, value, body)
        return body

    def number(self, expr: Expr) -> Expr:
        """The value number of an expression, itself an expression of constant size."""
        match expr:
            case Const(value=value):
                return _constant(value, expr.dtype)
            case Load(array=array) if array not in self.numbering.tables:
                self.numbering._require_integers(self.data, *expr.index)
                return replace(expr, dtype=VALUE_NUMBER)
            case Var(name=var) if var in self.data:
                return Var(var, VALUE_NUMBER)
            case Var() | Load():
                return self.bind(_as_number(expr))
            case Cast(x=x, dtype=dtype):
                return self._cast(x, dtype)
            case Unary(op=op, x=x):
                return self._unary(op, expr.x.dtype, self.number(x))
            case Binary(op=op, x=x, y=y):
                if expr.dtype.kind in "bi" and not self.numbering.is_data(expr, self.data):
                    return self.bind(_as_number(expr))
                return self._binary(op, x.dtype, self.number(x), self.number(y))
            case Select(cond=cond, x=x, y=y):
                first, second = self.number(x), self.number(y)
                extreme = self._extreme(expr)
                if extreme is not None:
                    return self._binary(extreme, x.dtype, first, second)
                if not self.numbering.is_data(cond, self.data):
                    return self.bind(Select(cond, first, second))
                return self.mix("select", self.number(cond), first, second)
            case Call(function="fma", args=(x, y, z)):
                product = self._binary("mul", z.dtype, self.number(x), self.number(y))
                return self._binary("add", z.dtype, product, self.number(z))
            case Call(function="min_number" | "max_number" as function, args=(x, y)):
                return self._binary(function[:3], x.dtype, self.number(x), self.number(y))
            case Call(function="dot"):
                raise NotNumbered("it uses the instruction for dot products")
            case Call(function=function, args=args):
                return self.mix(function, *map(self.number, args))
            case _:
                assert_never(expr)

    def _extreme(self, chosen: Select) -> str | None:
        """`x if x < y else y` as a minimum, and its kin: of floats where NaN may go another way."""
        match chosen:
            case Select(cond=Binary(op="lt" | "le" | "gt" | "ge" as op, x=left, y=right), x=x, y=y):
                is_free = x.dtype.is_exact or self.numbering.reassociate
                if is_free and (x, y) in ((left, right), (right, left)):
                    return "min" if (op in ("lt", "le")) == (x == left) else "max"
        return None

    def bind(self, value: Expr) -> Expr:
        if value not in self._bound:
            name = f"number_{next(self.numbering.serial)}"
            self.bindings.append((name, value))
            self._bound[value] = Var(name, VALUE_NUMBER)
        return self._bound[value]

    def mix(self, what: str, *parts: Expr) -> Expr:
        """A hash of an operator and its operands."""
        total: Expr = Const(_hash(what), VALUE_NUMBER)
        for at, part in enumerate(parts):
            factor = Const(_hash(f"operand {at}"), VALUE_NUMBER)
            total = Binary("add", total, Binary("mul", part, factor))
        bound = self.bind(total)
        # Products and sums carry upwards only: the upper half is brought down.
        lower = Binary("xor", bound, Binary("floordiv", bound, _UPPER_HALF))
        return self.bind(Binary("mul", lower, Const(_hash("mix"), VALUE_NUMBER)))

    def _cast(self, x: Expr, dtype: DType) -> Expr:
        number = self.number(x)
        is_modular = x.dtype.is_integer and dtype.is_integer and dtype.bits <= x.dtype.bits
        return number if is_modular or x.dtype == dtype else self.mix(f"to {dtype}", number)

    def _unary(self, op: str, dtype: DType, x: Expr) -> Expr:
        return self.bind(_minus(x)) if op == "neg" and dtype != BOOL else self.mix(op, x)

    def _binary(self, op: str, dtype: DType, x: Expr, y: Expr) -> Expr:
        op = _ON_BOOLEANS.get(op, op) if dtype == BOOL else op
        if self._is_ring(dtype) and op in _IN_RING:
            return self.bind(Binary(op, x, y))
        if op in _KEPT:
            return self.bind(Binary(op, x, y))
        if op in _MIRRORED:
            op, x, y = _MIRRORED[op], y, x
        if op == "sub":
            op, y = "add", _minus(y)
        if op in _SIGNED and dtype.kind in "fc":
            return self._signed(op, x, y)
        return self._symmetric(op, x, y) if op in _SYMMETRIC else self.mix(op, x, y)

    def _symmetric(self, op: str, x: Expr, y: Expr) -> Expr:
        """A hash of two operands in any order."""
        a, b = self.bind(x), self.bind(y)
        return self.mix(op, Binary("min", a, b), Binary("max", a, b))

    def _signed(self, op: str, x: Expr, y: Expr) -> Expr:
        """A product or quotient: the signs of its operands are the sign of its value number."""
        one = Const(1, VALUE_NUMBER)
        if y == one or (x == one and op == "mul"):
            return x if y == one else y
        a, b = self.bind(x), self.bind(y)
        sizes = [self.bind(Binary("min", part, _minus(part))) for part in (a, b)]
        differ = [Binary("ne", part, size) for part, size in zip((a, b), sizes, strict=True)]
        hash_ = self._symmetric if op == "mul" else self.mix
        number = hash_(op, *sizes)
        return self.bind(Select(Binary("xor", *differ), _minus(number), number))

    def _is_ring(self, dtype: DType) -> bool:
        return dtype.is_integer or (self.numbering.reassociate and dtype.kind in "fc")


def _minus(number: Expr) -> Expr:
    """The value number of the negative: so x - y is x + (-y)."""
    return Binary("sub", Const(0, VALUE_NUMBER), number)


def _as_number(expr: Expr) -> Expr:
    """An integer or a truth value that does not depend on data, as a value number."""
    if expr.dtype == BOOL:
        return Select(expr, _MOST, _LEAST)
    return expr if expr.dtype == VALUE_NUMBER else Cast(expr, VALUE_NUMBER)


def _constant(value: complex, dtype: DType) -> Const:
    """The value number of a constant: whole numbers are themselves in the ring, others are hashed.

    The least and the greatest value of a type are those of value numbers, so that they stay the
    identities of reductions by max and or, by min and and.
    """
    if dtype.kind in "bif" and value == _least(dtype):
        return _LEAST
    if dtype.kind in "biuf" and value == _most(dtype):
        return _MOST
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return Const(int(value) % (1 << 64), VALUE_NUMBER)
    return Const(_hash(repr(value)), VALUE_NUMBER)


def _least(dtype: DType) -> float:
    if dtype.kind == "f":
        return -math.inf
    return -(1 << (dtype.bits - 1)) if dtype.kind == "i" else 0


def _most(dtype: DType) -> float:
    if dtype.kind == "f":
        return math.inf
    return 1 if dtype.kind == "b" else (1 << (dtype.bits - (dtype.kind == "i"))) - 1


def _hash(what: str) -> int:
    """An odd 64-bit hash of `what`."""
    digest = blake2b(what.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") | 1
