"""What is kept on disk about whole functions: later processes call them without reading them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import kernels, options
from loopwright.calls.procedure_definition import ProcedureDefinition
from loopwright.frontends.python import argument_types
from loopwright.frontends.python.procedures import read_procedure
from loopwright.frontends.python.procedures.variant import Variant
from loopwright.machines.host import host
from no_kernels import forget_kernels

TEXT = """
import numpy as np

LIMIT = 3

def inner(x, power=2):
    return x ** power

def outer(x, shift=SHIFT):
    return inner(x) + shift + LIMIT

def f(x, y, i):
    y[1:] = outer(x)[1:]
    if y[i] > 1000:
        raise ValueError("large")
    return (x.T, y[::2], y + 1, y.sum(), len(x), None), x * 2
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(options.variable("cache_dir"), str(tmp_path / "cache"))
    monkeypatch.setattr(options, "_current", None)
    return tmp_path


def functions(folder: Path, text: str = TEXT, shift: object = 1.0) -> dict[str, Any]:
    (file := folder / "whole.py").write_text(text, encoding="utf-8")
    names: dict[str, Any] = {"SHIFT": shift}
    exec(compile(text, str(file), "exec"), names)
    return names


def outcome(call: Callable[..., Any]) -> list[Any]:
    x, y = np.arange(6.0), np.zeros(6)
    return [call(x, y, 1), y]


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on, no function is read."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the function was read")

    def begin() -> None:
        forget_kernels(monkeypatch)
        monkeypatch.setattr(read_procedure, "read_procedure", refuse)
        monkeypatch.setattr("loopwright.frontends.python.py_statements.parse_function", refuse)

    return begin


def agree(function: Any) -> None:
    np.testing.assert_equal(outcome(lw.jit(function)), outcome(function))


def test_a_known_function_is_not_read(folder: Path, unread: Callable[[], None]) -> None:
    function = functions(folder)["f"]
    agree(function)
    unread()
    agree(function)
    with pytest.raises(ValueError, match="large"):
        lw.jit(function)(np.full(6, 1e9), np.zeros(6), 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x ** power", "x * power"),
        ("power=2", "power=3"),
        ("LIMIT = 3", "LIMIT = 4"),
        ("LIMIT = 3", "LIMIT = 3.0"),
        ("y[::2]", "y[::3]"),
    ],
)
def test_texts_and_values_of_helpers_count(
    old: str, new: str, folder: Path, unread: Callable[[], None]
) -> None:
    agree(functions(folder)["f"])
    changed = functions(folder, TEXT.replace(old, new))["f"]
    unread()
    with pytest.raises(AssertionError, match="the function was read"):
        agree(changed)


def test_defaults_of_helpers_count(folder: Path) -> None:
    for shift in (1.0, 2.0, 2, -0.0):
        agree(functions(folder, shift=shift)["f"])


@pytest.mark.parametrize("damage", [{"captured": ["np"]}, {"name": "f"}, {"captured": 1}, {}])
def test_damaged_entries_are_made_anew(damage: dict[str, Any], folder: Path) -> None:
    function = functions(folder)["f"]
    agree(function)
    types = argument_types((np.zeros(6), np.zeros(6), 1))
    definition = ProcedureDefinition(function, types, Variant(), host().content_hash)
    found = definition.recalled()
    assert found is not None
    for place in (definition.place, found[0]):
        kernels.remember(place, damage)
        agree(function)
