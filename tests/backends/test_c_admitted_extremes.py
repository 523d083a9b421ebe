"""Extremes of integers that a condition admits: reductions in the text for every machine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from backends.c_nests import ONE, ZERO, i, n
from loopwright.backends.c_text.c_choices import choices_by_bits, is_admission, no_choices
from loopwright.calls.splice import optimise_region, spliced
from loopwright.frontends.c import read_c
from loopwright.ir.dtypes import BOOL, DTYPES, FLOAT64, INT32, INT64
from loopwright.ir.expr import Binary, Const, Load, Select
from loopwright.ir.loops import Block, For, Mark, Store
from loopwright.lower.passes import lower_schedule
from loopwright.machines.host import host
from loopwright.machines.load import load_machine
from loopwright.planner.planners import model_planner
from loopwright.runtime.toolchain import build_library, load_library
from loopwright.targets import tells_more
from loopwright.transform.plan import initial_schedule

UINT32 = DTYPES["uint32"]
BODIES = {
    "under a condition": ("if (a[j] == k) if (b[j] > top) top = b[j];", True),
    "least": ("if (a[j] != k && b[j] < top) top = b[j];", True),
    "alone": ("if (b[j] > top) top = b[j];", False),
    "a sum": ("if (a[j] == k) top = top + 1;", False),
}


def source(body: str, element: str = "int") -> str:
    return f"""void f(int m, int k, int a[m], {element} b[m], {element} out[2]) {{
#pragma scop
  {{
    {element} top = out[0];
    int hits = 0;
    for (int j = 0; j < m; j++) {{
      if (a[j] >= k) hits++;
      {body}
    }}
    out[0] = top;
    out[1] = hits;
  }}
#pragma endscop
}}
"""


@pytest.mark.parametrize("machine", ["sapphirerapids", "neoverse-n1"])
@pytest.mark.parametrize(("body", "is_told"), BODIES.values(), ids=BODIES)
def test_which_regions_are_told(body: str, is_told: bool, machine: str) -> None:
    (program,) = lw.parse_c(source(body))
    nest = lower_schedule(initial_schedule(program))
    assert tells_more(program, nest, load_machine(machine)) is is_told


@pytest.mark.drawn(4)
@needs_cc
@pytest.mark.parametrize("element", ["int", "long", "unsigned"])
@pytest.mark.parametrize("body", [body for body, _ in BODIES.values()], ids=BODIES)
def test_the_same_numbers(body: str, element: str, tmp_path: Path) -> None:
    """No elements, one, primes; the ends of the type among them; text and machine code."""
    text = source(body, element)
    (tmp_path / "f.c").write_text(text, encoding="utf-8")
    made = lw.compile(str(tmp_path / "f.c"))
    dtype = np.dtype({"int": "i4", "long": "i8", "unsigned": "u4"}[element])
    ends = np.iinfo(dtype)
    plain, written = _built(text, ("-O1",)), _built(_rewritten(text), ("-O3",))
    for size in (0, 1, 7, 61):
        random = np.random.default_rng(size)
        a = random.integers(0, 3, size, np.int32)
        b = random.choice(np.array([ends.min, ends.max, 3, 5], dtype), size)
        for k, first in ((1, 4), (9, ends.min), (0, ends.max)):
            expected, by_text, by_code = (np.array([first, 0], dtype) for _ in range(3))
            plain(size, k, *_pointers(a, b, expected))
            written(size, k, *_pointers(a, b, by_text))
            made(size, k, a, b, by_code)
            assert by_text.tobytes() == expected.tobytes() == by_code.tobytes()


def _built(text: str, flags: tuple[str, ...]) -> Callable[..., object]:
    return load_library(build_library(text, flags))["f"]


def _rewritten(text: str) -> str:
    file = read_c(text)
    found = (
        optimise_region(file, region, model_planner, host(), target="c", always=True)
        for region in file.regions
    )
    return spliced(file, list(found)).decode()


def _pointers(*arrays: np.ndarray) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(array.ctypes.data) for array in arrays]


def test_what_is_an_admission() -> None:
    cond = Binary("lt", Load("a", (i,), INT32), Const(3, INT32))
    chosen = Select(cond, Load("b", (i,), INT32), Const(INT32.greatest, INT32))
    assert is_admission(chosen)
    assert is_admission(Select(cond, Const(0, UINT32), Load("b", (i,), UINT32)))
    assert not is_admission(replace(chosen, y=Const(0, INT32)))
    assert not is_admission(Select(cond, Const(1.0, FLOAT64), Const(0.0, FLOAT64)))


def test_variables_that_an_iteration_sets_hand_nothing_on() -> None:
    """for i: m = a[i] < 3; t = max(t, a[i] if m else least), with m a variable around the loop"""
    a, m, t = Load("a", (i,), INT64), Load("m", (), BOOL), Load("t", (), INT64)
    set_ = Store("m", (), Binary("lt", a, Const(3, INT64)))
    chosen = Select(m, a, Const(INT64.least, INT64))
    taken = Store("t", (), Binary("max", t, chosen))
    loop = For("i", ZERO, n, Block((set_, taken)), ONE, Mark.SERIAL)
    assert choices_by_bits(loop)(chosen)
    assert choices_by_bits(replace(loop, body=Block((taken, set_)))) is no_choices
