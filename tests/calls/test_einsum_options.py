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
from loopwright.calls.einsum_call import EinsumCall, Scaling
from loopwright.calls.einsum_contraction import plan_contraction
from loopwright.diagnostics import BoundsError
from loopwright.frontends.einsum_syntax import parse_subscripts
from loopwright.ir.dtypes import DTYPES
from loopwright.machines.host import host
from loopwright.runtime.kernel import BoundKernel
from loopwright.semirings import make_semiring, maximum, semiring
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


def test_the_oracle_comes_after_compiled_code_and_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch that is remembered is not used while the oracle is asked for."""
    a = np.arange(6.0).reshape(2, 3)
    lw.einsum("ij,kj->ik", a, a)
    with monkeypatch.context() as patch:
        patch.setattr(
            "loopwright.calls.einsum_loops.interpret_program",
            lambda program, arrays, params: arrays["out"].fill(7),
        )
        with options.override(interpret=True):
            assert (lw.einsum("ij,kj->ik", a, a) == 7).all()
    np.testing.assert_array_equal(lw.einsum("ij,kj->ik", a, a), a @ a.T)


@pytest.mark.usefixtures("no_kernels")
def test_the_oracle_scales_and_takes_functions() -> None:
    a = np.array([[1.0, 2.0], [3.0, 4.0]])
    ring = make_semiring("own", maximum, lambda x, y: y + x, -np.inf, 0.0)
    out = np.ones((2, 2))
    with options.override(interpret=True):
        np.testing.assert_array_equal(
            lw.einsum("ij,jk->ik", a, a, semiring=ring),
            oracle("ij,jk->ik", a, a, semiring="max_plus"),
        )
        lw.einsum("ij,jk->ik", a, a, out=out, alpha=2, beta=-1)
        np.testing.assert_array_equal(out, 2 * (a @ a) - 1)
        narrow = np.array([[100, 100]], "int8")
        assert lw.einsum("ij,kj->ik", narrow, narrow, accum_dtype="int32") == 20000


# -- bounds checks -----------------------------------------------------------------------------

CHECKED = [
    ("ij,jk->ik", 2, (19, 17), (17, 21)),
    ("ij,j->i", 1, (19, 17), (17,)),
    ("i,ij->j", 2, (19,), (19, 17)),
    ("ij->", 1, (19, 17)),
    ("ij,kl->ljki", 2, (3, 5), (4, 6)),
    ("ij,jk,k->i", 1, (5, 6), (6, 7), (7,)),
]


@pytest.mark.drawn(2)
@pytest.mark.parametrize("case", CHECKED, ids=lambda case: case[0])
def test_sound_kernels_pass_their_checks(case: Any) -> None:
    text, threads, *shapes = case
    random = np.random.default_rng(4)
    arrays = [random.integers(-9, 9, shape).astype("float64") for shape in shapes]
    operands = [np.asfortranarray(a)[::-1] for a in arrays]
    expected = np.einsum(text, *operands)
    with options.override(boundscheck=True):
        for _ in range(2):
            found = lw.einsum(text, *operands, threads=threads)
            np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(lw.einsum(text, *operands, threads=threads), expected)


def test_launches_for_other_arrays_are_seen() -> None:
    """Kernels of contractions see operands as memory: what is checked are places in it."""
    a, out = np.ones((5, 6)), np.ones(5)
    ring, dtype = semiring("plus_times"), DTYPES["float64"]
    names = parse_subscripts("ij,j->i", (2, 1))
    with options.override(boundscheck=True):
        call = EinsumCall(names, (a, a[0]), out, ring, dtype, Scaling(), 1, host())
        _, bound = plan_contraction(call)
        bound(out, a, a[0])
        assert out.tolist() == [6.0] * 5
        for arrays, name in (((out[:4], a, a[0]), "out"), ((out, a[:4], a[0]), "left")):
            with pytest.raises(BoundsError, match=f"leaves '{name}': the place in memory is "):
                bound(*arrays)


def test_checks_and_factors() -> None:
    """Alpha and beta are arrays of rank 0: there is no subscript to check."""
    a = np.arange(6.0).reshape(2, 3)
    out = np.ones(2)
    with options.override(boundscheck=True):
        lw.einsum("ij,j->i", a, a[0], out=out, alpha=2, beta=3)
    np.testing.assert_array_equal(out, 2 * (a @ a[0]) + 3)


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


def test_logs_of_several_operands(caplog: pytest.LogCaptureFixture) -> None:
    a = -np.ones((2, 2))
    with caplog.at_level(logging.INFO, "loopwright"), options.override(log=("plan",)):
        lw.einsum("ij,jk,kl->il", a, a, a, semiring="max_times")
    assert (
        "plan: einsum 'ij,jk,kl->il': jk,kl->jkl; ij,jkl->il (times of semiring 'max_times' does "
        "not distribute over plus for these numbers of float64)" in caplog.text
    )


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
