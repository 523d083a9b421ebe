"""Branches on a condition of any lane: the same bits, and no work that no lane needs."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from backends.c_compiled import compile_c, needs_cc
from backends.compiled import compile_nest, run_kernel
from drawn import in_all
from loopwright import parse_c
from loopwright.backends.c_text.c_dialect import OPENMP, C, Dialect
from loopwright.ir.any_lane import any_lane
from loopwright.ir.check import check_nest
from loopwright.ir.interpret import element_strides, interpret_program
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program, Role
from loopwright.ir.text import stmt_text
from loopwright.ir.visit import statements
from loopwright.lower.buffers import stride_name
from loopwright.lower.passes import lower_schedule
from loopwright.lower.values.rare_lanes import branch_on_lanes
from loopwright.transform.outer_vectors import OuterVectors
from loopwright.transform.plan import apply_plan
from loopwright.transform.privatize import Privatize
from oracle import Arrays, run_nest

SIZES = ((0, 3), (1, 2), (2, 0), (5, 1), (7, 5), (16, 3), (37, 11))
CUTS = (-1.0, 0.01, 0.5, 100.0)  # no pair within, few, some, all
TAKEN = {
    "roots and quotients": "if (r < cut && r > 0) { T d = SQRT(r); s += d * d; t += x / d; }",
    "a count beside them": "if (r < cut) { t += x / (1 + SQRT(r)); k++; }",
    "what all lanes store": "s += x; if (r < cut) t += x / (1 + SQRT(r)) / (2 + r);",
    "a root asked for": "T d = SQRT(r); if (d < cut) { s += x / (1 + d); t += d / (2 + r); }",
    "conditions inside": "if (r < cut) { T d = SQRT(r); s += 1 / (1 + d); if (x > 0) t += x / d; }",
}
KEPT = {
    "no roots or quotients": "if (r < cut) { s += x * r; t += x; }",
    "needed by all lanes": "T d = SQRT(r); s += d / (1 + r); if (r < cut) t += d / (1 + r);",
    "a sum in the condition": "if (s < cut) { T d = SQRT(r); s += x / (1 + d) / (2 + d); }",
    "the same in all lanes": "if (c[j] < cut) { T d = SQRT(r); s += x / (1 + d) / (2 + d); }",
    "read beside it": "if (r < cut) s += x / (1 + SQRT(r)) / (2 + r); t += s;",
    "another value": "s = r < cut ? s + x / (1 + SQRT(r)) / (2 + r) : x;",
}


@cache
def source(body: str, kind: str = "double") -> Program:
    text = f"""#include <math.h>
        void f(int n, int m, T cut, T a[n], T c[m], T p[n], T q[n], int hits[n]) {{
        #pragma scop
            for (int i = 0; i < n; i++) {{
                T s = 0, t = 0;
                int k = 0;
                for (int j = 0; j < m; j++) {{
                    T x = a[i] - c[j];
                    T r = x * x;
                    {body}
                }}
                p[i] = s;
                q[i] = t;
                hits[i] = k;
            }}
        #pragma endscop
        }}"""
    text = text.replace("SQRT", "sqrt" if kind == "double" else "sqrtf")
    (found,) = parse_c(re.sub(r"\bT\b", kind, text))
    return found


def nest_of(program: Program, lanes: int, copies: int) -> LoopNest:
    inner = {"x", "r", "d"} | {a.name for a in program.arrays if a.name.startswith("mask")}
    local = [a.name for a in program.arrays if a.role is Role.LOCAL]
    steps = [Privatize(name, "j" if name in inner else "i") for name in local]
    return lower_schedule(apply_plan(program, [*steps, OuterVectors("i", lanes, copies)]))


def branches(nest: LoopNest) -> int:
    return sum(any_lane(stmt) is not None for stmt in statements(nest.body))


def data(n: int, m: int, kind: str, cut: float) -> Arrays:
    random = np.random.default_rng(n + 100 * m)
    dtype = np.float64 if kind == "double" else np.float32
    shapes = {"a": n, "c": m, "p": n, "q": n}
    found = {name: random.standard_normal(size).astype(dtype) for name, size in shapes.items()}
    return found | {"cut": np.array(cut, dtype), "hits": np.zeros(n, np.int32)}


@cache
def wanted(name: str, kind: str, n: int, m: int, cut: float) -> Arrays:
    """What a program leaves, once for all nests and texts that are compared with it."""
    program = source(TAKEN[name], kind)
    found = used(program, data(n, m, kind, cut))
    interpret_program(program, found, {"n": n, "m": m})
    return found


def used(program: Program, found: Arrays) -> Arrays:
    names = {array.name for array in program.arrays}
    return {name: array.copy() for name, array in found.items() if name in names}


def launch(found: Arrays, n: int, m: int) -> dict[str, int]:
    strides = {
        stride_name(name, k): stride
        for name, array in found.items()
        for k, stride in enumerate(element_strides(array))
    }
    return {"n": n, "m": m} | strides


def test_golden() -> None:
    nest = branch_on_lanes(nest_of(source("if (r < cut) s += x / (1 + SQRT(r)) / (2 + r);"), 4, 2))
    check_nest(nest)
    found = stmt_text(nest.body)
    assert found[
        found.index("    for j") : found.index("    vector for i_v in range(4):\n        p[")
    ] == (
        """\
    for j in range(m):
        alloc stack any: bool[] strides []
        any[] = False
        for i_v in range(4):
            let x: float64 = a[i + i_v] - c[j]
            let r: float64 = x * x
            any[] = any[] | (r < cut[])
            let x: float64 = a[i + i_v + 4] - c[j]
            let r: float64 = x * x
            any[] = any[] | (r < cut[])
        if any[]:
            vector for i_v in range(4):
                let x: float64 = a[i + i_v] - c[j]
                let r: float64 = x * x
                let s_v_v: float64 = s_v[0, i_v]
                s_v[0, i_v] = s_v_v + x / (1.0 + sqrt(r)) / (2.0 + r) if r < cut[] else s_v_v
            vector for i_v in range(4):
                let x: float64 = a[i + i_v + 4] - c[j]
                let r: float64 = x * x
                let s_v_v_2: float64 = s_v[1, i_v]
                s_v[1, i_v] = s_v_v_2 + x / (1.0 + sqrt(r)) / (2.0 + r) if r < cut[] else s_v_v_2
