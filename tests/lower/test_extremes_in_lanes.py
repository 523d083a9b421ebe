"""Extremes of floating numbers in lanes: every bit of the order of the source, and what stays."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import compile_regions, needs_cc
from backends.compiled import assert_same_bits
from drawn import taken
from loopwright.ir.check import check_nest
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import LoopNest, Mark
from loopwright.ir.text import nest_text
from loopwright.ir.visit import statements
from loopwright.lower.contract_arrays import sink_scalars
from loopwright.lower.passes import lower_schedule
from loopwright.lower.values.extremes_in_lanes import extremes_in_lanes
from loopwright.lower.values.promote_registers import promote_scalars
from loopwright.transform.plan import initial_schedule

LOOP = "for (int i = 0; i < n; i++) {}"
TAKEN = {
    "greater": LOOP.format("s[0] = a[i] > s[0] ? a[i] : s[0];"),
    "not less": LOOP.format("if (a[i] >= s[0]) s[0] = a[i];"),
    "less, turned": LOOP.format("if (s[0] > a[i]) s[0] = a[i];"),
    "kept, else NaN too": LOOP.format("s[0] = s[0] > a[i] ? s[0] : a[i];"),
    "least kept": LOOP.format("s[0] = s[0] <= a[i] ? s[0] : a[i];"),
    "function": LOOP.format("s[0] = fmax(s[0], a[i]);"),
    "function, turned": LOOP.format("s[0] = fmin(fabs(b[i]), s[0]);"),
    "difference": LOOP.format("{ double d = fabs(a[i] - b[i]); if (d > s[0]) s[0] = d; }"),
    "kept difference": LOOP.format("{ double d = a[i] - b[i]; s[0] = s[0] > d ? s[0] : d; }"),
    "less a variable": "double m = s[1]; " + LOOP.format("if (a[i] - m > s[0]) s[0] = a[i] - m;"),
    "two": LOOP.format("{ if (a[i] < s[0]) s[0] = a[i]; if (b[i] > s[1]) s[1] = b[i]; }"),
    "its place": LOOP.format("if (a[i] > s[0]) { s[0] = a[i]; s[1] = i; }"),
    "the last place": LOOP.format("if (a[i] <= s[0]) { s[1] = i; s[0] = a[i]; }"),
    "what is there": LOOP.format(
        "{ double d = fabs(a[i]) - b[i]; if (d < s[0]) { s[0] = d; s[1] = c[i]; } }"
    ),
    "sums of products": LOOP.format("{ double d = a[i] * b[i] + c[i]; if (d > s[0]) s[0] = d; }"),
    "places, from the third on": "for (int i = 3; i < n; i++) "
    "if (a[i] > s[0]) { s[0] = a[i]; s[1] = i + 2; }",
    "from the second on": "for (int i = 1; i < n; i++) if (a[i] > s[0]) s[0] = a[i];",
    "of neighbours": "for (int i = 0; i < n - 1; i++) if (a[i + 1] > s[0]) s[0] = a[i + 1];",
}
KEPT = {
    "other numbers": LOOP.format("if (a[i] > s[0]) s[0] = b[i];"),
    "the place of another": LOOP.format(
        "{ if (b[i] > s[1]) s[0] = i; if (a[i] > s[1]) s[1] = a[i]; }"
    ),
    "after it": LOOP.format("{ if (a[i] > s[0]) s[0] = a[i]; if (a[i] > s[0]) s[1] = i; }"),
    "elements of its own": LOOP.format("{ c[i] = a[i]; if (a[i] > s[0]) s[0] = a[i]; }"),
    "of what it gathers": LOOP.format("if (s[1] > s[0]) s[0] = s[1];"),
    "a sum beside it": LOOP.format("{ s[1] += a[i]; if (a[i] > s[0]) s[0] = a[i]; }"),
    "every second": "for (int i = 0; i < n; i += 2) if (a[i] > s[0]) s[0] = a[i];",
    "backwards": LOOP.format("if (a[n - 1 - i] > s[0]) s[0] = a[n - 1 - i];"),
    "few": "for (int i = 0; i < 7; i++) if (a[i] > s[0]) s[0] = a[i];",
}
SIZES = (0, 1, 2, 3, 7, 16, 17, 18, 31, 33, 61)


def text_of(body: str, kind: str = "double") -> str:
    arrays = f"{kind} a[n], {kind} b[n], {kind} c[n], {kind} s[2]"
    function = f"void f(int n, {arrays}) {{\n#pragma scop\n{body}\n#pragma endscop\n}}\n"
    return f"#include <math.h>\n{function}"


@cache
def nest_of(body: str) -> LoopNest:
    (program,) = lw.parse_c(text_of(body))
    return lower_schedule(initial_schedule(program))


def lanes_of(nest: LoopNest, width: int = 2) -> LoopNest:
    return extremes_in_lanes(nest, lambda bits: width * 64 // bits, is_row_major=True)


def data(n: int, seed: int) -> dict[str, np.ndarray]:
    """Numbers of several kinds: any, with NaN, zeros of both signs, infinite ones."""
    random = np.random.default_rng(seed)
    found = {}
    for at, name in enumerate("abc"):
        numbers = random.standard_normal(n)
        kind = (seed + at) % 5
        some = random.random(n) < 0.2
        if kind == 1:
            numbers[some] = np.nan
        elif kind == 2:  # nothing above zero, or below it
            numbers = np.copysign(np.abs(numbers), -1.0 if seed % 2 else 1.0)
            numbers[some] = np.copysign(0.0, random.random(int(some.sum())) - 0.5)
        elif kind == 3:
            numbers = np.copysign(np.zeros(n), random.random(n) - 0.5)
        elif kind == 4:
            numbers[some] = np.copysign(np.inf, random.random(int(some.sum())) - 0.5)
        found[name] = numbers
    starts = np.array([0.0, -0.0, np.nan, 0.3, -np.inf])
    return found | {"s": starts[[seed % 5, (seed // 5) % 5]]}


def run(nest: LoopNest, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    arrays = {buffer.name: given[buffer.name].copy() for buffer in nest.buffers}
    n = len(given["a"])
    interpret_nest(nest, arrays, {name: n if name == "n" else 1 for name in nest.scalars})
    return arrays


@cache
def expected(body: str, n: int, seed: int, kind: str = "double") -> dict[str, np.ndarray]:
    """What the nest leaves, as numbers of a type: once for all code that is compared with it."""
    dtype = np.float32 if kind == "float" else np.float64
    given = {name: array.astype(dtype) for name, array in data(n, seed).items()}
    wide = {name: array.astype(np.float64) for name, array in given.items()}
    found = run(nest_of(body), wide)
    return {name: array.astype(dtype) for name, array in found.items()}


@pytest.mark.drawn(6)
@pytest.mark.parametrize("body", TAKEN.values(), ids=TAKEN)
def test_lanes_leave_the_same_bits(body: str) -> None:
    nest = nest_of(body)
    found = lanes_of(nest)
    check_nest(found)
    assert any(getattr(stmt, "mark", None) is Mark.VECTOR for stmt in statements(found.body))
    for n, seed in itertools.product(SIZES, range(10)):
        given = data(n, seed)
        got = run(found, given)
        for name, array in expected(body, n, seed).items():
            assert_same_bits(got[name], array, (name, n, seed))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("body", KEPT.values(), ids=KEPT)
def test_others_stay(body: str) -> None:
    nest = nest_of(body)
    assert nest_text(lanes_of(nest)) == nest_text(nest)


def test_numbers_that_lie_apart_stay() -> None:
    nest = nest_of(TAKEN["greater"])  # with strides that calls give
    assert extremes_in_lanes(nest, lambda bits: 4) == nest


def test_what_the_last_iteration_set_stays() -> None:
    body = "double d = 1.0; " + LOOP.format("{ d = fabs(a[i] - b[i]); if (d > s[0]) s[0] = d; }")
    nest = nest_of(f"{body} s[1] = d;")
    for n in SIZES:
        given = data(n, 0)
        assert_same_bits(run(lanes_of(nest), given)["s"], run(nest, given)["s"], n)


@needs_cc
def test_text_leaves_the_same_bits() -> None:
    cases = list(itertools.product(TAKEN.values(), (2, 8)))
    compiled = compile_regions([lanes_of(nest_of(body), width) for body, width in cases])
    for (body, width), function in zip(cases, compiled, strict=True):
        nest = nest_of(body)
        for n, seed in itertools.product((0, 1, 33, 64, 65, 130, 211), taken(range(10), 2)):
            got = data(n, seed)
            function(got, {name: n if name == "n" else 1 for name in nest.scalars})
            for name, array in expected(body, n, seed).items():
                assert_same_bits(got[name], array, (body, width, name, n, seed))


# Others are rounded otherwise than the nest of doubles is interpreted.
EXACT = [
    (body, kind)
    for body in TAKEN.values()
    for kind in ("float", "double")
    if " * " not in body and (kind == "double" or " - " not in body)
]


@pytest.mark.drawn(9)
@pytest.mark.parametrize(("body", "kind"), EXACT)
def test_machine_code_leaves_the_same_bits(body: str, kind: str) -> None:
    dtype = np.float32 if kind == "float" else np.float64
    function = lw.compile(text_of(body, kind).encode())
    long = [(1021, seed) for seed in taken(range(10), 2)]  # all kinds of numbers
    for n, seed in (*itertools.product((0, 1, 33, 65, 130), range(10)), *long):
        given = {name: x.astype(dtype) for name, x in data(n, seed).items()}
        function(n, *given.values())
        for name, array in expected(body, n, seed, kind).items():
            assert_same_bits(given[name], array, (body, name, n, seed))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("body", ["sums of products", "kept difference", "difference"])
def test_whole_rows_and_short_pieces_agree(body: str, kind: str) -> None:
    """Short pieces run in order, one by one."""
    dtype = np.float32 if kind == "float" else np.float64
    function = lw.compile(text_of(TAKEN[body], kind).encode())
    for seed in range(10):
        given = {name: x.astype(dtype) for name, x in data(1021, seed).items()}
        a, b, c, expected = (x.copy() for x in given.values())
        for at in range(0, 1021, 16):
            rows = [x[at : at + 16].copy() for x in (a, b, c)]
            function(len(rows[0]), *rows, expected)
        function(1021, *given.values())
        assert_same_bits(given["s"], expected, seed)


def test_code_and_text_have_lanes() -> None:
    text = text_of(TAKEN["greater"])
    a = np.ones(500)
    code = lw.compile(text.encode()).inspect_llvm(500, a, a.copy(), a.copy(), np.zeros(2))
    assert "select <" in code


def test_bound_values_are_the_same_as_variables() -> None:
    body = "double d = fabs(a[i]) - b[i]; if (d < s[0]) { s[0] = d; s[1] = i; }"
    nest = promote_scalars(sink_scalars(nest_of(LOOP.format(f"{{ {body} }}"))))
    assert "let d: float64 = " in nest_text(nest)
    found = lanes_of(nest)
    assert any(getattr(stmt, "mark", None) is Mark.VECTOR for stmt in statements(found.body))
    for n, seed in itertools.product(SIZES, range(10)):
        given = data(n, seed)
        assert_same_bits(run(found, given)["s"], run(nest, given)["s"], (n, seed))
