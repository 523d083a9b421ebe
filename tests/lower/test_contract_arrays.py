"""Local arrays that become scalars, and those that cannot."""

from __future__ import annotations

import pytest

from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.transform.plan import apply_plan
from oracle import assert_same
from programs import Do, For, program


def lowered(*body: For | Do) -> str:
    arrays = {"a": "inout float64 [n]", "b": "inout float64 [n]", "t": "local float64 [n]"}
    source: Program = program("f", arrays, *body)
    nest = lower_schedule(apply_plan(source, ()))
    for n in (0, 1, 5):
        assert_same(source, nest, {"n": n})
    return stmt_text(nest.body)


SET = Do("t[j]", "2.0 * a[j]")
SET_OTHER = Do("t[i]", "a[i]")


def test_what_one_iteration_sets_and_uses_is_a_scalar() -> None:
    found = lowered(For("j", 0, "n", SET, Do("a[j]", "t[j] + 1.0"), Do("b[j]", "t[j] * t[j]")))
    assert "t[j]" not in found
    assert "scratch" not in found


def test_every_loop_has_its_own() -> None:
    again = For("i", 0, "n", Do("t[i]", "b[i]"), Do("b[i]", "t[i] + a[i]"))
    assert "scratch" not in lowered(For("j", 0, "n", SET, Do("b[j]", "t[j]")), again)


@pytest.mark.parametrize(
    "body",
    [
        (For("j", 0, "n", SET), For("i", 0, "n", Do("b[i]", "t[i]"))),
        (For("i", 0, "n", Do("t[i]", "b[i]")), For("j", 1, "n", SET, Do("b[j]", "t[j - 1]"))),
        (For("i", 0, "n", Do("t[i]", "0.0")), For("j", 0, "n", Do("t[j]", "t[j] + 1.0"), SET)),
        (For("i", 0, "n", SET_OTHER), For("j", 1, "n", Do("t[j]", "t[j - 1]"), Do("b[j]", "t[j]"))),
    ],
    ids=["handed from loop to loop", "a neighbour's", "read before it is set", "made of another"],
)
def test_left_in_memory(body: tuple[For, ...]) -> None:
    assert "scratch" in lowered(*body)
