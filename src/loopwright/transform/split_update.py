"""SplitUpdate: an element that is set to two terms takes them in one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from loopwright.analysis.update_statements import is_exchangeable, joined, operands
from loopwright.ir.analysis_manager import AnalysisManager
from loopwright.ir.expr import Expr, Var
from loopwright.ir.islkit import affine_map, isl
from loopwright.ir.program import Program, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Filter,
    Leaf,
    Node,
    Sequence,
    nodes_of,
    sequence,
    statements_in,
    write_tree,
)
from loopwright.ir.visit import fresh_name
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import is_in_source_order
from loopwright.transform.step import Step, refuse
from loopwright.transform.update_order import may_read_own

__all__ = ["SplitUpdate"]


@dataclass(frozen=True, slots=True)
class SplitUpdate(Step):
    """Set an element to one of two terms, and update it by the other one behind that.

    The terms may then be taken in at different times: the one that waits for another element of
    the row behind all that do not.

    rewrite:  x[i] = f op g  ->  x[i] = f; x[i] = x[i] op g    (term=1; f behind g for term=0)
    needs:    the source order; an operator that may be reordered, on the type of the element; the
              term that comes behind does not read the element
    refuses:  IllegalStep with what is missing
    """

    kind: ClassVar[str] = "split_update"

    statement: str
    term: int  # the one that comes behind

    def apply(self, schedule: Schedule) -> Schedule:
        program = schedule.program
        own = next((s for s in program.statements if s.name == self.statement), None)
        if own is None:
            refuse(self, f"there is no statement '{self.statement}'")
        if not is_in_source_order(schedule):
            refuse(self, "updates are split in the source order only")
        found = _terms(program, own)
        if found is None or self.term not in (0, 1):
            refuse(self, f"{self.statement} does not set its element to two terms")
        op, terms = found
        first, behind = terms[1 - self.term], terms[self.term]
        if may_read_own(program, own, behind):
            refuse(self, f"term {self.term} of {self.statement} reads the element")
        taken = {s.name for s in program.statements}
        name = fresh_name(self.statement, taken)
        later = replace(
            own,
            name=name,
            domain=own.domain.set_tuple_name(name),
            value=joined(op, own.write.load(), behind),
            declared=None,
        )
        at = program.statements.index(own)
        made = (replace(own, value=first, declared=None), later)
        statements = (*program.statements[:at], *made, *program.statements[at + 1 :])
        twin = _twin(own, name)
        domain = program.schedule.get_domain()
        root = _doubled(nodes_of(schedule), own.name, twin)
        tree = write_tree(domain.union(domain.apply(twin)), root)
        changed = replace(program, statements=statements, schedule=tree)
        return replace(schedule, program=changed, tree=tree, analyses=AnalysisManager(changed))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[SplitUpdate]:
        """Both terms of every statement that has two."""
        for statement in schedule.program.statements:
            if _terms(schedule.program, statement) is not None:
                yield from (cls(statement.name, term) for term in (0, 1))


def _terms(program: Program, statement: Statement) -> tuple[str, tuple[Expr, Expr]] | None:
    """The two terms a statement sets its element to, and the operator, which may be reordered."""
    found = operands(program, statement.value)
    dtype = statement.write.dtype
    if found is None or statement.value.dtype != dtype:
        return None
    return found if is_exchangeable(found[0], dtype, program) else None


def _twin(own: Statement, name: str) -> isl.UnionMap:
    """`{ S[i] -> T[i] }` for a statement S and another one named T."""
    whole = isl.Set.universe(own.domain.get_space())
    return isl.UnionMap.from_map(affine_map(whole, name, tuple(map(Var, own.iterators))))


def _doubled(node: Node, name: str, twin: isl.UnionMap) -> Node:
    """A tree with a statement's twin directly behind it."""
    back = isl.UnionPwMultiAff.from_union_map(twin.reverse())
    match node:
        case Band(partial=partial, child=child) if name in node.statements:
            own = partial.intersect_domain(twin.domain())
            both = partial.union_add(own.pullback_union_pw_multi_aff(back))
            return replace(node, partial=both, child=_doubled(child, name, twin))
        case Sequence(filters=parts):
            return sequence(
                Filter(x.instances.union(x.instances.apply(twin)), _doubled(x.child, name, twin))
                if name in statements_in(x.instances)
                else x
                for x in parts
            )
        case Leaf():
            return Sequence((Filter(twin.domain(), Leaf()), Filter(twin.range(), Leaf())))
    return node
