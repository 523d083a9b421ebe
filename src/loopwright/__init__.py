"""Loopwright: a polyhedral tensor compiler. Einsums, loop nests and C regions to fast kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopwright.calls.einsum import einsum
    from loopwright.calls.jit import jit

__all__ = ["einsum", "jit"]
__version__ = "0.1.0"

# Names load on first use: `import loopwright` itself must stay cheaper than 30 ms over NumPy.
_HOMES = {"einsum": "loopwright.calls.einsum", "jit": "loopwright.calls.jit"}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'loopwright' has no attribute '{name}'")
    from importlib import import_module  # lazy: only the names in use are loaded

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
