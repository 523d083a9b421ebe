"""Two series of times that were taken in turn: which is shorter, beyond the noise of the pairs.

Nothing but the standard library is imported: calls that are raced ask here.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from loopwright.lazy_dataclass import dataclass

__all__ = ["FEWEST_PAIRS", "LEAST_RACE_GAIN", "TimeComparison", "compared"]

FEWEST_PAIRS = 5  # of runs that say something
LEAST_RACE_GAIN = 0.02  # by which a plan must beat the source order, and the source order a plan
_LEAST_GAIN = 0.01  # below which a difference is nobody's gain
_FAR = 1.5  # times as long: no noise of a run that lasts
_ERRORS = 3.0  # standard errors of the gain that count as noise


@dataclass(frozen=True, slots=True)
class TimeComparison:
    """Two series of times that were taken in turn, compared."""

    base_seconds: float  # the fastest run
    seconds: float
    gain: float  # median over the pairs of base / own
    noise: float  # of the gain: what the pairs differ by among themselves
    is_faster: bool  # the gain is beyond the noise

    @property
    def is_far_faster(self) -> bool:
        """Whether few pairs are enough: long runs leave no time for many."""
        return self.base_seconds > _FAR * self.seconds and self.gain > _FAR * (1 + self.noise)


def compared(
    base: Sequence[float], own: Sequence[float], least: float = _LEAST_GAIN
) -> TimeComparison | None:
    """Compare times that were taken in turn; None where some are no times.

    Own is faster where the median gain of the pairs is above three standard errors and above
    `least`, four of five pairs are won, and so is the pair of the fastest runs.
    """
    pairs = list(zip(base, own, strict=False))
    if not pairs or not all(math.isfinite(x) and x > 0 for pair in pairs for x in pair):
        return None
    logs = [math.log(x / y) for x, y in pairs]
    middle = statistics.median(logs)
    # The standard error of a median, from the median of deviations.
    spread = statistics.median(abs(x - middle) for x in logs)
    noise = _ERRORS * 1.86 * spread / math.sqrt(len(logs))
    wins = sum(x > 0 for x in logs)
    is_faster = (
        middle > max(noise, math.log1p(least))
        and wins >= 0.8 * len(logs)
        and min(own) < min(base)
        and len(logs) >= FEWEST_PAIRS
    )
    return TimeComparison(min(base), min(own), math.exp(middle), math.expm1(noise), is_faster)
