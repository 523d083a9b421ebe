"""The contractions that agents train on and are tested on, and rules by name.

LoopTune's data are 13^3 = 2197 matrix products with sides 64, 80, ..., 256. Its split was drawn
without a seed; ours shuffles with Random(0) and keeps the last 440 for tests.
"""

from __future__ import annotations

from functools import cache, partial
from random import Random
from typing import Any

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.machine import Machine
from loopwright.memo import BoundedCache
from loopwright.tuning.environment import EpisodeRules, GeneralRules, LoopTuneRules
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.tensor_nests import contraction_tree_of, matmul_tree
from loopwright.tuning.tree_cost import predict_seconds
from loopwright.tuning.tree_evaluator import Evaluate, RememberedTimes, TreeClock
from loopwright.tuning.tree_facts import peak_per_second
from loopwright.tuning.tree_observation import Strides

__all__ = [
    "evaluator",
    "general_rules",
    "held_out_trees",
    "looptune_rules",
    "looptune_shapes",
    "mixed_trees",
    "training_trees",
]

_SIDES = range(64, 257, 16)
_TESTED = 440
_MOST_TIMES = 200_000


@cache
def looptune_shapes() -> tuple[tuple[tuple[int, int, int], ...], tuple[tuple[int, int, int], ...]]:
    """(m, n, k) of the 1757 products to train on and the 440 to test on."""
    shapes = [(m, n, k) for m in _SIDES for n in _SIDES for k in _SIDES]
    Random(0).shuffle(shapes)
    return tuple(shapes[:-_TESTED]), tuple(shapes[-_TESTED:])


@cache
def training_trees() -> tuple[LoopTree, ...]:
    """LoopTune's products to train on, as trees with a write-back nest."""
    return tuple(matmul_tree(*shape) for shape in looptune_shapes()[0])


@cache
def held_out_trees() -> tuple[LoopTree, ...]:
    """LoopTune's products to test on."""
    return tuple(matmul_tree(*shape) for shape in looptune_shapes()[1])


@cache
def mixed_trees(count: int = 600, seed: int = 0) -> tuple[LoopTree, ...]:
    """Contractions of many kinds: odd and skinny sides, other layouts, batches, higher ranks.

    Work lies between 2^15 and 2^26 operations, so that one runs in milliseconds.
    """
    random = Random(seed)
    kinds = ("mk,kn->mn", "mk,nk->mn", "km,kn->mn", "bmk,bkn->bmn", "amk,kn->amn", "mkl,lkn->mn")
    found: list[LoopTree] = []
    while len(found) < count:
        text = random.choice(kinds)
        letters = sorted(set(text) - set(",->"))
        sizes = {c: _side(random, small=c in "abl") for c in letters}
        dtype = DTYPES[random.choice(("float32", "float32", "float32", "float64"))]
        tree = contraction_tree_of(text, sizes, dtype)
        if 1 << 15 <= tree.operations <= 1 << 26:
            found.append(tree)
    return tuple(found)


def _side(random: Random, *, small: bool) -> int:
    if small:
        return random.randrange(1, 17)
    match random.randrange(4):
        case 0:
            return random.randrange(1, 17)
        case 1:
            return 16 * random.randrange(1, 17)
        case 2:
            return random.randrange(17, 300)
    return random.choice((128, 256, 512, 1024))


# -- times and rules ------------------------------------------------------------------------------

_shared_times: dict[tuple[str, int], dict[object, float]] = {}


def evaluator(by: str | Evaluate, machine: Machine, threads: int = 1) -> Evaluate:
    """Seconds of trees: by the closed-form model, by measurement, or as a function gives them.

    Measured times are shared by all that ask in this process.
    """
    if callable(by):
        return RememberedTimes(by)
    match by:
        case "model":
            return RememberedTimes(partial(predict_seconds, machine=machine, threads=threads))
        case "measured":
            key = machine.content_hash, threads
            times = _shared_times.setdefault(key, BoundedCache(_MOST_TIMES))
            return RememberedTimes(TreeClock(machine, threads=threads), times)
    raise UsageError(
        "unknown evaluator", found=repr(by)[:60], hint="'model', 'measured', or a function"
    )


def looptune_rules(
    by: str | Evaluate, machine: Machine, strides: str = "counts", **options: Any
) -> EpisodeRules:
    """The rules of LoopTune's environment; `strides="shares"` as in its code."""
    if strides not in {kind.value for kind in Strides}:
        raise UsageError("unknown strides", found=repr(strides)[:60], hint="'counts', 'shares'")
    peak = peak_per_second(training_trees()[0], machine)
    return LoopTuneRules(evaluator(by, machine), peak, Strides(strides), **options)


def general_rules(
    by: str | Evaluate, machine: Machine, threads: int = 1, **options: Any
) -> EpisodeRules:
    """The rules with all actions."""
    return GeneralRules(evaluator(by, machine, threads), machine, threads, **options)
