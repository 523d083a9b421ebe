"""Which recurrences are taken by diagonals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopwright import parse_c
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.machines import load_machine
from loopwright.planner.draft import Draft
from loopwright.planner.loop_plans.wavefronts import columns_of, part_wavefronts
from loopwright.planner.planners import model_planner
from loopwright.transform.diagonals import Diagonals
from loopwright.transform.loop_fusion import Distribute
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.plan import Plan
from loopwright.transform.privatize import Privatize
from loopwright.transform.schedule_legality import initial_schedule

MACHINE = load_machine("neoverse-n1")
ALIGN = """
    int best = a[i - 1][j] > a[i][j - 1] ? a[i - 1][j] - 2 : a[i][j - 1] - 2;
    int same = a[i - 1][j - 1] + (s[i] == t[j] ? 2 : -1);
    a[i][j] = same > best ? same : best;
"""


def source(body: str, *, first: str = "", n: int = 2000, kind: str = "int") -> Program:
    (found,) = parse_c(f"""
        void f({kind} a[{n}][{n}], signed char s[{n}], signed char t[{n}],
               unsigned char w[{n}][{n}]) {{
        #pragma scop
            for (int i = 1; i < {n}; i++) {{
                {first}
                for (int j = 1; j < {n}; j++) {{ {body} }}
            }}
        #pragma endscop
        }}
    """)
    return found


def plan(program: Program, *, parallel: bool = False) -> Plan:
    found, _ = model_planner(program, MACHINE, 2 if parallel else 1)
    return found


def is_taken(found: Plan) -> bool:
    return any(isinstance(step, Diagonals) for step in found.steps)


@pytest.mark.parametrize("parallel", [False, True])
def test_a_long_chain_is_taken(*, parallel: bool) -> None:
    assert is_taken(plan(source(ALIGN), parallel=parallel))


def test_threads_have_tiles_in_waves_and_scalars_of_their_own() -> None:
    found, _ = model_planner(source(ALIGN), replace(MACHINE, cores=2), 2)
    assert is_taken(found)
    assert [step.loop for step in found.steps if isinstance(step, Parallel)] == ["i_t"]
    private = {step.array for step in found.steps if isinstance(step, Privatize)}
    assert private == {"best", "same"}


@pytest.mark.parametrize(("streams", "columns"), [(None, 64), (32, 512), (64, 64), (128, 64)])
def test_blocks_are_long_where_rows_outnumber_streams(streams: int | None, columns: int) -> None:
    machine = replace(MACHINE, prefetch_streams=streams)
    assert columns_of(machine) == columns
    found, _ = model_planner(source(ALIGN), machine, 1)
    (taken,) = (step for step in found.steps if isinstance(step, Diagonals))
    assert (taken.rows, taken.columns) == (64, columns)


def test_the_first_column_has_a_loop_of_its_own() -> None:
    found = plan(source(ALIGN, first="a[i][0] = a[i - 1][0] - 2;"))
    assert is_taken(found)
    assert Distribute("i") in found.steps


@pytest.mark.parametrize(
    "program",
    [
        source(ALIGN, n=100),
        source("a[i][j] = w[i][j] ? 0 : a[i - 1][j] + a[i][j - 1];"),
        source("a[i][j] = a[i - 1][j] * 3 + a[i - 1][j - 1];"),
    ],
    ids=["few rows", "a short chain and bytes to copy", "rows have vectors"],
)
def test_others_are_not(program: Program) -> None:
    assert not is_taken(plan(program))


def test_no_proof_is_asked_for_loops_that_do_not_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Distribute] = []
    apply = Distribute.apply

    def noted(step: Distribute, schedule: Schedule) -> Schedule:
        tried.append(step)
        return apply(step, schedule)

    monkeypatch.setattr(Distribute, "apply", noted)
    first = "a[i][0] = a[i - 1][0] - 2;"
    for n, count in ((100, 0), (2000, 1)):
        draft = Draft(initial_schedule(source(ALIGN, first=first, n=n)))
        assert bool(part_wavefronts(draft, MACHINE)) == bool(count)
        assert len(tried) == count
