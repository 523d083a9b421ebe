"""Where policies are found: the user's own, trained on this machine, else those that are shipped.

Shipped weights are pinned by their hash; a record of how they were made lies beside each.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from pathlib import Path

from loopwright import options
from loopwright.diagnostics import UsageError
from loopwright.tuning.policy import Policy, read_policy

__all__ = ["SHIPPED", "policy_for", "shipped_policy", "user_policy_path"]

_DATA = Path(__file__).parent / "data"
# sha256 of the files in `data`.
SHIPPED: dict[str, str] = {
    "looptune": "0c6bf783abc7c86ee39e562d361a2995e6b746cec5d74da6f73c6a35b90ec3a4",
    "general": "f285842ecdbbc04eb5d21a3f32f260131b9776f6e540f8eea2e70bfb7db83803",
}


def user_policy_path(space: str) -> Path:
    """Where `loopwright tune --train` leaves the policy of a space."""
    return options.data_dir() / f"policy-{space}.npz"


@lru_cache(maxsize=8)
def shipped_policy(space: str) -> Policy:
    """The policy that came with the package."""
    if space not in SHIPPED:
        hint = "loopwright tune --train"
        raise UsageError(f"no policy of space '{space}' is shipped", hint=hint)
    return read_policy(_DATA / f"policy-{space}.npz", SHIPPED[space])


def policy_for(space: str) -> Policy:
    """The user's policy of a space where there is one, else the shipped one.

    One that is damaged, or of another version, is told and set aside: an upgrade must not make
    calls fail that worked before.
    """
    own = user_policy_path(space)
    if not own.exists():
        return shipped_policy(space)
    try:
        found = read_policy(own)
        if found.space.name == space:
            return found
        reason = f"it is for the space '{found.space.name}'"
    except UsageError as error:
        reason = error.found or error.message
    told = f"{own} is set aside ({reason}); the shipped policy serves. `loopwright tune --train`"
    warnings.warn(f"{told} makes a new one", stacklevel=2)
    return shipped_policy(space)
