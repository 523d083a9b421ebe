"""Vectors along outer loops: what they need, and that every element keeps its order."""

from __future__ import annotations

import re
from dataclasses import replace
from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.compiled import compile_nest, run_kernel
from drawn import some
from loopwright import parse_c
from loopwright.diagnostics import IllegalStep
from loopwright.ir.interpret import element_strides, interpret_program
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program, Role
from loopwright.ir.text import stmt_text
from loopwright.lower.buffers import stride_name
from loopwright.lower.passes import lower_schedule
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.outer_vectors import OuterVectors
from loopwright.transform.plan import apply_plan
from loopwright.transform.privatize import Privatize
from loopwright.transform.step import Step
from oracle import Arrays, assert_same, run_nest

SIZES = ((0, 3), (1, 2), (2, 0), (5, 1), (7, 5), (13, 3))  # of the outer and the inner loop


def source(body: str, kind: str = "double", *, last: str = "out[i] += s;") -> Program:
    body = body.replace("F", "f" if kind == "float" else "")
    (found,) = parse_c(f"""
        void f(int n, int m, {kind} a[n], {kind} b[n][3], {kind} c[m], {kind} out[n]) {{
        #pragma scop
            for (int i = 0; i < n; i++) {{
                {kind} s = 0;
                {kind} t = a[i];
                for (int j = 0; j < m; j++) {{ {body} }}
                {last}
            }}
        #pragma endscop
        }}
    """)
    return found


def plan(program: Program, lanes: int, copies: int) -> list[Step]:
    local = [a.name for a in program.arrays if a.role is Role.LOCAL]
    return [*(Privatize(name, "i") for name in local), OuterVectors("i", lanes, copies)]


def nest_of(program: Program, lanes: int = 2, copies: int = 2, *more: Step) -> LoopNest:
    return lower_schedule(apply_plan(program, [*plan(program, lanes, copies), *more]))


def arrays(program: Program, n: int, m: int, kind: str) -> Arrays:
    random = np.random.default_rng(n + 100 * m)
    shapes = {"a": (n,), "b": (n, 3), "c": (m,), "out": (n,)}
    used = {array.name for array in program.arrays}
    dtype = "float64" if kind == "double" else "float32"
    return {x: random.standard_normal(shapes[x]).astype(dtype) for x in shapes if x in used}


def launch(nest: LoopNest, data: Arrays, n: int, m: int) -> dict[str, int]:
    strides = {
        stride_name(name, k): stride
        for name, array in data.items()
        for k, stride in enumerate(element_strides(array))
    }
    return {"n": n, "m": m} | strides


# Operations with a form for all lanes: sums, elements that lie apart, selections, roots, absolutes.
PIECES = (
    "s += c[j] * t;",
    "t = b[i][1] - c[j] * t;",
    "s = s + (t > c[j] ? t : -c[j]);",
    "s += sqrtF(t * t + a[i] * a[i]);",
    "t = (t < 0.5F && c[j] > s) || a[i] >= t ? 1.5F : s / (t * t + 2.0F);",
    "s -= fabsF(t - b[i][2]);",
    "s = m > 2 ? s * 0.5F : t;",
    "t += (i - 2 * j) * s;",
)


@st.composite
def bodies(draw: st.DrawFn) -> str:
    return " ".join(draw(st.lists(st.sampled_from(PIECES), min_size=1, max_size=4)))


@settings(max_examples=some(25), deadline=None)
@given(bodies(), st.sampled_from(["double", "float"]), st.sampled_from([(2, 1), (4, 1), (2, 3)]))
def test_random_bodies_keep_every_bit(body: str, kind: str, shape: tuple[int, int]) -> None:
    """Interpreted and by LLVM, beside the meaning of the program."""
    program = source(body, kind)
    nest = nest_of(program, *shape)
    assert "vector" in stmt_text(nest.body)
    kernel = compile_nest(replace(nest, fuses=False))
    for n, m in SIZES:
        data = arrays(program, n, m, kind)
        wanted = {name: array.copy() for name, array in data.items()}
        interpret_program(program, wanted, {"n": n, "m": m})
        stepped = {name: array.copy() for name, array in data.items()}
        run_nest(nest, stepped, {"n": n, "m": m})
        run_kernel(kernel, nest, data, launch(nest, data, n, m))
        for name, array in wanted.items():
            np.testing.assert_array_equal(stepped[name], array, err_msg=name)
            np.testing.assert_array_equal(data[name], array, err_msg=name)


def test_threads_share_the_strips_out() -> None:
    program = source("s += a[i] * c[j];")
    nest = nest_of(program, 2, 2, Parallel("i"))
    for n, m in SIZES:
        assert_same(program, nest, {"n": n, "m": m}, threads=3)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("for (int j = 0; j < n; j++) a[i] += a[n - 1 - i];", "loop 'i' carries"),
        ("if (i > 2) a[i] = 1; for (int j = 0; j < n; j++) a[i] += 2;", "run S0 differently often"),
        ("a[i] = 0;", "no loop stands inside 'i'"),
    ],
)
def test_refused(body: str, reason: str) -> None:
    (program,) = parse_c(f"""
        void f(int n, double a[n], double b[n][n]) {{
        #pragma scop
            for (int i = 0; i < n; i++) {{ {body} }}
        #pragma endscop
        }}
    """)
    with pytest.raises(IllegalStep, match=reason):
        apply_plan(program, [OuterVectors("i", 2, 1)])


def test_windows_that_meet_no_border_have_no_ends() -> None:
    (program,) = parse_c("""
        void f(int n, int m, double x[n + m], double h[m], double y[n]) {
        #pragma scop
            for (int i = 0; i < n; i++) {
                y[i] = 0;
                for (int k = i; k < i + m; k++) y[i] += x[k] * h[k - i];
            }
        #pragma endscop
        }
    """)
    text = re.sub(r"_v_\d", "_v", stmt_text(nest_of(program, 2, 1).body))
    assert text.startswith(
        dedent("""
        for i in range(0, n - 1, 2):
            alloc stack y_k_v: float64[1, 2] strides [2, 1]
            vector for i_v in range(2):
                y_k_v[0, i_v] = 0.0
            for k_v in range(m):
                vector for i_v in range(2):
                    y_k_v[0, i_v] = y_k_v[0, i_v] + x[k_v + i + i_v] * h[k_v]
            vector for i_v in range(2):
                y[i + i_v] = y_k_v[0, i_v]
        """).strip()
    )


def test_the_order_inside_stays() -> None:
    (program,) = parse_c("""
        void f(int n, double a[n][n]) {
        #pragma scop
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++)
                    for (int k = 0; k < n; k++)
                        a[i][j] += a[i][j] * k;
        #pragma endscop
        }
    """)
    with pytest.raises(IllegalStep, match="loop 'j' is taken in vectors; its order comes before"):
        apply_plan(program, [OuterVectors("j", 2, 1), Interchange(("j", "i"))])
    with pytest.raises(IllegalStep, match="loop 'j' is taken in vectors already"):
        apply_plan(program, [OuterVectors("j", 2, 1), OuterVectors("i", 2, 1)])
