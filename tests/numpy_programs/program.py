"""What a program of this folder is: a function, its arguments at three sizes, and its slack."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, TypeAlias

import numpy as np

__all__ = ["SIZES", "Program", "Random"]

SIZES = ("S", "M", "L")  # for tests; for times; for times beyond the caches
Random: TypeAlias = np.random.Generator


@dataclass(frozen=True)
class Program:
    """A NumPy function as a scientist writes it."""

    function: FunctionType
    make: Callable[[int, Random], tuple[Any, ...]]
    sizes: tuple[int, int, int]
    # Units in the last place of the largest number returned, for functions such as exp and for
    # sums of products, whose bits are not NumPy's; 0: every bit is.
    ulps: float = 0.0

    @property
    def name(self) -> str:
        return self.function.__name__

    def arguments(self, size: str) -> tuple[Any, ...]:
        """The arguments at a size, the same ones each time."""
        n = self.sizes[SIZES.index(size)]
        return self.make(n, np.random.default_rng([zlib.crc32(self.name.encode()), n]))