"""
    )


@pytest.mark.drawn(4)
@pytest.mark.parametrize("kind", ["double", "float"])
@pytest.mark.parametrize("name", TAKEN)
def test_branches_keep_every_bit(name: str, kind: str) -> None:
    """Interpreted and by LLVM, beside the meaning of the program."""
    program = source(TAKEN[name], kind)
    for shape in ((8, 2), (16, 1), (4, 5)):
        nest = nest_of(program, *shape)
        found = branch_on_lanes(nest)
        check_nest(found)
        assert branches(found) == 1
        kernel = compile_nest(replace(found, fuses=False))
        for (n, m), cut in zip(SIZES * 2, CUTS * 4, strict=False):
            given = data(n, m, kind, cut)
            stepped, ran = (used(program, given) for _ in range(2))
            run_nest(found, stepped, {"n": n, "m": m})
            run_kernel(kernel, found, ran, launch(ran, n, m))
            for array, expected in wanted(name, kind, n, m, cut).items():
                np.testing.assert_array_equal(stepped[array], expected, err_msg=array)
                np.testing.assert_array_equal(ran[array], expected, err_msg=array)


@needs_cc
@pytest.mark.parametrize(("dialect", "other"), [(OPENMP, 0), (C, 1)])
def test_c_keeps_every_bit(dialect: Dialect, other: int) -> None:
    """In the usual run each dialect prints every fourth nest, in doubles or in floats."""
    kinds = ("double", "float")
    cases = [
        (name, kind)
        for at, name in enumerate(TAKEN)
        for kind in (kinds if in_all() else [kinds[(at // 2 + other) % 2]])
        if in_all() or at % 4 == other
    ]
    programs = [source(TAKEN[name], kind) for name, kind in cases]
    nests = [branch_on_lanes(nest_of(program, 8, 2)) for program in programs]
    texts = compile_c(nests, dialect)
    for (name, kind), program, run in zip(cases, programs, texts, strict=True):
        for (n, m), cut in zip(SIZES * 2, CUTS * 4, strict=False):
            ran = used(program, data(n, m, kind, cut))
            run(ran, launch(ran, n, m))
            for array, expected in wanted(name, kind, n, m, cut).items():
                np.testing.assert_array_equal(ran[array], expected, err_msg=f"{name} {array}")


@pytest.mark.parametrize("name", KEPT)
def test_loops_that_stay(name: str) -> None:
    nest = nest_of(source(KEPT[name]), 8, 2)
    assert branch_on_lanes(nest) == nest


def test_few_quotients_have_no_branch() -> None:
    one = nest_of(source("if (r < cut) s += 1 / (1 + r);"), 8, 4)
    assert branch_on_lanes(one) == one
    short = nest_of(source("if (r < cut) s += 1 / SQRT(r);", "float"), 8, 1)
    assert branch_on_lanes(short) == short
    wide = nest_of(source("if (r < cut) s += 1 / SQRT(r);", "float"), 8, 2)
    assert branches(branch_on_lanes(wide)) == 1
