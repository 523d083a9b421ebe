"""Vector loops of a fixed number of lanes as vectors of the C compiler (GCC's extension).

    for (lane...) s[r][lane] += a * B[k][j + lane];   ->   s[r] += a * *(const v *)&B[k][j];

A planner that asks for a fixed number of lanes has laid out a register tile: loops that a compiler
would have to vectorise and unroll by its own judgement would keep it in memory. Taken are stores of
floating sums and products whose operands are the same for all lanes or neighbours in memory. Any
other loop stays a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from loopwright.backends.c_expr import Expressions
from loopwright.backends.c_index import operation
from loopwright.backends.c_types import ATOM, SUM, UNARY, Code, c_type
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Call, Const, Expr, Load, Unary, Var
from loopwright.ir.extent import constant_trips
from loopwright.ir.loops import Alloc, Block, For, LoopNest, Mark, Space, Stmt, Store
from loopwright.ir.visit import loads, names, statements, substitute

__all__ = ["VectorExpressions", "register_lanes", "stores_of", "vector_lanes"]

_LANES = (2, 4, 8, 16)
_OPERATORS = ("add", "sub", "mul", "div")
IsRun = Callable[[str], bool]  # whether neighbours along the last subscript are so in memory


def vector_lanes(loop: For, is_run: IsRun) -> int | None:
    """The lanes of a loop that becomes vector statements; None when it stays a loop."""
    trips = constant_trips(loop)
    if loop.mark is not Mark.VECTOR or loop.start != Const(0) or trips not in _LANES:
        return None
    stores = stores_of(loop.body)
    if stores is None or not all(_is_vector_store(s, loop.var, is_run) for s in stores):
        return None
    return trips


def register_lanes(nest: LoopNest, is_run: IsRun) -> Mapping[str, int]:
    """Buffers in registers whose last dimension is the lanes of a vector, by name.

    All vector loops that touch them must become vector statements of just that many lanes: an
    element taken by a subscript that varies would force the vector into memory.
    """
    allocs = [s for s in statements(nest.body) if isinstance(s, Alloc)]
    found: dict[str, int] = {}
    spoiled: set[str] = set()
    for alloc in allocs:
        name, last = alloc.buffer.name, alloc.shape[-1] if alloc.shape else Const(0)
        lanes = last.value if isinstance(last, Const) else 0
        is_register = alloc.buffer.space is Space.REGISTER and _is_real(alloc.buffer.dtype)
        if is_register and lanes in _LANES and found.get(name, lanes) == lanes:
            assert isinstance(lanes, int)
            found[name] = lanes
        else:
            spoiled.add(name)
    for loop in statements(nest.body):
        if isinstance(loop, For) and loop.mark is Mark.VECTOR:
            count = vector_lanes(loop, is_run)
            spoiled |= {name for name in _touched(loop.body) if found.get(name) != count}
    return {name: lanes for name, lanes in found.items() if name not in spoiled}


def _touched(stmt: Stmt) -> set[str]:
    touched: set[str] = set()
    for inner in statements(stmt):
        if isinstance(inner, Store):
            touched |= {inner.buffer, *(load.array for load in loads(inner.value))}
    return touched


def stores_of(stmt: Stmt) -> list[Store] | None:
    """The stores of a body that is nothing else."""
    match stmt:
        case Store():
            return [stmt]
        case Block(body=body):
            parts = [stores_of(child) for child in body]
            return None if None in parts else [s for part in parts for s in part or ()]
    return None


def _is_vector_store(store: Store, lane: str, is_run: IsRun) -> bool:
    target = Load(store.buffer, store.index, store.value.dtype)
    return _is_vector_load(target, lane, is_run) and _is_vector(store.value, lane, is_run)


def _is_vector(expr: Expr, lane: str, is_run: IsRun) -> bool:
    """Whether an expression is the same for all lanes, or made of neighbours."""
    if not _is_real(expr.dtype):
        return False
    if lane not in names(expr):
        return True
    match expr:
        case Load():
            return _is_vector_load(expr, lane, is_run)
        case Unary(op="neg", x=x):
            return _is_vector(x, lane, is_run)
        case Binary(op=op, x=x, y=y) if op in _OPERATORS:
            return _is_vector(x, lane, is_run) and _is_vector(y, lane, is_run)
        case Call(function="fma", args=args):
            return all(_is_vector(arg, lane, is_run) for arg in args)
    return False


def _is_vector_load(load: Load, lane: str, is_run: IsRun) -> bool:
    if not load.index or not is_run(load.array):
        return False
    *outer, last = load.index
    return _step(last, lane) == 1 and not any(lane in names(entry) for entry in outer)


def _step(expr: Expr, name: str) -> int | None:
    """By how much a sum grows with a variable; None for what is no sum of it."""
    if name not in names(expr):
        return 0
    match expr:
        case Var():
            return 1
        case Binary(op="add" | "sub" as op, x=x, y=y):
            left, right = _step(x, name), _step(y, name)
            if left is None or right is None:
                return None
            return left + right if op == "add" else left - right
    return None


def _is_real(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits >= 32


@dataclass(frozen=True, slots=True)
class _Lanes:
    """The loop whose iterations are lanes."""

    var: str
    count: int


class VectorExpressions(Expressions):
    """Writes vector statements too."""

    def __init__(self, *, from_c: bool) -> None:
        super().__init__(from_c=from_c)
        self.vectors: dict[str, str] = {}  # names of vector types in use -> their definitions
        self.registers: Mapping[str, int] = {}  # buffers that are arrays of vectors, their lanes

    def vector_type(self, dtype: DType, lanes: int) -> str:
        """The name of a vector type; it may lie at the address of any element."""
        name = f"lw_{dtype}x{lanes}"
        size = lanes * dtype.bytes
        attributes = f"vector_size({size}), aligned({dtype.bytes}), may_alias"
        self.vectors[name] = f"typedef {c_type(dtype)} {name} __attribute__(({attributes}));\n"
        return name

    def vector_store(self, store: Store, loop: For, lanes: int) -> str:
        """A store of all lanes at once."""
        around = _Lanes(loop.var, lanes)
        element = Load(store.buffer, store.index, store.value.dtype)
        target = self._vector_element(element, around, is_target=True)
        match store.value:
            case Binary(op="add" | "sub" | "mul" as op, x=x, y=y) if x == element:
                sign = {"add": "+=", "sub": "-=", "mul": "*="}[op]
                return f"{target.text} {sign} {self._vector(y, around)};"
            case Call(function="fma", args=(x, y, z)) if z == element:
                return f"{target.text} += {self._vector(Binary('mul', x, y), around)};"
        value = self._vector(store.value, around)
        if loop.var not in names(store.value):
            # A number alone is no vector. Less a vector of zeros it is one, and the same number.
            zeros = f"({self.vector_type(store.value.dtype, lanes)}){{0}}"
            text = zeros if value.text in ("0.0", "0.0f") else f"{value.within(SUM)} - {zeros}"
            return f"{target.text} = {text};"
        return f"{target.text} = {value};"

    def _vector(self, expr: Expr, around: _Lanes) -> Code:
        if around.var not in names(expr):
            return self.value(expr)
        match expr:
            case Load():
                return self._vector_element(expr, around, is_target=False)
            case Unary(x=x):
                inner = self._vector(x, around)
                text = f"({inner})" if inner.text.startswith("-") else inner.within(UNARY)
                return Code(f"-{text}", UNARY)
            case Binary(op=op, x=x, y=y):
                return operation(op, self._vector(x, around), self._vector(y, around))
            case Call(args=(x, y, z)):
                return self._vector(Binary("add", Binary("mul", x, y), z), around)
        raise AssertionError(f"no vector: {expr}")

    def _vector_element(self, load: Load, around: _Lanes, *, is_target: bool) -> Code:
        """The elements of all lanes, an lvalue."""
        *outer, last = load.index
        if self.registers.get(load.array) == around.count:
            # The lane is the last subscript itself: without it the whole vector is meant.
            return Code(self.row(load.array, tuple(outer)), ATOM)
        first = substitute(last, {around.var: Const(0)})
        place = self.element(load.array, (*outer, first))
        kind = self.vector_type(load.dtype, around.count)
        return Code(f"*({'' if is_target else 'const '}{kind} *)&{place}", UNARY)

    def row(self, array: str, index: tuple[Expr, ...]) -> str:
        """A whole row of a buffer of vectors."""
        raise NotImplementedError
