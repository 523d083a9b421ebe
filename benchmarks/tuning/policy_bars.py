"""The bars of the learned policy: against searches of 60 s in a hundredth, of 1 s in equal time.

    python -m benchmarks.tuning.policy_bars search ROWS.jsonl --seconds 60 --jobs 14 --minutes 8
    python -m benchmarks.tuning.policy_bars judge ROWS.jsonl POLICY.npz ... --jobs 1

LoopTune's space from the naive nest, float32, one thread, the 440 products of tests or a random
part of them. `search` appends what each search found, as a line of JSON with its path of actions;
lines of `benchmarks.tuning.evaluation` are understood too. `judge` (of a compressed file as well)
lets policies choose (no tree is run), search for 0.6 s and for 1 s, and times all trees of a
product in turns, fastest run of each.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks.tuning.pinning import one_processor_a_core, pin_next
from loopwright.machines.host import host
from loopwright.tuning.actions import act
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.policy import read_policy
from loopwright.tuning.policy_search import policy_search
from loopwright.tuning.quick_kernel import compile_tree, seconds_of
from loopwright.tuning.searches import Budget, SearchRun
from loopwright.tuning.tensor_nests import matmul_tree
from loopwright.tuning.training_trees import looptune_shapes
from loopwright.tuning.tree_cost import model_of
from loopwright.tuning.tree_evaluator import TreeClock, code_key, example_arrays
from loopwright.tuning.tree_search import SEARCHES, search_trees

__all__ = ["bars", "judged", "main", "tree_of"]

_ROUNDS = 7
_WARM_UP = 20
_SHORT, _EQUAL = 0.6, 1.0  # seconds of the policy's searches: a hundredth of 60, and 1
# Beside other work, runs and budgets are of processor time.
_CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.thread_time}
_BUDGETS: dict[str, Callable[[], float]] = {"wall": time.monotonic, "cpu": time.process_time}


@dataclass(frozen=True)
class Searching:
    """What a search may spend."""

    seconds: float
    clock: str  # of _CLOCKS


# Searches that use up 60 s are begun first, so that all processes come to their ends together.
_LONGEST = sorted(SEARCHES, key=lambda name: name not in ("random", "evolution", "beam4dfs"))


def drawn(count: int) -> list[tuple[int, int, int]]:
    """Products of tests, so many drawn by a seed; those of the evaluation."""
    return Random(0).sample(looptune_shapes()[1], count)


def name_of(sides: tuple[int, int, int]) -> str:
    return "x".join(map(str, sides))


def tree_of(shape: str, path: str | list[str]) -> LoopTree:
    """The tree that a path of actions leads to from the naive nest of a product."""
    tree = matmul_tree(*map(int, shape.split("x")))
    for word in path.split() if isinstance(path, str) else path:
        tree = act(tree, word)
    return tree


def search(
    file: Path,
    shapes: list[tuple[int, int, int]],
    names: list[str],
    how: Searching,
    jobs: int,
    minutes: float,
) -> None:
    """Append what searches find where the file has no line yet, the longest first.

    With several jobs each process has a processor of its own. Nothing is begun that would not be
    over after so many minutes; the next call goes on.
    """
    known = {(r["shape"], r["who"], r["budget"]) for r in read(file)} if file.exists() else set()
    wanted = [
        (name_of(sides), who) for who in sorted(names, key=_LONGEST.index) for sides in shapes
    ]
    wanted = [pair for pair in wanted if (*pair, how.seconds) not in known]
    end = time.monotonic() + 60 * minutes - how.seconds
    with file.open("a", encoding="utf-8") as out, _pool(jobs) as pool:
        running: set[Future[dict[str, Any]]] = set()
        while wanted or running:
            while wanted and len(running) < jobs and time.monotonic() < end:
                running.add(pool.submit(_attempt, *wanted.pop(0), how))
            if not running:
                break
            over, running = wait(running, return_when=FIRST_COMPLETED)
            for each in over:
                out.write(json.dumps(each.result()) + "\n")
                out.flush()
    if wanted:
        print(f"{len(wanted)} searches are left")


def _attempt(shape: str, who: str, how: Searching) -> dict[str, Any]:
    """What one search finds on one product."""
    timer = TreeClock(host(), clock=_CLOCKS[how.clock])
    start, budget = tree_of(shape, ""), Budget(seconds=how.seconds)
    found = search_trees(who, start, timer, budget, clock=_BUDGETS[how.clock])
    row = {"kind": "attempt", "set": "looptune", "shape": shape, "who": who}
    row |= {"budget": how.seconds, "path": " ".join(found.path), "ended_by": found.ended_by}
    row |= {"spent": found.trace[-1].seconds, "measurements": found.measurements}
    return row | {"machine": host().name}


def _pool(jobs: int) -> ProcessPoolExecutor:
    """Processes that are pinned, to a core each where there are enough, else to a processor."""
    cores = one_processor_a_core()
    if jobs > len(cores) and hasattr(os, "sched_getaffinity"):
        cores = sorted(os.sched_getaffinity(0))
    context = get_context("spawn")
    given = context.Value("i", 0), cores if jobs > 1 else []
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=pin_next, initargs=given)


def read(file: Path) -> list[dict[str, Any]]:
    """The attempts of searches in LoopTune's set; a file may be compressed."""
    data = file.read_bytes()
    text = (gzip.decompress(data) if file.suffix == ".gz" else data).decode()
    rows = [json.loads(line) for line in text.splitlines() if line]
    return [r for r in rows if r.get("kind") == "attempt" and r["set"] == "looptune"]


