"""Fingerprints: functions are told apart without being read."""

from __future__ import annotations

import enum
import importlib.util
import math
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

from frontends.kernels import define
from loopwright.frontends.python.fingerprint import definition_text, value_texts

FUNCTION = "def f(x, n):\n    for i in range(n):\n        x[i] = K * i\n"


def loaded(folder: Path, text: str, name: str = "program") -> ModuleType:
    """A module of this text."""
    file = folder / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_of(folder: Path, text: str) -> str:
    found = definition_text(loaded(folder, text).f)
    assert found is not None
    return found


def test_neither_place_nor_neighbours_count(tmp_path: Path) -> None:
    plain = text_of(tmp_path, FUNCTION)
    for text in (
        f"# a comment\n\nimport math\n\n{FUNCTION}",
        f"{FUNCTION}\n\nK = 3\n",
        f"{FUNCTION}\n\n\n@staticmethod\ndef g(): ...\n",
        f"{FUNCTION}\n    \n# the end",
    ):
        assert text_of(tmp_path, text) == plain


@pytest.mark.parametrize(
    "text",
    [
        FUNCTION.replace("K * i", "i * K"),
        FUNCTION.replace("K * i", "K*i"),
        FUNCTION.replace("x[i] = K * i", "x[i] = K * i  # noted"),
        FUNCTION + "    i: int\n",
        FUNCTION + "\n        # inside\n    pass\n",
        FUNCTION + "    global Q\n",
        FUNCTION.replace("n)", "*, n)", 1),
        "# coding: latin-1\n" + FUNCTION,
        f"def d(f): return f\n@d\n{FUNCTION}",
    ],
)
def test_everything_else_counts(tmp_path: Path, text: str) -> None:
    assert text_of(tmp_path, text) != text_of(tmp_path, FUNCTION)


# -- values ------------------------------------------------------------------------------------


class Odd(int):
    def __repr__(self) -> str:
        return "odd"


class Color(enum.IntEnum):
    RED = 1


def texts(**outer: Any) -> list[str | None]:
    function = FunctionType(define("def f(): pass").__code__, dict(outer))  # type: ignore[attr-defined]
    return [value_texts(function, [name]) for name in outer]


def test_values_are_told_apart() -> None:
    values = [1, 1.0, True, 1 + 0j, 0.0, -0.0, 2**70, math.inf]
    values += [np.int64(1), np.int32(1), np.float32(0.1), np.float64(0.1), np.bool_(True)]
    values += [abs, min, math.sqrt, np.sqrt, np.zeros, np.zeros_like, range, int, np.float32]
    found = texts(**{f"v{k}": value for k, value in enumerate(values)})
    assert None not in found
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    "value",
    [Odd(3), Color.RED, [1], np.ones(2), text_of, Odd, "text", None, object(), np.linalg.norm],
    ids=["odd", "enum", "list", "array", "ours", "class", "str", "none", "object", "norm"],
)
def test_values_that_no_text_tells_apart(value: object) -> None:
    assert texts(v=value) == [None]
