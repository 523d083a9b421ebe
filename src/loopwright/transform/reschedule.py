"""Reschedule: take another schedule tree as a whole, from isl's scheduler, a planner or a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from loopwright.ir.islkit import context, isl
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Filter,
    Leaf,
    Node,
    followed_name,
    sequence,
    write_tree,
)
from loopwright.ir.visit import fresh_name
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.isl_yaml import Data, NotYaml, read_yaml
from loopwright.transform.schedule_legality import reordered
from loopwright.transform.step import Step, Text, refuse

__all__ = ["Reschedule", "named_tree", "tree_text"]

_MOST_LETTERS = 200_000
# What isl writes beside the order itself: facts we prove anew, and hints for its own use.
_IGNORED = frozenset({"permutable", "coincident", "options"})


@dataclass(frozen=True, slots=True)
class Reschedule(Step):
    """Run the statements in the order of another schedule tree.

    rewrite:  any order of the same statement instances; a band of several members becomes nested
              loops; loops without a name are called after the iterator they follow
    needs:    isl's YAML of a domain with bands, sequences, sets and filters below; the instances
              are those of the program
    refuses:  IllegalStep with the reversed dependence, or what is wrong with the tree
    """

    kind: ClassVar[str] = "reschedule"

    tree: Text

    def apply(self, schedule: Schedule) -> Schedule:
        try:
            root = self._read(schedule)
        except isl.Error as error:
            refuse(self, "isl cannot read the tree", str(error).split(" in /")[0])
        return reordered(self, schedule, root)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Reschedule]:
        """None: trees come from planners and files."""
        return iter(())

    def __str__(self) -> str:
        return f"{self.kind}({len(self.tree)} letters)"

    def _read(self, schedule: Schedule) -> Node:
        if len(self.tree) > _MOST_LETTERS:
            refuse(self, f"the tree has more than {_MOST_LETTERS} letters")
        try:
            data = read_yaml(self.tree)
        except NotYaml as error:
            refuse(self, f"the tree is no YAML that isl writes: {error}")
        if not isinstance(data, dict) or "domain" not in data:
            refuse(self, "the tree begins with a domain")
        domain = isl.UnionSet.read_from_str(context(), self._text(data["domain"]))
        if not domain.is_equal(schedule.tree.get_domain()):
            refuse(self, "the domain is not that of the program")
        node = self._node(data.get("child"), domain)
        return named_tree(node, schedule.program)

    def _node(self, data: Data | None, reached: isl.UnionSet) -> Node:  # noqa: RET503 (refuse)
        """A node and its subtree; `reached` are the instances that reach it."""
        if data is None:
            return Leaf()
        if not isinstance(data, dict):
            refuse(self, "a node of the tree is a mapping")
        child = data.get("child")
        kinds = data.keys() - {"child"} - _IGNORED
        if kinds == {"schedule"}:
            text = self._text(data["schedule"])
            partial = isl.MultiUnionPwAff.read_from_str(context(), text)
            if not reached.is_subset(partial.domain()):
                refuse(self, "a band does not order every instance that reaches it")
            partial = partial.intersect_domain(reached.universe())
            return _bands(partial, self._node(child, reached))
        if kinds in ({"sequence"}, {"set"}) and child is None:
            (parts,) = (data[kind] for kind in kinds)
            return self._branches(parts, reached)
        if kinds == {"mark"}:
            return self._node(child, reached)
        refuse(self, f"a node of the tree is a band, a sequence or a set, not {sorted(kinds)}")

    def _branches(self, parts: Data, reached: isl.UnionSet) -> Node:
        if not isinstance(parts, list) or not parts:
            refuse(self, "a sequence has filters below it")
        filters: list[Filter] = []
        seen = isl.UnionSet.empty(reached.get_space())
        for part in parts:
            if not isinstance(part, dict) or not part.keys() <= {"filter", "child"}:
                refuse(self, "a sequence has filters below it")
            text = self._text(part.get("filter", ""))
            chosen = isl.UnionSet.read_from_str(context(), text)
            inside = chosen.intersect(reached)
            if not inside.is_disjoint(seen):
                refuse(self, "two filters of a sequence share instances")
            seen = seen.union(inside)
            filters.append(Filter(chosen, self._node(part.get("child"), inside)))
        if not reached.is_subset(seen):
            refuse(self, "the filters of a sequence leave instances out")
        return sequence(filters)

    def _text(self, data: Data) -> str:
        if not isinstance(data, str):
            refuse(self, "sets and functions of the tree are text")
        return data


def tree_text(domain: isl.UnionSet, node: Node) -> Text:
    """The tree as a Reschedule holds it."""
    return Text(str(write_tree(domain, node)))


def _bands(partial: isl.MultiUnionPwAff, child: Node) -> Node:
    """A band of any number of members as nested loops; unnamed ones are called ""."""
    count = partial.dim(isl.dim_type.set)
    has_name = count == 1 and partial.has_tuple_id(isl.dim_type.set)
    name = partial.get_tuple_name(isl.dim_type.set) if has_name else ""
    node = child
    for member in reversed(range(count)):
        one = isl.MultiUnionPwAff.from_union_pw_aff(partial.get_union_pw_aff(member))
        node = Band(name or "", one, node)
    return node


def named_tree(root: Node, program: Program) -> Node:
    """`root` with a name for every loop, each used once.

    A loop without a name gets that of the iterator that most of its statements follow.
    """
    taken: set[str] = set()

    def visit(node: Node) -> Node:
        match node:
            case Leaf():
                return node
            case Band(loop=loop, partial=partial, child=child):
                wish = loop if loop.isidentifier() else followed_name(node, program)
                name = fresh_name(wish, taken)
                taken.add(name)
                named = partial.set_tuple_name(isl.dim_type.set, name)
                return Band(name, named, visit(child))
            case _:
                return sequence(Filter(b.instances, visit(b.child)) for b in node.filters)

    return visit(root)
