"""Translations are compared at sizes that matter; the corpus passes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drawn import drawn
from kernels.corpus import CONSTANT, KERNELS, LITERAL, SYMBOLIC, Mode, write_source
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.loops import LoopNest
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.machines.host import host
from loopwright.planner.planners import model_planner
from loopwright.transform.plan import Plan, apply_plan
from loopwright.transform.step import Step
from loopwright.validate import check_translation, validate
from loopwright.validate.check_data import Runner
from loopwright.validate.check_order import is_parallel
from loopwright.validate.problem_sizes import pick_sizes
from loopwright.validate.runners import jit_runners
from programs import Do, nest, program
from programs import For as Loop


def lowered(source: Program, *steps: Step) -> LoopNest:
    return lower_schedule(apply_plan(source, Plan(steps)))


def test_forms_are_compared_with_the_source_order_by_the_same_compiler() -> None:
    """At large sizes: what both leave alike is no difference, whatever it is."""
    source = program("scale", {"x": "inout float64 [n]"}, Loop("i", 0, "n", Do("x[i]", "2 * x[i]")))

    def odd(arrays: dict[str, np.ndarray], params: object) -> None:
        arrays["x"] *= 2
        arrays["x"][8:] = np.nan  # the largest small size is 5

    found = {
        with_original: validate(
            source,
            lowered(source),
            sizes=({"n": 5},),
            runners={"mine": odd},  # type: ignore[dict-item]
            originals={"mine": odd} if with_original else {},  # type: ignore[dict-item]
        )
        for with_original in (False, True)
    }
    assert {d.runner for d in found[False].differences} == {"mine"}
    assert found[True].is_clean


def test_large_sizes_at_which_a_program_means_nothing_are_left_out() -> None:
    """Element 8 of t is read from n = 9 on beside a written one, and nobody wrote it."""
    arrays = {"x": "inout float64 [n]", "t": "local float64 [n + 9]"}
    source = program(
        "gap",
        arrays,
        Loop("i", 0, "n", Do("t[i + 9]", "x[i]")),
        Loop("j", 8, "n", Do("x[j]", "t[j] + t[j + 1]")),  # the other element is written
    )
    report = validate(source, lowered(source), sizes=({"n": 3}, {"n": 9}))
    assert report.is_clean
    assert report.skipped[0] == "n = 9: the program fails: t[8] is read before it is written"
    assert "n = 67" in report.skipped[1]
    assert report.skipped[1].endswith("the program reads what nobody wrote")
    assert any("against the source order at n = 7" in line for line in report.checked)


def test_program_that_reads_what_nobody_wrote() -> None:
    arrays = {"x": "inout float64 [n]", "t": "local float64 [n + 1]"}
    source = program("unset", arrays, Loop("i", 0, "n", Do("x[i]", "t[i]")))
    report = validate(source, lowered(source), sizes=({"n": 0}, {"n": 2}))
    assert report.is_clean
    assert report.skipped[0] == "n = 2: the program fails: t[0] is read before it is written"
    assert not any("source order" in line for line in report.checked)  # no other size is left


def test_sizes_stay_in_bounds_and_within_effort() -> None:
    ahead = program("ahead", {"x": "inout float64 [4]"}, Loop("i", 0, "n", Do("x[i]", "1")))
    assert [params["n"] for params in pick_sizes(ahead)] == [0, 1, 2, 3]
    constant = program(
        "constant",
        {"x": "inout float64 [900, 900]"},
        nest((("i", 900), ("j", 900)), Do("x[i, j]", "1")),
    )
    assert pick_sizes(constant) == ()
    assert pick_sizes(constant, most=10**6, count=1) == ({"n": 0},)
    report = validate(constant, lowered(constant))
    assert report.skipped == ("small sizes: the program allows none",)
    assert report.checked[-1].startswith("order against the source order at n = 67")


SIZES = (0, 1, 2, 3, 5, 7)
MOST_ACCESSES = 2_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpus")


def programs(number: int, mode: Mode, folder: Path) -> list[Program]:
    """The regions of a kernel; types and leave to reassociate change from one to the next."""
    kernel = list(KERNELS.values())[number]
    dtype = kernel.dtypes[number % len(kernel.dtypes)]
    # Literal bounds are the extents: small ones, so that the interpreter can follow.
    extents = dict.fromkeys(kernel.sizes, 4 if mode is LITERAL else 13)
    source = write_source(kernel, folder, dtype=dtype, mode=mode, extents=extents)
    regions = read_c(source).regions
    return [program_of(region.tree, reassoc=number % 2 == 0) for region in regions]


def compiled(nest: LoopNest) -> dict[str, Runner]:
    """Machine code for one thread and for two."""
    teams = (1, 2) if is_parallel(nest) else (1,)
    names = (f"jit, {threads} threads" for threads in teams)
    return dict(zip(names, jit_runners(nest, teams), strict=True))


@pytest.mark.drawn(4)
@pytest.mark.parametrize("number", drawn(range(len(KERNELS)), 6), ids=drawn(KERNELS, 6))
def test_kernel(number: int, folder: Path) -> None:
    """None, one, two and primes: as many sizes as the interpreter can follow."""
    for each in programs(number, (SYMBOLIC, CONSTANT)[number // 2 % 2], folder):
        nest = lower_schedule(model_planner(each, host(), 2)[1])
        sizes = pick_sizes(each, values=SIZES, most=MOST_ACCESSES, count=5, seed=number)
        assert len(sizes) >= (1 if not each.params else 3)
        found = check_translation(each, nest, sizes, runners=compiled(nest), threads=(2,))
        assert [str(difference) for difference in found] == []
