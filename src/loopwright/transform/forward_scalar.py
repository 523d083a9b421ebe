"""ForwardScalar: a value that is used by one statement is computed there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from loopwright.ir.expr import Binary, Call, Expr, Load, Unary
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import nodes_of
from loopwright.ir.visit import names, rewrite, substitute
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.scalar_life import is_local_scalar, life_of, with_statements
from loopwright.transform.schedule_legality import is_in_source_order
from loopwright.transform.step import Step, refuse

__all__ = ["ForwardScalar"]


@dataclass(frozen=True, slots=True)
class ForwardScalar(Step):
    """Put the value of a scalar where it is used.

    A scalar between two statements needs an array as soon as iterations run beside each other, and
    an update by a scalar does not tell what is gathered.

    rewrite:  t = e; x = f(t)  ->  x = f(e)
    needs:    the source order; a local scalar that one statement sets and one later in the same
              iteration reads, with nothing in between that writes what e reads; a value that no
              sum of f would round together with (ADR 55): no product of real numbers
    refuses:  IllegalStep with what is missing
    """

    kind: ClassVar[str] = "forward_scalar"

    scalar: str

    def apply(self, schedule: Schedule) -> Schedule:
        program = schedule.program
        if not is_in_source_order(schedule):
            refuse(self, "values are forwarded in the source order only")
        if not is_local_scalar(program, self.scalar):
            refuse(self, f"there is no local scalar '{self.scalar}'")
        life = life_of(program, nodes_of(schedule), self.scalar)
        if life is None or life.others or life.last.write.array == self.scalar:
            refuse(self, f"'{self.scalar}' is not set by one statement and read by one other")
        value = life.first.value
        if value.dtype != life.first.write.dtype or not _rounds_alone(program, value):
            refuse(self, f"'{self.scalar}' rounds its value, which a sum might not")
        read = {access.array for access in life.first.reads}
        if any(x.write.array in read for x in life.between if x is not life.last):
            refuse(self, f"what '{self.scalar}' is computed from is written in between")
        values = life.iteration.told_by(life.last, life.first)
        if not names(value) & set(life.first.iterators) <= values.keys():
            refuse(self, f"the iteration of '{self.scalar}' is not known where it is read")
        forwarded = substitute(value, values)

        def load(expr: Expr) -> Expr:
            is_scalar = isinstance(expr, Load) and expr.array == self.scalar
            return forwarded if is_scalar else expr

        made = replace(life.last, value=rewrite(life.last.value, load), declared=None)
        return with_statements(schedule, {made.name: made}, {life.first.name}, self.scalar)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[ForwardScalar]:
        """Every local scalar."""
        program = schedule.program
        yield from (cls(a.name) for a in program.arrays if is_local_scalar(program, a.name))


def _rounds_alone(program: Program, value: Expr) -> bool:
    """Whether a value has the same bits inside any expression: sums round products with them."""
    if value.dtype.is_exact or program.reassoc:
        return True
    match value:
        case Unary(op="neg", x=x):
            return _rounds_alone(program, x)
        case Binary(op=op):
            return op != "mul"
        case Call(function=function):
            return function not in ("fma", "dot")
    return isinstance(value, Load)
