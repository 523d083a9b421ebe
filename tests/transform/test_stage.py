"""StageArray: what it rewrites, everything that it refuses, and that it changes no result."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.loops import Alloc, LoopNest, Space
from loopwright.ir.program import Program
from loopwright.ir.text import schedule_text, stmt_text
from loopwright.ir.visit import statements
from loopwright.lower.passes import lower_schedule
from loopwright.transform.grid_mapping import MapToBlocks, MapToThreads
from loopwright.transform.loop_marks import Unroll
from loopwright.transform.plan import Plan, apply_plan, apply_step
from loopwright.transform.privatize import Privatize
from loopwright.transform.register_promotion import PromoteToRegisters
from loopwright.transform.stage import StageArray
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine, Tile
from oracle import assert_same
from programs import Do, For, matmul, program

ROWS = (StripMine("i", 4), MapToBlocks("i_t", "x"), MapToThreads("i", "x", 4), StripMine("j", 4))
A = StageArray("A", "j_t", "shared", 1)
SIZES = ({"n": 0, "m": 0}, {"n": 1, "m": 5}, {"n": 8, "m": 8}, {"n": 5, "m": 9}, {"n": 7, "m": 3})


def rows(
    subscripts: str = "i, j",
    *,
    start: str | int = 0,
    stop: str = "m",
    where: str = "",
    dtype: str = "float64",
) -> Program:
    arrays = {
        "A": f"in {dtype} [3 * n + 3, 2 * m + n + 3]",
        "x": f"in {dtype} [m + n]",
        "y": f"inout {dtype} [n]",
    }
    body = Do("y[i]", f"y[i] + A[{subscripts}] * x[j]", where)
    loops = For("i", 0, "n", For("j", start, stop, body))
    return program("rows", arrays, loops, params="n m")


def is_staged(nest: LoopNest) -> bool:
    memory = [s.buffer.space for s in statements(nest.body) if isinstance(s, Alloc)]
    return Space.SHARED in memory


def assert_staged(source: Program, *steps: Step) -> LoopNest:
    """The nest of some steps brings boxes in, and computes what the program does."""
    nest = lower_schedule(apply_plan(source, steps))
    assert is_staged(nest), stmt_text(nest.body)
    for sizes in SIZES:
        assert_same(source, nest, {name: sizes.get(name, 6) for name in source.params})
    return nest


def test_rewrite() -> None:
    nest = assert_staged(rows(), *ROWS, A)
    assert (
        stmt_text(nest.body)
        == dedent("""
        block x for block.x in range((n + 3) // 4):
            alloc shared A_box: float64[4, 4] strides [4, 1]
            thread x for thread.x in range(4):
                let i_t: int64 = block.x * 4
                let i: int64 = i_t + thread.x
                for j_t in range(0, m, 4):
                    barrier of the block
                    if (i_t >= 0) & (i_t + 3 < n * 3 + 3) & (j_t >= 0) & (j_t + 3 < m * 2 + n + 3):
                        unroll for r in range(4):
                            copy [] to A_box[r, thread.x] from A[i_t + r, j_t + thread.x]
                    else:
                        unroll for r in range(4):
                            if (i_t + r >= 0) & (i_t + r < n * 3 + 3) & (j_t + thread.x >= 0) & """
                  """(j_t + thread.x < m * 2 + n + 3):
                                copy [] to A_box[r, thread.x] from A[i_t + r, j_t + thread.x]
                    barrier of the block
                    if i < n:
                        if j_t + 4 <= m:
                            unroll for j in range(j_t, j_t + 4):
                                y[i] = y[i] + A_box[i - i_t, j - j_t] * x[j]
                        else:
                            for j in range(j_t, min(m, j_t + 4)):
                                y[i] = y[i] + A_box[i - i_t, j - j_t] * x[j]
        """).strip()
    )  # fmt: skip


def test_boxes_that_come_while_others_are_used() -> None:
    text = stmt_text(assert_staged(rows(), *ROWS, StageArray("A", "j_t", "shared", 3)).body)
    assert "alloc shared A_box: float64[3, 4, 4] strides [16, 4, 1]" in text
    assert "let slot: int64 = j_t // 4 % 3" in text
    assert "async copy [1] to A_box[(slot + 2) % 3, r, thread.x]" in text


@pytest.mark.parametrize("buffers", [1, 2])
def test_registers_last_for_all_strips(buffers: int) -> None:
    """The sum of a thread stays in its register across the barriers."""
    steps = (PromoteToRegisters("S0", "j_t"), PromoteToRegisters("S0", "j"))
    nest = assert_staged(rows(), *ROWS, StageArray("A", "j_t", "shared", buffers), *steps)
    lines = [line.strip() for line in stmt_text(nest.body).splitlines()]
    assert lines.index("y_r[] = y[i]") < lines.index("for j_t in range(0, m, 4):")
    assert lines.index("y[i] = y_r[]") == len(lines) - 1
    assert lines.count("y_r[] = y[i]") == 1


CASES: dict[str, tuple[Program, tuple[Step, ...]]] = {
    "two arrays": (rows(), (*ROWS, A, StageArray("x", "j_t", "shared", 1))),
    "two rings": (
        rows(),
        (*ROWS, StageArray("A", "j_t", "shared", 2), StageArray("x", "j_t", "shared", 2)),
    ),
    "two loops": (rows(), (*ROWS, A, StageArray("x", "j", "shared", 2))),
    "transposed": (rows("j + 1, i"), (*ROWS, A)),
    "strided": (rows("3 * i, 2 * j + 1"), (*ROWS, A)),
    "skewed": (rows("i, n + j - i"), (*ROWS, A)),
    "lower triangle": (rows(stop="i + 1"), (*ROWS, StageArray("A", "j_t", "shared", 2))),
    "upper triangle": (rows(start="i"), (*ROWS, A)),
    "upper triangle, ring": (rows(start="i"), (*ROWS, StageArray("A", "j_t", "shared", 2))),
    "condition": (rows(where="i > 2 and (i + j) mod 3 > 0"), (*ROWS, A)),
    "one row of threads": (
        rows(),
        (
            StripMine("i", 3),
            MapToBlocks("i_t", "y"),
            MapToThreads("i", "y", 3),
            StripMine("j", 5),
            StageArray("A", "j_t", "shared", 2),
        ),
    ),
    "integers": (rows(dtype="int32"), (*ROWS, StageArray("A", "j_t", "shared", 2))),
    "small integers": (rows(dtype="int8"), (*ROWS, A)),
    "product": (
        matmul(),
        (
            Tile(("i", "j"), (2, 4)),
            MapToBlocks("i_t", "y"),
            MapToBlocks("j_t", "x"),
            MapToThreads("i", "y", 2),
            MapToThreads("j", "x", 4),
            StripMine("k", 8),
            StageArray("A", "k_t", "shared", 2),
            StageArray("B", "k_t", "shared", 2),
            PromoteToRegisters("S0", "k_t"),
        ),
    ),
    "loop of the host": (
        program(
            "steps",
            {"A": "inout float64 [n + 1, n]", "y": "inout float64 [n + 1, n]"},
            For(
                "t",
                0,
                "n",
                For("i", 0, "n", For("j", 0, "n", Do("y[t + 1, i]", "y[t + 1, i] + A[t, j]"))),
                For("k", 0, "n", Do("A[t + 1, k]", "y[t + 1, k]")),
            ),
        ),
        (*ROWS, A),
    ),
    "elements that the kernel writes elsewhere": (
        program(
            "halves",
            {"A": "inout float64 [2 * n + 4, n]"},
            For("i", 0, "n", For("j", 0, "n", Do("A[n + i + 4, 0]", "2 * A[i, j]"))),
        ),
        (*ROWS, A),
    ),
    "statements beside the loop": (
        program(
            "beside",
            {"A": "in float64 [n, n]", "y": "inout float64 [n]", "z": "inout float64 [n]"},
            For(
                "i",
                0,
                "n",
                Do("y[i]", "0"),
                For("j", 0, "n", Do("y[i]", "y[i] + A[i, j]")),
                Do("z[i]", "y[i]", "i > 1"),
            ),
        ),
        (*ROWS, A),
    ),
    "local scalar": (
        program(
            "scalar",
            {"A": "in float64 [n, n]", "y": "inout float64 [n]", "s": "local float64 []"},
            For(
                "i", 0, "n", Do("s", "0"), For("j", 0, "n", Do("s", "s + A[i, j]")), Do("y[i]", "s")
            ),
        ),
        (Privatize("s", "i"), *ROWS, A),
    ),
}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("case", CASES)
def test_results(case: str) -> None:
    source, steps = CASES[case]
    assert_staged(source, *steps)


def test_threads_that_take_iterations_in_turns() -> None:
    """They do not go through the loops inside together: the array is read where it is."""
    mapped = (StripMine("i", 4), MapToBlocks("i_t", "x"), MapToThreads("i", "x", 3))
    nest = lower_schedule(apply_plan(rows(), (*mapped, StripMine("j", 2), A)))
    assert not is_staged(nest)
    for sizes in SIZES:
        assert_same(rows(), nest, sizes)


def test_lanes_that_walk_columns_get_padding() -> None:
    steps = (StripMine("i", 32), MapToBlocks("i_t", "x"), MapToThreads("i", "x", 32))
    strip = StripMine("j", 32)
    found = apply_plan(rows(), (*steps, strip, A)).staged[0]
    assert (found.extents, found.padding, found.shape) == ((32, 32), 1, (32, 33))
    across = apply_plan(rows("j, i"), (*steps, strip, A)).staged[0]
    assert (across.extents, across.padding) == ((32, 32), 0)


def test_text() -> None:
    text = schedule_text(apply_plan(rows(), (*ROWS, StageArray("A", "j_t", "shared", 2))))
    assert text.splitlines()[-1] == "    4 x 4 elements of A in shared memory in j_t, 2 at a time"


def test_json() -> None:
    plan = Plan((*ROWS, A))
    assert Plan.loads(plan.dumps()) == plan
    assert '{"kind": "stage", "array": "A", "loop": "j_t", "space": "shared", "buffers": 1}' in (
        plan.dumps()
    )


def told(step: StageArray, reason: str) -> str:
    return f"{step}: {reason}"


WHOLE = StageArray("A", "j", "shared", 1)
SCALAR = StageArray("s", "j", "shared", 1)
WIDE = StageArray("A", "j_t", "shared", 8)
UPDATE = program(
    "update",
    {"A": "inout float64 [n, n]"},
    For("i", 0, "n", For("j", 0, "n", Do("A[i, j]", "2 * A[i, j]"))),
)
REFUSED: tuple[tuple[Program, tuple[Step, ...], str], ...] = (
    (rows(), (*ROWS, StageArray("B", "j_t", "shared", 1)), "there is no array 'B'"),
    (rows(), (*ROWS, StageArray("A", "k", "shared", 1)), "there is no loop 'k'"),
    (rows(), (*ROWS, StageArray("A", "i", "shared", 1)), "loop 'i' is marked thread"),
    (rows(), (A.__class__("A", "j", "shared", 1),), "no loop around 'j' is mapped to threads"),
    (rows(), (*ROWS[:2], WHOLE), "no loop around 'j' is mapped to threads"),
    (rows(), (*ROWS, A, A), "loop 'j_t' stages 'A' already"),
    (rows(), (*ROWS, A, StageArray("A", "j", "shared", 1)), "loop 'j_t' stages 'A' already"),
    (rows(), (*ROWS, StageArray("A", "j", "shared", 1), A), "loop 'j' stages 'A' already"),
    (rows(), (*ROWS, A, StageArray("x", "j_t", "shared", 2)), "loop 'j_t' has 1 boxes of 'A'"),
    (
        rows("i, i"),
        (*ROWS, StageArray("y", "j_t", "shared", 1)),
        "the kernel writes 'y' as well, in S0",
    ),
    (UPDATE, (*ROWS, A), "the kernel writes 'A' as well, in S0"),
    (
        rows(dtype="int8"),
        (*ROWS, StageArray("A", "j_t", "shared", 2)),
        "elements of 1 bytes are not copied while others are used",
    ),
    (
        rows("i + j, i - j + m"),
        (StripMine("j", 64), *ROWS[:3], StageArray("A", "j_t", "shared", 8)),
        "boxes take 287296 bytes of a block's 49152",
    ),
    (
        program(
            "triangle",
            {"A": "in float64 [n, n]", "y": "inout float64 [n]"},
            For("i", 0, "n", For("j", 0, "n", For("k", 0, "n", Do("y[i]", "y[i] + A[j, k]")))),
        ),
        (*ROWS[:3], StageArray("A", "j", "shared", 1)),
        "what loop 'j' reads of 'A' has no constant extents",
    ),
    (rows("i, i"), (*ROWS, StageArray("z", "j_t", "shared", 1)), "there is no array 'z'"),
    (
        program(
            "scalar",
            {"A": "in float64 [n, n]", "y": "inout float64 [n]", "s": "local float64 []"},
            For(
                "i", 0, "n", Do("s", "0"), For("j", 0, "n", Do("s", "s + A[i, j]")), Do("y[i]", "s")
            ),
        ),
        (Privatize("s", "i"), *ROWS[:3], SCALAR),
        "'s' is one element",
    ),
    (
        program(
            "own",
            {"y": "inout float64 [n]", "s": "local float64 [4]"},
            For(
                "i",
                0,
                "n",
                For("k", 0, 4, Do("s[k]", "y[i]")),
                For("j", 0, 4, Do("y[i]", "y[i] + s[j]")),
            ),
        ),
        (Privatize("s", "i"), *ROWS[:3], SCALAR),
        "every thread has its own copy of 's'",
    ),
    (
        program(
            "reads",
            {"A": "in float64 [n, n]", "y": "inout float64 [n]"},
            For("i", 0, "n", For("j", 0, "n", Do("y[i]", "y[i] + 1")), Do("y[i]", "A[i, 0]")),
        ),
        (*ROWS, A),
        "loop 'j_t' reads nothing of 'A'",
    ),
)


@pytest.mark.parametrize(("source", "steps", "reason"), REFUSED, ids=lambda x: str(x)[:40])
def test_refused(source: Program, steps: tuple[Step, ...], reason: str) -> None:
    *before, last = steps
    schedule = apply_plan(source, tuple(before))
    with pytest.raises(IllegalStep) as raised:
        apply_step(schedule, last)
    assert str(raised.value).startswith(f"{last}: {reason}")


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (StripMine("j", 2), "arrays are staged; steps that change the order come before"),
        (Unroll("j", 2), "arrays are staged; marks come before"),
    ],
)
def test_other_steps_come_before(step: Step, reason: str) -> None:
    with pytest.raises(IllegalStep) as raised:
        apply_step(apply_plan(rows(), (*ROWS, A)), step)
    assert str(raised.value) == f"{step}: {reason}"


def test_bad_fields() -> None:
    with pytest.raises(UsageError, match="stage takes a space that blocks have"):
        StageArray("A", "j", "moon", 1)
    with pytest.raises(UsageError, match="stage takes 1 to 8 buffers"):
        StageArray("A", "j", "shared", 0)


def test_candidates() -> None:
    schedule = apply_plan(rows(), ROWS)
    offered = list(StageArray.candidates(schedule))
    assert {(s.array, s.loop) for s in offered} == {(a, j) for a in "Axy" for j in ("j", "j_t")}
    assert {s.buffers for s in offered} == {1, 2}
    assert not list(StageArray.candidates(apply_plan(rows(), ())))
    legal = [step for step in offered if step.array != "y"]
    for step in legal:
        assert_staged(rows(), *ROWS, step)
