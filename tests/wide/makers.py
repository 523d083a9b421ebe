"""Inputs of the wide corpus that the makers of kernels.inputs do not give.

Where the mathematics allows it the numbers are small integers or short binary fractions, so that
results can be compared bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernels.inputs import Maker, Rng, Values
from kernels.manifest import Array, Kernel

__all__ = ["MAKERS"]


def _image(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Grey levels from 0 to 255, whatever the element type."""
    return {a.name: rng.integers(0, 256, a.extents(sizes)) for a in kernel.arrays}


def _camera(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Ten bits of a sensor, and a matrix of colours whose rows sum to about eight."""
    mixed = 8 * np.eye(3, dtype=int) + rng.integers(-2, 3, (3, 3))
    return {**_image(rng, kernel, sizes), "raw": _raw(rng, kernel, sizes), "colour": mixed}


def _raw(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Any:
    shape = next(a for a in kernel.arrays if a.name == "raw").extents(sizes)
    return rng.integers(0, 1024, shape)


def _signed(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Fractions k/64 in [-1, 1]."""
    return {a.name: rng.integers(-64, 65, a.extents(sizes)) / 64.0 for a in kernel.arrays}


def _letters(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Texts over four letters in arrays of characters, nothing in tables."""
    return {
        a.name: rng.integers(0, 4, a.extents(sizes)) if a.ctype == "char" else _zeros(a, sizes)
        for a in kernel.arrays
    }


def _bits(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Mostly zeros, some ones."""
    return {a.name: rng.random(a.extents(sizes)) < 0.125 for a in kernel.arrays}


def _costs(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Positive integers up to thirty."""
    return {a.name: rng.integers(1, 31, a.extents(sizes)) for a in kernel.arrays}


def _particles(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Points that keep apart, and fractions k/64 for everything else.

    Vectors x, y, z of one length, or pos of rows (x, y, z), are the places of a cubic lattice of
    unit spacing, each moved by at most 1/8 in every direction. Arrays that are only read are
    positive, arrays that are written start signed.
    """
    made = {a.name: _fractions(rng, a, sizes) for a in kernel.arrays}
    for name, axis in (("x", 0), ("y", 1), ("z", 2)):
        if name in made and made[name].ndim == 1:
            made[name] = _lattice(rng, len(made[name]))[:, axis]
    if "pos" in made:
        shape = made["pos"].shape
        count = int(np.prod(shape[:-1], dtype=np.int64))
        made["pos"] = _lattice(rng, count)[:, : shape[-1]].reshape(shape)
    return made


def _shells(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Points of a cube of integers, and the squares of even radii."""
    n, edges = sizes["n"], sizes["edges"]
    made = {name: rng.integers(0, 64, n) for name in ("x", "y", "z")}
    return {**made, "bound": (2 * np.arange(edges)) ** 2}


def _slack(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Fractions k/64 in [-1/4, 1/4]: small displacements and velocities."""
    return {a.name: rng.integers(-16, 17, a.extents(sizes)) / 64.0 for a in kernel.arrays}


def _resonators(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Signals of k/64, and sections b0, b1, b2, a1, a2 whose poles lie inside the unit circle."""
    made = _signed(rng, kernel, sizes)
    made["coef"][:, 3] = rng.integers(-64, 65, len(made["coef"])) / 64.0
    made["coef"][:, 4] = rng.integers(8, 49, len(made["coef"])) / 64.0
    return made


def _cosines(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Grey levels, the cosine basis rounded to eighths, and steps that are powers of two.

    Sums of the products are exact in floats, so quotients are never rounded before they are cut.
    """
    u, x = np.indices((8, 8))
    basis = np.round(8 * np.cos((2 * x + 1) * u * np.pi / 16)) / 8
    return {**_image(rng, kernel, sizes), "basis": basis, "step": 2.0 ** ((u + x) // 4 + 3)}


def _bins(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Fractions k/256 in (0, 1], and edges of bins of equal width that cover most of them."""
    made = {a.name: rng.integers(1, 257, a.extents(sizes)) / 256.0 for a in kernel.arrays}
    return {**made, "edge": np.round(250 * np.linspace(0.0, 1.0, sizes["edges"])) / 256}


def _lattice(rng: Rng, count: int) -> Any:
    """(count, 3) points near the first places of a cube."""
    side = max(1, int(np.ceil(np.cbrt(count))))
    index = np.arange(count)
    places = np.stack([index % side, index // side % side, index // side**2], axis=1)
    return places + rng.integers(-8, 9, (count, 3)) / 64.0


def _fractions(rng: Rng, array: Array, sizes: Mapping[str, int]) -> Any:
    least = 1 if array.role == "in" else -64
    return rng.integers(least, 65, array.extents(sizes)) / 64.0


def _zeros(array: Array, sizes: Mapping[str, int]) -> Any:
    return np.zeros(array.extents(sizes), np.int8)


MAKERS: dict[str, Maker] = {
    "image": _image,
    "camera": _camera,
    "signed": _signed,
    "letters": _letters,
    "bits": _bits,
    "costs": _costs,
    "particles": _particles,
    "shells": _shells,
    "slack": _slack,
    "resonators": _resonators,
    "cosines": _cosines,
    "bins": _bins,
}
