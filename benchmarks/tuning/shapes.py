"""The shapes that tuning is judged on: LoopTune's held-out products, and sets unlike them.

The split is a shuffle of 13^3 products by `random.Random(0)`, of which the last 440 are tested on
(tuning/training_trees). SPLIT is the hash of both lists: a change of it is a change of the test.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from random import Random

from loopwright.ir.dtypes import DTYPES
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.tensor_nests import contraction_tree_of, matmul_tree
from loopwright.tuning.training_trees import looptune_shapes

__all__ = ["SETS", "SPLIT", "Shape", "held_out_shapes", "shapes_of", "split_hash"]

SPLIT = "d51a9d981ab86722300df4de0a2e1c1f8669d403bb170ef2ad2dda4910659c26"
_TCCG = ("abk,kc->abc", "akb,kc->abc", "abk,bck->ac", "akbl,kcl->abc", "abkl,lkc->abc")


@dataclass(frozen=True, slots=True)
class Shape:
    """An einsum with its sizes, by a name that is unique in its set."""

    name: str
    subscripts: str
    sizes: tuple[tuple[str, int], ...]
    dtype: str = "float32"

    @property
    def operations(self) -> int:
        total = 2
        for _, extent in self.sizes:
            total *= extent
        return total

    def tree(self) -> LoopTree:
        """The naive nest; of products with a write-back, as LoopTune has them."""
        sizes = dict(self.sizes)
        if self.subscripts == "mk,kn->mn" and self.dtype == "float32":
            return matmul_tree(sizes["m"], sizes["n"], sizes["k"])
        return contraction_tree_of(self.subscripts, sizes, DTYPES[self.dtype])


def product_shape(
    m: int, n: int, k: int, subscripts: str = "mk,kn->mn", dtype: str = "float32"
) -> Shape:
    name = f"{m}x{n}x{k}" + ("" if subscripts == "mk,kn->mn" else f" {subscripts}")
    return Shape(name, subscripts, (("m", m), ("n", n), ("k", k)), dtype)


def held_out_shapes() -> tuple[Shape, ...]:
    """LoopTune's 440."""
    return tuple(product_shape(*sides) for sides in looptune_shapes()[1])


def split_hash() -> str:
    """The hash of the 1757 and the 440 shapes, in their order."""
    return hashlib.sha256(repr(looptune_shapes()).encode()).hexdigest()


def _odd() -> tuple[Shape, ...]:
    primes = [p for p in range(61, 252) if all(p % q for q in range(2, 16))]
    random = Random(1)
    return tuple(product_shape(*(random.choice(primes) for _ in range(3))) for _ in range(40))


def _skinny() -> tuple[Shape, ...]:
    shapes = [(m, 1024, 1024) for m in range(1, 9)] + [(1024, n, 1024) for n in range(1, 9)]
    return tuple(product_shape(*sides) for sides in shapes)


def _ranks() -> tuple[Shape, ...]:
    random = Random(2)
    found = []
    for subscripts in _TCCG:
        for _ in range(4):
            letters = sorted(set(subscripts) - set(",->"))
            sizes = tuple((x, random.choice((8, 12, 16, 20, 24, 28, 32))) for x in letters)
            name = f"{subscripts} {' '.join(f'{x}{n}' for x, n in sizes)}"
            found.append(Shape(name, subscripts, sizes))
    return tuple({shape.name: shape for shape in found}.values())


def _transposed() -> tuple[Shape, ...]:
    random = Random(3)
    found = []
    for subscripts in ("km,kn->mn", "mk,nk->mn", "km,nk->mn"):
        for _ in range(8):
            sides = [random.choice(range(64, 257, 16)) for _ in range(3)]
            found.append(product_shape(*sides, subscripts=subscripts))
    return tuple({shape.name: shape for shape in found}.values())


def _doubles() -> tuple[Shape, ...]:
    random = Random(4)
    sides = [[random.choice(range(52, 257, 4)) for _ in range(3)] for _ in range(24)]
    found = [product_shape(*s, dtype="float64") for s in sides]
    return tuple({shape.name: shape for shape in found}.values())


# Sets by name; all but the first are never trained on.
SETS = {
    "looptune": held_out_shapes,
    "odd": _odd,
    "skinny": _skinny,
    "ranks": _ranks,
    "transposed": _transposed,
    "float64": _doubles,
}


def shapes_of(name: str) -> tuple[Shape, ...]:
    return SETS[name]()
