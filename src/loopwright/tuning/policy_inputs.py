"""What the network of a policy sees: the general observation, and the rows around the cursor again.

Actions are about the loop of the cursor and its neighbours. In the observation these stand in a
different place for every cursor; here they always stand in the same one, so that a network need not
learn each rule once for every place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwright.tuning.actions import MOST_LOOPS
from loopwright.tuning.network import Floats
from loopwright.tuning.tree_observation import LOOP_NUMBERS, OBSERVED

__all__ = ["INPUTS", "policy_inputs"]

_REACH = 2  # loops on each side of the cursor
INPUTS = OBSERVED + (2 * _REACH + 1) * LOOP_NUMBERS


def policy_inputs(seen: Any) -> Floats:
    """Rows of inputs for rows of observations; rows of loops that are not there are 0."""
    count = len(seen)
    found = np.zeros((count, INPUTS), np.float32)
    found[:, :OBSERVED] = seen
    padded = np.zeros((count, MOST_LOOPS + 2 * _REACH, LOOP_NUMBERS), np.float32)
    padded[:, _REACH:-_REACH] = found[:, : MOST_LOOPS * LOOP_NUMBERS].reshape(
        count, MOST_LOOPS, LOOP_NUMBERS
    )
    cursors = padded[:, _REACH:-_REACH, 0].argmax(axis=1)
    for row, cursor in enumerate(cursors.tolist()):
        around = padded[row, cursor : cursor + 2 * _REACH + 1]
        found[row, OBSERVED:] = around.reshape(-1)
    return found
