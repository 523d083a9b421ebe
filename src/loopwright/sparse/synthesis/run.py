"""Run a conversion: make arrays, call the code of each stage, learn symbols between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.runtime.scratch import Loan
from loopwright.sparse.spf.shared_run import is_long_enough
from loopwright.sparse.synthesis.parallel import run_in_shares
from loopwright.sparse.synthesis.recipe import turns_of
from loopwright.sparse.synthesis.stages import Stage
from loopwright.sparse.synthesis.synthesize import Conversion

__all__ = ["run", "run_stage"]

Array = NDArray[Any]


def run(
    conversion: Conversion,
    arrays: Mapping[str, Array],
    values: Array,
    symbols: Mapping[str, int],
    threads: int = 1,
) -> tuple[dict[str, Array], Array, dict[str, int]]:
    """Index arrays, values and symbols of the target; arrays of the source may be among them."""
    memory = Loan()
    try:
        # Few entries in few rows and columns are converted before a team has begun.
        if threads == 1 or not is_long_enough(max(len(values), *symbols.values())):
            return conversion.alone(arrays, values, symbols, memory.lend)
        return _by_team(conversion, arrays, values, symbols, threads, memory)
    finally:
        memory.give_back()


def _by_team(
    conversion: Conversion,
    arrays: Mapping[str, Array],
    values: Array,
    symbols: Mapping[str, int],
    threads: int,
    memory: Loan,
) -> tuple[dict[str, Array], Array, dict[str, int]]:
    first, last = conversion.frame
    held, known = first(arrays, values, symbols)
    for turn, shared in zip(conversion.turns, conversion.shared, strict=True):
        if turn.prepare(held, known, memory.lend):
            if not run_in_shares(shared, held, known, threads):
                turn.call(held, known)
            turn.learn(held, known)
    return last(held, known)


def run_stage(stage: Stage, held: dict[str, Array], known: dict[str, int]) -> None:
    """Run one stage by itself on arrays and symbols by name; both are added to."""
    (turn,) = turns_of([stage])
    # Who asks for one stage sees all its arrays, so none of them is taken back.
    if turn.prepare(held, known, np.empty):
        turn.call(held, known)
        turn.learn(held, known)
