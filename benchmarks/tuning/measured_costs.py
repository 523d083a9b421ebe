"""Measured trees of this machine, for the learned cost of a policy; samples of several processes.

    python -m benchmarks.tuning.measured_costs measure SAMPLES.npz --policy POLICY.npz --seconds 60
    python -m benchmarks.tuning.measured_costs fit SAMPLES.npz ... --policy POLICY.npz --out NEW.npz
    python -m benchmarks.tuning.measured_costs rank ROWS.jsonl.gz --policy POLICY.npz

`measure` takes products to train on (never those of tests): trees that searches come to, and trees
of random walks. `fit` writes the policy with a cost of this machine fitted to all samples
in place of the one it had. `rank` tells how the closed form and the policy's cost rank the trees of
products that `benchmarks.tuning.evaluation` has judged, which are those of tests.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import sys
import time
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np

from loopwright.machines import load_machine
from loopwright.machines.host import host
from loopwright.machines.identify import CpuIdentity, nearest_machine
from loopwright.tuning.environment import after_random_actions
from loopwright.tuning.learned_cost import CostSamples
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.loop_tree_text import parse_tree
from loopwright.tuning.policy import Policy, dump_policy, read_policy
from loopwright.tuning.policy_search import policy_search
from loopwright.tuning.searches import Budget, SearchRun
from loopwright.tuning.tree_construction import constructed_tree
from loopwright.tuning.tree_cost import predict_seconds
from loopwright.tuning.tree_evaluator import TreeClock, code_key
from loopwright.tuning.tree_search import search_trees

__all__ = ["joined_samples", "main", "measure", "ranked"]

_FIRST = 32  # trees before are those that a training judges itself by
_MEASURED = 16  # trees of a product that each search measures
_WALKS = 3  # walks from each start
_ALIKE = 0.02  # log of the ratio of times that no order is asked of


def measure(policy: Policy, seconds: float, seed: int) -> CostSamples:
    """Samples of this machine.

    Of each product in turn: the trees that a search led by the policy measures, those that an
    evolution on the closed form does, and random walks. So both what a policy comes to and what
    it does not come to yet are among them.
    """
    machine = host()
    samples, clock, random = CostSamples(machine), TreeClock(machine, seconds=0.003), Random(seed)
    space = policy.space
    rules = space.rules(lambda tree: 1.0, machine)
    trees = space.trees()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        number = random.randrange(_FIRST, len(trees))
        naive = trees[number]

        def timed(tree: LoopTree, group: str = str(number)) -> float:
            found = clock(tree)
            samples.add(tree, found, group)
            return found

        def budget() -> Budget:
            return Budget(seconds=max(0.0, end - time.monotonic()), measurements=_MEASURED)

        times: dict[object, float] = {}
        policy_search(SearchRun(timed, budget(), times), naive, policy, machine)
        start = space.start(naive, machine)
        given = {"actions": space.actions, "steps": space.steps, "seed": number, "times": times}
        search_trees("evolution", start, timed, budget(), **given)
        for begin in (start, start, constructed_tree(naive, machine)) * _WALKS:
            if time.monotonic() > end:
                break
            timed(after_random_actions(begin, rules, random, 2 * space.steps))
    return samples


def joined_samples(files: list[Path]) -> CostSamples:
    """The samples of several files, which are all of this machine."""
    samples = CostSamples(host())
    for file in files:
        with np.load(file, allow_pickle=False) as arrays:
            samples.restore({name: arrays[name] for name in arrays.files})
    return samples


def ranked(file: Path, policy: Policy) -> str:
    """Pairwise accuracy and regret of the closed form and of a policy's cost, of judged trees."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row.get("set") == "looptune"]
    (name,) = {row["machine"] for row in rows}
    machine = load_machine(name)
    for cost in policy.costs:
        if nearest_machine(CpuIdentity(machine.isa, cost.machine, machine.features)) == name:
            machine = replace(machine, llvm_cpu=cost.machine, frequency_hz=None)
    known = {
        (row["shape"], f"{row['who']} {row['budget']:g} s".removesuffix(" 0 s")): row["tree"]
        for row in rows
        if row["kind"] == "attempt" and row["tree"]
    }
    groups = []
    judged = {row["shape"]: row["times"] for row in rows if row["kind"] == "judged"}
    for shape, each in judged.items():
        times: dict[object, tuple[LoopTree, float]] = {}
        for who, seconds in each.items():
            text = known.get((shape, who))
            if text is not None:
                tree = parse_tree(text)
                times.setdefault(code_key(tree, machine), (tree, seconds))
        if len(times) > 1:
            groups.append(list(times.values()))
    told = [f"{name}: {sum(map(len, groups))} trees in {len(groups)} groups"]
    for label, price in (
        ("closed form", lambda trees: [predict_seconds(tree, machine) for tree in trees]),
        ("learned", policy.price(machine)),
    ):
        right, regrets = [], []
        for group in groups:
            trees, seconds = zip(*group, strict=True)
            costs = np.asarray(price(trees))
            regrets.append(seconds[int(costs.argmin())] / min(seconds) - 1)
            for a, b in combinations(range(len(group)), 2):
                if abs(np.log(seconds[a] / seconds[b])) > _ALIKE:
                    right.append((costs[a] < costs[b]) == (seconds[a] < seconds[b]))
        found = f"pairwise {np.mean(right):.3f}, regret {np.mean(regrets):.1%}"
        told.append(f"{label}: {found} (worst {max(regrets):.0%})")
    return "\n".join(told)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("measure", "fit", "rank"))
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--policy", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="of fit: the policy with its new cost")
    args = parser.parse_args(words)
    policy = read_policy(args.policy)
    if args.what == "rank":
        print(ranked(args.files[0], policy))
        return 0
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
