"""The seconds of a compilation: an error once they are spent, and no other code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from loopwright import clock, options
from loopwright.calls.splice import optimise_region
from loopwright.cli import main
from loopwright.diagnostics import SourceError, TimeLimitError
from loopwright.frontends.c import read_c
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.machines.host import host
from loopwright.planner.planners import model_planner
from loopwright.transform.plan import Plan
from no_kernels import forget_kernels

HINT = "try: simpler conditions, or several functions; LOOPWRIGHT_COMPILE_SECONDS=0 for no limit"
SPENT = "takes too long to compile: the limit of 5 seconds of the processor was spent while it was"
SOURCE = "void f(int n, double a[n]) {\n#pragma scop\nfor (int i = 0; i < n; i++) a[i] *= 2;\n"
SOURCE += "#pragma endscop\n}\n"


class Clock:
    """A clock that goes on by some seconds whenever it is asked."""

    def __init__(self) -> None:
        self.time = 0.0
        self.step = 0.0

    def __call__(self) -> float:
        self.time += self.step
        return self.time


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """Nothing is known from before, the limit is five seconds, and the clock is set by hand."""
    made = Clock()
    monkeypatch.setattr(clock, "spent", made)
    forget_kernels(monkeypatch)
    with options.override(cache=False, compile_seconds=5):
        yield made


def doubled(x):
    for i in range(x.shape[0]):
        x[i] = x[i] * 2.0


def test_a_function(ticks: Clock) -> None:
    """The call ends with the error; with more seconds the next one runs."""
    function, x = lw.jit(doubled), np.ones(4)
    ticks.step = 6.0
    with pytest.raises(TimeLimitError) as caught:
        function(x)
    assert str(caught.value) == f"'doubled' {SPENT} analysed\n{HINT}"
    ticks.step = 0.0
    function(x)
    assert x.tolist() == [2.0] * 4


def test_a_region_of_c(ticks: Clock) -> None:
    """The place, the limit, the stage, the remedy; of the stage in which they were spent."""
    file = read_c(SOURCE)

    def slow(program: Program, machine: Machine, threads: int) -> tuple[Plan, Schedule]:
        ticks.time += 6.0
        return model_planner(program, machine, threads)

    with pytest.raises(SourceError) as caught:
        optimise_region(file, file.regions[0], slow, host(), target="c")
    assert str(caught.value) == (
        f"<c>:2:1: error: 'f' {SPENT} planned [LW153]\n    #pragma scop\n    ^^^^^^^^^^^^\n{HINT}"
    )


def test_the_command_writes_nothing(
    ticks: Clock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = tmp_path / "k.c", tmp_path / "k.opt.c"
    source.write_text(SOURCE)
    ticks.step = 6.0
    assert main(["cc", str(source), "-o", str(output)]) != 0
    assert f"{source}:2:1: error: 'f' {SPENT} analysed" in capsys.readouterr().err
    assert not output.exists()
