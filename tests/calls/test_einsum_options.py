"""What options change about einsum: the oracle, bounds checks, logs."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from einsum_oracle import oracle
from loopwright import options
from loopwright.runtime.kernel import BoundKernel
from no_kernels import forget_kernels


@pytest.fixture
def no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code raises an exception."""

    def refuse(*_: object) -> None:
        raise AssertionError("compiled code has run")

    monkeypatch.setattr(BoundKernel, "__call__", refuse)
    monkeypatch.setattr(BoundKernel, "quick", lambda *_: refuse)


CALLS = [
    ("ij,jk->ik", (2, 3), (3, 2)),
    ("ij->j", (2, 3)),
    ("ii,i->", (3, 3), (3,)),
    (",->", (), ()),
    ("ij,jk,kl->li", (2, 3), (3, 1), (2, 2)),
    ("ij,jk,k->i", (2, 0), (0, 3), (3,)),
]


@pytest.mark.usefixtures("no_kernels")
@pytest.mark.parametrize("case", CALLS, ids=lambda case: case[0])
@pytest.mark.parametrize(("semiring", "dtype"), [("max_times", "int8"), ("plus_times", "float16")])
def test_the_oracle_runs_instead(case: Any, semiring: str, dtype: str) -> None:
    text, *shapes = case
    random = np.random.default_rng(3)
    arrays = [np.asarray(random.integers(-9, 9, shape)).astype(dtype) for shape in shapes]
    expected = oracle(text, *arrays, semiring=semiring)
    with options.override(interpret=True):
        for _ in range(2):
            found = lw.einsum(text, *arrays, semiring=semiring)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
        out = np.ones(expected.shape, dtype)
        assert lw.einsum(text, *arrays, semiring=semiring, out=out, accumulate=True) is out
    plus = np.maximum if semiring == "max_times" else np.add
    np.testing.assert_array_equal(out, plus(expected, np.ones((), dtype)))


# -- logs --------------------------------------------------------------------------------------


@pytest.fixture
def new(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Nothing in memory, nothing on disk."""
    forget_kernels(monkeypatch)
    monkeypatch.setattr("loopwright.calls.einsum_contraction._launches", {})
    monkeypatch.setattr("loopwright.calls.einsum._ready", {})


@pytest.mark.usefixtures("new")
def test_logs_of_a_call(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    a = np.ones((4, 5))
    with (
        caplog.at_level(logging.INFO, "loopwright"),
        options.override(log=("cache", "plan", "time"), cache_dir=str(tmp_path / "cache")),
    ):
        lw.einsum("ij,kj->ik", a, a, semiring="max_plus", threads=1)
        told = [record.getMessage() for record in caplog.records]
        assert [text.split(" ")[0] for text in told] == ["plan:", "cache:", "time:"]
        assert told[0].startswith(
            "plan: einsum 'ij,kj->ik': contraction of 1 x (4 x 5) by (5 x 4): "
        )
        assert told[1].startswith("cache: miss, product kernel of max over add in float64, ")
        assert told[2].startswith("time: product kernel of max over add in float64: compiled in ")
        caplog.clear()
        forget_kernels(monkeypatch)
        lw.einsum("ij,kj->ik", a, a[:3], semiring="max_plus", threads=1)
        assert "cache: hit, product kernel of max over add in float64" in caplog.text
        assert "time:" not in caplog.text


def test_logs_go_to_stderr_and_cost_nothing_unasked() -> None:
    program = (
        "import sys, numpy as np, loopwright as lw; a = np.ones((2, 2));"
        "lw.einsum('ij,jk->ik', a, a, threads=1); print('logging' in sys.modules)"
    )
    for asked in ("", "cache"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, options.variable("log"): asked},
        )
        assert done.stdout.strip() == str(bool(asked))
        assert done.stderr.startswith("loopwright cache: ") if asked else not done.stderr
