"""Private copies: which arrays may have them, what they allow, and when they are refused."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loopwright.diagnostics import IllegalStep
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_fusion import Distribute
from loopwright.transform.loop_marks import Parallel, Vectorize
from loopwright.transform.plan import apply_plan
from loopwright.transform.privatize import ExpandArray, Privatize
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine, Tile
from oracle import assert_same
from programs import Do, For, program

ARRAYS = {"a": "in float64 [n]", "b": "inout float64 [n]", "t": "local float64 []"}


def stencil() -> Program:
    body = For("i", 1, "n - 1", Do("t", "a[i - 1] + a[i + 1]"), Do("b[i]", "t * t"))
    return program("stencil", ARRAYS, body)


def rows() -> Program:
    arrays = {
        "A": "in float64 [n, m]",
        "y": "out float64 [n]",
        "s": "local float64 []",
        "w": "local float64 [m]",
    }
    body = For(
        "i",
        0,
        "n",
        Do("s", "0"),
        For("j", 0, "m", Do("w[j]", "A[i, j] * 2")),
        For("k", 0, "m", Do("s", "s + w[m - 1 - k]")),
        Do("y[i]", "s"),
    )
    return program("rows", arrays, body, params="n m")


def running() -> Program:
    """t passes from one iteration to the next."""
    body = For("i", 0, "n", Do("b[i]", "t + a[i]"), Do("t", "b[i]"))
    return program("running", ARRAYS, Do("t", "0"), body)


def carried() -> Program:
    first = Do("t", "a[i]", where="i = 0")
    return program("carried", ARRAYS, For("i", 0, "n", first, Do("b[i]", "t * 2")))


def lowered(source: Program, *steps: Step, **params: int) -> str:
    nest = lower_schedule(apply_plan(source, steps))
    for threads in (1, 3):
        assert_same(source, nest, params, threads)
    return stmt_text(nest.body)


def test_scalar() -> None:
    with pytest.raises(IllegalStep, match=r"carries anti S1\[1\] -> S0\[2\]"):
        Parallel("i").apply(apply_plan(stencil(), []))
    steps = (Privatize("t", "i"), Vectorize("i", 4))
    assert (
        lowered(stencil(), *steps, n=11)
        == dedent("""
        for i in range(1, n - 4, 4):
            vector for i_v in range(4):
                let t: float64 = a[i + i_v - 1] + a[i + i_v + 1]
                b[i + i_v] = t * t
        for i in range(max(n - 2, 0) // 4 * 4 + 1, n - 1):
            let t: float64 = a[i - 1] + a[i + 1]
            b[i] = t * t
        """).strip()
    )


def test_array() -> None:
    steps = (Privatize("s", "i"), Privatize("w", "i"), Parallel("i"))
    assert (
        lowered(rows(), *steps, n=5, m=4)
        == dedent("""
        parallel for i in range(n):
            alloc stack s: float64[] strides []
            alloc private w: float64[m] strides [1]
            s[] = 0.0
            for j in range(m):
                w[j] = A[i, j] * 2.0
            for k in range(m):
                s[] = s[] + w[m - k - 1]
            y[i] = s[]
        """).strip()
    )


def test_loop_of_one_iteration() -> None:
    body = For("i", 0, 1, Do("t", "a[i]"), Do("b[i]", "t * 2"))
    source = program("once", ARRAYS, body, known="n >= 1")
    assert lowered(source, Privatize("t", "i"), n=2) == "let t: float64 = a[0]\nb[0] = t * 2.0"


def test_loops_that_are_left_out() -> None:
    arrays = {"a": "in float64 [n]", "b": "inout float64 [n]", "w": "local float64 [n]"}
    source = program("left", arrays, For("i", 0, "n", Do("w[i]", "a[i]"), Do("b[i]", "w[i] * 2")))
    # isl drops both inner loops and spreads their mark over the statements.
    steps = (StripMine("i", 1), Privatize("w", "i"), Tile(("i_t", "i"), (1, 3)))
    assert (
        lowered(source, *steps, n=5)
        == dedent("""
        for i_t_t in range(n):
            let w: float64 = a[i_t_t]
            b[i_t_t] = w * 2.0
        """).strip()
    )


def test_guards_inside() -> None:
    body = For("i", 0, "n", Do("t", "a[i]"), Do("b[i]", "t * 2", where="i >= 3"))
    source = program("guarded", ARRAYS, body)
    assert (
        lowered(source, Privatize("t", "i"), Parallel("i"), n=6)
        == dedent("""
        parallel for i in range(n):
            alloc stack t: float64[] strides []
            t[] = a[i]
            if i >= 3:
                b[i] = t[] * 2.0
        """).strip()
    )


REFUSED: tuple[tuple[Program, tuple[Step, ...], str], ...] = (
    (
        stencil(),
        (Privatize("b", "i"),),
        "privatize(array='b', loop='i'): 'b' is no local array; the local arrays are t",
    ),
    (
        stencil(),
        (Privatize("t", "i"), Privatize("t", "i")),
        "privatize(array='t', loop='i'): array 't' is private to 'i'",
    ),
    (
        running(),
        (Privatize("t", "i"),),
        "privatize(array='t', loop='i'): array 't' is used outside loop 'i', by S0",
    ),
    (
        carried(),
        (Privatize("t", "i"),),
        "privatize(array='t', loop='i'): array 't' carries out of an iteration of 'i' "
        "flow S0[0] -> S1[1] (carried.py:1 -> carried.py:2)",
    ),
    (
        rows(),
        (Privatize("s", "k"),),
        "privatize(array='s', loop='k'): array 's' is used outside loop 'k', by S0, S3",
    ),
    (
        rows(),
        (Privatize("w", "i"), Distribute("i")),
        "distribute(loop='i'): array 'w' is used outside loop 'i', by S1, S2",
    ),
)


@pytest.mark.parametrize(("source", "steps", "told"), REFUSED, ids=lambda x: "")
def test_refusal(source: Program, steps: tuple[Step, ...], told: str) -> None:
    *before, last = steps
    schedule = apply_plan(source, before)
    with pytest.raises(IllegalStep) as caught:
        last.apply(schedule)
    assert str(caught.value) == told


def test_copies_are_proven_again_after_a_reorder() -> None:
    arrays = {"A": "inout float64 [n, n]", "t": "local float64 []"}
    inner = For("j", 0, "n", Do("t", "A[i, j] * 2"), Do("A[i, j]", "t + 1"))
    source = program("square", arrays, For("i", 0, "n", inner))
    swap = Interchange(("j", "i"))
    with pytest.raises(IllegalStep, match=r"would reverse anti S1\[0, 1\] -> S0\[1, 0\]"):
        swap.apply(apply_plan(source, []))
    assert lowered(source, Privatize("t", "j"), swap, n=4).startswith("for j in range(n)")
    # Each iteration of j now holds all of i, which share one copy.
    with pytest.raises(IllegalStep, match=r"loop 'i' carries anti S1\[0, 0\] -> S0\[1, 0\]"):
        swap.apply(apply_plan(source, [Privatize("t", "j"), Parallel("i")]))
    with pytest.raises(IllegalStep, match="loop 'i' carries anti"):
        Parallel("i").apply(apply_plan(source, [Privatize("t", "j"), swap]))


def test_arrays_with_copies_are_not_expanded() -> None:
    with pytest.raises(IllegalStep, match="array 't' has private copies already"):
        ExpandArray("t", ("i",)).apply(apply_plan(stencil(), [Privatize("t", "i")]))


def test_iterations_with_copies_stay_whole() -> None:
    """One iteration is not parted into loops for its statements, though no order forbids it."""
    arrays = {"x": "in int32 [2*n + 5]", "b": "inout int32 [n + 3]", "t": "local int32 []"}
    once = "(j = i + 1 or (i = n - 1 and j = i))"
    body = Do("t", "x[j - i + n]", where=once), Do("b[j]", "t", where=once)
    source = program("once", arrays, For("i", 0, "n", For("j", 0, "n", *body)))
    found = lowered(source, Privatize("t", "j"), Parallel("j"), n=5)
    assert found.count("parallel for j") == 1
    assert found.count("let t") + found.count("alloc stack t") == 1


def test_copies_free_the_order() -> None:
    arrays = {"A": "inout float64 [n, n]", "t": "local float64 []"}
    inner = For("j", 0, "n", Do("t", "A[i, j] * 2"), Do("A[i, j]", "t + 1"))
    source = program("square", arrays, For("i", 0, "n", inner))
    steps = (Privatize("t", "j"), Tile(("i", "j"), (4, 4)), Parallel("i_t"), Vectorize("j", 4))
    found = lowered(source, *steps, n=9)
    assert found.startswith("parallel for i_t")
    assert "let t: float64 = A[i, j + j_v] * 2.0" in found


def test_candidates_hold_all_uses() -> None:
    schedule = apply_plan(rows(), [])
    assert list(Privatize.candidates(schedule)) == [Privatize("s", "i"), Privatize("w", "i")]
