"""Whole NumPy functions under `jit`: equal to NumPy, or in the list of refusals."""

import pytest

from numpy_programs.corpus import PROGRAMS
from numpy_programs.outcomes import called, difference, kind_of
from numpy_programs.program import Program
from numpy_programs.refusals import LISTED, verdict
from numpy_programs.traps import TRAPS, Trap


def judge(case: Program | Trap) -> None:
    state, why = verdict(case)
    if state == "refused":
        assert case.name in LISTED, f"not in the list of refusals:\n{why}"
    else:
        assert why == ""
        assert case.name not in LISTED, "is compiled: run `python -m numpy_programs.refusals`"


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    judge(PROGRAMS[name])


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
def test_trap(trap: Trap) -> None:
    judge(trap)


def in_one_line(value: object) -> str:
    return " ".join(str(value).split()).replace("[ ", "[")


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
def test_numpy_does_what_a_trap_says(trap: Trap) -> None:
    left = called(trap.function, trap.arguments())
    result, _, after = trap.right.partition(" -> ")
    if left.error is not None:
        assert kind_of(left.error).__name__ == result
    else:
        assert in_one_line(left.result) == result.replace("[ ", "[")
    if after:
        assert in_one_line(left.arguments[0]) == after.replace("[ ", "[")


def test_all_64_families_have_traps() -> None:
    assert sorted({trap.number for trap in TRAPS}) == list(range(1, 65))


def test_nothing_is_listed_that_is_not_there() -> None:
    assert {*PROGRAMS, *(trap.name for trap in TRAPS)} >= LISTED


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_repeats_itself(name: str) -> None:
    """Its arguments are the same each time, and NumPy computes them without an error."""
    program = PROGRAMS[name]
    one, other = (called(program.function, program.arguments("S")) for _ in range(2))
    assert one.error is None
    assert not one.casts
    assert difference(one, other) == ""
