"""What is kept on disk about compiled functions: a later process does without isl."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from calls.comparison import assert_as_python, whole
from frontends.kernels import define
from loopwright import kernels, options
from loopwright.calls.recipe import Recipe, recipe_key
from loopwright.calls.specialisation import Specialisation
from loopwright.diagnostics import SourceError
from loopwright.frontends.python import argument_types, parse_function

PROGRAM = """
import sys
import numpy as np
import loopwright as lw

@lw.jit(threads=2)
def product(C, A, B, alpha):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            s = 1.0
            for k in range(A.shape[1]):
                s += abs(A[i, k]) * B[k, j]
            C[i, j] = max(alpha * s, 0.0)

@lw.jit(threads=2)
def jacobi(x, y, steps):
    for t in range(steps):
        for i in range(1, x.shape[0] - 1):
            y[i] = x[i - 1] + x[i + 1]
        for i in range(1, x.shape[0] - 1):
            x[i] = y[i]
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i]
    return s

C = np.zeros((3, 5))
product(C, np.full((3, 4), -2.0), np.ones((4, 5)), 2.0)
print(C.sum(), jacobi(np.arange(9.0), np.zeros(9), 3), "islpy" in sys.modules)
"""


def run(file: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_second_process_does_not_load_isl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(options.variable("cache_dir"), str(tmp_path / "cache"))
    file = tmp_path / "program.py"
    file.write_text(PROGRAM, encoding="utf-8")
    assert run(file) == "270.0 200.0 True"
    assert run(file) == "270.0 200.0 False"
    file.write_text("# A line more: what moves in its file keeps its kernels.\n" + PROGRAM)
    assert run(file) == "270.0 200.0 False"
    file.write_text(PROGRAM.replace("s = 1.0", "s = 2.0"), encoding="utf-8")
    assert run(file) == "300.0 200.0 True"


# -- one process -------------------------------------------------------------------------------


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], None]:
    """An empty cache; from the call on, kernels are found on disk only and isl is not asked."""
    monkeypatch.setenv(options.variable("cache_dir"), str(tmp_path / "cache"))
    monkeypatch.setattr(options, "_current", None)
    monkeypatch.setattr(kernels, "_kernels", {})

    def begin() -> None:
        monkeypatch.setattr(kernels, "_kernels", {})
        monkeypatch.setattr(Specialisation, "_meaning", _no_meaning)

    return begin


def _no_meaning(_: object) -> None:
    raise AssertionError("isl was asked")


def shifted(x, y, k):
    for i in range(x.shape[0]):
        x[i] = y[i + k]


def rows(y, A):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            y[i] += A[i, j]


@pytest.mark.parametrize(
    ("function", "args"),
    [(shifted, (whole(5), whole(9), 3)), (rows, (whole(5), whole(5, 7)[::-1]))],
)
def test_recipes_are_found_again(
    function: Callable[..., Any], args: tuple[Any, ...], later: Callable[[], None]
) -> None:
    assert_as_python(function, *args)
    later()
    assert_as_python(function, *args)


def test_everything_counts(later: Callable[[], None]) -> None:
    """Types, captured values, options and strides make code of their own."""
    text = "def f(y, x):\n    for i in range(y.shape[0]):\n        y[i] = x[i] * K\n"
    args = np.zeros(4), whole(4)
    jit = lw.jit(threads=1)
    jit(define(text, K=2))(*args)
    later()
    jit(define(text, K=2))(*args)
    for call in (
        lambda: jit(define(text, K=3))(*args),
        lambda: jit(define(text, K=2))(np.zeros(4, "float32"), args[1]),
        lambda: lw.jit(reassoc=True, threads=1)(define(text, K=2))(*args),
        lambda: lw.jit(threads=2)(define(text, K=2))(*args),
        lambda: jit(define(text, K=2))(np.zeros(8)[::2], args[1]),
    ):
        with pytest.raises(AssertionError, match="isl was asked"):
            call()


def test_refusals_and_reports_ask_isl(
    later: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = Specialisation._meaning
    lw.jit(shifted)(whole(5), whole(9), 3)
    later()
    compiled = lw.jit(shifted)
    compiled(whole(5), whole(9), 4)
    monkeypatch.setattr(Specialisation, "_meaning", ask)
    with pytest.raises(SourceError, match=r"y\[9\] in y of shape \(9\), at i = 4"):
        compiled(whole(5), whole(9), 5)
    assert compiled.explain(whole(5), whole(9), 3).startswith("S0: no contraction")


def test_damaged_recipes_are_made_anew(later: Callable[[], None]) -> None:
    tree = parse_function(rows, argument_types((whole(5), whole(5, 7))))
    key = recipe_key(tree, reassoc=False)
    for damage in ({}, {"params": 3}, {"params": [], "arrays": [], "unsafe": "p"}):
        kernels.remember(key, damage)
        assert_as_python(rows, whole(5), whole(5, 7))
        facts = kernels.recall(key)
        assert facts is not None
        assert Recipe.from_json(facts).params == ("y_0", "A_0", "A_1")


def test_no_cache() -> None:
    with options.override(cache=False):
        assert kernels.recall("anything") is None
        kernels.remember("anything", {})
        assert_as_python(rows, whole(5), whole(5, 7))
