"""Reductions of free order on a GPU: what is planned, and that all ways of running it agree."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from drawn import HUNTS, in_all
from gpu.ways import WAYS, require_same
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner.grid_plans.gpu import gpu_planner
from loopwright.transform.map_reduction import MapReduction
from loopwright.transform.partial_sums import PartialSums
from loopwright.validate import check_translation

# name -> arguments, loops
SOURCES = {
    "dot": (
        "int n, double x[n], double y[n], double s[1]",
        "s[0] = 0.0; for (int i = 0; i < n; i++) s[0] += x[i] * y[i];",
    ),
    "matrix": (
        "int n, int m, double A[n][m], double s[1]",
        "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) s[0] += A[i][j];",
    ),
    "rows": (
        "int n, int m, float A[n][m], float x[m], float y[n]",
        "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) y[i] += A[i][j] * x[j];",
    ),
    "columns": (
        "int n, int m, double A[n][m], double x[n], double y[m]",
        "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) y[j] += A[i][j] * x[i];",
    ),
    "triangle": (
        "int n, int x[n], int s[1]",
        "for (int i = 0; i < n; i++) for (int j = i + 1; j < n; j++) s[0] += x[i] * x[j];",
    ),
    "greatest": (
        "int n, double x[n], double s[1]",
        "for (int i = 0; i < n; i++) s[0] = s[0] > x[i] ? s[0] : x[i];",
    ),
    "least": (
        "int n, int x[n], int s[1]",
        "for (int i = 0; i < n; i++) s[0] = x[i] < s[0] ? x[i] : s[0];",
    ),
    "bits": (
        "int n, unsigned x[n], unsigned s[2]",
        "for (int i = 0; i < n; i++) s[0] |= x[i]; for (int i = 0; i < n; i++) s[1] &= x[i];",
    ),
    "product": (
        "int n, unsigned x[n], unsigned s[1]",
        "for (int i = 0; i < n; i++) s[0] *= x[i];",
    ),
    "local": (
        "int n, double x[n], double z[1]",
        "double s = 0.0; for (int i = 0; i < n; i++) s += x[i] * x[i]; z[0] = s;",
    ),
    "quarters": (  # in a region with another reduction
        "int n, double x[n], double h[n], double s[1]",
        """for (int i = 0; i < n; i++) s[0] += x[i];
    for (int i = 0; i < n; i++) h[i / 4] += x[i];""",
    ),
    "thirds": (
        "int n, double x[n], double h[n]",
        "for (int i = 0; i < n; i++) h[i / 3] += x[i];",
    ),
    "remainders": (
        "int n, double x[n], double h[4]",
        "for (int i = 0; i < n; i++) h[i % 4] += x[i];",
    ),
    "norms": (
        "int t, int n, double x[n], double e[t]",
        """for (int k = 0; k < t; k++) {
        for (int i = 1; i < n; i++) x[i] = x[i] + x[i - 1] * 0.5;
        for (int i = 0; i < n; i++) e[k] += x[i] * x[i];
    }""",
    ),
}
MANY = 8192 + 99  # more than a chunk


@cache
def planned(name: str, *, reassoc: bool = True) -> tuple[Program, Schedule, tuple[object, ...]]:
    arguments, loops = SOURCES[name]
    with TemporaryDirectory() as folder:
        source = Path(folder) / "f.c"
        text = f"void f({arguments}) {{\n#pragma scop\n{loops}\n#pragma endscop\n}}\n"
        source.write_text(text)
        (region,) = read_c(source).regions
    program = program_of(region.tree, reassoc=reassoc)
    plan, schedule = gpu_planner(program, load_gpu("sm_90"))
    return program, schedule, plan.steps


def nest_of(name: str) -> LoopNest:
    return lower_schedule(planned(name)[1])


def steps_of(name: str, *, reassoc: bool = True) -> tuple[int, int]:
    """How many reductions are cut into chunks, and how many kernels join threads."""
    steps = planned(name, reassoc=reassoc)[2]
    return tuple(
        sum(isinstance(step, kind) for step in steps) for kind in (PartialSums, MapReduction)
    )  # type: ignore[return-value]


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("name", "chunks", "joins"),
    [
        ("dot", 1, 2),
        ("matrix", 1, 2),
        ("rows", 0, 1),  # a block for each: there are enough of them
        ("columns", 1, 0),  # lanes run along the elements
        ("triangle", 1, 2),
        ("greatest", 1, 2),
        ("least", 1, 2),
        ("bits", 2, 4),
        ("product", 1, 2),
        ("local", 1, 2),
    ],
)
def test_plans(name: str, chunks: int, joins: int) -> None:
    assert steps_of(name) == (chunks, joins)


@pytest.mark.parametrize(
    ("name", "chunks", "joins"), [("quarters", 1, 2), ("thirds", 0, 0), ("remainders", 1, 0)]
)
def test_iterators_that_count_terms_and_elements(name: str, chunks: int, joins: int) -> None:
    """Chunks share the elements of remainders; those of quarters and thirds have few terms."""
    assert steps_of(name) == (chunks, joins)
    test_nests(name)


@pytest.mark.drawn(7)
@pytest.mark.parametrize("name", SOURCES)
def test_nests(name: str) -> None:
    """The interpreter finds no race, and all terms in their element."""
    program = planned(name)[0]
    sizes = [dict.fromkeys(program.params, n) for n in (0, 1, 3, 7)]
    told = check_translation(program, nest_of(name), sizes, threads=())
    assert [str(difference) for difference in told] == []


NAMES = ["dot", "columns", "bits", "norms"]
if in_all():
    NAMES = list(SOURCES) if HUNTS else [*NAMES, "matrix", "greatest"]


@pytest.mark.parametrize("way", WAYS)
def test_results(way: str) -> None:
    """Also of more than a chunk."""
    cases = []
    for name in NAMES:
        program = planned(name)[0]
        sizes = [dict.fromkeys(program.params, n) for n in (0, 1, 2, 31)]
        last = {program.params[-1]: 257 if name != "triangle" else 31}
        sizes.append(dict.fromkeys(program.params, 3) | last)
        sizes += [{"n": MANY}] if name == "dot" else []
        cases.append((program, nest_of(name), sizes))
    require_same(cases, way)
