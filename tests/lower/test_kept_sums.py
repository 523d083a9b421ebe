"""Integers gathered in elements of memory: told to compilers as reductions, with the same sums."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from loopwright.calls.splice import optimise_region, spliced
from loopwright.frontends.c import read_c
from loopwright.lower.passes import lower_schedule
from loopwright.machines import load_machine
from loopwright.planner.planners import model_planner
from loopwright.runtime.toolchain import build_library, load_library
from loopwright.targets import tells_more
from loopwright.transform.plan import initial_schedule

GATHERED = """void f(int n, int m, int x[n][m], int s[n], short y[m]) {{
#pragma scop
  for (int k = 0; k < n; k++)
    for (int j = 0; j < m; j++) {{
      {body}
    }}
#pragma endscop
}}
"""


@pytest.mark.parametrize(
    ("body", "is_told"),
    [
        ("s[k] += x[k][j];", True),
        ("int d = x[k][j] - 7; s[k] += d * d;", True),
        ("if (x[k][j] > 3) s[k]++;", True),
        ("s[k] += y[j];", False),  # of another type: compilers know that they lie apart
        ("s[k] += s[k] * x[k][j];", False),  # a recurrence
        ("s[k] += x[k][j]; x[k][j] = s[k];", False),
    ],
    ids=["sum", "of a scalar", "count", "other type", "recurrence", "running sum"],
)
def test_integers_gathered_in_memory(body: str, is_told: bool) -> None:
    (program,) = lw.parse_c(GATHERED.format(body=body))
    nest = lower_schedule(initial_schedule(program))
    for machine in ("sapphirerapids", "neoverse-n1"):
        assert tells_more(program, nest, load_machine(machine)) is is_told


SIGNS = """void f(int n, int m, int x[n][m], int s[n])
{
#pragma scop
    for (int k = 0; k < n; k++)
        for (int i = 0; i < m; i++)
            for (int j = i + 1; j < m; j++) {
                int d = x[k][j] - x[k][i];
                s[k] += (d > 0) - (d < 0);
            }
#pragma endscop
}
"""


@needs_cc
@pytest.mark.drawn(2)
@pytest.mark.parametrize("machine", ["sapphirerapids", "neoverse-n1"])
def test_the_same_sums(machine: str, tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text(SIGNS, encoding="utf-8")
    made = lw.compile(str(tmp_path / "f.c"))
    file = read_c(SIGNS)
    found = optimise_region(file, file.regions[0], model_planner, load_machine(machine), target="c")
    text = spliced(file, [found]).decode()
    assert found.text is not None
    assert ("lw_most_int32" in found.text) is (machine == "sapphirerapids")
    written = load_library(build_library(text, ("-O3",)))["f"]
    for n, m in ((0, 3), (3, 0), (1, 1), (2, 7), (3, 43)):
        x = np.random.default_rng(m).integers(-3, 4, (n, m), np.int32)
        signs = np.sign(x[:, None, :] - x[:, :, None])
        expected = (7 + np.triu(signs).sum(axis=(1, 2))).astype(np.int32)
        by_text, by_code = (np.full(n, 7, np.int32) for _ in range(2))
        written(n, m, *(ctypes.c_void_p(a.ctypes.data) for a in (x, by_text)))
        made(n, m, x, by_code)
        assert by_text.tolist() == expected.tolist() == by_code.tolist()
