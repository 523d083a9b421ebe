"""What an element of a recurrence costs: one after the other, and by diagonals.

In the order of the source every element waits for the one before it in its row: the latencies on
the way from there, or what a core issues in a cycle, bound it. By diagonals nothing waits; vectors
do the work, and elements are copied to and from buffers.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.machine import Machine
from loopwright.ir.program import Statement
from loopwright.ir.visit import children, names, walk
from loopwright.lower.linear_forms import linear

__all__ = ["RecurrenceCost"]

_ISSUED = 4  # scalar instructions of a cycle
_VECTORS = 2  # vector instructions of a cycle
# Cycles to copy an element between its array and a buffer, where squares are transposed in
# registers, and one by one: bytes, and what is converted (measured, N1).
_COPIED = 1.0
_CONVERTED = 3.0
_COMPARED = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})


class RecurrenceCost:
    """Cycles for an element of a recurrence, all of its statements together."""

    def __init__(self, machine: Machine, statements: Sequence[Statement], row: str, column: str):
        self.machine, self.statements = machine, statements
        self.row, self.column = row, column
        self.written = {s.write.array: s for s in statements if s.write.index}

    def in_order(self) -> float:
        """Cycles in the order of the source."""
        return max(self._chain(), self._instructions() / _ISSUED)

    def by_diagonals(self) -> float:
        """Cycles with vectors along diagonals."""
        bits = max(statement.write.dtype.bits for statement in self.statements)
        lanes = self.machine.lanes(bits)
        copied = _COPIED * len(self.written)
        return self._instructions() / (_VECTORS * lanes) + copied + self._brought()

    def _brought(self) -> float:
        """Cycles to copy elements that differ in every row and column, and nobody computes."""
        found: dict[Load, float] = {}
        computed: set[str] = set()
        for statement in self.statements:
            for part in walk(statement.value):
                is_cast = isinstance(part, Cast)
                load = part.x if isinstance(part, Cast) else part
                if not isinstance(load, Load) or not {self.row, self.column} <= names(load):
                    continue
                is_old = self._is_own(load) and load.array not in computed
                if load.array not in self.written or is_old:
                    is_whole = not is_cast and load.dtype.bits in (32, 64)
                    cost = _COPIED if is_whole else _CONVERTED
                    found[load] = max(cost, found.get(load, 0.0))
            computed.add(statement.write.array)
        return sum(found.values())

    def _instructions(self) -> int:
        """About how many instructions an element takes, each distinct operation one."""
        found: set[Expr] = set()
        for statement in self.statements:
            found.update(walk(statement.value))
        operations = [x for x in found if not isinstance(x, Const | Var | Load | Cast)]
        read = [x for x in found if isinstance(x, Load) and x.index]
        inside = {part for load in read for entry in load.index for part in walk(entry)}
        return len([x for x in operations if x not in inside]) + len(read) + len(self.written)

    def _chain(self) -> float:
        """Latencies between an element and the next one of its row."""
        known: dict[str, float] = {}  # of what statements have written so far
        for statement in self.statements:
            found = self._latency(statement.value, known)
            if found is not None:
                known[statement.write.array] = found
        return max((known[name] for name in self.written if name in known), default=0.0)

    def _latency(self, expr: Expr, known: dict[str, float]) -> float | None:
        """Cycles from the element before to the value of an expression; None: it has no part."""
        if isinstance(expr, Load):
            if not expr.index or (expr.array in known and self._is_own(expr)):
                return known.get(expr.array)
            return 0.0 if self._is_before(expr) else None
        parts = [self._latency(part, known) for part in children(expr)]
        waits = [part for part in parts if part is not None]
        return max(waits) + self._step(expr) if waits else None

    def _step(self, expr: Expr) -> float:
        """Cycles from an operand to the result of an operation."""
        match expr:
            case Cast(x=x):
                return 0.0 if not (expr.dtype.is_float or x.dtype.is_float) else 4.0
            case Binary(op=op, x=x) if op in _COMPARED:
                return 1.0 if not x.dtype.is_float else self._add(x.dtype)
            case Select():
                return 1.0 if not expr.dtype.is_float else self._add(expr.dtype)
            case Binary(op="min" | "max"):
                return 2.0 if not expr.dtype.is_float else self._add(expr.dtype)
            case Binary() | Unary() | Call():
                return 1.0 if not expr.dtype.is_float else self._add(expr.dtype)
        return 0.0

    def _add(self, dtype: DType) -> float:
        return self.machine.cost("add", dtype.name).latency

    def _is_own(self, load: Load) -> bool:
        """Whether an element is the one that its instance writes."""
        return load.array in self.written and load.index == self.written[load.array].write.index

    def _is_before(self, load: Load) -> bool:
        """Whether an element was written by another instance of the same row."""
        if load.array not in self.written or self._is_own(load):
            return False
        own = self.written[load.array].write.index
        for entry, written in zip(load.index, own, strict=True):
            gap = linear(written) - linear(entry)
            if gap.terms or (gap.constant and self.row in names(written)):
                return False
        return True
