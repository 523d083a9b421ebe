"""Bootstrap intervals of a statistic over shapes, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from benchmarks.measure import geometric_mean

__all__ = ["bootstrap", "mean_text", "share_text"]

_DRAWS = 1000


def bootstrap(
    values: Sequence[float], of: Callable[[Sequence[float]], Any], seed: int = 0
) -> tuple[float, float]:
    """The interval in which 95% of a statistic's values lie, over shapes drawn anew."""
    random = Random(seed)
    drawn = sorted(of(random.choices(values, k=len(values))) for _ in range(_DRAWS))
    return drawn[int(0.025 * _DRAWS)], drawn[int(0.975 * _DRAWS) - 1]


def mean_text(ratios: Sequence[float]) -> str:
    """The geometric mean with its interval."""
    low, high = bootstrap(ratios, geometric_mean)
    return f"{geometric_mean(ratios):.3g} [{low:.3g}, {high:.3g}]"


def share_text(held: Sequence[bool]) -> str:
    """How often something holds, with its interval, in per cent."""
    low, high = bootstrap(held, _share)
    return f"{_share(held):.0%} [{100 * low:.0f}, {100 * high:.0f}]"


def _share(held: Sequence[float]) -> float:
    return sum(held) / len(held)
