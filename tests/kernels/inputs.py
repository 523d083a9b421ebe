"""Inputs of the kernels, made so that their results can be compared bit for bit where possible.

Most data are small integers: sums and products of them do not round. A matrix to be factored is
the product of chosen factors with small integers and diagonals of powers of two, so that every
quotient and square root that the kernel takes is exact as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from kernels.manifest import Array, Inputs, Kernel

__all__ = ["MAKERS", "Maker", "Rng", "Values", "make_inputs"]

Rng: TypeAlias = np.random.Generator
Values: TypeAlias = dict[str, Any]
Maker: TypeAlias = Callable[[Rng, Kernel, Mapping[str, int]], Values]

NO_ROAD = 999


def make_inputs(
    kernel: Kernel,
    sizes: Mapping[str, int],
    dtype: str | None = None,
    seed: int = 0,
    extents: Mapping[str, int] | None = None,
    makers: Mapping[str, Maker] | None = None,
) -> Inputs:
    """The arguments of a call in their order: sizes where it takes them, scalars, arrays.

    `dtype` is what DATA is, the file's own by default. `extents` are those the arrays are declared
    with where they are larger than the sizes; what lies beyond the sizes is filled at random too.
    `makers` stand in the place of MAKERS.
    """
    data = dtype or kernel.dtype
    rng = np.random.default_rng([seed, *kernel.name.encode()])
    made = (makers or MAKERS)[kernel.data](rng, kernel, sizes)
    arrays = {}
    for array in kernel.arrays:
        filled = _integers(rng, array, array.extents(extents or sizes), data)
        if array.name in made:
            corner = tuple(map(slice, array.extents(sizes)))
            filled[corner] = made[array.name]
        arrays[array.name] = filled
    taken = sizes if kernel.takes_sizes else {}
    return {**taken, **kernel.scalar_values(sizes, data), **arrays}


def _integers(rng: Rng, array: Array, shape: tuple[int, ...], data: str) -> Any:
    """Integers of at most four, which any element type holds."""
    low = 0 if array.dtype(data).kind == "u" or array.ctype == "char" else -4
    return rng.integers(low, 5, shape, np.int8).astype(array.dtype(data))


def _signs(rng: Rng, *shape: int) -> Any:
    """-1, 0 and 1 as doubles."""
    return rng.integers(-1, 2, shape).astype(float)


def _lower(rng: Rng, n: int, pivots: tuple[int, ...]) -> Any:
    """A lower triangle of -1, 0, 1 whose diagonal is drawn from `pivots`."""
    return np.tril(_signs(rng, n, n), -1) + np.diag(rng.choice(np.array(pivots, float), n))


def _nothing(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    return {}


def _unit(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Fractions k/256 in (0, 1] in every array of floating numbers."""
    return {
        array.name: rng.integers(1, 257, array.extents(sizes)) / 256.0
        for array in kernel.arrays
        if array.dtype(kernel.dtype).kind == "f"
    }


def _cholesky(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """A = L L', symmetric and positive definite."""
    left = _lower(rng, sizes["n"], (1, 2))
    return {"A": left @ left.T}


def _lu(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """A = L U that needs no pivoting."""
    n = sizes["n"]
    return {"A": _lower(rng, n, (1,)) @ _lower(rng, n, (-2, -1, 1, 2)).T}


def _ludcmp(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """A = L U and b = A x for an x of integers."""
    n = sizes["n"]
    left, right = _lower(rng, n, (1,)), _lower(rng, n, (-2, -1, 1, 2)).T
    return {"A": left @ right, "b": left @ (right @ _signs(rng, n))}


def _trisolv(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """L and b = L x for an x of integers."""
    n = sizes["n"]
    left = _lower(rng, n, (-2, -1, 1, 2))
    return {"L": left + np.triu(_signs(rng, n, n), 1), "b": left @ _signs(rng, n)}


def _durbin(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """A convex falling sequence: with 1 before it, the first row of a definite Toeplitz matrix.

    Reflection coefficients are then inside (-1, 1). No choice but a trivial one is exact.
    """
    n = sizes["n"]
    lengths = rng.integers(2, 2 * n + 3, 8)
    distance = np.arange(1, n + 1)[:, None]
    return {"r": 0.875 * np.maximum(0.0, 1.0 - distance / lengths).mean(axis=1)}


def _observations(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Columns c + d where d is -s, 0 or s and sums to nothing; s = 0 gives constant columns.

    Every mean is then the integer c, every spread of an even number of observations s.
    """
    m, n = sizes["m"], sizes["n"]
    deviations = np.zeros((n, m))
    half = n // 2
    deviations[:half] = rng.choice([-1.0, 1.0], (half, m))
    deviations[half : 2 * half] = -deviations[:half]
    spreads, means = rng.choice([0.0, 1.0, 2.0, 2.0], m), rng.integers(-4, 5, m)
    return {"data": means + spreads * deviations}


def _orthogonal(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """A = Q R: the columns of Q are orthogonal, of length 1, and made of 0, 1 and halves."""
    m, n = sizes["m"], sizes["n"]
    if m < n:
        raise ValueError(f"{kernel.name} needs m >= n, found m = {m} and n = {n}")
    pair = np.array([[1.0, 1.0], [1.0, -1.0]])
    hadamard = np.kron(pair, pair) / 2
    q = np.eye(m)
    for at in range(0, m - 3, 4):
        q[at : at + 4, at : at + 4] = hadamard
    q = q[rng.permutation(m), :n]
    return {"A": q @ _lower(rng, n, (1, 2, 4)).T}


def _roads(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Lengths of some roads; between most places there is none."""
    n = sizes["n"]
    path = np.where(rng.random((n, n)) < 0.2, rng.integers(1, 100, (n, n)), NO_ROAD)
    np.fill_diagonal(path, 0)
    return {"path": path}


def _bases(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """A sequence over four letters; no pair is counted yet."""
    n = sizes["n"]
    return {"seq": rng.integers(0, 4, n), "best": np.zeros((n, n))}


def _words(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Unsigned numbers of full width."""
    n, m = sizes["n"], sizes["m"]
    return {
        "a": rng.integers(0, 2**32, (n, m), np.uint32),
        "wide": rng.integers(0, 2**63, m, np.uint64),
    }


def _bytes(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Numbers that use most of their small types."""
    n, m = sizes["n"], sizes["m"]
    return {
        "weights": rng.integers(-8, 8, (n, m)),
        "pixels": rng.integers(0, 256, m),
        "bias": rng.integers(-1000, 1001, n),
    }


MAKERS: dict[str, Maker] = {
    "integers": _nothing,
    "unit": _unit,
    "cholesky": _cholesky,
    "lu": _lu,
    "ludcmp": _ludcmp,
    "trisolv": _trisolv,
    "durbin": _durbin,
    "observations": _observations,
    "orthogonal": _orthogonal,
    "roads": _roads,
    "bases": _bases,
    "words": _words,
    "bytes": _bytes,
}
