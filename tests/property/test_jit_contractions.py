"""Random spellings of contractions: any order, operators, subscripts, layouts and surroundings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from calls.comparison import assert_as_python, is_contraction
from drawn import in_all
from frontends.kernels import Function, define

EXAMPLES = settings(max_examples=max(8 if in_all() else 4, settings().max_examples // 10))
EXTENT = 26  # of every array: more than any subscript below
LOOPS = "tijk"
DTYPES = ("float64", "float32", "int32", "int64", "complex64")
# plus and times, as an update of {c} by {a} and {b}; those for ordered types come last.
PAIRS = ("{c} + {a} * {b}", "{c} - {a} * {b}", "min({c}, {a} + {b})", "max({c}, min({a}, {b}))")


@dataclass(frozen=True)
class Spelling:
    """A function `f(C, A, B, n, m)` as text, and the arrays it is called with."""

    text: str
    dtypes: tuple[str, str, str]
    ranks: tuple[int, int, int]
    layouts: tuple[tuple[int, ...], ...]  # the step of each dimension of each array
    orders: tuple[str, ...]

    def define(self) -> Function:
        return define(self.text, "spelling.py")

    def arguments(self, n: int, m: int, seed: int) -> tuple[Any, ...]:
        rng = np.random.default_rng(seed)
        arrays = []
        for dtype, rank, steps, order in zip(
            self.dtypes, self.ranks, self.layouts, self.orders, strict=True
        ):
            shape = [EXTENT * abs(step) for step in steps[:rank]]
            memory = np.asarray(rng.integers(-3, 4, shape).astype(dtype), order=order)
            arrays.append(memory[(..., *(slice(None, None, step) for step in steps[:rank]))])
        return (*arrays, n, m)


@st.composite
def subscripts(draw: st.DrawFn, loops: tuple[str, ...]) -> str:
    """One injective subscript per loop, in any order."""
    forms = ("{}", "{}", "{} + 1", "2 * {}", "n + m - {}")
    entries = [draw(st.sampled_from(forms)).format(v) for v in draw(st.permutations(loops))]
    return f"[{', '.join(entries) or '()'}]"


@st.composite
def spellings(draw: st.DrawFn) -> Spelling:
    batch, left, right = (draw(st.booleans()) for _ in range(3))
    of_out = ("t",) * batch + ("i",) * left + ("j",) * right
    of_left = ("t",) * batch + ("i",) * left + ("k",)
    of_right = ("t",) * batch + ("k",) + ("j",) * right
    dtype = draw(st.sampled_from(DTYPES))
    pair = draw(st.sampled_from(PAIRS[:2] if dtype == "complex64" else PAIRS))
    narrow = "int8" if dtype == "int32" and draw(st.booleans()) else dtype
    c, a, b = (
        f"{x}{draw(subscripts(loops))}"
        for x, loops in (("C", of_out), ("A", of_left), ("B", of_right))
    )
    prologues = ("{}", "{}", "(2 * {})", "({} + 1)", *(("abs({})",) if dtype[0] != "c" else ()))
    wrapped = [draw(st.sampled_from(prologues)).format(x) for x in (a, b)]
    if narrow != dtype:
        wrapped = [f"np.{dtype}({x})" for x in (a, b)]
    ranges = {v: draw(st.sampled_from(["n", "m", "1, m", "n - 1, -1, -1"])) for v in LOOPS}
    epilogue = draw(st.sampled_from(["{s}", "2 * {s}", "{s} + {c}", "-{s}"]))
    style = draw(st.sampled_from(["update", "scalar", "first", "last"]))
    lines = ["def f(C, A, B, n, m):"]

    def put(depth: int, line: str) -> None:
        lines.append("    " * (depth + 1) + line)

    if style == "update":
        order = draw(st.permutations((*of_out, "k")))
        for depth, v in enumerate(order):
            put(depth, f"for {v} in range({ranges[v]}):")
        put(len(order), f"{c} = {pair.format(c=c, a=wrapped[0], b=wrapped[1])}")
    else:
        place = "s" if style == "scalar" else c
        for depth, v in enumerate(of_out):
            put(depth, f"for {v} in range({ranges[v]}):")
        depth = len(of_out)
        if style != "last":
            put(depth, f"{place} = {draw(st.sampled_from(['0', '5', c]))}")
        put(depth, f"for k in range({ranges['k']}):")
        put(depth + 1, f"{place} = {pair.format(c=place, a=wrapped[0], b=wrapped[1])}")
        put(depth, f"{c} = {epilogue.format(s=place, c=c)}")
    return Spelling(
        "\n".join(lines) + "\n",
        (dtype, narrow, narrow),
        (len(of_out), len(of_left), len(of_right)),
        tuple(tuple(draw(st.sampled_from([1, 1, 2, -1])) for _ in range(3)) for _ in range(3)),
        tuple(draw(st.sampled_from("CF")) for _ in range(3)),
    )


@EXAMPLES
@given(
    spellings(), st.sampled_from([0, 1, 3, 8]), st.sampled_from([0, 2, 5, 12]), st.integers(0, 3)
)
def test_contractions_in_any_spelling(spelling: Spelling, n: int, m: int, seed: int) -> None:
    args = spelling.arguments(n, m, seed)
    compiled = assert_as_python(spelling.define(), *args)
    # Sums of one side may be faster as loops, which is another matter than what they are.
    assert is_contraction(compiled, *args) or ": contraction of" in compiled.explain(*args)
