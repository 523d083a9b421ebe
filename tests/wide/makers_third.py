"""Inputs of the third set: gases, quotes that some volatility explains, films, bands, clusters."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from kernels.inputs import Maker, Rng, Values
from kernels.manifest import Kernel

__all__ = ["MAKERS"]

Sizes = Mapping[str, int]


def _gas(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """Densities in [1/2, 1], momenta in [-1/4, 1/4], energies in [2, 3]: all pressures positive."""
    shape = (sizes["tubes"], sizes["cells"])
    return {
        "rho": rng.integers(32, 65, shape) / 64.0,
        "mom": rng.integers(-16, 17, shape) / 64.0,
        "ene": rng.integers(128, 193, shape) / 64.0,
    }


def _sparse_bytes(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """1 in a fiftieth of the places of every array, 0 elsewhere."""
    return {array.name: rng.random(array.extents(sizes)) < 0.02 for array in kernel.arrays}


def _smile(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """Calls on a share of price 1 at volatilities in [0.2, 0.45]."""
    years = rng.integers(16, 129, sizes["expiries"]) / 64.0
    strike = rng.integers(56, 81, sizes["strikes"]) / 64.0
    vol = rng.integers(20, 46, (sizes["expiries"], sizes["strikes"])) / 100.0
    rate = float(kernel.scalars["r"])
    deviation = vol * np.sqrt(years)[:, None]
    d1 = (-np.log(strike) + (rate + vol * vol / 2) * years[:, None]) / deviation
    later = strike * np.exp(-rate * years)[:, None]
    return {
        "years": years,
        "strike": strike,
        "quote": _normal(d1) - later * _normal(d1 - deviation),
    }


_erf = np.vectorize(math.erf)


def _normal(values: np.ndarray) -> np.ndarray:
    """The distribution function of the standard normal."""
    found: np.ndarray = (1 + _erf(values / math.sqrt(2))) / 2
    return found


def _coatings(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """Refractive indices in [5/4, 5/2], thicknesses and wavelengths of tenths of micrometres."""
    return {
        "index": rng.integers(80, 161, sizes["layers"]) / 64.0,
        "thick": rng.integers(3, 13, sizes["layers"]) / 64.0,
        "wave": rng.integers(26, 46, sizes["waves"]) / 64.0,
    }


def _mel(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """Spectra of k/64 in [-1, 1], and edges of bands that grow wider and end at the last bin."""
    made = {
        a.name: rng.integers(-64, 65, a.extents(sizes)) / 64.0
        for a in kernel.arrays
        if a.role == "in"
    }
    width = np.arange(1, 29) ** 1.5
    edge = np.cumsum(width) / np.sum(width) * sizes["bins"]
    return {**made, "edge": np.round(64 * edge) / 64 + np.arange(28) / 64}


def _clusters(rng: Rng, kernel: Kernel, sizes: Sizes) -> Values:
    """Points around six centres, each with the number of its centre."""
    label = rng.integers(0, 6, sizes["n"])
    centre = rng.integers(-128, 129, (6, sizes["dims"])) / 64.0
    noise = rng.integers(-64, 65, (sizes["n"], sizes["dims"])) / 64.0
    return {"label": label, "x": centre[label] + noise}


MAKERS: dict[str, Maker] = {
    "gas": _gas,
    "sparse-bytes": _sparse_bytes,
    "smile": _smile,
    "coatings": _coatings,
    "mel": _mel,
    "clusters": _clusters,
}
