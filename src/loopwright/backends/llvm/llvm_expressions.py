"""Expressions in LLVM: scopes, subscripts, values of one or many lanes, buffers by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import assert_never

from loopwright.backends.llvm import llvm_arithmetic as arithmetic
from loopwright.backends.llvm import llvm_functions as functions
from loopwright.backends.llvm import llvm_memory as memory
from loopwright.backends.llvm.llvm_bounds_check import inside, redirected
from loopwright.backends.llvm.llvm_builder import (
    Flag,
    FunctionBuilder,
    SSAValue,
    int_literal,
    literal,
    type_name,
)
from loopwright.backends.llvm.llvm_narrow import hidden_constant
from loopwright.backends.llvm.llvm_powers import constant_power
from loopwright.diagnostics import InternalError
from loopwright.ir.dtypes import INT64, DType
from loopwright.ir.expr import (
    COMPARISONS,
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
from loopwright.ir.fused_sums import factors, rounds
from loopwright.ir.loops import Buffer
from loopwright.ir.truncated_division import truncated_division
from loopwright.ir.visit import loads, names
from loopwright.lazy_dataclass import dataclass

__all__ = ["Innermost", "LLVMExpressions"]


@dataclass(frozen=True, slots=True)
class Innermost:
    """A loop that holds no others: its variable, the first value of that, and what is invariant."""

    var: str
    start: SSAValue
    around: frozenset[str]  # variables in scope where the loop begins


class LLVMExpressions:
    """Writes expressions over the variables and buffers in scope to a function body.

    Inside a vector loop, whose variable counts lanes from 0, `value` gives one lane per iteration;
    `index` always gives the scalar of the first lane, from which addresses are made.
    """

    def __init__(self, readonly: set[str], features: frozenset[str]) -> None:
        self.code = FunctionBuilder()
        self.scope: dict[str, SSAValue] = {}
        self.narrow: dict[tuple[str, DType], SSAValue] = {}  # variables as narrower integers
        self.buffers: dict[str, memory.PointerBuffer | memory.RegisterBuffer] = {}
        self.strides: dict[str, tuple[Expr, ...]] = {}
        self.features = features  # instruction set extensions of the machine
        self.readonly = readonly  # buffers nobody writes: equal loads are one load
        self.vector: tuple[str, int] | None = None  # loop variable that runs over lanes, lanes
        self.wide: frozenset[str] = frozenset()  # variables with a value per lane
        self.wraps = False  # whether `index` computes data, which may overflow
        self.fuses = False  # whether a product and the sum it is written in round once
        # The innermost loop around what is written, if that runs in every iteration: whoever writes
        # a branch sets it aside.
        self.innermost: Innermost | None = None
        self.violation = ""  # pointer to the record of a violation of bounds
        self.spare: dict[int, str] = {}  # bytes -> memory for accesses that would lie outside
        # Number of each buffer whose accesses are checked, and the limits of its dimensions.
        self.limits: dict[str, tuple[int, tuple[tuple[SSAValue, SSAValue], ...]]] = {}

    def declare(self, buffer: Buffer, place: memory.PointerBuffer | memory.RegisterBuffer) -> None:
        self.buffers[buffer.name] = place
        self.strides[buffer.name] = buffer.strides

    @contextmanager
    def bound(self, name: str, value: SSAValue) -> Iterator[None]:
        """A variable in scope; subscripts computed inside are forgotten on leaving."""
        outer, wide = self.scope.get(name), self.wide
        self.scope[name] = value
        if value.lanes > 1:
            self.wide |= {name}
        with self.code.scope():
            yield
        self.wide = wide
        if outer is None:
            del self.scope[name]
        else:
            self.scope[name] = outer

    def index(self, expr: Expr) -> SSAValue:
        """An int64 scalar: subscripts and bounds."""
        code = self.code
        match expr:
            case Const(value=value):
                return SSAValue(str(int(value)), INT64)  # type: ignore[arg-type]
            case Var(name=name):
                return self.scope[name]
            case Binary(op="add" | "sub" | "mul" as op, x=x, y=y):
                return memory.index_binary(code, op, self.index(x), self.index(y), self.wraps)
            case Binary(op="min" | "max" as op, x=x, y=y):
                a, b = self.index(x), self.index(y)
                m, n = int_literal(a), int_literal(b)
                if m is not None and n is not None:
                    return SSAValue(str(min(m, n) if op == "min" else max(m, n)), INT64)
                return arithmetic.binary(code, op, a, b)
            case Binary(op="floordiv" | "mod" as op, x=x, y=y):
                return self._index_division(op, self.index(x), self.index(y))
            case Select(cond=cond, x=x, y=y):
                return arithmetic.select(code, self.flag(cond), self.index(x), self.index(y))
            case Load(array=name, index=index) if name in self.readonly:
                return self._load_table(name, index)
            case Load() | Cast() | Unary() | Binary() | Call():
                vector, self.vector = self.vector, None
                found = arithmetic.cast(code, self.value(expr), INT64)
                self.vector = vector
                return found
            case _:
                assert_never(expr)

    def _load_table(self, name: str, index: tuple[Expr, ...]) -> SSAValue:
        """Load from a read-only argument; equal loads are one load."""
        vector, self.vector = self.vector, None
        place = self.buffers[name]
        assert isinstance(place, memory.PointerBuffer)
        found = self.offset(name, index)
        assert found is not None
        place, found = self._guarded(name, index, place, found)
        pointer = memory.address(self.code, place, found[0])
        self.vector = vector
        scalar = type_name(place.dtype)
        text = self.code.pure(f"load {scalar}, ptr {pointer}, align {place.dtype.bytes}")
        return arithmetic.cast(self.code, SSAValue(text, place.dtype), INT64)

    def _index_division(self, op: str, x: SSAValue, y: SSAValue) -> SSAValue:
        a, b = int_literal(x), int_literal(y)
        if a is not None and b:
            return SSAValue(str(a // b if op == "floordiv" else a % b), INT64)
        if b is not None and b > 0 and b & (b - 1) == 0:
            # A power of two: shifts and masks round down by themselves.
            if op == "floordiv":
                return SSAValue(self.code.pure(f"ashr {x}, {b.bit_length() - 1}"), INT64)
            return SSAValue(self.code.pure(f"and {x}, {b - 1}"), INT64)
        return arithmetic.binary(self.code, op, x, y)

    def value(self, expr: Expr) -> SSAValue:
        """The value of an expression, one lane or, inside a vector loop, one per lane."""
        code = self.code
        match expr:
            case Const(value=value, dtype=dtype):
                return literal(dtype, value)
            case Var(name=name):
                if self.vector is not None and name == self.vector[0]:
                    return self._lane_numbers()
                return self.scope[name]
            case Load(array=name, index=index):
                return self._load(name, index)
            case Binary(op="pow", x=x, y=y) | Call(function="pow", args=(x, y)):
                return self._power(self.value(x), y)
            case Binary(op="add" | "sub" | "mul") if self.fuses and rounds(expr.dtype):
                return self._fused(expr)
            case Binary(
                op="min" | "max" as op, x=x, y=Select(cond=cond, x=y, y=Const() as extreme)
            ) if self._is_gathered(op, extreme):
                neutral = hidden_constant(code, self.value(extreme))
                chosen = arithmetic.select(code, self.flag(cond), self.value(y), neutral)
                return arithmetic.binary(code, op, self.value(x), chosen)
            case Binary(op=op, x=x, y=y):
                return arithmetic.binary(code, op, self.value(x), self.value(y))
            case Unary(op="abs", x=x) if x.dtype.is_complex:
                return functions.absolute(code, self.value(x))
            case Unary(op=op, x=x):
                return arithmetic.unary(code, op, self.value(x))
            case Select(cond=cond, x=x, y=y):
                found = self._division_of_c(expr)
                if found is not None:
                    return found
                return arithmetic.select(code, self.flag(cond), self.value(x), self.value(y))
            case Cast(x=Var(name=name), dtype=dtype) if (name, dtype) in self.narrow:
                return self.narrow[name, dtype]
            case Cast(x=x, dtype=dtype):
                is_whole = x.dtype.is_float and dtype.is_integer
                if is_whole and "neon" not in self.features:
                    return arithmetic.cast_by_selection(code, self.value(x), dtype)
                return arithmetic.cast(code, self.value(x), dtype)
            case Call(function="dot", args=(Load() as x, Load() as y, z)):
                rows = self._row_of(x, z.dtype), self._row_of(y, z.dtype)
                return functions.dot(code, *rows, self.value(z), self.features)
            case Call(function=function, args=args):
                values = tuple(self.value(a) for a in args)
                return functions.call(code, function, values, self.features)
            case _:
                assert_never(expr)

    def _is_gathered(self, op: str, extreme: Const) -> bool:
        """Whether a number changes no minimum or maximum of a type as wide as registers are."""
        dtype = extreme.dtype
        if self.vector is not None or not dtype.is_integer or dtype.bits not in (32, 64):
            return False
        return extreme.value == (dtype.greatest if op == "min" else dtype.least)

    def _division_of_c(self, expr: Select) -> SSAValue | None:
        """C's quotient or remainder by a constant that never traps; None for anything else."""
        found = truncated_division(expr)
        if found is None or not isinstance(found[2], Const) or found[2].value in (0, -1):
            return None
        op, x, y = found
        return arithmetic.truncated_division(self.code, op, self.value(x), self.value(y))

    def _fused(self, expr: Binary) -> SSAValue:
        """A sum with a product that is written in it, in one rounding: of two the second one.

        What is fused depends on nothing but the expression, so that every order of the loops and
        every way to vectorise them gives the same bits.
        """
        code, is_sum = self.code, expr.op == "add"
        if expr.op == "mul":
            return self._product(expr.x, expr.y)
        if (found := factors(expr.y)) is not None:
            factor, other, is_negative = found
            x, y, z = self.value(factor), self.value(other), self.value(expr.x)
            x = x if is_sum != is_negative else arithmetic.unary(code, "neg", x)
        elif (found := factors(expr.x)) is not None:
            factor, other, is_negative = found
            x, y, z = self.value(factor), self.value(other), self.value(expr.y)
            x = arithmetic.unary(code, "neg", x) if is_negative else x
            z = z if is_sum else arithmetic.unary(code, "neg", z)
        else:
            return arithmetic.binary(code, expr.op, self.value(expr.x), self.value(expr.y))
        return functions.call(code, "fma", (x, y, z), self.features)

    def _product(self, x: Expr, y: Expr) -> SSAValue:
        """A product; of complex numbers each part rounds its second product with the sum."""
        found = self.value(x), self.value(y)
        if not x.dtype.is_complex:
            return arithmetic.binary(self.code, "mul", *found)
        return functions.fused_complex_product(self.code, *found)

    def _power(self, x: SSAValue, y: Expr) -> SSAValue:
        if isinstance(y, Const) and isinstance(y.value, int | float):
            found = constant_power(self.code, x, float(y.value), self.features)
            if found is not None:
                return found
        return functions.power(self.code, x, self.value(y))

    def flag(self, expr: Expr) -> Flag:
        """A condition as i1, for a branch or select."""
        if isinstance(expr, Binary) and expr.op in COMPARISONS:
            return arithmetic.compare(self.code, expr.op, self.value(expr.x), self.value(expr.y))
        value = self.value(expr)
        zero = arithmetic.broadcast(self.code, literal(value.dtype, 0), value.lanes)
        return arithmetic.compare(self.code, "ne", value, zero)

    def _lane_numbers(self) -> SSAValue:
        assert self.vector is not None
        lanes = self.vector[1]
        return SSAValue(f"<{', '.join(f'i64 {k}' for k in range(lanes))}>", INT64, lanes)

    def varies(self, expr: Expr) -> bool:
        """Whether `expr` differs between the lanes of the enclosing vector loop."""
        if self.vector is None or isinstance(expr, Const):
            return False
        found = names(expr)
        return self.vector[0] in found or bool(found & self.wide)

    @contextmanager
    def one_lane(self, lane: int, *exprs: Expr) -> Iterator[None]:
        """Inside, `exprs` are evaluated for one lane, as scalars."""
        assert self.vector is not None
        vector, self.vector = self.vector, None
        outer, self.scope = self.scope, {**self.scope, vector[0]: SSAValue(str(lane), INT64)}
        for name in sorted(self.wide & set().union(*map(names, exprs))):
            self.scope[name] = memory.extract(self.code, self.scope[name], lane)
        wide, self.wide = self.wide, frozenset()
        with self.code.scope():
            yield
        self.vector, self.scope, self.wide = vector, outer, wide

    # -- memory ---------------------------------------------------------------------------------

    def offset(self, name: str, index: tuple[Expr, ...]) -> tuple[SSAValue, SSAValue, int] | None:
        """Offset of the first lane, distance between lanes, number of lanes.

        None when the elements of the lanes do not lie at equal distances.
        """
        offset, stride = SSAValue("0", INT64), SSAValue("0", INT64)
        lanes = 1
        for entry, step in zip(index, self.strides[name], strict=True):
            slope = self._slope_of(entry)
            if slope is None:
                return None
            pitch = self.index(step)
            term = memory.index_binary(self.code, "mul", self.index(entry), pitch)
            offset = memory.index_binary(self.code, "add", offset, term)
            if self.vector is None or slope == _FLAT:
                continue
            lanes = self.vector[1]
            rise = memory.index_binary(self.code, "mul", self.index(slope), pitch)
            stride = memory.index_binary(self.code, "add", stride, rise)
        return offset, stride, lanes

    def _from_first(
        self,
        name: str,
        index: tuple[Expr, ...],
        place: memory.PointerBuffer,
        found: tuple[SSAValue, SSAValue, int],
    ) -> tuple[memory.PointerBuffer, tuple[SSAValue, SSAValue, int]]:
        """An access with gaps between iterations, as a distance from the element of the first one.

        That element is accessed too, so both steps of the address stay inside of the array. LLVM
        loads and stores whole vectors with gaps only where it sees that addresses never wrap, and
        it moves invariant terms into a pointer of their own, of which it knows nothing.
        """
        loop = self.innermost
        if loop is None or not place.is_inside or self.vector is not None:
            return place, found
        var, pitch = loop.var, 0
        if any(loads(x) or not names(x) <= loop.around | {var} for x in index):
            return place, found
        for entry, step in zip(index, self.strides[name], strict=True):
            slope = _slope(entry, var)
            if slope is None or (slope != _FLAT and not isinstance(step, Const)):
                return place, found
            if slope != _FLAT:
                distance = int_literal(self.index(slope * step))
                if distance is None:
                    return place, found
                pitch += distance
        if not 1 < abs(pitch) <= _MOST_GAPS:
            return place, found
        here = self.scope[var]
        with self.bound(var, loop.start):
            first = self.offset(name, index)
            assert first is not None, "outside of vectors every element has an offset"
            if int_literal(first[0]) is not None:
                return place, found
            place = replace(place, pointer=memory.address(self.code, place, first[0]))
        passed = memory.index_binary(self.code, "sub", here, loop.start)
        behind = memory.index_binary(self.code, "mul", passed, SSAValue(str(pitch), INT64))
        return place, (behind, *found[1:])

    def _slope_of(self, entry: Expr) -> Expr | None:
        """The difference of a subscript between consecutive lanes; None where it varies."""
        if self.vector is None:
            return _FLAT
        # A variable that holds a vector has a value of its own in every lane.
        return None if self.wide and names(entry) & self.wide else _slope(entry, self.vector[0])

    def _guarded(
        self,
        name: str,
        index: tuple[Expr, ...],
        place: memory.PointerBuffer,
        found: tuple[SSAValue, SSAValue, int],
    ) -> tuple[memory.PointerBuffer, tuple[SSAValue, SSAValue, int]]:
        """An access that `offset` found, with its bounds check where the buffer has limits."""
        number, limits = self.limits.get(name, (0, ()))
        if not limits:
            return place, found
        flag = Flag("true")
        for dimension, (entry, allowed) in enumerate(zip(index, limits, strict=True)):
            first, slope = self.index(entry), self._slope_of(entry)
            assert slope is not None
            rise = self.index(slope * (found[2] - 1))
            last = memory.index_binary(self.code, "add", first, rise)
            here = inside(self.code, self.violation, (number, dimension), (first, last), allowed)
            flag = Flag(self.code.emit(f"and {flag}, {here.text}"))
        size = found[2] * place.dtype.bytes
        if size not in self.spare:
            self.spare[size] = self.code.alloca("i8", size)
        return redirected(self.code, flag, self.spare[size], place, found)

    def _place(
        self, place: memory.RegisterBuffer, index: tuple[Expr, ...]
    ) -> tuple[tuple[int, ...], int]:
        """Row of a register buffer, and the lane in it."""
        numbers = [int_literal(self.index(x)) for x in index]
        if None in numbers:
            raise InternalError("register buffers take constant and vector subscripts only")
        *row, lane = (int(n or 0) for n in numbers or [0])
        if tuple(row) not in place.slots or not 0 <= lane < place.lanes:
            raise InternalError(f"element {[*row, lane]} is outside a register buffer")
        return tuple(row), lane

    def _places(
        self, place: memory.RegisterBuffer, index: tuple[Expr, ...]
    ) -> list[tuple[tuple[int, ...], int]]:
        """Row and lane of the element that each lane of the vector loop accesses."""
        assert self.vector is not None
        if index[-1] == Var(self.vector[0]) and not any(map(self.varies, index[:-1])):
            row = self._place(place, index)[0]
            self._place(place, (*index[:-1], Const(self.vector[1] - 1)))
            return [(row, lane) for lane in range(self.vector[1])]
        found = []
        for lane in range(self.vector[1]):
            with self.one_lane(lane, *index):
                found.append(self._place(place, index))
        return found

    def _load(self, name: str, index: tuple[Expr, ...]) -> SSAValue:
        place = self.buffers[name]
        if isinstance(place, memory.PointerBuffer):
            return self._load_memory(name, place, index)
        if not any(map(self.varies, index)):
            row, lane = self._place(place, index)
            value = memory.read_row(self.code, place, row)
            if value.lanes == 1:
                return value
            if self.vector is None:
                return memory.extract(self.code, value, lane)
            return memory.splat_lane(self.code, value, lane, self.vector[1])
        places = self._places(place, index)
        if _is_row(place, places):
            return memory.read_row(self.code, place, places[0][0])
        return memory.read_across(self.code, place, places)

    def _load_memory(
        self, name: str, place: memory.PointerBuffer, index: tuple[Expr, ...]
    ) -> SSAValue:
        found = self.offset(name, index)
        if found is not None:
            place, found = self._guarded(name, index, place, found)
            place, found = self._from_first(name, index, place, found)
            match index:
                case (Binary(op="add", x=x, y=Var() as y),) if place.is_inside and found[2] == 1:
                    # The steps of an unrolled loop share a pointer: neighbours load in pairs.
                    if int_literal(self.index(y)) and self.strides[name] == (Const(1),):
                        place = memory.moved(self.code, place, self.index(x))
                        found = (self.index(y), *found[1:])
            return memory.load(self.code, place, *found)
        assert self.vector is not None
        lanes = range(self.vector[1])
        return memory.gather(self.code, [self._load_lane(name, index, lane) for lane in lanes])

    def _load_lane(self, name: str, index: tuple[Expr, ...], lane: int) -> SSAValue:
        with self.one_lane(lane, *index):
            return self._load(name, index)

    def _row_of(self, load: Load, total: DType) -> tuple[SSAValue, int | None]:
        """The whole register row of an operand of dot, and the lane its group starts at."""
        place = self.buffers[load.array]
        vector, self.vector = self.vector, None
        if isinstance(place, memory.PointerBuffer):
            # One group for all lanes, broadcast from memory.
            assert vector is None or vector[0] not in names(load.index[-1])
            found = self.offset(load.array, load.index)
            assert found is not None
            self.vector = vector
            group = total.bits // load.dtype.bits
            row = memory.load(self.code, place, found[0], SSAValue("1", INT64), group)
            return row, 0
        numbers = [int_literal(self.index(x)) for x in load.index]
        self.vector = vector
        assert None not in numbers, "operands of dot stand in registers"
        at = tuple(int(n or 0) for n in numbers[:-1])
        moves = vector is not None and vector[0] in names(load.index[-1])
        return memory.read_row(self.code, place, at), None if moves else numbers[-1]

    def store(self, name: str, index: tuple[Expr, ...], value: SSAValue) -> None:
        place = self.buffers[name]
        if self.vector is not None:
            value = arithmetic.broadcast(self.code, value, self.vector[1])
            if not any(map(self.varies, index)):
                raise InternalError(f"every lane stores to the same element of '{name}'")
        if isinstance(place, memory.PointerBuffer):
            self._store_memory(name, place, index, value)
            return
        if self.vector is None:
            memory.write_lane(self.code, place, *self._place(place, index), value)
            return
        places = self._places(place, index)
        if _is_row(place, places):
            memory.write_row(self.code, place, places[0][0], value)
            return
        for lane, (row, at) in enumerate(places):
            memory.write_lane(self.code, place, row, at, memory.extract(self.code, value, lane))

    def _store_memory(
        self, name: str, place: memory.PointerBuffer, index: tuple[Expr, ...], value: SSAValue
    ) -> None:
        found = self.offset(name, index)
        if found is not None:
            place, found = self._guarded(name, index, place, found)
            place, found = self._from_first(name, index, place, found)
            memory.store(self.code, place, *found[:2], value)
            return
        for lane in range(value.lanes):
            element = memory.extract(self.code, value, lane)
            with self.one_lane(lane, *index):
                self._store_memory(name, place, index, element)


def _is_row(place: memory.RegisterBuffer, places: list[tuple[tuple[int, ...], int]]) -> bool:
    """Whether the lanes are those of one register row, all of them and in order."""
    return places == [(places[0][0], lane) for lane in range(place.lanes)]


_FLAT = Const(0)
_MOST_GAPS = 8  # elements from one iteration to the next: LLVM's limit for vectors with gaps


def _slope(expr: Expr, var: str) -> Expr | None:
    """The difference of `expr` between consecutive values of `var`; None where it varies."""
    match expr:
        case Const():
            return _FLAT
        case Var(name=name):
            return Const(1) if name == var else _FLAT
        case Unary(op="neg", x=x):
            return _slope(Const(0) - x, var)
        case Binary(op="add" | "sub" as op, x=x, y=y):
            left, right = _slope(x, var), _slope(y, var)
            if left is None or right is None:
                return None
            return left + right if op == "add" else left - right
        case Binary(op="mul", x=x, y=y):
            left, right = _slope(x, var), _slope(y, var)
            if left == _FLAT:
                return None if right is None else x * right
            return left * y if left is not None and right == _FLAT else None
    return None if var in names(expr) else _FLAT
