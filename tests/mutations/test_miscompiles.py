"""Faults put into the compiler are caught by translation validation, every one of them."""

from __future__ import annotations

import pytest

from kernels.build import system_compiler
from loopwright.diagnostics import IllegalStep
from loopwright.lower.passes import lower_schedule
from loopwright.transform.plan import apply_plan
from loopwright.validate import Report, validate
from loopwright.validate.runners import c_runners
from mutations.miscompiles import MISCOMPILES, Miscompile

SIZES = ({"n": 0}, {"n": 1}, {"n": 2}, {"n": 7})
FLAGS = ("-O1", "-w")


def report(case: Miscompile) -> Report:
    """What validation says of the program under its plan, compiled as the compiler now is."""
    program = case.program()
    nest = lower_schedule(apply_plan(program, case.steps))
    runners = {"c": c_runners([nest], FLAGS)[0]} if case.in_c else {}
    return validate(program, nest, sizes=SIZES, runners=runners)


@pytest.mark.parametrize("case", MISCOMPILES, ids=lambda case: case.name)
def test_fault_is_caught(case: Miscompile, monkeypatch: pytest.MonkeyPatch) -> None:
    if case.in_c and system_compiler() is None:
        pytest.skip("there is no C compiler")
    if case.is_proof:
        with pytest.raises(IllegalStep):
            apply_plan(case.program(), case.steps)
    else:
        sound = report(case)
        assert sound.is_clean, str(sound)
        assert sound.checked
    case.patch(monkeypatch)
    assert not report(case).is_clean


def test_there_are_enough_faults() -> None:
    assert len({case.name for case in MISCOMPILES}) == len(MISCOMPILES) >= 20
