"""The full text of every refusal: the step, the reason, the two instances and their places."""

from __future__ import annotations

import pytest

from contract_steps import contract_loops
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir.program import Program
from loopwright.transform.contract import Contract
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_fusion import Distribute, Fuse
from loopwright.transform.loop_marks import Parallel, Unroll, Vectorize
from loopwright.transform.plan import apply_plan
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine, Tile
from programs import Do, For, jacobi, lu, matmul, matmul_in_nest, nest, program


def total(known: str) -> Program:
    """A sum of integers: its order is free."""
    arrays = {"A": "in int64 [n, m]", "s": "inout int64 []"}
    body = nest((("i", "n"), ("j", "m")), Do("s", "s + A[i, j]"))
    return program("total", arrays, body, params="n m", known=known)


def skewed() -> Program:
    arrays = {"A": "inout float64 [n, n]"}
    body = For("i", 1, "n", For("j", 0, "n - 1", Do("A[i, j]", "A[i - 1, j + 1]")))
    return program("skewed", arrays, body)


REFUSED: tuple[tuple[Program, tuple[Step, ...], str], ...] = (
    (
        skewed(),
        (Interchange(("j", "i")),),
        "interchange(loops=('j', 'i')): would reverse flow S0[1, 1] -> S0[2, 0] "
        "(skewed.py:1 -> skewed.py:1)",
    ),
    (
        matmul(),
        (Interchange(("x", "i")),),
        "interchange(loops=('x', 'i')): there is no loop 'x'; the loops are i, j, k",
    ),
    (
        jacobi(),
        (Interchange(("i", "t")),),
        "interchange(loops=('i', 't')): loops i, t do not stand directly inside each other",
    ),
    (
        skewed(),
        (Tile(("i", "j"), (4, 4)),),
        "tile(loops=('i', 'j'), sizes=(4, 4)): would reverse flow S0[1, 4] -> S0[2, 3] "
        "(skewed.py:1 -> skewed.py:1)",
    ),
    (
        matmul(),
        (Parallel("i"), Tile(("i", "j"), (4, 4))),
        "tile(loops=('i', 'j'), sizes=(4, 4)): loop 'i' is marked parallel; "
        "marks come after other steps",
    ),
    (
        matmul(),
        (Unroll("k", 2), StripMine("k", 4)),
        "strip_mine(loop='k', size=4): loop 'k' is marked unroll; marks come after other steps",
    ),
    (
        matmul(),
        (StripMine("x", 4),),
        "strip_mine(loop='x', size=4): there is no loop 'x'; the loops are i, j, k",
    ),
    (
        matmul(),
        (Parallel("k"),),
        "parallel(loop='k'): loop 'k' carries flow S0[0, 0, 0] -> S0[0, 0, 1] "
        "(matmul.py:1 -> matmul.py:1)",
    ),
    (
        matmul(),
        (Parallel("i"), Parallel("j")),
        "parallel(loop='j'): loop 'i' is parallel already; threads are shared out once",
    ),
    (
        matmul(),
        (Parallel("j"), Parallel("i")),
        "parallel(loop='i'): loop 'j' is parallel already; threads are shared out once",
    ),
    (
        matmul(),
        (Vectorize("j", 4),),
        "vectorize(loop='j', lanes=4): vector loop 'j' is not innermost",
    ),
    (
        lu(),
        (Vectorize("j", 4), Parallel("k")),
        "parallel(loop='k'): loop 'k' carries flow S1[0, 1, 1] -> S0[1, 2] (lu.py:2 -> lu.py:1)",
    ),
    (
        matmul("ikj"),
        (Vectorize("j", 4), Interchange(("j", "k"))),
        "interchange(loops=('j', 'k')): vector loop 'j' is not innermost",
    ),
    (
        matmul(),
        (Parallel("j"), Parallel("j")),
        "parallel(loop='j'): loop 'j' is marked parallel; marks come after other steps",
    ),
    (
        matmul(),
        (Unroll("x", 2),),
        "unroll(loop='x', factor=2): there is no loop 'x'; the loops are i, j, k",
    ),
    (
        jacobi(),
        (Fuse("i", "j"),),
        "fuse(first='i', second='j'): would reverse anti S0[0, 2] -> S1[0, 1] "
        "(jacobi.py:1 -> jacobi.py:2)",
    ),
    (
        jacobi(),
        (Fuse("j", "i"),),
        "fuse(first='j', second='i'): loop 'i' does not follow loop 'j' directly",
    ),
    (
        lu(),
        (Distribute("i"), Distribute("k")),
        "distribute(loop='k'): would reverse flow S1[0, 1, 1] -> S0[1, 2] (lu.py:2 -> lu.py:1)",
    ),
    (
        matmul(),
        (Distribute("i"),),
        "distribute(loop='i'): the body of loop 'i' has one part only",
    ),
    (
        matmul_in_nest(),
        (Contract((), contract_loops("i", "j", "k").variants, (8, 8, 8)), Parallel("i")),
        "parallel(loop='i'): loop 'i' belongs to the contraction of S0, S1",
    ),
)


