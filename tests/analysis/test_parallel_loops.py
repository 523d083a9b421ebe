"""Parallel loops, and the reason for those that are not."""

from loopwright.analysis.dependences import dependences
from loopwright.analysis.legality import explain_loops, parallel_loops
from programs import jacobi, matmul, seidel


def test_parallel_loops() -> None:
    known = matmul("kij")
    assert parallel_loops(dependences(known), known.schedule) == ("i", "j")
    known = seidel()
    assert parallel_loops(dependences(known), known.schedule) == ()


def test_every_loop_is_explained() -> None:
    known = jacobi()
    assert explain_loops(dependences(known), known.schedule) == (
        "t: carries flow S1[0, 1] -> S0[1, 1] (jacobi.py:2 -> jacobi.py:1)",
        "i: parallel",
        "j: parallel",
    )
