"""Loops that C needs help to vectorise: register tiles, and reductions in another order.

    for (lane...) s[r][lane] += a * B[k][j + lane];   ->   s[r] += a * *(const v *)&B[k][j];

A vector loop of a fixed number of lanes becomes statements on vector types (GCC's extension): a
planner that asks for a fixed number of lanes has laid out a register tile, and a compiler that
vectorised and unrolled by its own judgement would keep it in memory. Taken are stores of floating
sums and products whose operands are the same for all lanes or contiguous in memory. Any other loop
stays a loop. Loops that only accumulate sums or products are recognised, for OpenMP's reductions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from loopwright.backends.c_expression_printer import CExpressions, operation
from loopwright.backends.c_syntax import ATOM, SUM, UNARY, CText, c_type
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Call, Const, Expr, Load, Unary, Var
from loopwright.ir.loops import Alloc, Block, For, LoopNest, Mark, Space, Stmt, Store
from loopwright.ir.visit import constant_trips, loads, names, statements, substitute
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import IdentityMap

__all__ = [
    "ReductionUpdate",
    "VectorStatements",
    "reductions",
    "register_lanes",
    "stores_of",
    "vector_lanes",
]

_LANES = (2, 4, 8, 16)
_OPERATORS = ("add", "sub", "mul", "div")
_IsContiguous = Callable[[str], bool]  # of a buffer, along its last subscript


def vector_lanes(loop: For, is_contiguous: _IsContiguous) -> int | None:
    """The number of lanes of a loop that becomes vector statements; None when it stays a loop."""
    if loop.mark is not Mark.VECTOR or loop.start != Const(0):
        return None
    trips = constant_trips(loop)
    if trips not in _LANES:
        return None
    stores = stores_of(loop.body)
    if stores is None or not all(_is_vector_store(s, loop.var, is_contiguous) for s in stores):
        return None
    return trips


def register_lanes(
    nest: LoopNest, is_contiguous: _IsContiguous, lanes_of: IdentityMap[For, int | None]
) -> Mapping[str, int]:
    """Buffers in registers whose last dimension is the lanes of a vector, by name.

    What was found of the vector loops is kept in `lanes_of`.

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
            count = lanes_of[loop] = vector_lanes(loop, is_contiguous)
            spoiled |= {name for name in _touched(loop.body) if found.get(name) != count}
    return {name: lanes for name, lanes in found.items() if name not in spoiled}


def _touched(stmt: Stmt) -> set[str]:
    touched: set[str] = set()
    for inner in statements(stmt):
        if isinstance(inner, Store):
            touched |= {inner.buffer, *(load.array for load in loads(inner.value))}
    return touched


def stores_of(stmt: Stmt) -> list[Store] | None:
    """The stores of a body that consists of stores only; None otherwise."""
    match stmt:
        case Store():
            return [stmt]
        case Block(body=body):
            parts = [stores_of(child) for child in body]
            return None if None in parts else [s for part in parts for s in part or ()]
    return None


def _is_vector_store(store: Store, lane: str, is_contiguous: _IsContiguous) -> bool:
    target = Load(store.buffer, store.index, store.value.dtype)
    return _is_vector_load(target, lane, is_contiguous) and _is_vector(
        store.value, lane, is_contiguous
    )


def _is_vector(expr: Expr, lane: str, is_contiguous: _IsContiguous) -> bool:
    """Whether an expression is uniform over the lanes, or made of contiguous elements."""
    if not _is_real(expr.dtype):
        return False
    if lane not in names(expr):
        return True
    match expr:
        case Load():
            return _is_vector_load(expr, lane, is_contiguous)
        case Unary(op="neg", x=x):
            return _is_vector(x, lane, is_contiguous)
        case Binary(op=op, x=x, y=y) if op in _OPERATORS:
            return _is_vector(x, lane, is_contiguous) and _is_vector(y, lane, is_contiguous)
        case Call(function="fma", args=args):
            return all(_is_vector(arg, lane, is_contiguous) for arg in args)
    return False


def _is_vector_load(load: Load, lane: str, is_contiguous: _IsContiguous) -> bool:
    if not load.index or not is_contiguous(load.array):
        return False
    *outer, last = load.index
    return _step(last, lane) == 1 and not any(lane in names(entry) for entry in outer)


def _step(expr: Expr, name: str) -> int | None:
    """The coefficient of a variable in a sum; None where `expr` is not linear in it."""
    match expr:
        case Var():
            return int(expr.name == name)
        case Const():
            return 0
        case Binary(op="add" | "sub" as op, x=x, y=y):
            left, right = _step(x, name), _step(y, name)
            if left is None or right is None:
                return None
            return left + right if op == "add" else left - right
    return None if name in names(expr) else 0


