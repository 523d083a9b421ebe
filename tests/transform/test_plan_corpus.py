"""Every plan of the corpus: its loops, that they compute the same bits, or why it is refused."""

from __future__ import annotations

import pytest

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.check import check_program
from loopwright.ir.evaluate import evaluate
from loopwright.ir.loops import For, Mark
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.ir.text import schedule_text, stmt_text
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.transform.plan import Plan, apply_plan, candidates, initial_schedule
from loopwright.transform.step import Step
from oracle import assert_same
from transform.plan_corpus import Case, cases, known, programs, read_program, read_step

SIZES = ((0, 0, 0), (1, 1, 1), (5, 2, 6), (9, 7, 4), (7, -3, 2))
ALL = list(cases())


@pytest.mark.parametrize("case", [x for x in ALL if x.reason], ids=str)
def test_refused(case: Case) -> None:
    *before, last = case.steps
    schedule = apply_plan(case.program, before)
    with pytest.raises(IllegalStep) as caught:
        last.apply(schedule)
    assert str(caught.value) == f"{last}: {case.reason}"
    assert caught.value.step == last


@pytest.mark.parametrize("case", [x for x in ALL if x.loops or x.schedule], ids=str)
def test_taken(case: Case) -> None:
    check(case)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    "case", [x for x in ALL if not (x.reason or x.loops or x.schedule)], ids=str
)
def test_values(case: Case) -> None:
    check(case)


def check(case: Case) -> None:
    """What comes of a plan is valid, reads as the corpus says, and leaves the same bits."""
    assert Plan.loads(Plan(case.steps).dumps()) == Plan(case.steps)
    source = case.program
    schedule = apply_plan(source, case.steps)
    check_program(schedule.program)
    if case.schedule:
        assert schedule_text(schedule) == case.schedule
    nest = lower_schedule(schedule)
    if case.loops:
        assert stmt_text(nest.body) == case.loops
    marks = {stmt.mark for stmt in statements(nest.body) if isinstance(stmt, For)}
    for sizes in SIZES:
        params = dict(zip(source.params, sizes, strict=False))
        if eval(known(case.text), {}, dict(params)) and fits(source, params):
            assert_same(source, nest, params, threads=2 if Mark.PARALLEL in marks else 1)


def fits(source: Program, params: dict[str, int]) -> bool:
    """Whether no array has a negative extent."""
    return all(evaluate(x, params) >= 0 for array in source.arrays for x in array.shape)


@pytest.mark.drawn(8)
@pytest.mark.parametrize("text", programs())
def test_candidates(text: str) -> None:
    """Steps that are offered are different, are data, and name what the program has."""
    schedule = initial_schedule(read_program(text))
    offered = list(candidates(schedule))
    assert len(set(offered)) == len(offered)
    assert Plan.loads(Plan(tuple(offered)).dumps()) == Plan(tuple(offered))
    assert not [step for step in offered if "there is no" in reason(step, schedule)]


def reason(step: Step, schedule: Schedule) -> str:
    """Why a step is refused; empty when it is not."""
    try:
        step.apply(schedule)
    except IllegalStep as refused:
        return refused.reason
    return ""


SENSELESS = {
    "interchange(loops=('i',))": "interchange takes two or more different loops",
    "interchange(loops=('i', 'i'))": "interchange takes two or more different loops",
    "tile(loops=('i',), sizes=(4, 4))": "tile takes different loops and one size for each",
    "tile(loops=(), sizes=())": "tile takes different loops and one size for each",
    "tile(loops=('i', 'j'), sizes=(4, 0))": "tile takes sizes of at least 1",
    "strip_mine(loop='i', size=-1)": "strip_mine takes sizes of at least 1",
    "vectorize(loop='i', lanes=1)": "vectorize takes two or more lanes",
    "unroll(loop='i', factor=1)": "unroll takes a factor of at least 2",
    "fuse(first='i', second='i')": "fuse takes two different loops",
    "map_to_blocks(loop='i', axis='w')": "map_to_blocks takes an axis of x, y and z",
    "map_to_threads(loop='i', axis='w', threads=3)": "map_to_threads takes an axis of x, y and z",
    "map_to_threads(loop='i', axis='x', threads=0)": "map_to_threads takes one or more threads",
    "map_reduction(loop='i', lanes='i', threads=3, blocks=1)": (
        "map_reduction takes a power of two of threads, at most 1024"
    ),
    "map_reduction(loop='i', lanes='i', threads=32, blocks=0)": (
        "map_reduction takes from 1 to 65535 blocks for an element"
    ),
    "stage(array='A', loop='j', space='moon', buffers=1)": "stage takes a space that blocks have",
    "stage(array='A', loop='j', space='shared', buffers=0)": "stage takes 1 to 8 buffers",
    "parallel_chunks(loop='i', parts=1)": "parallel_chunks takes two or more parts",
    "share_from(loop='t', least=0)": "share_from takes one or more statements",
    "split_by_distance(loop='s', distance=1)": "a distance of at least 2",
    "split_index_set(nest='k', loop='i', around='k_t', distance=-1)": "a distance of at least 0",
    "partial_sums(statement='S0', iterator='i', size=0)": "blocks of at least 1 iteration",
}


@pytest.mark.parametrize("step", SENSELESS)
def test_senseless_arguments(step: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_step(step)
    assert SENSELESS[step] in caught.value.message
