"""One iteration of some loops: what runs in it together, and the scalars that live no longer.

Steps that do without a scalar ask here, and have statements left out of a program here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from loopwright.ir.analysis_manager import AnalysisManager
from loopwright.ir.expr import Expr, Var
from loopwright.ir.islkit import affine_map, isl
from loopwright.ir.program import Program, Role, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Filter,
    Leaf,
    Node,
    Sequence,
    directions,
    nodes_of,
    sequence,
    statements_in,
    write_tree,
)
from loopwright.lazy_dataclass import dataclass

__all__ = ["Iteration", "ScalarLife", "is_local_scalar", "life_of", "with_statements"]


@dataclass(frozen=True, slots=True)
class Iteration:
    """What runs in one iteration of the loops around."""

    around: tuple[Band, ...]

    def pairs(self, left: Statement, right: Statement) -> isl.UnionMap:
        """The instances of two statements in one iteration."""
        ends = (isl.UnionSet.from_set(one.domain) for one in (left, right))
        pairs = isl.UnionMap.from_domain_and_range(*ends)
        for band in self.around:
            pairs = pairs.eq_at_multi_union_pw_aff(band.partial)
        return pairs

    def always_has(self, user: Statement, other: Statement) -> bool:
        """Whether another statement runs in every iteration that a statement runs in."""
        whole = isl.UnionSet.from_set(user.domain)
        return bool(whole.is_subset(self.pairs(user, other).domain()))

    def told_by(self, user: Statement, source: Statement) -> Mapping[str, Expr]:
        """The iterators of one statement that those of another one of the iteration tell."""
        found: dict[str, Expr] = {}
        for band in self.around:
            order = directions(band)
            if user.name in order and source.name in order:
                own, other = (order[x.name][0] for x in (user, source))
                value = Var(user.iterators[own])
                if self._are_equal(user, value, source, Var(source.iterators[other])):
                    found[source.iterators[other]] = value
        return found

    def _are_equal(self, user: Statement, value: Expr, source: Statement, other: Expr) -> bool:
        ends = (affine_map(user.domain, "x", (value,)), affine_map(source.domain, "x", (other,)))
        one, two = (isl.UnionMap.from_map(end) for end in ends)
        values = one.reverse().apply_range(self.pairs(user, source)).apply_range(two)
        return bool(values.is_subset(isl.UnionSet.identity(values.domain())))


@dataclass(frozen=True, slots=True)
class ScalarLife:
    """A scalar that an iteration sets first, and nobody uses elsewhere."""

    first: Statement  # sets it, directly in the iteration, wherever one of the others runs
    last: Statement  # directly in the iteration too
    others: tuple[Statement, ...]  # that use it in between
    between: tuple[Statement, ...]  # all that run from behind the first up to the last
    iteration: Iteration

    @property
    def users(self) -> tuple[Statement, ...]:
        return (self.first, *self.others, self.last)


def is_local_scalar(program: Program, name: str) -> bool:
    """Whether a program has a scalar of this name that nobody outside sees."""
    return any(a.name == name and not a.rank and a.role is Role.LOCAL for a in program.arrays)


def life_of(program: Program, root: Node, scalar: str) -> ScalarLife | None:
    """The life of a scalar in an order; None where it is no matter of one iteration."""
    using = {
        statement.name
        for statement in program.statements
        if any(x.array == scalar for x in (statement.write, *statement.reads))
    }
    node, around = root, tuple[Band, ...]()
    while True:
        match node:
            case Band() as band:
                node, around = band.child, (*around, band)
            case Sequence(filters=parts):
                inside = [part for part in parts if using & statements_in(part.instances)]
                if len(inside) != 1:
                    break
                node = inside[0].child
            case _:
                return None
    if not around or not inside:
        return None
    ends = (inside[0], inside[-1])
    if not all(isinstance(part.child, Leaf) for part in ends):
        return None
    run = parts[parts.index(ends[0]) : parts.index(ends[1]) + 1]
    order = [program.statement(name) for x in run for name in sorted(statements_in(x.instances))]
    first, *between = order
    *_, last = between
    others = tuple(x for x in between if x.name in using and x is not last)
    life = ScalarLife(first, last, others, tuple(between), Iteration(around))
    is_set = first.write.array == scalar and all(x.array != scalar for x in first.reads)
    later = (*others, last)
    is_always_set = all(life.iteration.always_has(user, first) for user in later)
    return life if is_set and is_always_set else None


def with_statements(
    schedule: Schedule, made: Mapping[str, Statement], left_out: Collection[str], scalar: str
) -> Schedule:
    """The schedule of a program without a scalar: statements by name, and those left out."""
    program = schedule.program
    statements = tuple(made.get(x.name, x) for x in program.statements if x.name not in left_out)
    rest = isl.UnionSet.empty(program.context.get_space())
    for statement in statements:
        rest = rest.union(isl.UnionSet.from_set(statement.domain).universe())
    domain = program.schedule.get_domain().intersect(rest)
    tree = write_tree(domain, _restricted(nodes_of(schedule), rest))
    arrays = tuple(array for array in program.arrays if array.name != scalar)
    changed = replace(program, arrays=arrays, statements=statements, schedule=tree)
    return replace(schedule, program=changed, tree=tree, analyses=AnalysisManager(changed))


def _restricted(node: Node, rest: isl.UnionSet) -> Node:
    """A tree that speaks of the instances of `rest` only."""
    match node:
        case Band(partial=partial, child=child):
            kept = partial.intersect_domain(rest)
            return replace(node, partial=kept, child=_restricted(child, rest))
        case Sequence(filters=parts):
            own = (Filter(x.instances.intersect(rest), x.child) for x in parts)
            left = (x for x in own if not x.instances.is_empty())
            return sequence(Filter(x.instances, _restricted(x.child, rest)) for x in left)
    return node
