"""Products of integers inside programs: by dot instructions in machine code, as loops in C."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from drawn import in_all
from loopwright.machines import load_machine
from loopwright.planner.planners import model_planner, text_planner
from loopwright.transform.contract import Contract

TEXT = """void rows(int n, int m, int k, {0} a[n][k], {0} b[m][k], int dots[n][m],
          float score[n][m])
{{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {{
            int acc = 0;
            for (int l = 0; l < k; l++)
                acc += (int)a[i][l] * (int)b[j][l];
            dots[i][j] = acc;
            score[i][j] = acc * 0.5f;
        }}
#pragma endscop
}}"""
TYPES = {"signed char": np.int8, "unsigned char": np.uint8, "short": np.int16, "int": np.int32}


MACHINES = [("neoverse-n1", 4), ("x-gene1", 1), ("sapphirerapids", 2)]


@pytest.mark.parametrize(("machine", "group"), MACHINES)
def test_bytes_are_summed_by_dot_instructions(machine: str, group: int) -> None:
    (program,) = lw.parse_c(TEXT.format("signed char"))
    plan, _ = model_planner(program, load_machine(machine), 1)
    (step,) = [step for step in plan if isinstance(step, Contract)]
    assert [variant.group for variant in step.variants] == [group]


@pytest.mark.drawn(2)
@pytest.mark.parametrize("kind", TYPES)
def test_c_keeps_loops_over_integers(kind: str) -> None:
    (program,) = lw.parse_c(TEXT.format(kind))
    plan, _ = text_planner(program, load_machine("neoverse-n1"), 1)
    assert not any(isinstance(step, Contract) for step in plan)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("kind", TYPES)
def test_results(kind: str) -> None:
    dtype, code = TYPES[kind], lw.compile(TEXT.format(kind))
    limits = np.iinfo(dtype) if dtype != np.int32 else np.iinfo(np.int16)
    # Code is made for rows of one element, and of none.
    least = (1, 1, 1) if kind in ("signed char", "int") else (64, 0, 16)
    short = (least,) if in_all() or kind == "signed char" else ()
    for n, m, k in (*short, (5, 9, 11), (33, 47, 131)):
        random = np.random.default_rng(3)
        a, b = (
            random.integers(limits.min, limits.max, (rows, k), dtype, endpoint=True)
            for rows in (n, m)
        )
        dots, score = np.zeros((n, m), np.int32), np.zeros((n, m), np.float32)
        code(n, m, k, a, b, dots, score)
        with np.errstate(over="ignore"):
            expected = (a.astype(np.int64) @ b.T.astype(np.int64)).astype(np.int32)
        assert np.array_equal(dots, expected)
        assert np.array_equal(score, expected.astype(np.float32) * np.float32(0.5))
