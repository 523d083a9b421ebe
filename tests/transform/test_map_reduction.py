"""MapReduction: what it makes of a reduction, that it is right, what it refuses."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.program import Program
from loopwright.ir.text import schedule_text, stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.transform.grid_mapping import MapToBlocks, MapToThreads
from loopwright.transform.map_reduction import MapReduction
from loopwright.transform.partial_sums import PartialSums
from loopwright.transform.plan import apply_plan, apply_step, candidates, initial_schedule
from loopwright.transform.register_promotion import PromoteToRegisters
from loopwright.transform.stage import StageArray
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine
from loopwright.validate import check_translation
from oracle import assert_same
from programs import Do, For, program

SIZES = (0, 1, 2, 5, 13)


def rows(*, reassoc: bool = True, dtype: str = "float64") -> Program:
    """Sums of the rows of a matrix."""
    arrays = {"A": f"in {dtype} [n, n]", "y": f"inout {dtype} [n]"}
    body = For("i", 0, "n", For("j", 0, "n", Do("y[i]", "y[i] + A[i, j]")))
    return program("rows", arrays, body, reassoc=reassoc)


def total(op: str, dtype: str = "int32") -> Program:
    """One element gathered over a triangle."""
    arrays = {"A": f"in {dtype} [n, n]", "s": f"inout {dtype} []"}
    value = f"{op}(s, A[i, j])" if op in ("min", "max") else f"s {op} A[i, j]"
    body = For("i", 2, "n", For("j", 0, "i", Do("s", value)))
    return program("total", arrays, body, reassoc=True)


def started() -> Program:
    """Sums of rows, each with its start before."""
    arrays = {"A": "in int32 [n, n]", "y": "inout int32 [n]"}
    inner = For("j", 0, "n", Do("y[i]", "y[i] + A[i, j]"))
    return program("started", arrays, For("i", 0, "n", Do("y[i]", "0"), inner))


def loops_after(source: Program, *steps: Step) -> str:
    """The statements of the lowered nest, proven right."""
    nest = lower_schedule(apply_plan(source, steps))
    for n in SIZES:
        assert_same(source, nest, {"n": n})
    sizes = [{"n": n} for n in SIZES]
    assert check_translation(source, nest, sizes, threads=()) == ()
    return "\n" + stmt_text(nest.body) + "\n"


def test_golden() -> None:
    steps = MapToBlocks("i", "x"), MapReduction("j", "j", 2)
    assert loops_after(rows(), *steps) == dedent("""
        block x for block.x in range(n):
            alloc shared y_sums: float64[2] strides [1]
            thread x for thread.x in range(2):
                let i: int64 = block.x
                alloc register y_sum: float64[1] strides [1]
                y_sum[0] = 0.0
                for j in range(thread.x, n, 2):
                    y_sum[0] = y_sum[0] + A[i, j]
                y_sums[thread.x] = y_sum[0]
                barrier of the block
                if thread.x < 1:
                    y_sum[0] = y_sum[0] + y_sums[thread.x + 1]
                    y_sums[thread.x] = y_sum[0]
                barrier of the block
                if thread.x == 0:
                    y[i] = y[i] + y_sum[0]
        """)


def test_golden_of_blocks_together() -> None:
    steps = MapToBlocks("i", "x"), MapReduction("j", "j", 2, blocks=3)
    assert loops_after(rows(), *steps) == dedent("""
        block y for block.y in range(3):
            block x for block.x in range(n):
                alloc shared y_sums: float64[2] strides [1]
                thread x for thread.x in range(2):
                    let i: int64 = block.x
                    let part: int64 = block.y
                    alloc register y_sum: float64[1] strides [1]
                    y_sum[0] = 0.0
                    for j in range(part * ((n + 2) // 3) + thread.x, min(n, part * ((n + 2) // 3) + (n + 2) // 3), 2):
                        y_sum[0] = y_sum[0] + A[i, j]
                    y_sums[thread.x] = y_sum[0]
                    barrier of the block
                    if thread.x < 1:
                        y_sum[0] = y_sum[0] + y_sums[thread.x + 1]
                        y_sums[thread.x] = y_sum[0]
                    barrier of the block
                    if thread.x == 0:
                        atomically y[i] = y[i] + y_sum[0]
        """)  # noqa: E501, a line of the nest


@pytest.mark.drawn(2)
@pytest.mark.parametrize("op", ["+", "-", "min", "max", "&", "|", "^"])
@pytest.mark.parametrize(("lanes", "blocks"), [("i", 2), ("j", 5)])
def test_blocks_together(op: str, lanes: str, blocks: int) -> None:
    found = loops_after(total(op), MapReduction("i", lanes, 4, blocks))
    assert f"block x for block.x in range({blocks}):" in found
    assert "atomically s[] = " in found


def test_text_of_the_schedule() -> None:
    found = apply_plan(rows(), (MapToBlocks("i", "x"), MapReduction("j", "j", 32)))
    assert schedule_text(found).splitlines()[-1] == (
        "    threads along j join what S0 gathers in j"
    )
    found = apply_plan(rows(), (MapToBlocks("i", "x"), MapReduction("j", "j", 32, 4)))
    assert schedule_text(found).splitlines()[-1] == (
        "    threads of 4 blocks, atomically, along j join what S0 gathers in j"
    )


@pytest.mark.drawn(4)
@pytest.mark.parametrize("op", ["+", "*", "-", "min", "max", "&", "|", "^"])
@pytest.mark.parametrize("lanes", ["i", "j"])
def test_operators_without_a_block_around(op: str, lanes: str) -> None:
    found = loops_after(total(op), MapReduction("i", lanes, 4))
    assert "block x for block.x in range(1):" in found


def test_loops_of_one_iteration() -> None:
    """isl leaves them out: the lanes gather by themselves, or one thread takes all terms."""
    arrays = {"A": "in int32 [n, n]", "y": "inout int32 [n]"}
    body = For("i", 0, 1, For("j", 0, "n", Do("y[i]", "y[i] + A[i, j]")))
    source = program("single", arrays, body, known="n >= 1")
    for steps in (
        (MapReduction("i", "j", 4),),
        (MapReduction("j", "j", 4),),
        (MapReduction("i", "i", 4),),
    ):
        nest = lower_schedule(apply_plan(source, steps))
        for n in (1, 2, 7):
            assert_same(source, nest, {"n": n})


def test_other_elements_of_the_array() -> None:
    """What is read of the array stays; what is gathered does not."""
    body = For("i", 1, "n", Do("x[0]", "x[0] + x[i]"))
    source = program("first", {"x": "inout int32 [n]"}, body, known="n >= 1")
    nest = lower_schedule(apply_plan(source, (MapReduction("i", "i", 4),)))
    for n in (1, 2, 9):
        assert_same(source, nest, {"n": n})
    assert "x_sum[0] = x_sum[0] + x[i]" in stmt_text(nest.body)


def test_offered() -> None:
    offered = [
        step for step in candidates(initial_schedule(rows())) if step.kind == "map_reduction"
    ]
    assert [str(step) for step in offered] == [
        "map_reduction(loop='i', lanes='i', threads=32, blocks=1)",
        "map_reduction(loop='i', lanes='j', threads=32, blocks=1)",
        "map_reduction(loop='j', lanes='j', threads=32, blocks=1)",
    ]


MAPPED = (MapToBlocks("i", "x"), MapReduction("j", "j", 4))


@pytest.mark.parametrize(
    ("source", "steps", "reason"),
    [
        (
            rows(reassoc=False),
            (MapReduction("j", "j", 4),),
            "'S0' is no reduction whose order is free",
        ),
        (
            total("+"),
            (
                PartialSums("S0", "i", 3),
                StripMine("i", 3),
                MapToBlocks("i_t", "x"),
                MapReduction("i", "j", 4),
            ),
            "the element of 's_parts' is no affine function of the loops around",
        ),
        (rows(), (MapReduction("i", "j", 4),), "loop 'i' gathers into several elements of 'y'"),
        (rows(), (MapReduction("j", "i", 4),), "there is no loop 'i' in loop 'j'"),
        (rows(), (MapToBlocks("i", "x"), MapReduction("i", "j", 4)), "loop 'i' is marked block"),
        (
            rows(),
            (StripMine("i", 2), MapToBlocks("i_t", "x"), MapReduction("j", "j", 4)),
            "loop 'i' stands between it and its block",
        ),
        (
            rows(),
            (
                StripMine("i", 2),
                MapToBlocks("i_t", "x"),
                MapToThreads("i", "y", 2),
                MapReduction("j", "j", 4),
            ),
            "loop 'i' around it is marked thread",
        ),
        (rows(), (*MAPPED, StripMine("j", 4)), "loop 'j' is marked thread"),
        (rows(), (*MAPPED, PromoteToRegisters("S0", "j")), "threads share the work of loop 'j'"),
        (rows(), (*MAPPED, StageArray("A", "j", "shared", 1)), "loop 'j' is marked thread"),
        (
            rows(),
            (MapReduction("j", "j", 4), MapToBlocks("i", "x")),
            "threads join in loop 'j'; marks of its nest come before",
        ),
        (
            total("min", "float64"),
            (MapReduction("i", "j", 4, 2),),
            "GPUs have no atomic 'min' of float64",
        ),
        (total("*"), (MapReduction("i", "j", 4, 2),), "GPUs have no atomic 'mul' of int32"),
        (
            started(),
            (MapToBlocks("i", "x"), MapReduction("j", "j", 4, 2)),
            "its kernel has S0 as well, which every block would run",
        ),
    ],
)  # fmt: skip
def test_refused(source: Program, steps: tuple[Step, ...], reason: str) -> None:
    with pytest.raises(IllegalStep) as raised:
        apply_plan(source, steps)
    assert reason in str(raised.value)


def test_order_stays() -> None:
    """Steps on other loops go on; those that would move the joined ones are refused."""
    arrays = {"x": "in int32 [n]", "s": "inout int32 []", "y": "inout int32 [n]"}
    body = (
        For("i", 0, "n", Do("s", "s + x[i]")),
        For("k", 0, "n", Do("y[k]", "2 * y[k]")),
    )
    schedule = apply_plan(program("two", arrays, *body), (MapReduction("i", "i", 4),))
    apply_step(schedule, StripMine("k", 4))
    with pytest.raises(IllegalStep):
        apply_step(schedule, StripMine("i", 4))


@pytest.mark.parametrize("threads", [0, 1, 3, 2048])
def test_threads_that_cannot_be(threads: int) -> None:
    with pytest.raises(UsageError) as raised:
        MapReduction("i", "i", threads)
    assert raised.value.message == ("map_reduction takes a power of two of threads, at most 1024")


@pytest.mark.parametrize("blocks", [0, 65536])
def test_blocks_that_cannot_be(blocks: int) -> None:
    with pytest.raises(UsageError) as raised:
        MapReduction("i", "i", 32, blocks)
    assert raised.value.message == "map_reduction takes from 1 to 65535 blocks for an element"
