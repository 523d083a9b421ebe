"""A pytest plugin for a child process: `np.einsum` in NumPy's own tests of it is ours.

Only the name `np` of the test module is replaced: our own code calls NumPy's einsum for views.
`np.einsum_path` stays NumPy's, since those tests compare its paths and reports letter by letter.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from outside_record import CALLS


class _OurNumPy(ModuleType):
    """NumPy with another einsum."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def einsum(*arguments: Any, **keywords: Any) -> Any:
        CALLS["einsum"] += 1
        return lw.einsum(*arguments, **keywords)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        module = getattr(item, "module", None)
        if getattr(module, "np", None) is np:
            module.np = _OurNumPy("numpy")
