"""What is kept of compiled functions, in summaries and on disk: nothing is taken on trust."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from calls.comparison import assert_as_python, whole
from loopwright import kernels, options
from loopwright.calls.function_summary import FunctionSummary, compile_test
from loopwright.calls.jit_definition import JitDefinition
from loopwright.calls.polyhedral_function import PolyhedralFunction
from loopwright.calls.specialisation import Specialisation
from loopwright.frontends.python import argument_types, parse_function
from loopwright.frontends.source_tree import SourceTree
from loopwright.ir.serial import Malformed
from no_kernels import forget_kernels

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
total = jacobi(np.arange(9.0), np.zeros(9), 3)
loaded = [x in sys.modules for x in ("islpy", "loopwright.frontends.python.py_statements")]
print(C.sum(), total, *loaded)
"""


def run(file: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program and the cache that its first process has left."""
    folder = tmp_path_factory.mktemp("known")
    (file := folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(options.variable("cache_dir"), str(folder / "cache"))
        assert run(file) == "270.0 200.0 True True"
    return folder


@pytest.fixture
def file(known: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The program, with a copy of the cache that others may change."""
    shutil.copytree(known / "cache", tmp_path / "cache")
    monkeypatch.setenv(options.variable("cache_dir"), str(tmp_path / "cache"))
    yield known / "program.py"
    (known / "program.py").write_text(PROGRAM, encoding="utf-8")


def test_a_second_process_does_not_load_isl(file: Path) -> None:
    assert run(file) == "270.0 200.0 False False"
    file.write_text("# A line more: what moves in its file keeps its kernels.\n" + PROGRAM)
    assert run(file) == "270.0 200.0 False False"
    file.write_text(PROGRAM.replace("s = 1.0", "s = 1.0  # noted"))
    assert run(file) == "270.0 200.0 False True"
    file.write_text(PROGRAM.replace("s = 1.0", "s = 2.0"), encoding="utf-8")
    assert run(file) == "300.0 200.0 True True"


# -- one process -------------------------------------------------------------------------------


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], None]:
    """An empty cache; from the call on, kernels are found on disk only and isl is not asked."""
    monkeypatch.setenv(options.variable("cache_dir"), str(tmp_path / "cache"))
    monkeypatch.setattr(options, "_current", None)
    forget_kernels(monkeypatch)

    def begin() -> None:
        forget_kernels(monkeypatch)
        monkeypatch.setattr(Specialisation, "_polyhedral", _no_meaning)

    return begin


