"""Loops that are drawn at random: a seed tells everything, and ours compute what gcc's do."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.corpus_kernels import CONSTANT, differences, fresh, wide_inputs, write_source
from benchmarks.drawn_loops import drawn_program

import loopwright as lw
from drawn import drawn
from kernels.build import bind, link, system_compiler

IDIOMS = (
    *("map", "stencil", "in place", "choice", "reduction", "total", "running", "recurrence"),
    *("taps", "guarded", "transposed", "triangle", "extreme of row"),
)


def test_every_idiom_is_drawn(tmp_path: Path) -> None:
    heads = (
        drawn_program(seed, tmp_path).path.read_text(encoding="utf-8").splitlines()[0]
        for seed in range(200)
    )
    found = {idiom for head in heads for idiom in head.strip("/* ").split(", ")}
    assert found == set(IDIOMS)


@pytest.mark.drawn(3)
@pytest.mark.skipif(system_compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("seed", drawn(range(60), one_in=6))
def test_drawn_loops_compute_what_c_does(seed: int, tmp_path: Path) -> None:
    program = drawn_program(seed, tmp_path)
    sizes = program.at("MINI")
    (build := tmp_path / "build").mkdir()
    source = write_source(program, build, mode=CONSTANT, extents=sizes)
    inputs = wide_inputs(program, "MINI")
    expected, found = fresh(inputs), fresh(inputs)
    bind(link(("cc", "-O1", "-ffp-contract=off"), [source]), program)(*expected.values())
    lw.compile(str(source))(*found.values())
    assert not differences(program, found, expected)