def judged(
    shape: str, rows: list[dict[str, Any]], policies: dict[str, str], clock: str
) -> dict[str, Any]:
    """Seconds of each contestant's tree, and how long policies took."""
    machine, timer = host(), _CLOCKS[clock]
    naive = tree_of(shape, "")
    trees = {"naive": naive}
    for row in rows:
        if row["who"] in SEARCHES:
            trees[f"{row['who']} {row['budget']:g} s"] = tree_of(shape, row["path"])
    spent = {}
    for name, file in policies.items():
        policy = read_policy(file)
        policy.tree(matmul_tree(64, 64, 80), machine)  # what is loaded once is no part of it
        model_of(machine).forget()  # a policy's time is that of a program nobody has seen
        start = _BUDGETS[clock]()
        trees[name] = policy.tree(tree_of(shape, ""), machine)
        spent[name] = _BUDGETS[clock]() - start
        for budget in (_SHORT, _EQUAL):
            model_of(machine).forget()
            clocks = TreeClock(machine, clock=timer), Budget(seconds=budget)
            run = SearchRun(*clocks, clock=_BUDGETS[clock])
            label = f"{name} {budget:g} s"
            found = policy_search(run, tree_of(shape, ""), policy, machine)
            trees[label], spent[label] = found.tree, found.trace[-1].seconds
    return {"shape": shape, "spent": spent, "times": _times(trees, timer)}


def _times(trees: dict[str, LoopTree], timer: Callable[[], float]) -> dict[str, float]:
    """The fastest run of each tree, all in turns; trees with the same code tie."""
    machine = host()
    codes: dict[object, str] = {}
    whose = {name: codes.setdefault(code_key(t, machine), name) for name, t in trees.items()}
    arrays = example_arrays(trees["naive"])
    wanted = arrays["A"].astype(np.float64) @ arrays["B"].astype(np.float64)
    calls = {}
    for name in codes.values():
        calls[name] = compile_tree(trees[name], machine).call_on(arrays)
        arrays["out"][...] = -1
        calls[name]()
        assert np.allclose(arrays["out"], wanted, rtol=1e-4), f"{name} is wrong"
    best = dict.fromkeys(calls, float("inf"))
    for number in range(_ROUNDS):
        for name, call in calls.items():
            warm = _WARM_UP if number == 0 else 1
            taken = seconds_of(call, warm_up=warm, least_seconds=0.004, clock=timer)
            best[name] = min(best[name], taken)
    return {name: best[whose[name]] for name in trees}


def bars(found: list[dict[str, Any]], names: list[str]) -> str:
    """What both bars say of each policy."""
    lines = []
    for name in names:
        for label in (name, f"{name} {_SHORT:g} s", f"{name} {_EQUAL:g} s"):
            cells = [f"{label:16s}"]
            gains = [t["times"]["naive"] / t["times"][label] for t in found]
            cells.append(f"{np.exp(np.mean(np.log(gains))):.2f} of naive (least {min(gains):.2f})")
            for budget in ("60", "1"):
                ratios = _ratios(found, label, f" {budget} s")
                if not ratios:
                    continue
                mean, least = np.exp(np.mean(np.log(ratios))), min(ratios)
                share = np.mean([r >= 0.98 if budget == "60" else r > 1 for r in ratios])
                words = "within 2% of" if budget == "60" else "above"
                told = f"{words} the best {budget} s search on {share:.0%} of {len(ratios)}"
                cells.append(f"{told} ({mean:.3f} of it, least {least:.3f})")
            taken = [t["spent"][label] for t in found]
            cells.append(f"{1e3 * float(np.median(taken)):.1f} ms, at most {1e3 * max(taken):.1f}")
            lines.append("; ".join(cells))
    return "\n".join(lines)


def _ratios(found: list[dict[str, Any]], label: str, end: str) -> list[float]:
    """Of each shape, the time of the best search of a budget over a policy's."""
    ratios = []
    for each in found:
        own = [
            t
            for who, t in each["times"].items()
            if who.endswith(end) and who.removesuffix(end) in SEARCHES
        ]
        if own:
            ratios.append(min(own) / each["times"][label])
    return ratios


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("search", "judge"))
    parser.add_argument("file", type=Path)
    parser.add_argument("policies", nargs="*", help="of judge: files of weights")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--skip", type=int, default=0, help="shapes before the first")
    parser.add_argument("--seconds", type=float, default=1.0, help="of search")
    parser.add_argument("--searches", nargs="*", default=[s for s in SEARCHES if s != "exhaustive"])
    parser.add_argument("--jobs", type=int, default=1, help="pinned processes at once")
    parser.add_argument("--minutes", type=float, default=1e9, help="of search: ends by then")
    parser.add_argument("--clock", choices=list(_CLOCKS), default="wall")
    parser.add_argument("--out", type=Path, help="of judge: all figures as JSON")
    args = parser.parse_args(words)
    if args.what == "search":
        shapes = drawn(40)[args.skip : args.skip + args.count]
        how = Searching(args.seconds, args.clock)
        search(args.file, shapes, args.searches, how, args.jobs, args.minutes)
        return 0
    rows = read(args.file)
    shapes = list(dict.fromkeys(row["shape"] for row in rows))[args.skip : args.skip + args.count]
    of_shape = [[row for row in rows if row["shape"] == shape] for shape in shapes]
    policies = {f"p{number}": file for number, file in enumerate(args.policies)}
    one = partial(judged, policies=policies, clock=args.clock)
    if args.jobs == 1:
        found = [one(*pair) for pair in zip(shapes, of_shape, strict=True)]
    else:
        with _pool(args.jobs) as pool:
            found = list(pool.map(one, shapes, of_shape))
    if args.out:
        args.out.write_text(json.dumps(found), encoding="utf-8")
    print(f"{host().name}, {len(found)} products; policies {policies}")
    print(bars(found, list(policies)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
