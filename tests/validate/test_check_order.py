"""A nest or its data against the program: differences are told, and freedom is not one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from loopwright.ir.expr import Const
from loopwright.ir.loops import For, LoopNest, Stmt, Store
from loopwright.ir.program import Program, Role
from loopwright.ir.visit import rebuild
from loopwright.lower.passes import lower_schedule
from loopwright.transform.blocked_closure import BlockClosure
from loopwright.transform.interchange import Interchange
from loopwright.transform.plan import Plan, apply_plan, initial_schedule
from loopwright.transform.step import Step
from loopwright.validate.check_data import first_difference
from loopwright.validate.check_order import check_order
from loopwright.validate.difference import DifferenceKind
from loopwright.validate.reference_run import Signs, draw_inputs, run_reference
from programs import Do, floyd_warshall, nest, program
from programs import For as Loop


def nest_of(source: Program, *steps: Step) -> LoopNest:
    return lower_schedule(apply_plan(source, Plan(steps)))


def changed(lowered: LoopNest, change: object) -> LoopNest:
    return replace(lowered, body=rebuild(lowered.body, change))  # type: ignore[arg-type]


@pytest.mark.parametrize("reassoc", [False, True])
def test_order_of_a_sum_counts_unless_declared_free(reassoc: bool) -> None:
    """The numbers are the same: only names tell that the sum was taken in another order."""
    arrays = {"a": "in float64 [n, n]", "s": "inout float64 []"}
    body = nest((("i", "n"), ("j", "n")), Do("s", "s + a[i, j]"))
    free = program("total", arrays, body, reassoc=True)
    other = nest_of(free, Interchange(("j", "i")))
    reference = run_reference(replace(free, reassoc=reassoc), {"n": 3})
    found = check_order(reference, other)
    assert bool(found) != reassoc
    assert all(difference.kind is DifferenceKind.ORDER for difference in found)


def test_report_names_elements_statements_and_lines() -> None:
    """Without its last iteration a loop leaves what stood there before."""
    source = program(
        "chain",
        {"a": "inout float64 [n]", "b": "inout float64 [n]"},
        Loop("i", 0, "n", Do("a[i]", "b[i] + 1")),
        Loop("j", 0, "n", Do("b[j]", "a[j] * 2")),
    )

    def shorter(stmt: Stmt) -> Stmt:
        is_first = isinstance(stmt, For) and stmt.var == "i"
        return replace(stmt, stop=stmt.stop - 1) if is_first else stmt

    found = check_order(run_reference(source, {"n": 2}), changed(nest_of(source), shorter))
    assert [str(difference) for difference in found] == [
        "chain.py:1: a[1]: should hold the value of S0[1] (chain.py:1); found a[1] on entry "
        "(order, interpreter, n = 2, 1 thread)",
        "chain.py:2: b[1]: should hold the value of S1[1] (chain.py:2); found a value that no "
        "statement computes ('mul') (order, interpreter, n = 2, 1 thread)\n"
        "    they part where the program has the value of S0[1] (chain.py:1) and the loops have "
        "a[1] on entry",
    ]


def test_gaps_between_rows_are_not_ours() -> None:
    source = program(
        "rows",
        {"a": "inout float64 [n, n]"},
        nest((("i", "n"), ("j", "n")), Do("a[i, j]", "1")),
    )

    def wider(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For):
            return stmt
        return replace(stmt, stop=stmt.stop + (1 if isinstance(stmt.body, Store) else -1))

    found = check_order(run_reference(source, {"n": 2}), changed(nest_of(source), wider))
    assert [difference.element for difference in found] == ["a + 2 elements", "a[1, 0]", "a[1, 1]"]


def test_outputs_may_hold_anything_where_nothing_is_written() -> None:
    source = program("half", {"a": "out float64 [n]"}, Loop("i", 1, "n", Do("a[i]", "1")))

    def sooner(stmt: Stmt) -> Stmt:
        return replace(stmt, start=Const(0)) if isinstance(stmt, For) else stmt

    wider = changed(nest_of(source), sooner)
    assert check_order(run_reference(source, {"n": 3}), wider) == ()
    kept = replace(source, arrays=tuple(replace(a, role=Role.INOUT) for a in source.arrays))
    assert len(check_order(run_reference(kept, {"n": 3}), wider)) == 1


@pytest.mark.parametrize("signs", Signs)
def test_closures_are_compared_by_numbers(signs: Signs) -> None:
    """In blocks other terms are computed; absorption makes them equal."""
    source = replace(floyd_warshall(), reassoc=True)
    blocked = nest_of(source, next(BlockClosure.candidates(initial_schedule(source))))
    reference = run_reference(source, {"n": 6}, signs=signs)
    assert check_order(reference, blocked) == ()

    def wrong(stmt: Stmt) -> Stmt:
        return replace(stmt, stop=stmt.stop - 1) if isinstance(stmt, For) else stmt

    if signs is Signs.NEGATIVE:
        assert check_order(reference, changed(nest_of(source), wrong))


@pytest.mark.parametrize(
    ("found", "expected", "slack", "is_same"),
    [
        (1.0, 1.0, 0.0, True),
        (1.0, np.nextafter(1.0, 2.0), 0.0, False),
        (1.0, np.nextafter(1.0, 2.0), 1e-16, True),
        (math.nan, math.nan, 0.0, True),
        (math.nan, 1.0, 1e-3, False),
        (math.inf, math.inf, 0.0, True),
        (0.0, -0.0, 0.0, False),
        (0.0, -0.0, 1e-300, True),
        (5.0, 1.0, math.inf, True),
    ],
)
def test_floats(found: float, expected: float, slack: float, is_same: bool) -> None:
    place = first_difference(np.array([found]), np.array([expected]), slack, signed_zeros=True)
    assert (place is None) == is_same


@pytest.mark.parametrize("signs", Signs)
def test_inputs(signs: Signs) -> None:
    arrays = {"a": "inout float64 [n]", "u": "in uint8 [n]", "s": "in int32 []"}
    source = program("inputs", arrays, Loop("i", 0, "n", Do("a[i]", "a[i]")))
    drawn = draw_inputs(source, {"n": 40}, seed=1, signs=signs)
    assert {name: data.dtype.name for name, data in drawn.items()} == {
        "a": "float64",
        "u": "uint8",
        "s": "int32",
    }
    assert np.max(np.abs(drawn["a"])) == 3
    if signs is Signs.ANY:
        assert {-1, 0, 1} <= set(np.sign(drawn["a"]))
    else:
        assert set(np.sign(drawn["a"])) == {1 if signs is Signs.POSITIVE else -1}
        assert np.min(drawn["u"]) == 1
    again = draw_inputs(source, {"n": 40}, seed=1, signs=signs)
    assert all(np.array_equal(drawn[name], again[name]) for name in drawn)
