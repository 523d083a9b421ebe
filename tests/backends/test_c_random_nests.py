"""Random loop nests in C: compiled code leaves what the interpreter leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from backends.c_compiled import Compiled, compile_c, compile_regions, has_openmp, needs_cc
from backends.compiled import _same_layout, assert_same_bits
from backends.random_nests import nests
from backends.test_random_nests import arrays
from drawn import HUNTS
from loopwright.backends.c_text.c_dialect import OPENMP, C, Dialect
from loopwright.backends.c_text.c_module import emit_c
from loopwright.ir.expr import Const
from loopwright.ir.interpret import Memory, interpret_nest
from loopwright.ir.loops import LoopNest

pytestmark = needs_cc

Case = tuple[LoopNest, dict[str, int]]
# Random conditions are nonsense that compilers warn of.
FLAGS = ("-O1", "-ffp-contract=off", "-w")


def drawn(count: int, *, parallel: bool = False) -> list[Case]:
    """The same nests on every run; one run of the compiler serves all of them."""
    found: list[Case] = []

    @seed(20 + parallel)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(nests(parallel=parallel))
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    return found


def assert_runs(case: Case, run: Compiled, threads: int = 1) -> None:
    nest, launch = case
    given_ = arrays(nest, launch, seed=1)
    expected = {name: _same_layout(array) for name, array in given_.items()}
    interpret_nest(nest, {name: Memory.of(a) for name, a in expected.items()}, launch)
    found = {name: _same_layout(array) for name, array in given_.items()}
    run(found, launch, threads)
    for name, array in expected.items():
        # The gaps between strided elements count too: nothing else may be written.
        text = f"{name} of\n{emit_c(nest, OPENMP).text}"
        assert_same_bits(Memory.of(found[name]).data, Memory.of(array).data, text)


@pytest.mark.parametrize("dialect", [OPENMP, C], ids=lambda d: d.name)
def test_random_nests(dialect: Dialect) -> None:
    cases = drawn(600 if HUNTS else 30)
    runs = compile_c([nest for nest, _ in cases], dialect, FLAGS)
    for case, run in zip(cases, runs, strict=True):
        assert_runs(case, run)


@pytest.mark.skipif(not has_openmp(), reason="the compiler has no OpenMP")
def test_random_parallel_nests() -> None:
    cases = drawn(300 if HUNTS else 15, parallel=True)
    runs = compile_c([nest for nest, _ in cases], flags=(*FLAGS, "-fopenmp"))
    for case, run in zip(cases, runs, strict=True):
        for threads in (2, 3):
            assert_runs(case, run, threads)


def test_random_regions() -> None:
    """The same between a user's lines, on arrays without gaps."""
    cases = [
        (unit(nest), {**launch, "xs": 1, "ys": 1}) for nest, launch in drawn(400 if HUNTS else 20)
    ]
    cases = [case for case in cases if not has_inexact(case[0])]
    assert len(cases) > 10
    runs = compile_regions([nest for nest, _ in cases], FLAGS)
    for case, run in zip(cases, runs, strict=True):
        assert_runs(case, run)


def unit(nest: LoopNest) -> LoopNest:
    """The nest with the stride 1 in every argument."""
    return replace(nest, buffers=tuple(replace(b, strides=(Const(1),)) for b in nest.buffers))


def has_inexact(nest: LoopNest) -> bool:
    """Whether a float becomes an integer: C leaves open what one beyond the range gives."""
    kinds = {b.dtype.kind for b in nest.buffers}
    text = emit_c(nest, OPENMP).text
    return "_to_" in text or not kinds <= set("iufc")