@pytest.fixture
def unread(later: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The same; from the call on, functions are not read either."""

    def begin() -> None:
        later()
        monkeypatch.setattr(JitDefinition, "tree", property(_not_read))

    return begin


def _not_read(_: object) -> None:
    raise AssertionError("the function was read")


def _no_meaning(_: object) -> None:
    raise AssertionError("isl was asked")


def rows(y, A):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            y[i] += A[i, j]


DAMAGES: tuple[dict[str, Any], ...] = (
    {},
    {"captured": 3},
    {"captured": [3]},
    {"captured": ["no_such_name"]},
    {"captured": []},
    {"key": "k"},
    {"key": 1, "summary": {}},
    {"key": "k", "summary": {}},
)


@pytest.mark.drawn(6)
@pytest.mark.parametrize("damage", DAMAGES, ids=repr)
@pytest.mark.parametrize("number", [0, 1])
def test_damaged_definitions_are_read_anew(
    number: int, damage: dict[str, Any], later: Callable[[], None]
) -> None:
    definition = JitDefinition(rows, argument_types((whole(5), whole(5, 7))), reassoc=False)
    assert definition.tree.captured
    assert_as_python(rows, whole(5), whole(5, 7))
    kernels.remember(definition.places()[number], damage)
    later()
    assert_as_python(rows, whole(5), whole(5, 7))


# -- functions that are not read ---------------------------------------------------------------

SCALED = """
import math

class Settings:
    offset = 1.0

def make(factor):
    def scaled(y, x):
        for i in range(y.shape[0]):
            y[i] = x[i] * factor + Settings.offset + math.pi * 0
    return scaled
"""


def in_file(folder: Path, text: str) -> dict[str, Any]:
    """The names that a file of this text defines."""
    file = folder / "scaled.py"
    file.write_text(text, encoding="utf-8")
    names: dict[str, Any] = {}
    exec(compile(text, str(file), "exec"), names)
    return names


def result(function: Any) -> list[float]:
    y = np.zeros(3)
    lw.jit(threads=1)(function)(y, np.arange(3.0))
    return y.tolist()


def test_other_texts_types_and_options_are_read(unread: Callable[[], None], tmp_path: Path) -> None:
    function = in_file(tmp_path, SCALED)["make"](2.0)
    assert result(function) == [1.0, 3.0, 5.0]
    unread()
    assert result(function) == [1.0, 3.0, 5.0]
    x, y = np.arange(3.0), np.zeros(3)
    for call in (
        lambda: lw.jit(threads=1)(function)(y.astype("float32"), x),
        lambda: lw.jit(threads=1, reassoc=True)(function)(y, x),
        lambda: result(in_file(tmp_path, SCALED.replace("+ Settings", "- Settings"))["make"](2.0)),
    ):
        with pytest.raises(AssertionError, match="the function was read"):
            call()


def matvec(y, A, x):
    for i in range(A.shape[0]):
        s = 0.0
        for j in range(A.shape[1]):
            s += A[i, j] * abs(x[j])
        y[i] = max(s, 0.0)


MATVEC = (np.ones(3), np.ones((3, 4)), np.ones(4))


def parsed(function: Callable[..., Any], *args: Any) -> SourceTree:
    return parse_function(function, argument_types(args))


def summary(function: Callable[..., Any], *args: Any) -> FunctionSummary:
    return PolyhedralFunction(parsed(function, *args), reassoc=False).summary()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "p",
        "p['m'] >= 0",
        "p[0] >= 0",
        "q['n'] >= 0",
        "'n'",
        "1.5",
        "None",
        "len(p)",
        "p.clear()",
        "p['n'] ** 99",
        "p['n'] >> 1",
        "[p['n']]",
        "(lambda: 1)()",
        "__import__('os')",
        "1, 2",
        "1\n2",
        "1 if 1 else 1",
        "(p := 1)",
    ],
)
def test_anything_else_is_malformed(text: str) -> None:
    with pytest.raises(Malformed) as refusal:
        compile_test(text, ("n",))
    assert str(refusal.value) == f"not a test of sizes: {text!r}"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"params": ["A_0", "A_1", "x_0"]}, "variable y_0 is not in scope"),
        ({"params": [1]}, "not a summary"),
        ({"name": None}, "not a summary"),
        ({"arguments": [["array", "y", "float64"]]}, "not an argument: ['array', 'y', 'float64']"),
        ({"arguments": [["array", "y", "text", ["y_0"]]]}, "not an argument: ['array', 'y', 'te"),
        ({"arguments": [["list", "y", "float64", ["y_0"]]]}, "not an argument: ['list'"),
        ({"arguments": [["array", "y", "float64", [0]]]}, "not an argument: ['array', 'y'"),
        ({"arguments": [["array", "y", "float32", ["y_0"]]]}, "not an argument: 'y'"),
        ({"arguments": [["array", "y", "float64", ["n"]]]}, "not an argument: 'y'"),
        ({"arguments": [["int", "t", "int64", []]]}, "not an argument: 't'"),
        ({"result": "y"}, "not a result: 'y'"),
        ({"result": [["y", 1], True]}, "not a result: [['y', 1], True]"),
        ({"result": [["z"], False]}, "not a result: ('z',)"),
        ({"unsafe": "print()"}, "not a test of sizes: 'print()'"),
        ({"unsafe": None}, "not a summary"),
        ({"arrays": []}, "array A is not declared"),
        ({"contraction": []}, "not a contraction"),
        ({"contraction": {"final": ["var", "other", "float64"]}}, "other is not in scope"),
        ({"contraction": {"initial": ["var", "j", "int64"]}}, "variable j is not in scope"),
        ({"contraction": {"out": ["access", "y", [], "float64"]}}, "0 subscripts for rank 1"),
        ({"contraction": {"dtype": "float32"}}, "variable accumulator is float32, not float64"),
    ],
)
def test_malformed_recipes(change: dict[str, Any], told: str) -> None:
    data = summary(matvec, *MATVEC).to_json()
    inner = change.get("contraction")
    if isinstance(inner, dict):
        change = {"contraction": {**data["contraction"], **inner}}
    with pytest.raises(Malformed) as refusal:
        FunctionSummary.from_json({**data, **change})
    assert told in str(refusal.value)
