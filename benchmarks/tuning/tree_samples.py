"""Measured samples of loop trees: what cost models are fitted to and judged by.

Trees come in groups, each of one program and one set of sizes: its naive nest, a tiled nest, walks
of random legal actions from both, and walks of the actions of LoopTune. Groups are matrix products
of LoopTune's sizes, odd and skinny ones, transposed operands, contractions of higher rank,
convolutions, and products of other types.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from loopwright.ir.dtypes import FLOAT32, FLOAT64, DType
from loopwright.ir.program import Role
from loopwright.ir.visit import names
from loopwright.tuning.actions import ACTIONS, LOOPTUNE_ACTIONS, act, mask
from loopwright.tuning.loop_tree import LoopTree, TreeLoop, TreeNest, shape_of
from loopwright.tuning.loop_tree_text import parse_tree, tree_text
from loopwright.tuning.quick_code import can_emit
from loopwright.tuning.quick_kernel import compile_tree, seconds_of
from loopwright.tuning.tensor_nests import contraction_tree_of, convolution_tree, matmul_tree

__all__ = ["TreeSample", "group_trees", "measured", "programs", "read_samples", "write_samples"]

LEFT_OUT = ("undo", "stop", "parallel")  # one thread
WORDS = tuple(word for word in ACTIONS if word not in LEFT_OUT)


@dataclass(frozen=True)
class TreeSample:
    """A tree and how long a call of its quick code takes."""

    group: str  # the program and its sizes
    tree: LoopTree
    seconds: float


def programs(random: Random) -> Iterator[tuple[str, LoopTree]]:
    """Programs to draw trees of, without end, with the names of their groups."""
    number = 0
    while True:
        number += 1
        kind = ("matmul", "matmul", "odd", "layout", "matmul", "rank", "skinny", "other")[
            number % 8
        ]
        tree = _program(kind, random)
        sizes = "x".join(str(n) for _, n in tree.nests[0].statement.dims)
        yield f"{number} {kind} {tree.nests[0].statement.write.dtype.name} {sizes}", tree


def _program(kind: str, random: Random) -> LoopTree:
    if kind == "matmul":
        return matmul_tree(*(random.randrange(64, 257, 16) for _ in range(3)))
    if kind == "odd":
        return matmul_tree(*(random.randrange(31, 252) for _ in range(3)))
    if kind == "skinny":
        return matmul_tree(random.randrange(1, 9), random.randrange(32, 400), 1024)
    if kind == "layout":
        text = random.choice(("km,kn->mn", "mk,nk->mn", "km,nk->mn", "mk,kn->nm"))
        return _contraction(text, {d: random.randrange(48, 257, 8) for d in "mkn"})
    if kind == "rank":
        text, least, most = random.choice(
            (("bmk,bkn->bmn", 12, 65), ("abc,cde->abde", 8, 33), ("acb,cd->abd", 16, 81))
        )
        letters = sorted(set(text) - set(",->"))
        return _contraction(text, {d: random.randrange(least, most, 4) for d in letters})
    if random.random() < 0.5:
        shape = (random.choice((8, 16, 32)), random.randrange(14, 29), random.randrange(14, 29))
        return convolution_tree(shape, (random.choice((16, 32)), random.choice((1, 3))))
    return matmul_tree(*(random.randrange(32, 193, 4) for _ in range(3)), FLOAT64)


def _contraction(text: str, sizes: dict[str, int], dtype: DType = FLOAT32) -> LoopTree:
    return contraction_tree_of(text, sizes, dtype, writes=True)


def tiled_tree(tree: LoopTree, random: Random) -> LoopTree:
    """The first nest with a tile of two written dimensions inside the sums, of random sizes."""
    nest = tree.nests[0]
    dims = dict(nest.statement.dims)
    write = nest.statement.write.index
    last = sorted(names(write[-1]))[-1]
    others = [d for d in dims if d not in nest.statement.reduced and d != last]
    second = random.choice(others) if others else None
    wide = random.choice((4, 8, 16, 32))
    high = random.choice((2, 4, 6, 8))
    sizes = {d: n for d, n in ((last, wide), (second, high)) if d and n <= dims[d]}
    outer = [d for d in dims if d not in nest.statement.reduced]
    loops = [_outer(d, dims[d], sizes.get(d, 1)) for d in outer]
    loops += [TreeLoop(d, dims[d]) for d in nest.statement.reduced]
    loops += [TreeLoop(d, sizes[d]) for d in (second, last) if d in sizes]
    changed = TreeNest(nest.statement, tuple(loops))
    return LoopTree(tree.name, tree.arrays, (changed, *tree.nests[1:]), tree.reassoc)


def _outer(dim: str, extent: int, inner: int) -> TreeLoop:
    return TreeLoop(dim, extent // inner, extent % inner)


def group_trees(tree: LoopTree, random: Random, count: int) -> list[LoopTree]:
    """`count` different trees of a program, without regard to the cursor."""
    found: dict[Any, LoopTree] = {}
    starts = [tree, tiled_tree(tree, random)]
    for attempt in range(20 * count):
        if len(found) >= count:
            break
        if attempt < len(starts):
            drawn = starts[attempt]
        elif attempt % 4 == 0:
            drawn = walked(tree, random, random.randrange(3, 11), LOOPTUNE_ACTIONS)
        elif attempt % 4 == 1:
            drawn = walked(tree, random, random.randrange(3, 13), WORDS)
        else:
            drawn = walked(tiled_tree(tree, random), random, random.randrange(0, 7), WORDS)
        if can_emit(drawn):
            found.setdefault(drawn.nests, drawn)
    return list(found.values())


def walked(tree: LoopTree, random: Random, steps: int, words: tuple[str, ...]) -> LoopTree:
    """The tree after random legal actions; groups of words are equally likely."""
    tree = tree.at(random.randrange(tree.count))
    for _ in range(steps):
        possible = [w for w, ok in zip(words, mask(tree, words), strict=True) if ok]
        kinds = sorted({w.split("_")[0] for w in possible})
        if not kinds:
            break
        kind = random.choice(kinds)
        tree = act(tree, random.choice([w for w in possible if w.split("_")[0] == kind]))
    return tree


def measured(tree: LoopTree, rounds: int = 3, seconds: float = 0.004) -> float:
    """Seconds of a call of quick code: the fastest of several rounds, by the thread's clock."""
    random = np.random.default_rng(0)
    arrays = {
        a.name: random.random(shape_of(a)).astype(a.dtype.numpy)
        for a in tree.arrays
        if a.role is not Role.LOCAL
    }
    call = compile_tree(tree).call_on(arrays)
    return min(
        seconds_of(call, least_seconds=seconds, clock=time.thread_time) for _ in range(rounds)
    )


def collect(path: Path, seed: int, budget: float, count: int) -> None:
    """Append samples to a file until `budget` seconds have gone."""
    random = Random(seed)
    end = time.monotonic() + budget
    for group, tree in programs(random):
        found = []
        for drawn in group_trees(tree, random, count):
            if time.monotonic() > end:
                return
            found.append(TreeSample(f"{seed} {group}", drawn, measured(drawn)))
        write_samples(path, found)


def write_samples(path: Path, samples: list[TreeSample]) -> None:
    """Append samples as lines of JSON."""
    with path.open("a", encoding="utf-8") as file:
        for sample in samples:
            row = {
                "group": sample.group,
                "tree": tree_text(sample.tree),
                "seconds": sample.seconds,
            }
            file.write(json.dumps(row) + "\n")


def read_samples(path: Path) -> list[TreeSample]:
    """The samples of a file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [TreeSample(r["group"], parse_tree(r["tree"]), r["seconds"]) for r in rows]
