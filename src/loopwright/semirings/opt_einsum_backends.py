"""`loopwright.semirings.NAME`: einsum, tensordot and transpose over one semiring, as modules.

opt_einsum imports a backend by its name and takes these functions from it:

    opt_einsum.contract("ij,jk,kl->il", a, b, c, backend="loopwright.semirings.min_plus")

A module without a file is found because `import` looks at sys.modules once more after it has
imported the package.
"""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType
from typing import Any

__all__ = ["NAMES", "SemiringBackend", "install"]

# Those of semirings/named, which most processes do not load for these.
NAMES = (
    "plus_times", "min_plus", "max_plus", "min_max", "max_min", "max_times", "min_times", "or_and",
    "xor_and",
)  # fmt: skip


class SemiringBackend(ModuleType):
    """The functions of a backend over the semiring of its last name."""

    def __init__(self, package: str, semiring: str) -> None:
        super().__init__(f"{package}.{semiring}", f"Products over the semiring {semiring}.")
        self.semiring = semiring

    def __getattr__(self, name: str) -> Any:
        if name not in ("einsum", "tensordot", "transpose"):
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        # Calls stand above semirings, and the package above both; it is loaded by now.
        package, _, _ = self.__name__.partition(".")
        function = getattr(sys.modules[package], name)
        found = function if name == "transpose" else partial(function, semiring=self.semiring)
        setattr(self, name, found)
        return found


def install(package: str) -> None:
    """Let `import` find the backends in a package."""
    for name in NAMES:
        backend = SemiringBackend(package, name)
        sys.modules.setdefault(backend.__name__, backend)