@pytest.mark.parametrize(("source", "steps", "told"), REFUSED, ids=lambda x: getattr(x, "kind", ""))
def test_refusal(source: Program, steps: tuple[Step, ...], told: str) -> None:
    *before, last = steps
    schedule = apply_plan(source, before)
    with pytest.raises(IllegalStep) as caught:
        last.apply(schedule)
    assert str(caught.value) == told
    assert caught.value.step == last


# Nearest pairs alone would overlook the conflict: with two columns or more, the updates of one
# column are never neighbours in source order.
@pytest.mark.parametrize("known", ["", "m >= 2 and n >= 2"])
def test_reordered_reduction_is_still_not_parallel(known: str) -> None:
    schedule = apply_plan(total(known), [Interchange(("j", "i"))])
    for step in (Parallel("i"), Vectorize("i", 4), Parallel("j")):
        with pytest.raises(IllegalStep, match=r"carries flow S0\["):
            step.apply(schedule)


def test_mark_is_proven_again_after_a_reorder() -> None:
    arrays = {"A": "inout float64 [n, n]", "B": "in float64 [n, n]"}
    body = For("i", 1, "n", For("j", 0, "n", Do("A[i, j]", "A[i - 1, j] + B[i, j]")))
    source = program("columns", arrays, body)
    schedule = apply_plan(source, [Parallel("j")])
    assert Interchange(("j", "i")).apply(schedule).marks == schedule.marks
    two = program("both", arrays, For("i", 1, "n", For("j", 1, "n", Do("A[i, j]", "A[i-1, j-1]"))))
    with pytest.raises(IllegalStep) as caught:
        Interchange(("j", "i")).apply(apply_plan(two, [Parallel("j")]))
    assert str(caught.value) == (
        "interchange(loops=('j', 'i')): loop 'j' carries flow S0[1, 1] -> S0[2, 2] "
        "(both.py:1 -> both.py:1)"
    )


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Interchange(("i",)), "interchange takes two or more different loops"),
        (lambda: Interchange(("i", "i")), "interchange takes two or more different loops"),
        (lambda: Tile(("i",), (4, 4)), "tile takes different loops and one size for each"),
        (lambda: Tile((), ()), "tile takes different loops and one size for each"),
        (lambda: Tile(("i", "j"), (4, 0)), "tile takes sizes of at least 1"),
        (lambda: StripMine("i", -1), "strip_mine takes sizes of at least 1"),
        (lambda: Vectorize("i", 1), "vectorize takes two or more lanes"),
        (lambda: Unroll("i", 1), "unroll takes a factor of at least 2"),
        (lambda: Fuse("i", "i"), "fuse takes two different loops"),
    ],
)
def test_senseless_arguments(make: object, told: str) -> None:
    assert callable(make)
    with pytest.raises(UsageError) as caught:
        make()
    assert caught.value.message == told
