"""The judge of an evaluation: all contestants on one shape, in turns, in one process.

Each tree is compiled anew and its result compared with a reference in float64; runs that warm up
do not count. Kernels are repeated by native code, libraries are called from Python as their users
do. Equal trees are measured once, so that they tie. What a half of the rounds says beside the other
half is the noise.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from benchmarks.tuning.construction import peak_rate
from benchmarks.tuning.native_time import native_turn
from benchmarks.tuning.peers import Arrays, Turn, constructed_turn, python_turn
from benchmarks.tuning.results import Row
from benchmarks.tuning.shapes import AnyShape
from loopwright.faults import FAULTS
from loopwright.machines.host import host
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.loop_tree_text import parse_tree, tree_text
from loopwright.tuning.quick_kernel import compile_tree
from loopwright.tuning.tree_evaluator import example_arrays

__all__ = ["PeakRates", "Peer", "judged_row", "row_text"]

ROUNDS = 6
_TURNS = 4  # of a contestant in a round
_LONGEST = 0.2  # seconds of a turn from which on one of them makes a round

# From a shape and its arrays to a function that gives seconds of a call.
Peer = Callable[[AnyShape, Arrays], Turn]


def judged_row(
    name: str,
    shape: AnyShape,
    trees: Mapping[str, str],
    peers: Mapping[str, Peer],
    peak: float,
    rounds: int = ROUNDS,
) -> Row:
    """The judge's line: seconds of trees (as text, by label), peers and the construction."""
    arrays = example_arrays(shape.tree())
    wanted = shape.reference(arrays)
    turns: dict[str, Turn] = {}
    labels: dict[str, str] = {}  # label -> whose time it has
    known: dict[str, str] = {}
    refused: dict[str, str] = {}

    def enter(label: str, made: Callable[[], Turn]) -> None:
        arrays["out"][...] = -1
        try:
            turn = made()
            turn()
            shape.check(arrays["out"], wanted)
        except (*FAULTS, AssertionError, ImportError) as error:
            refused[label] = f"{type(error).__name__}: {error}"[:200]
        else:
            turns[label] = turn
            labels[label] = label

    for label, text in trees.items():
        tree = parse_tree(text)
        key = tree_text(tree.at(0))
        if key in known:
            labels[label] = known[key]
            continue
        enter(label, lambda tree=tree: _tree_turn(tree, shape, arrays))  # type: ignore[misc]
        if label in labels:
            known[key] = label
    enter("construction", lambda: constructed_turn(shape, arrays))
    for label, peer in peers.items():
        enter(label, lambda peer=peer: peer(shape, arrays))  # type: ignore[misc]
    halves = _raced(turns, rounds)
    best = {label: min(pair) for label, pair in halves.items()}
    noise = sorted(max(pair) / min(pair) - 1 for pair in halves.values())
    return {
        "kind": "judged",
        "set": name,
        "shape": shape.name,
        "operations": shape.operations,
        "peak": peak,
        "times": {label: best[of] for label, of in labels.items() if of in best},
        "refused": refused,
        "noise": [noise[len(noise) // 2], noise[-1]] if noise else [0.0, 0.0],
        "machine": host().name,
        "load": os.getloadavg()[0],
        "when": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()),
    }


def _raced(turns: Mapping[str, Turn], rounds: int) -> dict[str, tuple[float, float]]:
    """The fastest turn of each contestant in the first and in the second half of the rounds."""
    found: dict[str, list[list[float]]] = {label: [[], []] for label in turns}
    for number in range(rounds):
        for label, turn in turns.items():
            half = found[label][2 * number // rounds]
            for _ in range(_TURNS):
                start = time.perf_counter()
                half.append(turn())
                if time.perf_counter() - start > _LONGEST:
                    break
    return {label: (min(a), min(b)) for label, (a, b) in found.items()}


def _tree_turn(tree: LoopTree, shape: AnyShape, arrays: Arrays) -> Turn:
    kernel = compile_tree(tree, host(), shape.threads)
    words = kernel.native(arrays)
    return native_turn(words) if words is not None else python_turn(kernel.call_on(arrays))


class PeakRates(dict[tuple[str, int], float]):
    """Operations a second by type of element and threads, each measured when it is first asked."""

    def __missing__(self, key: tuple[str, int]) -> float:
        dtype, threads = key
        self[key] = threads * peak_rate(dtype)
        return self[key]


def row_text(row: Row) -> str:
    """What a judge's line says, for the one who waits for it."""
    best = sorted(row["times"].items(), key=lambda pair: pair[1])[:3]
    shares = [f"{who} {row['operations'] / t / row['peak']:.3f}" for who, t in best]
    lost = [f"{who} refused: {why}" for who, why in row["refused"].items()]
    return "; ".join([*shares, *lost])
