"""Recurrences by anti-diagonals: what they need, and that every element keeps its bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.compiled import assert_same_bits, compile_nest, run_kernel
from drawn import HUNTS, in_all
from loopwright import parse_c
from loopwright.diagnostics import IllegalStep
from loopwright.ir.interpret import element_strides, interpret_program
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program, Role
from loopwright.ir.text import stmt_text
from loopwright.lower.buffers import stride_name
from loopwright.lower.passes import lower_schedule
from loopwright.transform.diagonals import Diagonals
from loopwright.transform.interchange import Interchange
from loopwright.transform.plan import apply_plan
from loopwright.transform.privatize import Privatize
from oracle import Arrays, run_nest

SIZES = ((0, 3), (1, 1), (2, 7), (5, 2), (7, 5), (13, 17), (11, 29), (23, 6))  # rows, columns
KINDS = {"int": "int32", "unsigned": "uint32", "float": "float32", "double": "float64"}
RECTANGLE = "for (int i = 2; i < n; i++) for (int j = 3; j < m; j++)"
LOWER = "if (m >= n) for (int i = 2; i < n; i++) for (int j = 3; j < i; j++)"
UPPER = "if (m >= n) for (int i = 2; i < n; i++) for (int j = i + 1; j < m; j++)"
# Spans of a string: from the last beginning back, with neighbours below and to the left.
SPANS = "if (m >= n + 3) for (int i = 2; i < n; i++) for (int j = n - i + 3; j < m; j++)"
SHAPES = (RECTANGLE, LOWER, UPPER, SPANS)


def source(body: str, kind: str = "int", loops: str = RECTANGLE) -> Program:
    (found,) = parse_c(f"""
        void f(int n, int m, {kind} a[n][m], {kind} b[n][m], {kind} c[n][m], {kind} x[n],
               {kind} y[m], signed char s[n], char t[m]) {{
        #pragma scop
            {loops} {{ {body} }}
        #pragma endscop
        }}
    """)
    return found


def nest_of(program: Program, rows: int = 4, columns: int = 5) -> LoopNest:
    (inner,) = {s.iterators[-1] for s in program.statements}
    local = [a.name for a in program.arrays if a.role is Role.LOCAL]
    steps = [*(Privatize(name, inner) for name in local), Diagonals("i", inner, rows, columns)]
    return lower_schedule(apply_plan(program, steps))


def arrays(program: Program, n: int, m: int) -> Arrays:
    random = np.random.default_rng(n + 100 * m)
    shapes = {"a": (n, m), "b": (n, m), "c": (n, m), "x": (n,), "y": (m,), "s": (n,), "t": (m,)}
    found: Arrays = {}
    for array in program.arrays:
        if array.role is Role.LOCAL or array.name not in shapes:
            continue
        shape, dtype = shapes[array.name], array.dtype.name
        if array.dtype.is_float:
            values = random.choice([0.0, -0.0, np.nan, np.inf, 1.5, -2.0, 3.25], shape)
        else:
            values = (
                random.integers(-(2**31), 2**31, shape)
                if array.name in "abc"
                else (random.integers(0, 3, shape))
            )
        found[array.name] = values.astype(dtype)
    return found


def launch(nest: LoopNest, data: Arrays, n: int, m: int) -> dict[str, int]:
    strides = {
        stride_name(name, k): stride
        for name, array in data.items()
        for k, stride in enumerate(element_strides(array))
    }
    return {"n": n, "m": m} | strides


# What an element is made of: neighbours, both strings, rows, columns, elements of other arrays.
TERMS = (
    "a[i - 1][j]",
    "a[i][j - 1]",
    "a[i - 1][j - 1]",
    "a[i - 2][j - 1]",
    "a[i - 1][j - 3]",
    "a[i - 2][j + 0]",
    "b[i - 1][j]",
    "b[i][j - 2]",
    "c[i][j]",
    "c[i - 1][j - 1]",
    "x[i]",
    "y[j - 1]",
    "(s[i] == t[j] ? 2 : x[i])",
    "(i == j ? 1 : 3)",
    "a[i][j]",
)
JOINS = ("({0} < {1} ? {0} : {1})", "({0} > {1} ? {0} : {1})", "({0} + {1})", "({0} - {1})")


@st.composite
def values(draw: st.DrawFn) -> str:
    found = draw(st.sampled_from(TERMS))
    for _ in range(draw(st.integers(1, 4))):
        found = draw(st.sampled_from(JOINS)).format(found, draw(st.sampled_from(TERMS)))
    return found


@st.composite
def bodies(draw: st.DrawFn) -> str:
    first = f"a[i][j] = ({draw(values())}) + a[i][j - 1];"
    match draw(st.integers(0, 3)):
        case 0:
            return first
        case 1:
            return f"b[i][j] = {draw(values())}; {first}"
        case 2:
            return f"{first} b[i][j] = a[i][j] > {draw(values())} ? 1 : b[i - 1][j - 1];"
    return f"KIND p = {draw(values())}; {first.replace(') +', ' - p) +')}"


@settings(max_examples=300 if HUNTS else 12 if in_all() else 3, deadline=None)
@given(
    bodies(),
    st.sampled_from(sorted(KINDS)),
    st.sampled_from([(4, 5), (2, 4), (8, 4), (3, 8)]),
    st.sampled_from(SHAPES),
)
def test_random_recurrences_keep_every_bit(
    body: str, kind: str, shape: tuple[int, int], loops: str
) -> None:
    """Interpreted and by LLVM, which checks what is accessed, beside the meaning of the program."""
    program = source(body.replace("KIND", kind), kind, loops)
    nest = nest_of(program, *shape)
    # An element that is read before it is written, and behind, is in two places.
    assert "a_d[" in stmt_text(nest.body) or body.count("a[i][j]") > 1
    kernel = compile_nest(replace(nest, fuses=False), bounds=True)
    for n, m in SIZES:
        data = arrays(program, n, m)
        wanted = {name: array.copy() for name, array in data.items()}
        interpret_program(program, wanted, {"n": n, "m": m})
        stepped = {name: array.copy() for name, array in data.items()}
        run_nest(nest, stepped, {"n": n, "m": m})
        run_kernel(kernel, nest, data, launch(nest, data, n, m))
        for name, array in wanted.items():
            assert_same_bits(stepped[name], array, name)
            assert_same_bits(data[name], array, name)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("a[i][j] = a[i - 1][j + 1] + a[i][j - 1];", "no later diagonal has the end of flow S0"),
        ("a[i][j] = a[i + 1][j - 1] + a[i][j - 1];", "no later diagonal has the end of anti S0"),
    ],
)
def test_refused(body: str, reason: str) -> None:
    with pytest.raises(IllegalStep, match=reason):
        nest_of(source(body))


def test_other_loops_stay_as_they_are() -> None:
    """Subscripts that do not tell instances apart, and elements below that are still to come."""
    both = "x[i] = x[i] + a[i][j]; y[j] = y[j] + x[i];"
    for body in (both, "a[i][j] = a[i][j - 1] + a[i + 1][j];"):
        found = stmt_text(nest_of(source(body)).body)
        assert "_d[" not in found


def test_the_order_stays() -> None:
    program = source("a[i][j] = a[i - 1][j] + a[i][j - 1];")
    steps = [Diagonals("i", "j", 4, 4), Interchange(("j", "i"))]
    with pytest.raises(IllegalStep, match="loop 'i' is taken by diagonals; its order comes before"):
        apply_plan(program, steps)
