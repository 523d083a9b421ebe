"""The shapes that tuning is judged on: LoopTune's held-out products, and sets unlike them.

The split is a shuffle of 13^3 products by `random.Random(0)`, of which the last 440 are tested on
(tuning/training_trees). SPLIT is the hash of both lists: a change of it is a change of the test.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from random import Random
from typing import Any, TypeAlias

import numpy as np

from benchmarks.measure import check_close
from loopwright.ir.dtypes import DTYPES
from loopwright.tuning.loop_tree import LoopTree
from loopwright.tuning.tensor_nests import contraction_tree_of, convolution_tree, matmul_tree
from loopwright.tuning.training_trees import looptune_shapes

__all__ = [
    "SETS", "SPLIT", "AnyShape", "Convolution", "Shape", "held_out_shapes", "shapes_of",
    "split_hash",
]  # fmt: skip

SPLIT = "d51a9d981ab86722300df4de0a2e1c1f8669d403bb170ef2ad2dda4910659c26"
_TCCG = ("abk,kc->abc", "akb,kc->abc", "abk,bck->ac", "akbl,kcl->abc", "abkl,lkc->abc")


@dataclass(frozen=True, slots=True)
class Shape:
    """An einsum with its sizes, by a name that is unique in its set."""

    name: str
    subscripts: str
    sizes: tuple[tuple[str, int], ...]
    dtype: str = "float32"
    threads: int = 1

    @property
    def operations(self) -> int:
        return 2 * prod(extent for _, extent in self.sizes)

    def tree(self) -> LoopTree:
        """The naive nest; of products with a write-back, as LoopTune has them."""
        sizes = dict(self.sizes)
        if self.subscripts == "mk,kn->mn" and self.dtype == "float32":
            return matmul_tree(sizes["m"], sizes["n"], sizes["k"])
        return contraction_tree_of(self.subscripts, sizes, DTYPES[self.dtype])

    def reference(self, arrays: Mapping[str, Any]) -> Any:
        """The result in float64."""
        wide = [arrays[name].astype(np.float64) for name in ("A", "B")]
        return np.einsum(self.subscripts, *wide, optimize=True)

    def check(self, result: Any, wanted: Any) -> None:
        """Raise where a result differs from the reference by more than rounding."""
        kept = self.subscripts.partition("->")[2]
        check_close(result, wanted, prod(n for name, n in self.sizes if name not in kept))


@dataclass(frozen=True, slots=True)
class Convolution:
    """`out[o, i, j] = sum of A[c, i*stride + p, j*stride + q] * B[o, c, p, q]`."""

    channels: int
    outputs: int
    side: int  # of the result
    window: int
    stride: int = 1
    dtype: str = "float32"
    threads: int = 1

    @property
    def name(self) -> str:
        step = "" if self.stride == 1 else f" by {self.stride}"
        pixels = f"{self.side}x{self.side}, window {self.window}{step}"
        return f"{self.channels} to {self.outputs}, {pixels}"

    @property
    def operations(self) -> int:
        return 2 * self.channels * self.outputs * (self.side * self.window) ** 2

    @property
    def source_side(self) -> int:
        return (self.side - 1) * self.stride + self.window

    def tree(self) -> LoopTree:
        shape = (self.channels, self.source_side, self.source_side)
        return convolution_tree(shape, (self.outputs, self.window), self.stride)

    def reference(self, arrays: Mapping[str, Any]) -> Any:
        wide = {name: arrays[name].astype(np.float64) for name in ("A", "B")}
        return self.by_numpy(wide["A"], wide["B"])

    def by_numpy(self, source: Any, kernel: Any) -> Any:
        """NumPy's way: windows as a view, one contraction."""
        windows = np.lib.stride_tricks.sliding_window_view(source, (self.window,) * 2, (1, 2))
        windows = windows[:, :: self.stride, :: self.stride]
        return np.tensordot(kernel, windows, axes=((1, 2, 3), (0, 3, 4)))

    def check(self, result: Any, wanted: Any) -> None:
        check_close(result, wanted, self.channels * self.window**2)


AnyShape: TypeAlias = Shape | Convolution


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


def _halves() -> tuple[Shape, ...]:
    """Products whose trees sum in float16; the construction and NumPy have their own sums."""
    return tuple(replace(shape, dtype="float16") for shape in _doubles())


def _two_threads() -> tuple[Shape, ...]:
    random = Random(5)
    sides = [[random.choice(range(64, 513, 16)) for _ in range(3)] for _ in range(24)]
    return tuple(
        {s.name: s for s in (replace(product_shape(*x), threads=2) for x in sides)}.values()
    )


def _convolutions() -> tuple[Convolution, ...]:
    random = Random(6)
    found = []
    for window, stride in ((1, 1), (3, 1), (3, 2), (5, 1)):
        for _ in range(6):
            channels, outputs = (random.choice((8, 16, 24, 32, 48, 64)) for _ in range(2))
            side = random.choice((14, 16, 20, 28, 32))
            found.append(Convolution(channels, outputs, side, window, stride))
    return tuple({shape.name: shape for shape in found}.values())


# Sets by name; all but the first are never trained on.
SETS: Mapping[str, Callable[[], tuple[AnyShape, ...]]] = {
    "looptune": held_out_shapes,
    "odd": _odd,
    "skinny": _skinny,
    "ranks": _ranks,
    "transposed": _transposed,
    "float64": _doubles,
    "float16": _halves,
    "threads": _two_threads,
    "convolution": _convolutions,
}


def shapes_of(name: str) -> tuple[AnyShape, ...]:
    return SETS[name]()
