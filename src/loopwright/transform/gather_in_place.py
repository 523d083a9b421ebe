"""GatherInPlace: what a scalar gathers for one element is gathered in the element."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from loopwright.analysis.dependences import access_map
from loopwright.ir.expr import Expr, Load
from loopwright.ir.islkit import isl
from loopwright.ir.program import Access, Program, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import nodes_of
from loopwright.ir.visit import names, rewrite, substitute
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.scalar_life import (
    ScalarLife,
    is_local_scalar,
    life_of,
    with_statements,
)
from loopwright.transform.schedule_legality import is_in_source_order
from loopwright.transform.step import Step, refuse

__all__ = ["GatherInPlace"]


@dataclass(frozen=True, slots=True)
class GatherInPlace(Step):
    """Gather in an element of an array what a scalar gathers for it.

    A scalar has one value at a time, so that iterations which gather in it cannot run beside each
    other, and none can be broken off and gone on with later. An element of an array is there for
    every iteration.

    rewrite:  s = f; for k: s = s op g(k); x[i, j] = h(s)
              ->  x[i, j] = f; for k: x[i, j] = x[i, j] op g(k); x[i, j] = h(x[i, j])
    needs:    the source order; a local scalar that an iteration of the loops around sets first and
              stores last; in between nothing reads or writes the element
    refuses:  IllegalStep with what is missing
    """

    kind: ClassVar[str] = "gather_in_place"

    scalar: str

    def apply(self, schedule: Schedule) -> Schedule:
        program = schedule.program
        if not is_in_source_order(schedule):
            refuse(self, "values are gathered in place in the source order only")
        if not is_local_scalar(program, self.scalar):
            refuse(self, f"there is no local scalar '{self.scalar}'")
        life = life_of(program, nodes_of(schedule), self.scalar)
        if life is None or not _is_stored_last(life, self.scalar):
            refuse(self, f"no iteration sets '{self.scalar}' first and stores it last")
        if life.last.write.dtype != life.first.write.dtype:
            refuse(self, f"'{life.last.write.array}' has elements of another type")
        elements = _elements(life)
        if elements is None:
            refuse(self, f"the element that '{self.scalar}' is stored to is not known before")
        if not _is_untouched(program, life):
            refuse(self, f"the element that '{self.scalar}' is stored to is used in between")

        def in_place(user: Statement) -> Statement:
            element = elements[user.name]

            def load(expr: Expr) -> Expr:
                is_scalar = isinstance(expr, Load) and expr.array == self.scalar
                return element.load() if is_scalar else expr

            value = rewrite(user.value, load)
            return replace(user, write=element, value=value, declared=None)

        made = {user.name: in_place(user) for user in life.users}
        # The store of the scalar alone has nothing left to do.
        done = {life.last.name} if isinstance(life.last.value, Load) else set[str]()
        return with_statements(schedule, made, done, self.scalar)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[GatherInPlace]:
        """Every local scalar."""
        program = schedule.program
        yield from (cls(a.name) for a in program.arrays if is_local_scalar(program, a.name))


def _is_stored_last(life: ScalarLife, scalar: str) -> bool:
    """Whether nothing but the last statement makes anything else of a scalar, and always does."""
    return (
        life.last.write.array != scalar
        and all(user.write.array == scalar for user in life.others)
        and life.iteration.always_has(life.first, life.last)
    )


def _elements(life: ScalarLife) -> Mapping[str, Access] | None:
    """The element that is stored to, by the iterators of each statement that uses the scalar."""
    write = life.last.write
    used = set().union(*map(names, write.index)) & set(life.last.iterators)
    found = {}
    for user in life.users:
        values = life.iteration.told_by(user, life.last)
        if not used <= values.keys():
            return None
        index = tuple(substitute(entry, values) for entry in write.index)
        found[user.name] = Access(write.array, index, write.dtype)
    return found


def _is_untouched(program: Program, life: ScalarLife) -> bool:
    """Whether nothing else uses the element from behind the first statement up to the last.

    The first one may read it: its old value is still there.
    """
    own = isl.UnionMap.from_map(access_map(program, life.last, life.last.write)).reverse()
    for statement in life.between:
        written = () if statement is life.last else (statement.write,)
        for access in (*statement.reads, *written):
            if access.array != life.last.write.array:
                continue
            other = isl.UnionMap.from_map(access_map(program, statement, access))
            both = own.apply_range(life.iteration.pairs(life.last, statement)).apply_range(other)
            if not both.intersect(isl.UnionSet.identity(both.domain())).is_empty():
                return False
    return True
