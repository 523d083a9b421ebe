"""Statements that a step adds before or behind a program: their loops, and the order of both."""

from __future__ import annotations

from loopwright.ir.islkit import isl
from loopwright.ir.program import Statement
from loopwright.ir.schedule_tree import Band, Filter, Leaf, Node, bands, sequence
from loopwright.ir.visit import fresh_name

__all__ = ["followed_by", "preceded_by"]


def preceded_by(root: Node, domain: isl.UnionSet, first: Statement) -> Node:
    """`root` for the instances of `domain`, behind the loops of a statement."""
    return sequence((_loops_of(first, root), Filter(domain.universe(), root)))


def followed_by(root: Node, domain: isl.UnionSet, last: Statement) -> Node:
    """`root` for the instances of `domain`, before the loops of a statement."""
    return sequence((Filter(domain.universe(), root), _loops_of(last, root)))


def _loops_of(statement: Statement, root: Node) -> Filter:
    """The loops of a statement in the order of its iterators, by names that `root` does not use."""
    taken = {band.loop for band in bands(root)}
    node: Node = Leaf()
    space = statement.domain.get_space()
    for position, wish in reversed(list(enumerate(statement.iterators))):
        name = fresh_name(wish, taken)
        taken.add(name)
        local = isl.LocalSpace.from_space(space)
        value = isl.PwAff.from_aff(isl.Aff.var_on_domain(local, isl.dim_type.set, position))
        partial = isl.MultiUnionPwAff.from_union_pw_aff(isl.UnionPwAff.from_pw_aff(value))
        node = Band(name, partial.set_tuple_name(isl.dim_type.set, name), node)
    return Filter(isl.UnionSet.from_set(isl.Set.universe(space)), node)
