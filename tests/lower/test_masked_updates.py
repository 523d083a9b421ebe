"""Variables that data set to zero, by masks: the same numbers, no selection."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import compile_c, needs_cc
from loopwright.ir.check import check_nest
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import LoopNest
from loopwright.ir.text import nest_text
from loopwright.lower.passes import lower_schedule
from loopwright.lower.values.masked_updates import mask_updates
from loopwright.transform.plan import initial_schedule

LOOP = "TYPE run = 3; for (int i = 0; i < n; i++) {{ {} out[i] = run; }}"
TAKEN = {
    "set to zero": LOOP.format("if (a[i] > b[i]) run = 0; run += a[i];"),
    "kept otherwise": LOOP.format("run = a[i] > b[i] ? run + 1 : 0;"),
    "counted": LOOP.format("if (a[i] > b[i]) run = run - 7;"),
    "two of them": "TYPE number = 0; "
    + LOOP.format("if (a[i] == b[i]) { number += 1; run = 0; } run += a[i] + number;"),
}
KEPT = {
    "another number": LOOP.format("run = a[i] > b[i] ? run + 1 : 5;"),
    "nothing of before": LOOP.format("run = a[i] > b[i] ? a[i] : 0;"),
    "an element": LOOP.format("run = a[i] > b[i] ? run + a[i] : 0;"),
    "a quotient": LOOP.format("run = a[i] > b[i] ? run / 3 : 0;"),
    "an element of its own": LOOP.format("out[i] = a[i] > b[i] ? out[i] : 0; run += a[i];"),
}
TYPES = ["int", "long", "unsigned"]
SIZES = [0, 1, 2, 37]


def nest_of(body: str, kind: str) -> LoopNest:
    arrays = ", ".join(f"{kind} {name}[n]" for name in ("a", "b", "out"))
    text = f"void f(int n, {arrays}) {{\n#pragma scop\n{body}\n#pragma endscop\n}}"
    (program,) = lw.parse_c(text.replace("TYPE", kind))
    return lower_schedule(initial_schedule(program))


def data(nest: LoopNest, n: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(n)
    kinds = {buffer.name: buffer.dtype.name for buffer in nest.buffers}
    low = 0 if "uint" in kinds["a"] else -3
    return {name: random.integers(low, 4, n).astype(kind) for name, kind in kinds.items()}


def scalars(nest: LoopNest, n: int) -> dict[str, int]:
    return {name: n if name == "n" else 1 for name in nest.scalars}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", TAKEN)
def test_masks_have_the_same_results(name: str, kind: str) -> None:
    nest = nest_of(TAKEN[name], kind)
    found = mask_updates(nest)
    check_nest(found)
    inside = nest_text(found).split("for i")[1]
    assert " & -" in inside or "run[] - (7 if" in inside
    for n in SIZES:
        expected, given = data(nest, n), data(nest, n)
        interpret_nest(nest, expected, scalars(nest, n))
        interpret_nest(found, given, scalars(nest, n))
        assert all(np.array_equal(expected[x], given[x]) for x in expected), n


@pytest.mark.parametrize("name", KEPT)
def test_selections_that_stay(name: str) -> None:
    nest = nest_of(KEPT[name], "int")
    assert mask_updates(nest) == nest


def test_narrow_numbers_stay() -> None:
    nest = nest_of(TAKEN["set to zero"], "short")
    assert " & -" not in nest_text(mask_updates(nest))


@needs_cc
def test_c_text_has_the_same_results() -> None:
    nests = [nest_of(body, kind) for body in TAKEN.values() for kind in TYPES]
    for nest, run in zip(nests, compile_c([mask_updates(x) for x in nests]), strict=True):
        for n in SIZES:
            expected, given = data(nest, n), data(nest, n)
            interpret_nest(nest, expected, scalars(nest, n))
            run(given, scalars(nest, n))
            assert all(np.array_equal(expected[x], given[x]) for x in expected), n


def test_what_a_mask_looks_like() -> None:
    found = nest_text(mask_updates(nest_of(TAKEN["kept otherwise"], "int")))
    mask = "-int32(a[i] > b[i])"
    assert f"run[] = (run[] & {mask}) + 1 & {mask}" in found  # no sum that nobody asked for
