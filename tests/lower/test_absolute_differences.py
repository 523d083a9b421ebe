"""Absolute differences of narrow numbers: which are taken in their own type, and the same ones."""

from __future__ import annotations

import pytest

from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.lower.values.absolute_differences import absolute_differences
from loopwright.transform.loop_marks import Simd
from loopwright.transform.plan import apply_plan
from oracle import assert_same
from programs import Do, For, Program, program

APART = "int32(b[j + 1]) - int32(b[j])"


def row(value: str, kind: str = "uint8", *, target: str = "a") -> Program:
    arrays = {"a": "inout int32 [n + 4]", "b": f"inout {kind} [n + 4]"}
    return program("row", arrays, For("j", 0, "n", Do(f"{target}[j]", value)))


@pytest.mark.parametrize(
    "value",
    [
        f"-({APART}) if {APART} < 0 else {APART}",
        f"{APART} if {APART} >= 0 else -({APART})",
        f"abs({APART}) + 1",
    ],
    ids=["negative", "positive", "function"],
)
@pytest.mark.parametrize("kind", ["uint8", "uint16"])
def test_in_the_type_of_the_operands(value: str, kind: str) -> None:
    source = row(value, kind)
    nest = absolute_differences(lower_schedule(apply_plan(source, (Simd("j"),))))
    assert "int32(max(b[j + 1], b[j]) - min(b[j + 1], b[j]))" in stmt_text(nest.body)
    assert_same(source, nest, {"n": 9})


@pytest.mark.parametrize(
    "source",
    [
        row(f"abs({APART})", "int8"),  # up to 255, in a type of 127
        row("abs(int32(b[j]) + int32(b[j + 1]))"),
        row(f"uint8(abs({APART}))", target="b"),  # what an iteration writes, another one loads
        row(f"{APART} if {APART} < 0 else -({APART})"),
    ],
    ids=["signed", "sum", "written", "no absolute value"],
)
def test_others_stay(source: Program) -> None:
    nest = lower_schedule(apply_plan(source, ()))
    assert absolute_differences(nest) == nest
    if source.statements[0].write.array == "a":
        nest = lower_schedule(apply_plan(source, (Simd("j"),)))
        assert absolute_differences(nest) == nest
