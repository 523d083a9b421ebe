"""Loops that C needs help to vectorise: register tiles, and reductions in another order.

    for (lane...) s[r][lane] += a * B[k][j + lane];   ->   s[r] += a * *(const v *)&B[k][j];

A vector loop of a fixed number of lanes becomes statements on vector types (GCC's extension): a
planner that asks for a fixed number of lanes has laid out a register tile, and a compiler that
vectorised and unrolled by its own judgement would keep it in memory. Taken are stores of floating
sums, products, roots and selections by comparisons whose operands are the same for all lanes,
contiguous in memory, or elements that are put together one by one. Any other loop stays a loop.
Loops that only accumulate sums or products are recognised, for OpenMP's reductions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field, replace

from loopwright.backends.c_text.c_expression_printer import CExpressions, operation
from loopwright.backends.c_text.c_subscripts import step_of
from loopwright.backends.c_text.c_syntax import ATOM, SUM, UNARY, CText, c_type
from loopwright.ir.dtypes import BOOL, DType
from loopwright.ir.expr import COMPARISONS, Binary, Call, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.loops import Alloc, Block, For, Let, LoopNest, Mark, Space, Stmt, Store
from loopwright.ir.visit import constant_trips, loads, names, statements, substitute, walk
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import IdentityMap

__all__ = [
    "ReductionUpdate",
    "VectorForms",
    "VectorStatements",
    "lane_stores",
    "reductions",
    "register_lanes",
    "squares",
    "vector_lanes",
]

_LANES = (2, 4, 8, 16)
_COMPARED_BY = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_OPERATORS = ("add", "sub", "mul", "div")
_MOST_NODES = 64  # of an expression that names are replaced in


@dataclass(frozen=True, slots=True)
class VectorForms:
    """What can be written as statements on vectors."""

    contiguous: Collection[str]  # buffers that are, along their last subscript
    # Roots and selections too, in GCC's expressions, and elements that lie apart, of arguments.
    is_gnu: bool = True
    arguments: Collection[str] = ()
    squares: Mapping[str, int] = field(default_factory=dict)  # in registers, by name: their sides
    fuses: bool = True  # the compiler fuses products with sums: there is no such function


def vector_lanes(loop: For, forms: VectorForms) -> int | None:
    """The number of lanes of a loop that becomes vector statements; None when it stays a loop."""
    if loop.mark is not Mark.VECTOR or loop.start != Const(0):
        return None
    trips = constant_trips(loop)
    if trips not in _LANES:
        return None
    stores = lane_stores(loop)
    if stores is None or not all(_is_vector_store(s, loop.var, forms) for s in stores):
        return None
    return trips


def lane_stores(loop: For) -> list[Store] | None:
    """The stores of a loop of lanes, with what is bound to names in the place of the names.

    None where there is anything else, or where a binding would be read after another store: the
    elements that it loads may have changed by then.
    """
    bound: dict[str, Expr] = {}
    body = loop.body
    while isinstance(body, Let) and not body.parts:
        bound[body.name] = substitute(body.value, bound)
        body = body.body
    stores = _stores_of(body)
    if stores is None or not bound:
        return stores
    if len(stores) > 1:
        return None
    (store,) = stores
    value = substitute(store.value, bound)
    is_short = sum(1 for _ in walk(value)) <= _MOST_NODES
    return [replace(store, value=value)] if is_short else None


def register_lanes(
    nest: LoopNest, forms: VectorForms, lanes_of: IdentityMap[For, int | None]
) -> Mapping[str, int]:
    """Buffers in registers whose last dimension is the lanes of a vector, by name.

    What was found of the vector loops is kept in `lanes_of`.

    All vector loops that touch them must become vector statements of just that many lanes: an
    element taken by a subscript that varies would force the vector into memory.
    """
    allocs = [s for s in statements(nest.body) if isinstance(s, Alloc)]
    found: dict[str, int] = {}
    spoiled: set[str] = set()
    used: set[str] = set()
    for alloc in allocs:
        name, last = alloc.buffer.name, alloc.shape[-1] if alloc.shape else Const(0)
        lanes = last.value if isinstance(last, Const) else 0
        is_small = alloc.buffer.space in (Space.REGISTER, Space.STACK)
        is_square = name in forms.squares
        is_register = is_small and (_is_real(alloc.buffer.dtype) or is_square)
        if is_register and lanes in _LANES and found.get(name, lanes) == lanes:
            assert isinstance(lanes, int)
            found[name] = lanes
        else:
            spoiled.add(name)
    for loop in statements(nest.body):
        if isinstance(loop, For) and loop.mark is Mark.VECTOR:
            count = lanes_of[loop] = vector_lanes(loop, forms)
            spoiled |= {name for name in _touched(loop.body) if found.get(name) != count}
            used |= set(_touched(loop.body))
    # Small arrays that no vector touches are arrays.
    spoiled |= {a.buffer.name for a in allocs if a.buffer.space is Space.STACK} - used
    return {name: lanes for name, lanes in found.items() if name not in spoiled}


def squares(nest: LoopNest) -> dict[str, int]:
    """Squares in registers that are copied only, of numbers of any kind: their sides, by name."""
    found: dict[str, int] = {}
    for stmt in statements(nest.body):
        match stmt:
            case Alloc(buffer=buffer, shape=(Const(value=int(side)), Const(value=int(lanes)))) if (
                buffer.space is Space.REGISTER and side == lanes and side in _LANES
            ):
                found[buffer.name] = side
    for stmt in statements(nest.body):
        if not isinstance(stmt, Store):
            continue
        used = {load.array for load in loads(stmt.value)} | {stmt.buffer}
        if not isinstance(stmt.value, Load):
            found = {name: side for name, side in found.items() if name not in used}
    return found


def _touched(stmt: Stmt) -> set[str]:
    touched: set[str] = set()
    for inner in statements(stmt):
        if isinstance(inner, Store | Let):
            touched |= {load.array for load in loads(inner.value)}
        if isinstance(inner, Store):
            touched.add(inner.buffer)
    return touched


def _stores_of(stmt: Stmt) -> list[Store] | None:
    """The stores of a body that consists of stores only; None otherwise."""
    match stmt:
        case Store():
            return [stmt]
        case Block(body=body):
            parts = [_stores_of(child) for child in body]
            return None if None in parts else [s for part in parts for s in part or ()]
    return None


def _is_vector_store(store: Store, lane: str, forms: VectorForms) -> bool:
    target = Load(store.buffer, store.index, store.value.dtype)
    if not _is_vector_load(target, lane, forms):
        return False
    if store.buffer in forms.squares and isinstance(store.value, Load):
        return _is_vector_load(store.value, lane, forms)
    return _is_vector(store.value, lane, forms)


def _is_vector(expr: Expr, lane: str, forms: VectorForms) -> bool:
    """Whether an expression is uniform over the lanes, or made of contiguous elements."""
    if isinstance(expr, Load) and _is_column(expr, lane, forms):
        return True
    if not _is_real(expr.dtype):
        return False
    if lane not in names(expr):
        return True
    match expr:
        case Load():
            return _is_vector_load(expr, lane, forms) or _is_gathered(expr, forms)
        case Unary(op="neg", x=x):
            return _is_vector(x, lane, forms)
        case Binary(op=op, x=x, y=y) if op in _OPERATORS:
            return _is_vector(x, lane, forms) and _is_vector(y, lane, forms)
        case Call(function="fma", args=args) if forms.fuses:
            return all(_is_vector(arg, lane, forms) for arg in args)
        case Call(function="sqrt", args=(x,)) | Unary(op="abs", x=x) if forms.is_gnu:
            return _is_vector(x, lane, forms)
        case Select(cond=cond, x=x, y=y) if forms.is_gnu:
            parts = _is_vector(x, lane, forms) and _is_vector(y, lane, forms)
            return parts and _is_mask(cond, expr.dtype, lane, forms)
    return False


def _is_mask(cond: Expr, dtype: DType, lane: str, forms: VectorForms) -> bool:
    """Whether a condition is made of comparisons of vectors like those that it selects."""
    if lane not in names(cond):
        return True
    match cond:
        case Binary(op=op, x=x, y=y) if op in COMPARISONS and x.dtype == y.dtype == dtype:
            return _is_vector(x, lane, forms) and _is_vector(y, lane, forms)
        case Binary(op="and" | "or", x=x, y=y) if cond.dtype == BOOL:
            sides = (x, y)
            return all(lane in names(side) and _is_mask(side, dtype, lane, forms) for side in sides)
    return False


def _is_column(load: Load, lane: str, forms: VectorForms) -> bool:
    """Whether lanes are the rows of a square in registers."""
    if load.array not in forms.squares or not forms.is_gnu:
        return False
    return load.index[0] == Var(lane) and isinstance(load.index[1], Const)


def _is_gathered(load: Load, forms: VectorForms) -> bool:
    """Whether elements that lie apart can be put together: none of a vector in registers."""
    is_open = forms.is_gnu and load.array in forms.arguments
    return is_open and bool(load.index) and not any(loads(entry) for entry in load.index)


def _is_vector_load(load: Load, lane: str, forms: VectorForms) -> bool:
    if not load.index or load.array not in forms.contiguous:
        return False
    *outer, last = load.index
    return step_of(last, lane) == 1 and not any(lane in names(entry) for entry in outer)


def _is_real(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits >= 32


@dataclass(frozen=True, slots=True)
class _Lanes:
    """The loop whose iterations are lanes."""

    var: str
    count: int


# Roots of vectors that compilers know by themselves: name, what the machine must have, arguments.
_ANY_ROOT = (("__builtin_elementwise_sqrt", "", "v"),)
_MASKED = "v, v, -1, 4"
_ROOTS = {
    (64, 2): (
        ("__builtin_aarch64_sqrtv2df", "__aarch64__", "v"),
        ("__builtin_ia32_sqrtpd", "__SSE2__", "v"),
        *_ANY_ROOT,
    ),
    (32, 4): (
        ("__builtin_aarch64_sqrtv4sf", "__aarch64__", "v"),
        ("__builtin_ia32_sqrtps", "__SSE__", "v"),
        *_ANY_ROOT,
    ),
    (64, 4): (("__builtin_ia32_sqrtpd256", "__AVX__", "v"), *_ANY_ROOT),
    (32, 8): (("__builtin_ia32_sqrtps256", "__AVX__", "v"), *_ANY_ROOT),
    (64, 8): (("__builtin_ia32_sqrtpd512_mask", "__AVX512F__", _MASKED), *_ANY_ROOT),
    (32, 16): (("__builtin_ia32_sqrtps512_mask", "__AVX512F__", _MASKED), *_ANY_ROOT),
}


class VectorStatements:
    """Writes statements on vectors; `expressions` writes what is the same for all lanes."""

    def __init__(self, expressions: CExpressions) -> None:
        self.expressions = expressions
        self.forms = VectorForms(())
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
                if _is_column(expr, around.var, self.forms):
                    return self._column(expr, around)
                is_whole = _is_vector_load(expr, around.var, self.forms)
                if not is_whole:
                    return self._gathered(expr, around)
                return self._vector_element(expr, around, is_target=False)
            case Unary(op="abs", x=x):
                kind, mask = self._types(expr.dtype, around)
                most = f"0x7f{'f' * (expr.dtype.bits // 4 - 2)}"
                bits = f"({mask}){self._vector(x, around).within(UNARY)}"
                return CText(f"(({kind})({bits} & {most}))", ATOM)
            case Select(cond=cond, x=x, y=y):
                return self._selected(cond, x, y, around)
            case Call(function="sqrt", args=(x,)):
                return CText(f"{self._root(expr.dtype, around)}(({self._vector(x, around)}))", ATOM)
            case Unary(x=x):
                inner = self._vector(x, around)
                text = f"({inner})" if inner.text.startswith("-") else inner.within(UNARY)
                return CText(f"-{text}", UNARY)
            case Binary(op=op, x=x, y=y):
                return operation(op, self._vector(x, around), self._vector(y, around))
            case Call(args=(x, y, z)):
                return self._vector(Binary("add", Binary("mul", x, y), z), around)
        raise AssertionError(f"no vector: {expr}")

    def _types(self, dtype: DType, around: _Lanes) -> tuple[str, str]:
        """The types of vectors and of their comparisons."""
        return self.type_name(dtype, around.count), self.mask_name(dtype, around.count)

    def _whole(self, expr: Expr, around: _Lanes) -> CText:
        """An expression as a vector, also where it is one number for all lanes."""
        found = self._vector(expr, around)
        if around.var in names(expr):
            return found
        # Less a vector of zeros a number is a vector, and the same number.
        zeros = f"({self.type_name(expr.dtype, around.count)}){{0}}"
        return CText(f"({found.within(SUM)} - {zeros})", ATOM)

    def _gathered(self, load: Load, around: _Lanes) -> CText:
        """Elements that lie apart, one for each lane."""
        parts = []
        for lane in range(around.count):
            index = tuple(substitute(entry, {around.var: Const(lane)}) for entry in load.index)
            parts.append(self.expressions.element(load.array, index))
        return CText(f"({self.type_name(load.dtype, around.count)}){{{', '.join(parts)}}}", ATOM)

    def _column(self, load: Load, around: _Lanes) -> CText:
        """A column of a square: rows are mixed by halves, in as many rounds as sides have bits.

        Columns that share a mix name it by the same text: compilers compute it once.
        """
        side, half = around.count, around.count // 2
        orders = [[base + k // 2 + (k % 2) * side for k in range(side)] for base in (0, half)]
        mix = self._mix(load.dtype, around)

        def mixed(rounds: int, at: int) -> str:
            if rounds == 0:
                return self.expressions.element(load.array, (Const(at),))
            parts = [mixed(rounds - 1, at // 2 + shift) for shift in (0, half)]
            return f"{mix}({parts[0]}, {parts[1]}, {', '.join(map(str, orders[at % 2]))})"

        column = load.index[1]
        assert isinstance(column, Const)
        assert isinstance(column.value, int)
        return CText(mixed(side.bit_length() - 1, column.value), ATOM)

    def _mix(self, dtype: DType, around: _Lanes) -> str:
        """The name of a macro for lanes of two vectors in another order."""
        name, mask = f"lw_mix_{dtype}x{around.count}", self.mask_name(dtype, around.count)
        self.types[name] = (
            f"#undef {name}\n"
            "#if defined(__clang__) || __GNUC__ >= 12\n"
            f"#define {name}(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)\n"
            "#else\n"
            f"#define {name}(x, y, ...) __builtin_shuffle(x, y, ({mask}){{__VA_ARGS__}})\n"
            "#endif\n"
        )
        return name

    def _selected(self, cond: Expr, x: Expr, y: Expr, around: _Lanes) -> CText:
        """Lanes of `x` where a condition holds, else of `y`."""
        first, second = self._whole(x, around), self._whole(y, around)
        if around.var not in names(cond):
            test = self.expressions.condition(cond)
            return CText(f"({test} ? {first} : {second})", ATOM)
        kind, mask = self._types(x.dtype, around)
        # The type of a comparison is one of GCC's own.
        parts = f"(({mask}){first.within(UNARY)} & lw_m) | (({mask}){second.within(UNARY)} & ~lw_m)"
        return CText(
            f"({{ {mask} lw_m = ({mask}){self._mask(cond, around)}; ({kind})({parts}); }})", ATOM
        )

    def _root(self, dtype: DType, around: _Lanes) -> str:
        """The name of a macro for the root of all lanes.

        C's function sets errno, which takes a branch for every lane: compilers' own do not.
        """
        kind, name = self.type_name(dtype, around.count), f"lw_sqrt_{dtype}x{around.count}"
        plain = "__builtin_sqrt" + ("" if dtype.bits == 64 else "f")
        each = ", ".join(f"{plain}(x_[{k}])" for k in range(around.count))
        # Braces hold commas: calls have an argument in parentheses of its own.
        lines = [
            f"#undef {name}",
            f"#define {name}(v) ({{ {kind} x_ = (v); ({kind}){{{each}}}; }})",
        ]
        lines.append("#ifdef __has_builtin")
        branch = "#if"
        for builtin, macro, call in _ROOTS.get((dtype.bits, around.count), _ANY_ROOT):
            has = f"defined({macro}) && __has_builtin({builtin})" if macro else ""
            lines += [
                f"{branch} {has or f'__has_builtin({builtin})'}",
                f"#undef {name}",
                f"#define {name}(v) (({kind}){builtin}({call}))",
            ]
            branch = "#elif"
        self.types[name] = "\n".join([*lines, "#endif", "#endif"]) + "\n"
        return name

    def _mask(self, cond: Expr, around: _Lanes) -> str:
        """A condition as lanes of ones and zeros."""
        assert isinstance(cond, Binary)
        if cond.op in COMPARISONS:
            left, right = self._whole(cond.x, around), self._whole(cond.y, around)
            return f"({left} {_COMPARED_BY[cond.op]} {right})"
        sign = {"and": "&", "or": "|"}[cond.op]
        return f"({self._mask(cond.x, around)} {sign} {self._mask(cond.y, around)})"

    def mask_name(self, dtype: DType, lanes: int) -> str:
        """The name of the type that comparisons of vectors have."""
        name = f"lw_mask{dtype.bits}x{lanes}"
        attributes = f"vector_size({lanes * dtype.bytes}), aligned({dtype.bytes}), may_alias"
        kind = "long long" if dtype.bits == 64 else "int"
        self.types[name] = f"typedef {kind} {name} __attribute__(({attributes}));\n"
        return name

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
    stores = _stores_of(loop.body) if is_counted else None
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
