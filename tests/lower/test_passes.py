"""The passes of lowering: printed and checked one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopwright import options
from loopwright.diagnostics import InternalError, UsageError
from loopwright.ir.expr import Const
from loopwright.ir.loops import Block, LoopNest, Store
from loopwright.lower import passes
from loopwright.lower.passes import PASSES, LoopDecisions, Pass, lower_schedule, run_passes
from loopwright.transform.loop_marks import Vectorize
from loopwright.transform.plan import apply_plan
from programs import Do, For, program

SCALE = program(
    "scale", {"x": "inout float64 [n]"}, For("i", 0, "n", Do("x[i]", "2 * x[i]")), known="n >= 0"
)


@pytest.mark.parametrize("each", dict.fromkeys(PASSES), ids=lambda each: each.name)
def test_the_docstring_shows_the_rewrite(each: Pass) -> None:
    assert "\n    ->  " in (each.rewrite.__doc__ or "")


def test_dump_after_a_pass(capsys: pytest.CaptureFixture[str]) -> None:
    with options.override(dump=("loops:vectorize",)):
        lower_schedule(apply_plan(SCALE, [Vectorize("i", 4)]))
    assert capsys.readouterr().err == (
        "--- loopwright loops:vectorize ---\n"
        "nest scale(n, x_s0):\n"
        "    inout x: float64 strides [x_s0]\n"
        "    for i in range(0, n - 3, 4):\n"
        "        vector for i_v in range(4):\n"
        "            x[i + i_v] = 2.0 * x[i + i_v]\n"
        "    for i in range(max(n, 0) // 4 * 4, n):\n"
        "        x[i] = 2.0 * x[i]\n"
    )


def test_dump_after_an_unknown_pass() -> None:
    names = ", ".join(dict.fromkeys(f"loops:{each.name}" for each in PASSES))
    with options.override(dump=("loops:fuse",)), pytest.raises(UsageError) as caught:
        lower_schedule(apply_plan(SCALE, []))
    assert str(caught.value) == (
        "LOOPWRIGHT_DUMP names a pass that does not exist\n"
        f"note: found 'loops:fuse'\ntry: one of {names}"
    )


def break_nest(nest: LoopNest) -> LoopNest:
    return replace(nest, body=Block((nest.body, Store("y", (), Const(0)))))


def test_the_pass_that_breaks_a_nest_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "PASSES", (*PASSES[:3], Pass(break_nest), *PASSES[3:]))
    with pytest.raises(InternalError) as caught:
        lower_schedule(apply_plan(SCALE, []))
    assert caught.value.message == (
        "after the pass break_nest: nest scale is not valid: buffer y is not declared\nat y[] = 0"
    )


def test_passes_are_checked_only_when_asked() -> None:
    nest = lower_schedule(apply_plan(SCALE, []))
    with options.override(check=False):
        assert run_passes(nest, LoopDecisions(), (Pass(break_nest),)) == break_nest(nest)
