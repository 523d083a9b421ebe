"""What the operations of a statement cost a processor, by the machine's table.

Operations are of three kinds: those that vectors do as fast as single numbers, those that a divider
does (vectors of them one element after the other, or nearly so), and functions of the mathematical
library, one element at a time. A product that is added at once takes one instruction with the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary
from loopwright.ir.machine import Machine
from loopwright.ir.program import Statement
from loopwright.ir.visit import children, loads, walk
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "Operations",
    "function_cycles",
    "is_extreme",
    "latency",
    "operations",
    "shared_parts",
    "whole_operations",
]

SCALAR_DIVISION = 4.0  # cycles that processors take at least for one division
ROOT = 1.4  # times as long as a division
_CALL = 40.0  # cycles of a function of the mathematical library
_VECTOR_CALL = 24.0  # of a vector of numbers by lines of our own (backends/elementary)
_BY_LINES = frozenset({"exp", "log", "sin", "cos", "tanh"})
_WHOLE_DIVISION = 12.0  # cycles of a division of integers by what is not known
_BY_CONSTANT = 4  # instructions of one by a number: a wide product and shifts
_SINGLE = frozenset({"fma", "min_number", "max_number", "abs", "copysign"})  # no calls
_EXTREMES = {"min_number": "min", "max_number": "max"}
# Instructions that give minima the rules of C for NaN where the processor has others.
_PUT_RIGHT = 5
_LATENCY = 2.0  # cycles of most operations


@dataclass(frozen=True, slots=True)
class Operations:
    """Cycles of all operations of one instance."""

    plain: float  # of one element, or of a vector of them
    divisions: float  # of the divider, for one element
    vector_divisions: float  # of the divider, for a vector
    calls: float  # for one element; vectors are no faster
    bits: int  # of the elements that fill a vector


def operations(statement: Statement, machine: Machine, known: Collection[Expr] = ()) -> Operations:
    """What one instance of a statement has a processor do, subscripts left out.

    Parts that are `known` have been computed before.
    """
    dtype = statement.write.dtype.name
    bits = max(x.dtype.bits for x in (statement.write, *statement.reads))
    dot = machine.fused("dot", "int8")
    if dot is not None and _is_dot_product(statement):
        return Operations(1 / dot.per_cycle, 0.0, 0.0, 0.0, 8)
    each = 1 / machine.cost("add", dtype).per_cycle
    vector = 1 / machine.cost("div", dtype).per_cycle
    scalar = max(SCALAR_DIVISION, vector / machine.lanes(statement.write.dtype.bits))
    plain = calls = divided = 0.0
    for node in _on_data(statement.value, known):
        match node:
            case Call(function="sqrt"):
                divided += ROOT
            case Call(function="min_number" | "max_number" as function):
                plain += 1 / machine.cost(_EXTREMES[function], dtype).per_cycle
                plain += each * _PUT_RIGHT * (not _has_numbers(machine))
            case Call(function=function):
                is_single = function in _SINGLE
                plain += each * is_single
                calls += 0.0 if is_single else function_cycles(node, statement.value, machine)
            case Binary(op="pow"):
                calls += _CALL
            case Binary(op="div" | "mod" | "floordiv", y=y) if node.dtype.is_integer:
                if isinstance(y, Const):
                    plain += _BY_CONSTANT * each
                else:
                    calls += _WHOLE_DIVISION
            case Binary(op="div"):
                divided += 1.0
            case Binary(op="mod"):
                calls += _CALL
            case Binary(op="add" | "sub", x=x, y=y):
                plain += 0.0 if _is_product(x) or _is_product(y) else each
            case Binary(op="mul" | "min" | "max" as op):
                plain += 1 / machine.cost(op, dtype).per_cycle
            case Binary() | Unary() | Select():
                plain += each
            case Cast(x=x) if x.dtype.bits != node.dtype.bits or x.dtype.is_float:
                plain += each
    return Operations(plain, divided * scalar, divided * vector, calls, bits)


def function_cycles(call: Call, value: Expr, machine: Machine) -> float:
    """Cycles of a function of the mathematical library in a value, for one number.

    Those that have lines of our own are computed in vectors, also where a loop takes one number at
    a time (lower/values/functions_apart). Those that data choose may seldom be called at all.
    """
    if call.function not in _BY_LINES or call in _chosen_calls(value):
        return _CALL
    return _VECTOR_CALL / machine.lanes(64)


def _chosen_calls(value: Expr) -> set[Expr]:
    """The calls in what a condition chooses."""
    chosen = (node for node in walk(value) if isinstance(node, Select))
    parts = (part for node in chosen for side in (node.x, node.y) for part in walk(side))
    return {part for part in parts if isinstance(part, Call)}


def _has_numbers(machine: Machine) -> bool:
    """Whether minima and maxima pass over NaN in one instruction, as fmin and fmax do."""
    return machine.isa == "aarch64" or "avx512dq" in machine.features


def _is_dot_product(statement: Statement) -> bool:
    """Whether bytes are multiplied and added up in 32 bits, as one instruction does by fours."""
    match statement.value:
        case Binary(op="add", x=Load(array=array), y=Binary(op="mul", x=Cast(x=x), y=Cast(x=y))):
            is_own = array == statement.write.array and statement.write.dtype.bits == 32
            return is_own and x.dtype.bits == y.dtype.bits == 8
    return False


def whole_operations(expr: Expr, width: int, vectors: Callable[[int, int], float]) -> float:
    """Instructions on vectors for `width` lanes of an integer expression, subscripts left out.

    `vectors` tells how many registers so many elements of some bits take. Conversions double or
    halve the bits one step after the other.
    """
    found = 0.0
    for node in _on_data(expr):
        match node:
            case Cast(x=x) if not isinstance(x, Const):
                low, high = sorted((x.dtype.bits, node.dtype.bits))
                while low < high:
                    low *= 2
                    found += vectors(width, low)
            case Binary(op="add" | "sub", x=x, y=y) if _is_product(x) or _is_product(y):
                continue
            case Select() if is_extreme(node):
                continue  # one instruction, with its comparison
            case Binary(x=x):
                found += vectors(width, x.dtype.bits)
            case Unary() | Select():
                found += vectors(width, node.dtype.bits)
    return found


def is_extreme(expr: Select) -> bool:
    """Whether the lesser or the greater of two numbers is chosen, as people write it."""
    match expr.cond:
        case Binary(op="lt" | "le" | "gt" | "ge", x=x, y=y):
            return {expr.x, expr.y} == {x, y}
    return False


def latency(statement: Statement, arrays: Collection[str], machine: Machine) -> float:
    """Cycles from elements of some arrays to the value of a statement; 0 where it has none."""
    dtype = statement.write.dtype.name

    def depth(expr: Expr) -> float | None:
        if isinstance(expr, Load) and expr.array in arrays:
            return 0.0
        inner = [(found, part) for part in children(expr) if (found := depth(part)) is not None]
        if not inner:
            return None
        longest, through = max(inner, key=lambda one: one[0])
        return longest + _latency(expr, through, dtype, machine)

    return depth(statement.value) or 0.0


def _latency(expr: Expr, through: Expr, dtype: str, machine: Machine) -> float:
    """Cycles of one operation, from one of its operands on."""
    match expr:
        case Binary(op="div"):
            return machine.cost("div", dtype).latency
        case Call(function="sqrt"):
            return ROOT * machine.cost("div", dtype).latency
        case Call(function="min_number" | "max_number" as function):
            own = machine.cost(_EXTREMES[function], dtype).latency
            return own + _PUT_RIGHT * _LATENCY * (not _has_numbers(machine))
        case Call(function=function) if function not in _SINGLE:
            return _CALL
        case Binary(op="add" | "sub", x=x, y=y):
            is_fused = any(_is_product(part) and part is not through for part in (x, y))
            fused = machine.fused("fma", dtype) if is_fused else None
            return machine.cost("add", dtype).latency if fused is None else fused.accumulate
        case Binary(op="mul"):
            return machine.cost("mul", dtype).latency
        case Binary() | Unary() | Call() | Select():
            return _LATENCY
    return 0.0


def _is_product(expr: Expr) -> bool:
    return isinstance(expr, Binary) and expr.op == "mul"


def shared_parts(statements: Sequence[Statement]) -> dict[str, frozenset[Expr]]:
    """By statement, the operations that one before it with the same iterators has done already."""
    found: dict[str, frozenset[Expr]] = {}
    done: dict[tuple[str, ...], set[Expr]] = {}
    written = {statement.write.array for statement in statements}
    for statement in statements:
        before = done.setdefault(statement.iterators, set())
        parts = {part for part in _on_data(statement.value) if isinstance(part, Binary | Call)}
        found[statement.name] = frozenset(parts & before)
        before |= {x for x in parts if not any(load.array in written for load in loads(x))}
    return found


def _on_data(expr: Expr, known: Collection[Expr] = ()) -> Iterator[Expr]:
    """An expression and its parts, subscripts and what is known left out."""
    if expr in known:
        return
    yield expr
    if not isinstance(expr, Load):
        for part in children(expr):
            yield from _on_data(part, known)
