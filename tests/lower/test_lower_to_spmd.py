"""SPMD nests: serial statements run on one thread, barriers separate regions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopwright.ir.loops import Block
from loopwright.ir.program import Program
from loopwright.ir.text import stmt_text
from loopwright.lower.passes import lower_schedule
from loopwright.lower.work_distribution import lower_to_spmd
from loopwright.transform.loop_marks import Parallel
from loopwright.transform.plan import apply_plan
from oracle import assert_same
from programs import Do, For, jacobi, program


def mixed() -> Program:
    """A local scalar set between two nests, and serial work before and after."""
    arrays = {
        "a": "inout int64 [n]",
        "b": "inout int64 [n]",
        "s": "out int64 []",
        "t": "local int64 []",
        "w": "local int64 [n]",
    }
    return program(
        "mixed",
        arrays,
        Do("s", "0"),
        Do("t", "2"),
        For("i", 0, "n", Do("w[i]", "a[i] * t")),
        For("j", 1, "n", Do("s", "s + w[j]"), Do("b[0]", "w[j]")),
        Do("t", "s + 1"),
        For("k", 0, "n", Do("a[k]", "w[n - 1 - k] + t")),
    )


@pytest.mark.drawn(3)
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_any_number_of_threads(threads: int, n: int) -> None:
    nest = lower_schedule(apply_plan(mixed(), [Parallel("i"), Parallel("k")]))
    assert_same(mixed(), nest, {"n": n}, threads)
    nest = lower_schedule(apply_plan(jacobi(), [Parallel("j")]))
    assert_same(jacobi(), nest, {"n": n, "m": 3}, threads)


def test_empty_parts_have_no_region() -> None:
    nest = lower_schedule(apply_plan(jacobi(), [Parallel("j")]))
    body = Block((Block(()), Block((Block(()), nest.body, Block(())))))
    assert stmt_text(lower_to_spmd(replace(nest, body=body)).body) == stmt_text(
        lower_to_spmd(nest).body
    )
