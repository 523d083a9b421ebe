"""Reductions of free order on a GPU: what is planned, and that all ways of running it agree."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from drawn import HUNTS, in_all
from gpu.opencl_runner import opencl_runners
from gpu.shim.cuda_shim import has_compiler
from gpu.shim_runner import shim_runners
from gpu.test_opencl_executable import needs_opencl
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule
from loopwright.lower.grid_nests.split_kernels import split_kernels
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_gpu import load_gpu
from loopwright.planner.grid_plans.gpu import gpu_planner
from loopwright.transform.map_reduction import MapReduction
from loopwright.transform.partial_sums import PartialSums
from loopwright.validate import check_translation
from loopwright.validate.check_data import Runner, check_data
from loopwright.validate.reference_run import run_reference

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
SIZES = (0, 1, 2, 31)
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


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", ["dot", "matrix", "rows", "columns", "greatest", "local"])
def test_an_order_that_must_be_kept(name: str) -> None:
    assert steps_of(name, reassoc=False) == (0, 0)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", ["triangle", "least", "bits", "product"])
def test_integers_are_always_free(name: str) -> None:
    assert steps_of(name, reassoc=False) == steps_of(name)


def test_kernels_of_a_sum() -> None:
    """Its start, the sums of chunks, the sum of these."""
    kernels = split_kernels(nest_of("dot")).kernels
    assert [kernel.block for kernel in kernels] == [(1, 1, 1), (256, 1, 1), (256, 1, 1)]
    assert [kernel.shared_bytes for kernel in kernels] == [0, 2048, 2048]


@pytest.mark.drawn(7)
@pytest.mark.parametrize("name", SOURCES)
def test_nests(name: str) -> None:
    """The interpreter finds no race, and all terms in their element."""
    program = planned(name)[0]
    sizes = [dict.fromkeys(program.params, n) for n in (0, 1, 3, 7)]
    told = check_translation(program, nest_of(name), sizes, threads=())
    assert [str(difference) for difference in told] == []


def check(runners: dict[str, Runner], way: str) -> None:
    for name, run in runners.items():
        program = planned(name)[0]
        sizes = [dict.fromkeys(program.params, n) for n in SIZES]
        sizes.append(
            dict.fromkeys(program.params, 3)
            | {program.params[-1]: 257 if name != "triangle" else 31}
        )
        if name == "dot":
            sizes.append({"n": MANY})
        for seed, params in enumerate(sizes):
            reference = run_reference(program, params, seed=seed)
            told = check_data(reference, run, way)
            assert [str(difference) for difference in told] == [], (name, params)
            # Again: the same bits.
            once, again = reference.fresh(), reference.fresh()
            run(once, params)
            run(again, params)
            for array, data in once.items():
                assert data.tobytes() == again[array].tobytes()


NAMES = ["dot", "columns", "bits", "norms"]
if in_all():
    NAMES = list(SOURCES) if HUNTS else [*NAMES, "matrix", "greatest"]


@pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")
def test_on_the_shim() -> None:
    check(dict(zip(NAMES, shim_runners([nest_of(n) for n in NAMES]), strict=True)), "shim")


@needs_opencl
def test_on_opencl() -> None:
    check(dict(zip(NAMES, opencl_runners([nest_of(n) for n in NAMES]), strict=True)), "opencl")
