"""Inputs of solvers, finance, tables and physics: systems that are regular, data in their ranges.

As in kernels/inputs.py most values are short fractions. Roundings that plain C makes of them are
the same everywhere; sums over them stay far from overflow and no divisor comes near zero.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kernels.inputs import Maker, Rng, Values
from kernels.manifest import Array, Kernel

__all__ = ["MAKERS"]

Sizes = Mapping[str, int]


def _fractions(rng: Rng, array: Array, sizes: Sizes, low: float, high: float) -> np.ndarray:
    """Multiples of 1/256 in [low, high]."""
    return rng.integers(round(256 * low), round(256 * high) + 1, array.extents(sizes)) / 256.0


def _definite(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """Square matrices that are symmetric with a dominant diagonal; fractions in [0, 1] besides."""
    made = {}
    for array in kernel.arrays:
        values = _fractions(rng, array, sizes, 0.0, 1.0)
        shape = values.shape
        if len(shape) == 2 and array.shape[0] == array.shape[1]:
            values = (values + values.T) / 2 + shape[0] * np.eye(shape[0])
        made[array.name] = values
    return made


def _regular(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """Fractions in [-1, 1]: columns that are independent in all likelihood."""
    return {array.name: _fractions(rng, array, sizes, -1.0, 1.0) for array in kernel.arrays}


def _tridiagonal(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """`diagonal` in [3, 4], which is more than its two neighbours in [0, 1] together."""
    return {
        array.name: _fractions(rng, array, sizes, 0.0, 1.0) + 3.0 * (array.name == "diagonal")
        for array in kernel.arrays
    }


def _blocks(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """Small matrices in the last two extents; those of the names D and m have heavy diagonals."""
    made = {}
    for array in kernel.arrays:
        values = _fractions(rng, array, sizes, -1.0, 1.0)
        if array.name in ("D", "m"):
            values = values + 8.0 * np.eye(values.shape[-1])
        made[array.name] = values
    return made


def _quotes(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """Prices in [64, 128]."""
    return {array.name: _fractions(rng, array, sizes, 64.0, 128.0) for array in kernel.arrays}


def _rates(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """Years `tau` in [1/4, 1] and all else in (0, 1/16]."""
    return {
        array.name: _fractions(rng, array, sizes, 0.25, 1.0)
        if array.name == "tau"
        else (1 + _fractions(rng, array, sizes, 0.0, 14.0)) / 256
        for array in kernel.arrays
    }


def _diffusion(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """Rows of an implicit step: `di` takes away what `lo` and `hi` give, and a little more."""
    made = {array.name: _fractions(rng, array, sizes, 0.0, 1.0) for array in kernel.arrays}
    return {**made, "di": -(made["lo"] + made["hi"]) - 1 / 64}


def _normals(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """Standard normals, cut to multiples of 1/1024."""
    return {
        array.name: np.round(rng.standard_normal(array.extents(sizes)) * 1024) / 1024
        for array in kernel.arrays
    }


def _volatility(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """Normal returns; shares `alpha` and `beta` of the variance that stay below 1 together."""
    made = _normals(rng, kernel, sizes)
    ranges = {"omega": (0.125, 0.25), "alpha": (0.0625, 0.125), "beta": (0.75, 0.8125)}
    for array in kernel.arrays:
        if array.name in ranges:
            made[array.name] = _fractions(rng, array, sizes, *ranges[array.name])
    return made


def _codes(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """Codes below 64 in integers, below 256 in bytes; low ones are the more frequent."""
    made = {}
    for array in kernel.arrays:
        limit = 256 if array.ctype == "uint8_t" else 64
        made[array.name] = (limit * rng.random(array.extents(sizes)) ** 2).astype(int)
    return made


def _sparse_marks(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """Bytes that are 0 four times of five, else 1; fractions in [0, 1] in what is no byte."""
    return {
        array.name: rng.integers(0, 5, array.extents(sizes)) == 0
        if array.ctype == "uint8_t"
        else _fractions(rng, array, sizes, 0.0, 1.0)
        for array in kernel.arrays
    }


def _quantised(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """Signed bytes of full range; small scales in what is no integer."""
    made = {}
    for array in kernel.arrays:
        if array.ctype == "int8_t":
            made[array.name] = rng.integers(-128, 128, array.extents(sizes))
        elif array.ctype == "float":
            made[array.name] = _fractions(rng, array, sizes, 0.0, 1.0) / 64
    return made


def _bit_words(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """Words of 32 random bits."""
    return {
        array.name: rng.integers(0, 2**32, array.extents(sizes), np.uint32)
        for array in kernel.arrays
    }


def _spins(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """Spins `s` of -1 and 1; chances and draws as fractions in [0, 1]."""
    return {
        array.name: rng.choice([-1, 1], array.extents(sizes))
        if array.name == "s"
        else _fractions(rng, array, sizes, 0.0, 1.0)
        for array in kernel.arrays
    }


def _medium(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """Fields in [-1, 1] in a medium (what is only read) slow enough for a stable step."""
    return {
        array.name: _fractions(rng, array, sizes, 0.0, 0.25)
        if array.role == "in"
        else _fractions(rng, array, sizes, -1.0, 1.0)
        for array in kernel.arrays
    }


MAKERS: dict[str, Maker] = {
    "definite": _definite,
    "regular": _regular,
    "tridiagonal": _tridiagonal,
    "blocks": _blocks,
    "quotes": _quotes,
    "rates": _rates,
    "diffusion": _diffusion,
    "normals": _normals,
    "volatility": _volatility,
    "codes": _codes,
    "sparse-marks": _sparse_marks,
    "quantised": _quantised,
    "bit-words": _bit_words,
    "spins": _spins,
    "medium": _medium,
}
