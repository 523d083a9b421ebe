"""Path problems over semirings: shortest, longest, widest, minimax, reliable paths, reachability.

lw.paths.shortest(W)                        all pairs, as an array
lw.paths.shortest(W, predecessors=True)     with .path(i, j)
lw.paths.closure(A, "max_min")              over any semiring with the laws
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

from loopwright.tracebacks import public_edge

if TYPE_CHECKING:
    from loopwright.paths.cycles import CycleError
    from loopwright.paths.problems import (
        least_reliable,
        longest,
        minimax,
        most_reliable,
        reachability,
        shortest,
        widest,
    )
    from loopwright.paths.routes import Routes
    from loopwright.paths.semiring_closure import bytes_needed, closure
    from loopwright.paths.spanning import minimum_spanning_forest

__all__ = [
    "CycleError",
    "Routes",
    "bytes_needed",
    "closure",
    "least_reliable",
    "longest",
    "minimax",
    "minimum_spanning_forest",
    "most_reliable",
    "reachability",
    "shortest",
    "widest",
]

# Names load on first use, as those of the package above.
_HOMES = {
    "CycleError": "cycles",
    "Routes": "routes",
    "bytes_needed": "semiring_closure",
    "closure": "semiring_closure",
    "minimum_spanning_forest": "spanning",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'loopwright.paths' has no attribute '{name}'")
    from importlib import import_module  # lazy: only the names in use are loaded

    home = _HOMES.get(name, "problems")
    found = getattr(import_module(f"loopwright.paths.{home}"), name)
    value = _edge(found) if isinstance(found, FunctionType) else found
    globals()[name] = value
    return value


@cache
def _edge(function: Callable[..., Any]) -> Callable[..., Any]:
    """A public function, the tracebacks of its errors ending at the user's call."""
    edge = public_edge(function)
    edge.__module__ = __name__  # where pickle finds this very function
    return edge


def __dir__() -> list[str]:
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
