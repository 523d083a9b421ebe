"""A pytest plugin for a child process: opt_einsum's tests with `backend="loopwright"`.

Whatever opt_einsum would contract with its NumPy backend it contracts with ours: pairs by
`loopwright.tensordot` and `loopwright.transpose`, the rest by `loopwright.einsum`. Its calls with
`optimize=False`, which its tests compare with, stay NumPy's. Arrays of objects go to its own
backend for objects.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from opt_einsum.backends import dispatch

import loopwright as lw
from outside_record import CALLS

# The package has a function of the same name as this module.
contract = importlib.import_module("opt_einsum.contract")


def _counted(name: str) -> Callable[..., Any]:
    ours = getattr(lw, name)

    def call(*arguments: Any, **keywords: Any) -> Any:
        CALLS[name] += 1
        return ours(*arguments, **keywords)

    return call


def pytest_configure() -> None:
    for name in ("einsum", "tensordot", "transpose"):
        dispatch._cached_funcs[name, "loopwright"] = _counted(name)
    usual = contract.parse_backend

    def parse_backend(arrays: Any, backend: str | None) -> str:
        found = usual(arrays, backend)
        is_numbers = not any(getattr(x, "dtype", None) == "O" for x in arrays)
        return "loopwright" if found == "numpy" and is_numbers else found

    contract.parse_backend = parse_backend
