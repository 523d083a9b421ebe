"""Vectors along outer loops: what they need, and that every element keeps its order."""

from __future__ import annotations

import re
from dataclasses import replace
from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.c_compiled import compile_c, compile_regions, needs_cc
from backends.compiled import compile_nest, run_kernel
from drawn import some
from loopwright import parse_c
from loopwright.diagnostics import IllegalStep, UsageError
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
from loopwright.transform.register_promotion import PromoteToRegisters
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


def test_golden() -> None:
    found = stmt_text(nest_of(source("s += a[i] * c[j];", last="out[i] = s;"), 2, 1).body)
    assert found.startswith(
        dedent("""
        for i in range(0, n - 1, 2):
            alloc stack s_v: float64[1, 2] strides [2, 1]
            vector for i_v in range(2):
                s_v[0, i_v] = 0.0
            for j in range(m):
                vector for i_v in range(2):
                    s_v[0, i_v] = s_v[0, i_v] + a[i + i_v] * c[j]
            vector for i_v in range(2):
                out[i + i_v] = s_v[0, i_v]
        for i in range(max(n, 0) // 2 * 2, n):
        """).strip()
    )


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


@pytest.mark.drawn(4)
@needs_cc
@pytest.mark.parametrize("make", [compile_c, compile_regions])
@pytest.mark.parametrize("kind", ["double", "float"])
def test_c_keeps_every_bit(make, kind: str) -> None:
    # The text around a region names elements of one subscript only.
    pieces = [x for x in PIECES if make is compile_c or "b[" not in x]
    programs = [source(piece, kind) for piece in (*pieces, " ".join(pieces))]
    lanes = 2 if kind == "double" else 4
    nests = [nest_of(program, lanes, 2) for program in programs]
    for program, nest, run in zip(programs, nests, make(nests), strict=True):
        for n, m in SIZES:
            data = arrays(program, n, m, kind)
            wanted = {name: array.copy() for name, array in data.items()}
            interpret_program(program, wanted, {"n": n, "m": m})
            run(data, launch(nest, data, n, m))
            for name, array in wanted.items():
                np.testing.assert_array_equal(data[name], array, err_msg=name)


def test_threads_share_the_strips_out() -> None:
    program = source("s += a[i] * c[j];")
    nest = nest_of(program, 2, 2, Parallel("i"))
    for n, m in SIZES:
        assert_same(program, nest, {"n": n, "m": m}, threads=3)


def test_elements_in_registers_become_vectors() -> None:
    """An element that a loop keeps in a register is one vector for all lanes."""
    program = source("out[i] += a[i] * c[j];", last="")
    (name,) = (s.name for s in program.statements if s.write.array == "out")
    nest = nest_of(program, 2, 1, PromoteToRegisters(name, "j"))
    assert "out_r_v[0, i_v] = out_r_v[0, i_v] + a[i + i_v] * c[j]" in stmt_text(nest.body)
    for n, m in SIZES:
        assert_same(program, nest, {"n": n, "m": m})


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


@pytest.mark.parametrize(
    "body",
    [
        "for (int j = 0; j < i; j++) s += x[j] * x[i];",
        "for (int j = i; j < n; j++) s += x[j] * x[i];",
        "for (int j = 0; j < n - i; j++) s += x[j] * x[j + i];",
        "for (int j = 0; j < n; j++) if (j != i) s += x[j] / (x[i] + 9.0);",
        "for (int j = 0; j < 2 * i - 3; j++) for (int k = j; k < i; k++) s = s * x[k] + x[i];",
    ],
)
def test_lanes_run_the_ends_of_their_ranges_alone(body: str) -> None:
    (program,) = parse_c(f"""
        void f(int n, double x[n], double y[n]) {{
        #pragma scop
            for (int i = 0; i < n; i++) {{ double s = 1; {body} y[i] = s; }}
        #pragma endscop
        }}
    """)
    for lanes, copies in ((2, 1), (2, 2), (4, 1)):
        nest = nest_of(program, lanes, copies)
        assert "vector for i_v" in stmt_text(nest.body)
        for n in (0, 1, 3, 4, 5, 8, 13):
            assert_same(program, nest, {"n": n})


WINDOWS = (
    # from one end of x to the other, by distances from i
    "for (int k = max(0, i - m + 1); k < min(n, i + 1); k++) s += x[k] * h[i - k];",
    # over h, from its one end to the other
    "for (int k = max(0, i - n + 1); k < min(m, i + 1); k++) s += x[i - k] * h[k];",
    # nothing ends but at i
    "for (int k = i; k < i + m; k++) s = s * 0.5 + x[k] * h[k - i];",
    # rows of a matrix along which lanes lie: seen from i they would not
    "for (int k = max(0, i - m + 1); k < min(n, i + 1); k++) s += a[k][i] * h[i - k];",
    # two loops that move
    "for (int k = max(0, i - m); k < min(n, i + 1); k++) s += x[k] * h[0];"
    " for (int k = max(0, i - 2); k < min(n, i + 3); k++) s -= x[k] * 0.5;",
)


@pytest.mark.drawn(10)
@pytest.mark.parametrize("is_element", [False, True])
@pytest.mark.parametrize("body", WINDOWS)
def test_ranges_that_move_with_the_lanes_are_one_loop(body: str, is_element: bool) -> None:
    """Away from the borders; at them lanes have ends of their own, and every bit is the same."""
    whole = f"double s = 1; {body} y[i] = s;"
    if is_element:
        whole = "y[i] = 1; " + re.sub(r"\bs\b", "y[i]", body)
    bounds = "#define max(a, b) ((a) > (b) ? (a) : (b))\n#define min(a, b) ((a) < (b) ? (a) : (b))"
    (program,) = parse_c(f"""{bounds}
        void f(int n, int m, double x[n + 2 * m + 3], double h[m], double a[n + m][n + m],
               double y[n + m]) {{
        #pragma scop
            for (int i = 0; i < n + m - 1; i++) {{ {whole} }}
        #pragma endscop
        }}
    """)
    for lanes, copies in ((2, 1), (2, 2), (4, 1)):
        nest = nest_of(program, lanes, copies)
        assert "vector for i_v" in stmt_text(nest.body)
        for n, m in ((0, 1), (1, 1), (3, 2), (4, 9), (9, 4), (13, 3), (21, 20)):
            assert_same(program, nest, {"n": n, "m": m})


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


def test_elements_of_local_arrays_are_vectors() -> None:
    (program,) = parse_c("""
        void f(int n, int m, double x[m], double y[n], double z[n]) {
        #pragma scop
            for (int i = 0; i < n; i++) {
                double s[3];
                for (int k = 0; k < 3; k++) s[k] = z[i] + k;
                for (int j = 0; j < m; j++)
                    for (int k = 0; k < 3; k++) s[k] = s[k] * x[j] + y[i];
                y[i] = s[0] - s[2];
            }
        #pragma endscop
        }
    """)
    nest = nest_of(program, 2, 2)
    assert "s_v[k, 1, i_v]" in stmt_text(nest.body)
    for n, m in SIZES:
        assert_same(program, nest, {"n": n, "m": m})


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


def test_lanes_are_two_or_more() -> None:
    with pytest.raises(UsageError, match="two or more lanes"):
        OuterVectors("i", 1, 1)
