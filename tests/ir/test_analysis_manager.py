"""Results of analyses live as long as the schedules of their program."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from loopwright.analysis.dependences import dependences
from loopwright.ir.analysis_manager import AnalysisManager
from loopwright.ir.islkit import QuotaExceeded, isl, quota
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from programs import jacobi, matmul


def test_an_analysis_is_computed_once() -> None:
    calls: list[str] = []

    def name(program: Program) -> str:
        calls.append(program.name)
        return program.name

    def twice(analyses: AnalysisManager) -> str:
        calls.append("twice")
        return 2 * analyses.get(name)

    analyses = AnalysisManager(matmul())
    assert [analyses.derive(twice), analyses.get(name), analyses.derive(twice)] == [
        "matmulmatmul",
        "matmul",
        "matmulmatmul",
    ]
    assert calls == ["twice", "matmul"]
    assert AnalysisManager(analyses.program, {name: "known"}).get(name) == "known"


def test_schedules_of_one_program_share_its_analyses() -> None:
    program, other = matmul(), jacobi()
    schedule = Schedule(program, program.schedule)
    assert schedule.analyses.program is program
    assert replace(schedule, marks=()).analyses is schedule.analyses
    changed = replace(schedule, program=other, tree=other.schedule)
    assert changed.analyses.program is other


def test_results_of_a_spent_quota_are_not_kept() -> None:
    analyses = AnalysisManager(jacobi())

    def costly(program: Program) -> str:
        with suppress(isl.Error):
            for _ in range(1000):
                dependences(program)
        return "something, whatever became of the work"

    with pytest.raises(QuotaExceeded), quota(1000):
        analyses.get(costly)
    assert analyses.known(costly) is None
    assert analyses.get(len_of) == analyses.known(len_of) == len(jacobi().statements)


def len_of(program: Program) -> int:
    return len(program.statements)
