"""Random affine programs as generated Athread code on the emulator, strictly checked.

A case is the seed of a program, a machine with some LDM, rows and columns of cores, and the seed of
the order in which cores run. Small sizes compute what the interpreter computes, larger ones what
plain C computes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from athread.test_generated_programs import check
from loopwright.ir.islkit import GaveUp, attempt
from loopwright.lower.passes import lower_schedule
from loopwright.machines.load_mesh import load_mesh
from loopwright.transform.schedule_legality import initial_schedule
from outside.campaigns.campaign import Campaign, Case, Random, Unjudged, pick
from property.random_translations import ISL_QUOTA, draw_case, has_facts

_FIRST = 1000  # seeds below are those of tests/athread
_SHAPES = ((1, 1), (3, 5), (2, 8), (1, 16), (8, 8), (1, 64), (8, 1), (5, 7))
_SIZES = (11, 17, 31, 37)


def campaign() -> Campaign:
    return Campaign("mesh_programs", _drawn, _checked, _smaller)


def _drawn(random: Random) -> Case:
    return {
        "seed": int(random.integers(_FIRST, 1 << 20)),
        "machine": pick(random, "sw26010", "sw26010pro"),
        "ldm": pick(random, 0, 0, 5120, 8192, 16384),  # 0: what the machine has
        "shape": list(pick(random, *_SHAPES)),
        "order": int(random.integers(100)),
    }


def _checked(case: Case) -> None:
    drawn = draw_case(case["seed"])
    if drawn is None or not has_facts(drawn.program):
        raise Unjudged("no program, or one that is too hard")
    try:
        with attempt(ISL_QUOTA):
            lower_schedule(initial_schedule(drawn.program))
    except GaveUp:
        raise Unjudged("loops that are too hard to write down") from None
    machine = load_mesh(case["machine"])
    if case["ldm"]:
        machine = replace(machine, scratchpad_bytes=case["ldm"])
    with tempfile.TemporaryDirectory() as folder:
        build = check(
            {"p": drawn.program},
            {"p": drawn.references},
            machine,
            (case["shape"][0], case["shape"][1]),
            Path(folder),
            large=_SIZES,
            seed=case["order"],
        )
    if build.serial:
        raise Unjudged("no loop is dealt out to cores")


def _smaller(case: Case) -> Iterator[Case]:
    for key, plain in (("order", 0), ("ldm", 0), ("machine", "sw26010")):
        if case[key] != plain:
            yield {**case, key: plain}
    for shape in ([1, 1], [1, 16], [8, 8]):
        if case["shape"] != shape and case["shape"] not in ([1, 1], [1, 16], [8, 8]):
            yield {**case, "shape": shape}
