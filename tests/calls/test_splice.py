"""C files with optimised regions: everything else byte for byte, names and values kept."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from backends.c_compiled import needs_cc
from calls.c_sources import SERIAL
from kernels.corpus import KERNELS
from loopwright.calls.splice import Optimised, optimise_region, schedules_text, spliced
from loopwright.diagnostics import IllegalStep, SourceError
from loopwright.frontends.c import CFile, read_c
from loopwright.machines import load_machine
from loopwright.machines.host import host
from loopwright.planner.planners import (
    Planner,
    given_planner,
    loaded_planners,
    model_planner,
    unchanged_planner,
)
from loopwright.runtime.toolchain import build_library, load_library
from loopwright.transform.plan import Plan

FLAGS = ("-O1", "-ffp-contract=off", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-Wno-unused")
KEPT = ("gemm", "atax", "floyd-warshall", "jacobi-2d", "lu", "nasty_global", "nasty_regions")


def optimised(
    source: str | bytes,
    *,
    target: str = "openmp",
    always: bool = True,
    planner: Planner = model_planner,
) -> tuple[CFile, list[Optimised], bytes]:
    file = read_c(source)
    results = [
        optimise_region(file, region, planner, host(), target=target, always=always)
        for region in file.regions
    ]
    return file, results, spliced(file, results)


def call(source: bytes, name: str) -> Callable[..., object]:
    return load_library(build_library(source.decode("latin-1"), FLAGS))[name]


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@pytest.mark.parametrize("name", KEPT)
def test_all_other_bytes_stay(name: str) -> None:
    """Of the corpus: the parts before, between and behind the regions are the same bytes."""
    source = KERNELS[name].path.read_bytes()
    file = read_c(KERNELS[name].path)
    planner = given_planner(Plan(()))  # bytes do not depend on the plan
    results = [
        optimise_region(file, region, planner, host(), target="c", always=True)
        for region in file.regions
    ]
    after = spliced(file, results)
    assert after != source
    for region, found in zip(file.regions, results, strict=True):
        assert found.text is not None
        # Cut the new text out again, put the old one back: the file must be what it was.
        old = source[region.outer_start : region.outer_end]
        new = found.text.encode()
        assert after.count(new) == 1
        after = after.replace(new, old)
    assert after == source


SIGNS = """\
void signs(int n, int total[1], int x[n], int y[n])
{
    int i, j, score = 0;
#pragma scop
    for (i = 1; i < n; i++)
        for (j = 0; j < i; j++) {
            int u = x[i] - x[j];
            int su = u > 0 ? 1 : (u < 0 ? -1 : 0);
            score += su * y[j];
        }
    total[0] = score;
#pragma endscop
}
"""


@pytest.mark.parametrize(
    ("source", "machine", "told"),
    [
        (SIGNS, "neoverse-n1", "lw_choose_int32(u > 0, 1, "),
        (SIGNS, "sapphirerapids", "lw_most_int32(lw_least_int32(u, 1), -1)"),
        (SIGNS.replace("(u < 0 ? -1 : 0)", "(u < 0 ? -1 : 5)"), "sapphirerapids", ""),
        (SIGNS.replace("u > 0 ? 1 : (u < 0 ? -1 : 0)", "u * u"), "neoverse-n1", ""),
    ],
    ids=["by bits", "by extremes", "by branches", "no choice"],
)
def test_a_region_without_a_step_says_how_it_chooses(source: str, machine: str, told: str) -> None:
    file = read_c(source)

    def text_by(planner: Planner) -> str | None:
        there = load_machine(machine)
        return optimise_region(file, file.regions[0], planner, there, target="c").text

    text = text_by(given_planner(Plan(())))
    assert told in (text or "")
    assert (text is not None) is bool(told)
    assert text_by(unchanged_planner) is None


@needs_cc
def test_variables_declared_in_a_region_last_as_long_as_in_c() -> None:
    """Of its outermost block: code behind the region, other regions too, may use them."""
    source = """\
double last(int n, double x[n])
{
#pragma scop
    double sum = 0.5, unused, half = sum / 2;
    const int three = 3;
    double y[n];
    int i;
    for (i = 0; i < n; i++) {
        double here = x[i] * three;
        sum += here;
        y[i] = half;
    }
#pragma endscop
    unused = three;
#pragma scop
    for (i = 0; i < n; i++)
        y[i] = y[i] + x[i];
    half = y[2];
#pragma endscop
    double here = i;
    return sum + 100 * unused + 1000 * half + 100000 * here;
}
"""
    _file, results, after = optimised(source)
    assert results[0].region.declarations[:3] == ("double sum;", "double unused;", "double half;")
    assert not results[1].region.declarations
    # `here` of the loop is another one.
    assert not any("here" in line for line in results[0].region.declarations)
    x = np.arange(1.0, 5.0)
    last = call(after, "last")
    last.restype = ctypes.c_double  # type: ignore[attr-defined]
    assert last(4, pointer(x)) == 0.5 + 30 + 300 + 1000 * 3.25 + 400000


@needs_cc
def test_integers_wrap_where_sums_move() -> None:
    """In unsigned arithmetic; in int the same sums would be undefined."""
    source = """\
int dot(int n, int x[n], int y[n])
{
    int s = 0;
#pragma scop
    for (int i = 0; i < n; i++)
        s += x[i] * y[i];
#pragma endscop
    return s;
}
"""
    _, _, after = optimised(source)
    assert b"(unsigned)x[i] * y[i]" in after
    x, y = np.full(5, 2**30, np.int32), np.full(5, 3, np.int32)
    assert call(after, "dot")(5, pointer(x), pointer(y)) == -(2**30)  # 15 * 2^30 modulo 2^32


# -- schedules ------------------------------------------------------------------------------------


def test_an_illegal_schedule_is_refused_with_a_witness() -> None:
    file, results, _ = optimised(SERIAL)
    backwards = schedules_text(results).replace("[(i)]", "[(-i)]")
    (planner,) = loaded_planners(backwards, 1)
    with pytest.raises(IllegalStep) as told:
        optimise_region(file, file.regions[0], planner, host(), target="c")
    assert "would reverse flow S0[1] -> S0[2]" in str(told.value)


def test_elements_of_pointers_on_which_data_decide() -> None:
    """No text can ask whether b[i] exists where a[i] <= 1: the region stays as it is."""
    source = (
        "void f(int n, double *a, double *b) {\n#pragma scop\n"
        "for (int i = 0; i < n; i++) if (a[i] > 1) b[i] = i;\n#pragma endscop\n}\n"
    )
    _, results, after = optimised(source)
    assert after == source.encode()
    assert results[0].reason == "data decide on elements of an array whose extent is not known here"


def test_a_pointer_declared_in_a_region_and_used_after_it() -> None:
    source = """\
void f(int n, double x[n])
{
#pragma scop
    double *p;
    for (int i = 0; i < n; i++)
        x[i] = 0;
#pragma endscop
    p = x;
}
"""
    with pytest.raises(SourceError, match="'p' is declared in the region and used after it"):
        read_c(source)
