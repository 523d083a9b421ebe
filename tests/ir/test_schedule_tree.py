"""Schedule trees as values: there and back, unique names, what orders a band."""

from __future__ import annotations

from dataclasses import replace

import islpy as isl
import pytest

from loopwright.diagnostics import IllegalStep, InternalError
from loopwright.ir.loops import Mark
from loopwright.ir.program import Program
from loopwright.ir.schedule_tree import (
    Sequence,
    bands,
    read_tree,
    sequence,
    unchanged_loops,
    write_tree,
)
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.reschedule import Reschedule, tree_text
from loopwright.transform.schedule_legality import initial_schedule
from loopwright.transform.tiling import StripMine
from programs import Do, For, jacobi, lu, matmul, program, triangular_solve


def twice_i() -> Program:
    """Two loops of one name, one of them going down, and a loop called i_2."""
    return program(
        "twice",
        {"a": "inout float64 [n]"},
        For("i", 0, "n", Do("a[i]", "a[i] + 1")),
        For("i", "n - 1", "-1", Do("a[i]", "a[i] * 2"), step=-1),
        For("i_2", 0, "n", Do("a[i_2]", "a[i_2] - 1")),
    )


@pytest.mark.parametrize("make", [matmul, jacobi, lu, triangular_solve, twice_i])
def test_there_and_back(make: object) -> None:
    assert callable(make)
    tree = make().schedule
    again = write_tree(tree.get_domain(), read_tree(tree))
    assert again.plain_is_equal(tree)


def test_names_become_unique() -> None:
    schedule = initial_schedule(twice_i())
    assert [band.loop for band in bands(read_tree(schedule.tree))] == ["i", "i_3", "i_2"]
    assert schedule.tree.get_map().is_equal(twice_i().schedule.get_map())


def test_unique_names_leave_the_tree_alone() -> None:
    source = matmul()
    assert initial_schedule(source).tree is source.schedule


def test_loops_that_a_step_leaves_alone() -> None:
    before = initial_schedule(twice_i())
    after = StripMine("i_3", 4).apply(before)
    nodes = read_tree(before.tree), read_tree(after.tree)
    assert unchanged_loops(*nodes) == {"i", "i_2"}
    assert unchanged_loops(nodes[0], nodes[0]) == {"i", "i_2", "i_3"}
    inner = StripMine("j", 4).apply(initial_schedule(lu()))
    assert unchanged_loops(read_tree(lu().schedule), read_tree(inner.tree)) == set()


def test_marks_are_proven_anew_where_loops_changed() -> None:
    arrays = {"a": "inout float64 [n, n]", "b": "inout float64 [n]"}
    diagonal = For("i", 1, "n", For("j", 1, "n", Do("a[i, j]", "a[i - 1, j - 1]")))
    source = program("diagonal", arrays, diagonal, For("x", 0, "n", Do("b[x]", "b[x] * 2")))
    marked = Parallel("x").apply(Parallel("j").apply(initial_schedule(source)))
    root = read_tree(marked.tree)
    assert isinstance(root, Sequence)
    (outer, last) = root.filters
    i, j, _ = bands(root)
    turned = replace(outer, child=replace(j, child=replace(i, child=j.child)))
    domain = marked.tree.get_domain()
    same = Reschedule(tree_text(domain, sequence((last, outer)))).apply(marked)
    assert dict(same.marks) == {"j": Mark.PARALLEL, "x": Mark.PARALLEL}
    with pytest.raises(IllegalStep, match="loop 'j' carries flow"):
        Reschedule(tree_text(domain, sequence((turned, last)))).apply(marked)


def test_foreign_trees_are_refused() -> None:
    tree = isl.Schedule(
        '{ domain: "{ S[i, j] : 0 <= i, j < 4 }", '
        'child: { schedule: "[{ S[i, j] -> [(i)] }, { S[i, j] -> [(j)] }]" } }'
    )
    with pytest.raises(InternalError, match="named bands of one member"):
        read_tree(tree)
