"""Measured trees of this machine, for the learned cost of a policy; samples of several processes.

    python -m benchmarks.tuning.measured_costs measure SAMPLES.npz --policy POLICY.npz --seconds 60
    python -m benchmarks.tuning.measured_costs fit SAMPLES.npz ... --policy POLICY.npz --out NEW.npz

`measure` takes products to train on (never those of tests): trees of random walks and trees that
the policy's beam likes. `fit` writes the policy with a cost of this machine fitted to all samples
in place of the one it had.
"""

from __future__ import annotations

import argparse
import io
import sys
import time
from pathlib import Path
from random import Random

import numpy as np

from loopwright.machines.host import host
from loopwright.tuning.environment import after_random_actions
from loopwright.tuning.learned_cost import CostSamples
from loopwright.tuning.policy import Policy, dump_policy, read_policy
from loopwright.tuning.tree_evaluator import TreeClock

__all__ = ["joined_samples", "main", "measure"]

_FIRST = 32  # trees before are those that a training judges itself by
_BEAM = 10  # trees of a beam that are measured


def measure(policy: Policy, seconds: float, seed: int) -> CostSamples:
    """Samples of this machine, half of them random walks."""
    machine = host()
    samples, clock, random = CostSamples(machine), TreeClock(machine, seconds=0.003), Random(seed)
    rules = policy.space.rules(lambda tree: 1.0, machine)
    trees = policy.space.trees()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        number = random.randrange(_FIRST, len(trees))
        found = policy.candidates(trees[number], machine, _BEAM, width=6)
        starts = [trees[number], policy.space.start(trees[number], machine)]
        for _ in range(_BEAM):
            start = random.choice(starts)
            found.append(after_random_actions(start, rules, random, 2 * policy.space.steps))
        for tree in found:
            samples.add(tree, clock(tree), str(number))
            if time.monotonic() > end:
                break
    return samples


def joined_samples(files: list[Path]) -> CostSamples:
    """The samples of several files, which are all of this machine."""
    samples = CostSamples(host())
    for file in files:
        with np.load(file, allow_pickle=False) as arrays:
            samples.restore({name: arrays[name] for name in arrays.files})
    return samples


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("measure", "fit"))
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--policy", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="of fit: the policy with its new cost")
    args = parser.parse_args(words)
    policy = read_policy(args.policy)
    if args.what == "measure":
        samples = measure(policy, args.seconds, args.seed)
        file = io.BytesIO()
        np.savez_compressed(file, **samples.arrays())
        args.files[0].write_bytes(file.getvalue())
        print(f"{len(samples)} trees")
        return 0
    samples = joined_samples(args.files)
    cost = samples.fit()
    others = tuple(each for each in policy.costs if each.machine != cost.machine)
    args.out.write_bytes(dump_policy(Policy(policy.space, policy.network, (*others, cost))))
    spread = f"spread {samples.spread:.3f} octaves, error {cost.error:.3f}"
    print(f"{cost.machine}: {len(samples)} trees, {spread}, {args.out.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
