"""Environments under the libraries of others: gymnasium's checker and the two examples.

    python scripts/check_agents.py [gymnasium] [stable_baselines] [rllib]

Run it in an environment that has them (RLlib pins gymnasium 1.2.2, so it takes one of its own).
What is not installed is told and passed over. No part of the usual tests: torch and ray are large.
"""

from __future__ import annotations

import runpy
import sys
import time
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDED = {
    "gymnasium": ("gymnasium",),
    "stable_baselines": ("gymnasium", "sb3_contrib"),
    "rllib": ("gymnasium", "ray", "torch"),
}


def check(name: str) -> None:
    """Run one check; it raises where something is wrong."""
    if name != "gymnasium":
        path = ROOT / "examples" / f"train_with_{name}.py"
        sys.argv = [str(path)]
        runpy.run_path(str(path), run_name="__main__")
        return
    import gymnasium
    from gymnasium.utils.env_checker import check_env

    from loopwright.tuning.gym import IDS

    for identifier in IDS:
        check_env(gymnasium.make(identifier).unwrapped)


def main(names: list[str]) -> int:
    unknown = set(names) - set(NEEDED)
    if unknown:
        print(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(NEEDED)}")
        return 2
    for name in names or NEEDED:
        missing = [module for module in NEEDED[name] if find_spec(module) is None]
        if missing:
            print(f"{name}: passed over, {', '.join(missing)} not installed")
            continue
        start = time.monotonic()
        check(name)
        print(f"{name}: right, {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
