"""docs/python.md lists the functions that a whole function may call: these, and no others."""

import builtins
import math
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import loopwright as lw
from frontends.kernels import define
from loopwright.frontends.python import argument_types
from loopwright.frontends.python.procedures.read_procedure import read_procedure
from loopwright.frontends.python.procedures.variant import Variant

PAGE = Path(__file__).parent.parent.parent / "docs" / "python.md"
TYPES, LOOPS = (
    ("bool", "int", "float", "complex"),
    {"range", "enumerate", "zip", "reversed", "isinstance"},
)
MODULES = {"of `math`": math, "of Python": builtins}  # every other kind is of NumPy

pytestmark = pytest.mark.skipif(
    not PAGE.exists(), reason="the package was installed without its documentation"
)


@cache
def listed() -> dict[str, list[str]]:
    """The names of each kind in the table."""
    section = PAGE.read_text(encoding="utf-8").partition("### Functions\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)[2:]
    words = (r"of (?:vectors|matrices)|;|,", " ")  # between names
    return {kind: re.sub(*words, names).split() for kind, names in rows}


def known(calls: dict[str, str]) -> set[str]:
    """The names whose calls are read, or refused for another reason than the function's name."""
    lines = [f"    x{number} = {call}" for number, call in enumerate(calls.values())]
    function = define("\n".join(["def f(a, n):", *lines, "    return a", ""]))
    with pytest.raises(lw.SourceError) as refusals:
        read_procedure(function, argument_types((np.ones((2, 3)), 2.5)), Variant())
    told = "\n".join(found.message for found in refusals.value.diagnostics)
    unknown = re.findall(r"^the (?:function|method) '(?:\w+\.)?(\w+)'.* (?:known|yet)$", told, re.M)
    return calls.keys() - set(unknown)


def functions(module: ModuleType) -> dict[str, object]:
    """The public functions of a module."""
    found = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    return {n: f for n, f in found.items() if callable(f) and not isinstance(f, type)}


@pytest.mark.parametrize("module", [np, math])
def test_functions(module: ModuleType) -> None:
    prefix = "np" if module is np else "math"
    public = functions(module)
    read = known({name: f"{prefix}.{name}(a[0, 0])" for name in public})
    kinds = [kind for kind in listed() if "methods" not in kind]
    named = {name for kind in kinds if MODULES.get(kind, np) is module for name in listed()[kind]}
    assert named <= read
    there = {id(public[name]) for name in named}  # of several names one is listed
    assert {name for name in read if id(public[name]) not in there} == set()


def test_methods_of_arrays() -> None:
    names = [name for name in dir(np.ndarray) if not name.startswith("_")]
    calls = {name: f"a.{name}()" for name in names if callable(getattr(np.ndarray, name))}
    assert known(calls) == set(listed()["methods of arrays"])


def test_functions_of_python() -> None:
    names = {name: f"{name}(n)" for name in (*functions(builtins), *TYPES)}
    assert known(names) | LOOPS == set(listed()["of Python"])
