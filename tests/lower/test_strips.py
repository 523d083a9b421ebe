"""Loops over strips: divisions without the loops inside, strips that go to threads as one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import HUNTS, some
from loopwright.ir.interpret import Memory, interpret_nest
from loopwright.ir.loops import For, Let, LoopNest, Mark, Stmt
from loopwright.ir.visit import rebuild
from loopwright.lower.simplify import simplify_divisions
from loopwright.lower.work_distribution import coarsen_parallel_loops
from nest_text import read_nest

HEAD = "nest f(n, k):\n    inout a: int64 strides [1]\n    inout count: int64 strides []\n"
FACTOR = st.sampled_from((1, 2, 3, 4, 6, 8, 12))
SUMS = ("i", "i + s", "2 * i + t", "t + i", "i - s", "t - i", "3 * s + i", "n + i")


def order(nest: LoopNest, n: int, k: int) -> list[int]:
    """When each element was stored last: loops run alone, one iteration after another."""

    def serial(stmt: Stmt) -> Stmt:
        return replace(stmt, mark=Mark.SERIAL) if isinstance(stmt, For) else stmt

    a, count = np.zeros(4000, np.int64), np.zeros(1, np.int64)
    memory = {"a": Memory(a, base=2000), "count": Memory(count, base=0)}
    interpret_nest(replace(nest, body=rebuild(nest.body, serial)), memory, {"n": n, "k": k})
    return a.tolist()


@st.composite
def strips(draw: st.DrawFn) -> str:
    """Two or three loops around stores to quotients, starts and steps of every kind."""
    number = st.integers(-9, 9)
    begin = draw(st.sampled_from(("s", "t", "s + t", "0", "4", "n")))
    start = draw(st.sampled_from(("t", "2 * t", "0", "-8", "12")))
    places = [
        f"({draw(st.sampled_from(SUMS))} + {draw(number)}) // {draw(FACTOR)}"
        for _ in range(draw(st.integers(1, 3)))
    ]
    indent = 16 * " "
    stores = "".join(f"{indent}count[] = count[] + 1\n{indent}a[{x}] = count[]\n" for x in places)
    reach = f"min({begin} + {draw(st.integers(0, 9))}, n + 8)"
    return f"""
    for t in range({draw(number) * draw(FACTOR)}, n, {draw(FACTOR)}):
        for s in range({start}, {start} + {draw(st.integers(0, 20))}, {draw(FACTOR)}):
            for i in range({begin}, {reach}, {draw(FACTOR)}):
{stores}"""


@settings(max_examples=3000 if HUNTS else 30, deadline=None)
@given(strips(), st.integers(-3, 12))
def test_divisions_have_the_same_values(body: str, n: int) -> None:
    nest = read_nest(HEAD + body.strip("\n"))
    assert order(simplify_divisions(nest), n, 5) == order(nest, n, 5)


def in_strips(start: str, size: int, step: int) -> LoopNest:
    """Two nests in strips of columns, the second one under a guard."""
    text = f"""
    parallel for t in range(k - k % 8, n, {size}):
        for i in range(2):
            for j in range({start}, min(n, t + {size}), {step}):
                a[i * 300 + j] = a[i * 300 + j] + 1
        if n > 5:
            for l in range(t, t + {size}):
                a[700 + l] = a[700 + l] + 1"""
    return read_nest(HEAD + text.strip("\n"))


@settings(max_examples=some(150), deadline=None)
@given(
    n=st.integers(-5, 70),
    k=st.integers(-5, 40),
    chunks=st.integers(2, 5),
    size=st.sampled_from((2, 4, 8)),
    start=st.sampled_from(("t", "max(k, t)", "max(3, t)")),
    step=st.sampled_from((1, 1, 2)),
    factor=st.sampled_from((1, 2, 3, 7)),
)
def test_strips_of_threads_have_the_same_iterations(
    n: int, k: int, chunks: int, size: int, start: str, step: int, factor: int
) -> None:
    """Where fewer threads run, a backend may take a multiple of the width."""
    nest = in_strips(start, size, step)
    found = coarsen_parallel_loops(nest, {"t": chunks})
    if isinstance(found.body, Let):
        assert found.body.parts == chunks
        found = replace(found, body=replace(found.body, value=found.body.value * factor))
    assert order(found, n, k) == order(nest, n, k)
