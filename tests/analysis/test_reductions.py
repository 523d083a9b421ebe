"""Reductions: the forms that are recognised, their loops, and what stays when they are relaxed."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import brute_force
from loopwright.analysis.legality import violation
from loopwright.analysis.reductions import reductions, relaxed_dependences
from loopwright.ir.expr import Select
from loopwright.ir.program import Program
from programs import (
    MATMUL,
    Do,
    For,
    kernel,
    orders,
    over,
    program,
)


def gather(value: str, dtype: str = "float64", reassoc: bool = False) -> Program:
    """`s = value` for all k."""
    arrays = {"x": f"in {dtype} [n]", "y": "in int8 [n]", "s": f"inout {dtype} []"}
    return program("gather", arrays, For("k", 0, "n", Do("s", value)), reassoc=reassoc)


@pytest.mark.parametrize(
    ("value", "op"),
    [
        ("s + x[k]", "add"),
        ("x[k] + s", "add"),
        ("s * x[k]", "mul"),
        ("min(s, x[k])", "min"),
        ("max(x[k], s)", "max"),
        ("s & x[k]", "and"),
        ("x[k] | s", "or"),
        ("s ^ x[k]", "xor"),
        ("fma(x[k], x[k], s)", "add"),
        ("s if s < x[k] else x[k]", "min"),
        ("x[k] if s <= x[k] else s", "max"),
        ("x[k] if x[k] < s else s", "min"),
        ("x[k] if x[k] >= s else s", "max"),
        ("s + x[k] + x[k]", "add"),
        ("x[k] + (x[k] + s)", "add"),
        ("s + x[k] - x[k]", "add"),
    ],
)
def test_associative_updates(value: str, op: str) -> None:
    (found,) = reductions(gather(value, "int64"))
    assert (found.statement, found.op, found.loops, found.is_reorderable) == (
        "S0",
        op,
        ("k",),
        True,
    )
    assert found.element.array == "s"


@pytest.mark.parametrize(
    "value",
    [
        "x[k]",
        "s - s",
        "x[k] - s",
        "s // x[k]",
        "s + s * x[k]",
        "s + x[k] * s",
        "s < x[k] if s < x[k] else x[k]",
        "s if x[k] < x[k] else x[k]",
        "s if s == x[k] else x[k]",
        "s if s < x[k] else x[k + 1]",
        "(s * x[k]) + x[k]",
        "x[k] - (s + x[k])",
    ],
)
def test_other_updates_are_no_reductions(value: str) -> None:
    assert reductions(gather(value, "int64")) == ()


@pytest.mark.parametrize(
    ("value", "dtype", "reassoc", "can_reorder"),
    [
        ("s + x[k]", "float64", False, False),
        ("s + x[k]", "float64", True, True),
        ("s * x[k]", "complex64", False, False),
        ("s + x[k]", "int16", False, True),
        ("max(s, x[k])", "float32", False, True),
        ("s ^ x[k]", "bool", False, True),
    ],
)
def test_reordering_is_allowed(value: str, dtype: str, reassoc: bool, can_reorder: bool) -> None:
    (found,) = reductions(gather(value, dtype, reassoc))
    assert found.is_reorderable is can_reorder


@pytest.mark.parametrize("value", ["s if s < x[k] else x[k]", "s + x[k] + x[k]"])
def test_floating_forms_that_need_leave(value: str) -> None:
    assert reductions(gather(value)) == ()
    assert len(reductions(gather(value, reassoc=True))) == 1


def with_total() -> Program:
    """A sum, read at its end, and a product that starts from it."""
    arrays = {"x": "in int64 [n]", "s": "inout int64 []", "y": "inout int64 [2]"}
    return program(
        "total",
        arrays,
        Do("s", "0"),
        For("k", 0, "n", Do("s", "s + x[k]")),
        Do("y[0]", "s"),
        For("j", 0, "n", Do("s", "s * x[j]")),
        Do("y[1]", "s"),
    )


@given(st.data(), st.sampled_from([with_total(), kernel(over("ijk", MATMUL), dtype="int64")]))
def test_relaxed_orders_compute_the_same(data: st.DataObject, known: Program) -> None:
    tree = data.draw(orders(known))
    assume(violation(relaxed_dependences(known), tree) is None)
    params = dict.fromkeys(known.params, 3)
    changed = replace(known, schedule=tree)
    expected = brute_force.run(known, params, brute_force.instances(known, params))
    actual = brute_force.run(known, params, brute_force.instances(changed, params))
    wanted = brute_force.visible(known, expected, actual)
    assert brute_force.visible(known, actual, expected) == wanted


def test_a_guarded_sum_of_integers_gathers_nothing_elsewhere() -> None:
    """`y + 1 if c else y` is `y + (1 if c else 0)`, but for -0.0 of floating-point types."""

    def counted(dtype: str) -> Program:
        arrays = {"x": f"in {dtype} [n]", "y": f"inout {dtype} []"}
        return program("c", arrays, For("i", 0, "n", Do("y", "y + 1 if x[i] > 2 else y")))

    (found,) = reductions(counted("int32"))
    assert (found.op, found.loops, found.is_reorderable) == ("add", ("i",), True)
    assert isinstance(found.value, Select)
    assert reductions(counted("float64")) == ()
