"""Loops of one iteration that isl has left out of its syntax tree, and the values they had.

    for c0: { if (c0 == 0) S2(c0); for c1 in [1, n): S1(c0, c1) }

Here S2 is scheduled at 0 of the loop whose other iterations are those of c1. isl leaves a loop out
for statements of which the loops around say the value, and has other loops for other statements of
the same band beside them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from loopwright.ir.expr import Expr
from loopwright.ir.islkit import context, isl
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import instances_reaching, nodes_of, path_to
from loopwright.ir.visit import fresh_name
from loopwright.lower.ast_expressions import arguments_of, parameter_expr
from loopwright.lower.linear_forms import normal

__all__ = ["only_value", "parts_of_band", "statements_below"]

_IN, _OUT = isl.dim_type.in_, isl.dim_type.out
_PARAM, _SET = isl.dim_type.param, isl.dim_type.set


def parts_of_band(node: isl.AstNode) -> Iterator[isl.AstNode]:
    """The loops of a band under its mark, and what stands beside them without a loop."""
    match isl.ast_node_type(node.get_type()).name:
        case "block":
            children = node.block_get_children()
            for k in range(children.n_ast_node()):
                yield from parts_of_band(children.get_at(k))
        case "if_":
            yield from parts_of_band(node.if_get_then_node())
            if node.if_has_else_node():
                yield from parts_of_band(node.if_get_else_node())
        case _:
            yield node


def statements_below(node: isl.AstNode) -> frozenset[str]:
    """The names of the statements in a syntax tree."""
    found: set[str] = set()
    for part in parts_of_band(node):
        match isl.ast_node_type(part.get_type()).name:
            case "mark":
                found |= statements_below(part.mark_get_node())
            case "for_":
                found |= statements_below(part.for_get_body())
            case "user":
                called, *_ = arguments_of(part.user_get_expr())
                found.add(called.id_get_id().get_name())
    return frozenset(found)


def only_value(
    schedule: Schedule, loop: str, statements: Collection[str]
) -> tuple[dict[str, str], Expr] | None:
    """The value of a loop for instances of some statements, over those of the loops around it.

    With it come the names that it has for these loops. None where there are several values.
    """
    root = nodes_of(schedule)
    path = path_to(root, loop)
    domain = isl.UnionSet.empty_ctx(context())
    for statement in schedule.program.statements:
        if statement.name in statements:
            domain = domain.union(isl.UnionSet.from_set(statement.domain))
    domain = domain.intersect_params(schedule.program.context)
    domain = instances_reaching(root, loop, domain)
    nowhere = isl.Set.universe(isl.Space.set_alloc(context(), 0, 0))
    values = isl.UnionMap.from_domain_and_range(domain, isl.UnionSet.from_set(nowhere))
    for band in path:
        function = isl.UnionMap.from_multi_union_pw_aff(band.partial.reset_tuple_id(_SET))
        values = values.flat_range_product(function.intersect_domain(domain))
    reached = isl.Set.from_union_set(values.range())
    names: dict[str, str] = {}
    taken = set(schedule.program.params)
    for at, band in enumerate(path):
        name = fresh_name(band.loop, taken)
        taken.add(name)
        reached = reached.set_dim_name(_SET, at, name)
        names[band.loop] = name
    value = isl.Map.from_range(reached).move_dims(_IN, 0, _OUT, 0, len(path) - 1)
    if not value.is_single_valued():
        return None
    known = reached.move_dims(_PARAM, reached.dim(_PARAM), _SET, 0, len(path) - 1)
    least = known.dim_min(0)
    around = known.params()
    return names, normal(parameter_expr(least.gist(around), around))