def _is_real(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits >= 32


@dataclass(frozen=True, slots=True)
class _Lanes:
    """The loop whose iterations are lanes."""

    var: str
    count: int


class VectorStatements:
    """Writes statements on vectors; `expressions` writes what is the same for all lanes."""

    def __init__(self, expressions: CExpressions) -> None:
        self.expressions = expressions
        self.has_functions = expressions.dialect.has_vector_functions
        self.types: dict[str, str] = {}  # names of vector types in use -> their definitions
        self.registers: Mapping[str, int] = {}  # buffers that are arrays of vectors, their lanes

    def type_name(self, dtype: DType, lanes: int) -> str:
        """The name of a vector type with the alignment of its elements."""
        name = f"lw_{dtype}x{lanes}"
        if self.has_functions:
            return name
        size = lanes * dtype.bytes
        attributes = f"vector_size({size}), aligned({dtype.bytes}), may_alias"
        self.types[name] = f"typedef {c_type(dtype)} {name} __attribute__(({attributes}));\n"
        return name

    def store(self, store: Store, loop: For, lanes: int) -> str:
        """A store of all lanes at once."""
        around = _Lanes(loop.var, lanes)
        element = Load(store.buffer, store.index, store.value.dtype)
        if self.has_functions:
            return self._by_functions(store, element, around)
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
            zeros = f"({self.type_name(store.value.dtype, lanes)}){{0}}"
            text = zeros if value.text in ("0.0", "0.0f") else f"{value.within(SUM)} - {zeros}"
            return f"{target.text} = {text};"
        return f"{target.text} = {value};"

    def _by_functions(self, store: Store, element: Load, around: _Lanes) -> str:
        """A store by functions: of memory, and of numbers in all lanes."""
        in_registers = self.registers.get(store.buffer) == around.count
        if in_registers:
            target = self._vector_element(element, around, is_target=True)
            match store.value:
                case Binary(op="add" | "sub" | "mul" as op, x=x, y=y) if x == element:
                    sign = {"add": "+=", "sub": "-=", "mul": "*="}[op]
                    return f"{target.text} {sign} {self._vector(y, around)};"
        kind = f"{store.value.dtype}x{around.count}"
        if around.var in names(store.value):
            value = self._vector(store.value, around).text
        elif isinstance(store.value, Load) and store.value.index:
            place = self.expressions.element(store.value.array, store.value.index)
            value = f"lw_spread_{kind}(&{place})"
        else:
            value = f"lw_splat_{kind}({self.expressions.value(store.value)})"
        if in_registers:
            return f"{target.text} = {value};"
        *outer, last = store.index
        first = substitute(last, {around.var: Const(0)})
        place = self.expressions.element(store.buffer, (*outer, first))
        return f"lw_store_{kind}(&{place}, {value});"

    def _vector(self, expr: Expr, around: _Lanes) -> CText:
        if around.var not in names(expr):
            return self.expressions.value(expr)
        match expr:
            case Load():
                return self._vector_element(expr, around, is_target=False)
            case Unary(x=x):
                inner = self._vector(x, around)
                text = f"({inner})" if inner.text.startswith("-") else inner.within(UNARY)
                return CText(f"-{text}", UNARY)
            case Binary(op=op, x=x, y=y):
                return operation(op, self._vector(x, around), self._vector(y, around))
            case Call(args=(x, y, z)):
                return self._vector(Binary("add", Binary("mul", x, y), z), around)
        raise AssertionError(f"no vector: {expr}")

    def _vector_element(self, load: Load, around: _Lanes, *, is_target: bool) -> CText:
        """The elements of all lanes, an lvalue."""
        *outer, last = load.index
        if self.registers.get(load.array) == around.count:
            # The lane is the last subscript itself: without it the whole vector is meant.
            return CText(self.expressions.element(load.array, tuple(outer)), ATOM)
        first = substitute(last, {around.var: Const(0)})
        place = self.expressions.element(load.array, (*outer, first))
        kind = self.type_name(load.dtype, around.count)
        if self.has_functions:
            return CText(f"lw_load_{load.dtype}x{around.count}(&{place})", ATOM)
        return CText(f"*({'' if is_target else 'const '}{kind} *)&{place}", UNARY)


# -- reductions -----------------------------------------------------------------------------------

_COMBINED_BY = {"add": "+", "sub": "+", "mul": "*"}


@dataclass(frozen=True, slots=True)
class ReductionUpdate:
    """`target = target op value`, where the target does not depend on the loop variable."""

    store: Store
    target: Load
    op: str
    value: Expr

    @property
    def sign(self) -> str:
        """The operator that combines partial results; partial differences are added."""
        return _COMBINED_BY[self.op]


def reductions(loop: For) -> list[ReductionUpdate] | None:
    """The reductions that a loop consists of; None when it does anything else.

    Each accumulates into an element of its own, which no other one reads.
    """
    is_counted = loop.mark is Mark.SERIAL and loop.until is None
    stores = stores_of(loop.body) if is_counted else None
    found = [_update(store, loop.var) for store in stores or ()]
    updates = [update for update in found if update is not None]
    if not updates or len(updates) < len(found):
        return None
    targets = [update.target.array for update in updates]
    read = {load.array for update in updates for load in loads(update.value)}
    if len(set(targets)) < len(targets) or read & set(targets):
        return None
    return updates


def _update(store: Store, var: str) -> ReductionUpdate | None:
    target = Load(store.buffer, store.index, store.value.dtype)
    if not target.dtype.is_float or target.dtype.bits < 32 or var in names(target):
        return None
    match store.value:
        case Binary(op="add" | "sub" | "mul" as op, x=x, y=y) if x == target:
            return ReductionUpdate(store, target, op, y)
        case Binary(op="add" | "mul" as op, x=x, y=y) if y == target:
            return ReductionUpdate(store, target, op, x)
        case Call(function="fma", args=(x, y, z)) if z == target:
            return ReductionUpdate(store, target, "add", Binary("mul", x, y))
    return None
