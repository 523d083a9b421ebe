"""Trees to test with: every kind of nest at small sizes, and what NumPy says of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from loopwright.ir.dtypes import DTYPES
from loopwright.ir.expr import Binary, Const, Var
from loopwright.ir.program import Role
from loopwright.tuning.actions import ACTIONS, act, mask
from loopwright.tuning.loop_tree import LoopTree, shape_of
from loopwright.tuning.tensor_nests import (
    ELEMENT,
    concatenation_tree,
    contraction_tree_of,
    convolution_tree,
    elementwise_tree,
    matmul_tree,
    pooling_tree,
    transposition_tree,
)

Arrays = dict[str, np.ndarray[Any, Any]]
SIZES = (1, 2, 3, 5, 7, 8, 11, 12, 13)


@dataclass(frozen=True)
class Case:
    """A tree and its result by NumPy."""

    tree: LoopTree
    result: Callable[[Arrays], Any]

    def arrays(self, seed: int) -> Arrays:
        """Operands of small whole numbers, whose sums are exact in any order, and a result."""
        return arrays_of(self.tree, seed)


def arrays_of(tree: LoopTree, seed: int) -> Arrays:
    random = np.random.default_rng(seed)
    found: Arrays = {}
    for array in tree.arrays:
        shape = shape_of(array)
        if array.role is Role.IN:
            found[array.name] = random.integers(-3, 4, shape).astype(array.dtype.numpy)
        elif array.role is Role.OUT:
            found[array.name] = np.full(shape, 99, dtype=array.dtype.numpy)
    return found


def drawn_case(random: Random, *, reassoc: bool = True, kinds: str = "mcbepvtosi") -> Case:
    """One of the kinds of nests, with sizes drawn at random."""

    def size(most: int = 13) -> int:
        return random.choice([n for n in SIZES if n <= most])

    f32, f64 = DTYPES["float32"], DTYPES["float64"]
    match random.choice(kinds):
        case "m":
            tree = matmul_tree(
                size(), size(), size(), reassoc=reassoc, writes=random.random() < 0.5
            )
            return Case(tree, lambda a: a["A"] @ a["B"])
        case "c":
            sizes = {c: size(5) for c in "abijk"}
            tree = contraction_tree_of("kai,bjk->aibj", sizes, f64, reassoc=reassoc)
            return Case(tree, lambda a: np.einsum("kai,bjk->aibj", a["A"], a["B"]))
        case "b":
            sizes = {c: size(7) for c in "bik"}
            tree = contraction_tree_of("bik,bk->bi", sizes, f32, reassoc=reassoc)
            return Case(tree, lambda a: np.einsum("bik,bk->bi", a["A"], a["B"]))
        case "e":
            x, y = Var("X", f32), Var("Y", f32)
            value = Binary("max", Binary("add", x, y), Const(0, f32))
            tree = elementwise_tree((size(), size()), value, {"X": "ij", "Y": "j"})
            return Case(tree, lambda a: np.maximum(a["X"] + a["Y"], 0))
        case "p":
            window = random.choice((1, 2, 3))
            shape = (size(3), window + size(5), window + size(8))
            tree = pooling_tree(shape, window, 2)
            return Case(tree, lambda a: _pooled(a["A"], window, 2))
        case "v":
            side = random.choice((1, 3))
            shape = (size(3), side + size(3), side + size(8))
            tree = convolution_tree(shape, (size(5), side), reassoc=reassoc)
            return Case(tree, lambda a: _convolved(a["A"], a["B"]))
        case "t":
            tree = transposition_tree((size(), size(5), size()), (2, 0, 1), f64)
            return Case(tree, lambda a: a["A"].transpose(2, 0, 1))
        case "o":
            tree = concatenation_tree((size(), size()), size())
            return Case(tree, lambda a: np.concatenate([a["A"], a["B"]]))
        case "s":
            sizes = {c: size(8) for c in "ijk"}
            element = Var(ELEMENT, f32)
            squared, clipped = Binary("mul", element, element), element.max(Const(0, f32))
            tree = contraction_tree_of(
                "ik,kj->ij", sizes, f32, before=(squared,), after=clipped, reassoc=reassoc
            )
            return Case(tree, lambda a: np.maximum((a["A"] ** 2) @ a["B"], 0))
        case "i":
            sizes = {c: size() for c in "ijk"}
            tree = contraction_tree_of(
                "ki,jk->ij", sizes, DTYPES["int32"], plus="min", times="add", reassoc=False
            )
            return Case(tree, lambda a: (a["A"][:, :, None] + a["B"].T[:, None, :]).min(axis=0))
    raise AssertionError


def _pooled(source: Any, window: int, stride: int) -> Any:
    view = np.lib.stride_tricks.sliding_window_view(source, (window, window), axis=(1, 2))
    return view[:, ::stride, ::stride].max(axis=(3, 4))


def _convolved(source: Any, filters: Any) -> Any:
    side = filters.shape[-1]
    view = np.lib.stride_tricks.sliding_window_view(source, (side, side), axis=(1, 2))
    return np.einsum("cijpq,ocpq->oij", view, filters)


def wandered(tree: LoopTree, random: Random, steps: int) -> LoopTree:
    """The tree after legal actions drawn at random."""
    words = [a for a in ACTIONS if a not in ("undo", "stop")]
    for _ in range(steps):
        # Groups first: ten words of splits would crowd out the others.
        possible = [w for w, ok in zip(words, mask(tree, words), strict=True) if ok]
        groups = sorted({w.split("_")[0] for w in possible})
        if not groups:
            break
        group = random.choice(groups)
        tree = act(tree, random.choice([w for w in possible if w.split("_")[0] == group]))
    return tree
