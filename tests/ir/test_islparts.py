"""Parts of isl objects: all of them, in isl's order, with no instruction of Python in between."""

import sys
from collections.abc import Callable
from typing import Any

import islpy as isl
import pytest

from broken_off import broken_off
from loopwright.ir import islkit

TREE = isl.Schedule(
    '{ domain: "{ S[i, j] : 0 <= i, j < 4; T[i] : 0 <= i < 4 }", child: '
    '{ schedule: "L0[{ S[i, j] -> [(i)]; T[i] -> [(i)] }]", child: '
    '{ sequence: [ { filter: "{ S[i, j] }", child: { schedule: "L1[{ S[i, j] -> [(j)] }]" } }, '
    '{ filter: "{ T[i] }" } ] } } }'
)
FUNCTION = isl.PwAff("[n] -> { S[i] -> [(i)] : i >= n; S[i] -> [(-i)] : i < 0 and i < n }")

# What is taken apart, how, and how many parts there are.
PARTS: tuple[tuple[Callable[[Any], Any], Any, int], ...] = (
    (islkit.sets_in, isl.UnionSet("{ S[i]; T[i, j]; U[] }"), 3),
    (islkit.maps_in, isl.UnionMap("{ S[i] -> T[i]; S[i] -> U[] }"), 2),
    (islkit.functions_in, isl.UnionPwAff("{ S[i] -> [(i)]; T[i] -> [(2i)] }"), 2),
    (islkit.pieces_in, FUNCTION, 2),
    (islkit.pieces_in, isl.PwMultiAff("{ S[i] -> [i, 1] : i > 0; S[i] -> [0, 2] : i < 0 }"), 2),
    (islkit.points_in, isl.Set("{ S[i, j] : 0 <= i, j < 5 }"), 25),
    (lambda tree: list(islkit.nodes_in(tree)), TREE, 8),
)


def test_nodes_come_as_isl_visits_them() -> None:
    wanted: list[str] = []

    def visit(node: isl.ScheduleNode) -> bool:
        wanted.append(str(node))
        return True

    TREE.get_root().foreach_descendant_top_down(visit)
    assert [str(node) for node in islkit.nodes_in(TREE)] == wanted
    below = TREE.get_root().child(0).child(0)
    assert len(list(islkit.nodes_in(below))) == 6


def test_nodes_are_changed_as_by_isl() -> None:
    def marked(node: isl.ScheduleNode) -> isl.ScheduleNode:
        if isl.schedule_node_type(node.get_type()) != isl.schedule_node_type.band:
            return node
        return node.insert_mark(isl.Id(f"around_{len(list(islkit.nodes_in(node)))}"))

    wanted = TREE.map_schedule_node_bottom_up(marked)
    assert str(islkit.map_nodes(TREE, marked)) == str(wanted)


@pytest.mark.parametrize(("parts", "whole", "count"), PARTS)
def test_nothing_is_run_while_isl_runs(parts: Callable[[Any], Any], whole: Any, count: int) -> None:
    """A profile sees every function of Python that starts, which is where handlers would run."""
    around: list[str] = []
    inside: list[str] = []

    def watch(frame: Any, event: str, what: Any) -> None:
        name = getattr(what, "__name__", "")
        if event == "c_call" and name.startswith("foreach"):
            around.append(name)
        elif event in ("c_return", "c_exception") and name.startswith("foreach"):
            around.pop()
        elif event == "call" and around:
            inside.append(frame.f_code.co_name)

    sys.setprofile(watch)
    try:
        parts(whole)
    finally:
        sys.setprofile(None)
    assert inside == []


def test_quota_and_option_end_where_they_are_broken_off() -> None:
    """Wherever a handler raises, the quota and the options around are what they were."""
    ctx, option = islkit.context(), "ast_build_group_coscheduled"

    def work() -> None:
        with islkit.quota(1000), islkit.quota(100):
            islkit.with_option(option, 1, lambda: None)

    for at in broken_off(work):
        assert ctx.get_max_operations() == 0, at
        assert ctx.get_ast_build_group_coscheduled() == 0, at
    assert at > 20
