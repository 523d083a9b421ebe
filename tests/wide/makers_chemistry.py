"""Inputs of quantum chemistry."""

from __future__ import annotations

from collections.abc import Mapping

from kernels.inputs import Maker, Rng, Values
from kernels.manifest import Kernel

__all__ = ["MAKERS"]


def _energies(rng: Rng, kernel: Kernel, sizes: Mapping[str, int]) -> Values:
    """Energies of occupied orbitals below zero, of virtual ones above: no difference is zero."""
    return {
        "eo": -1.0 - rng.integers(0, 512, sizes["no"]) / 256.0,
        "ev": rng.integers(1, 1024, sizes["nv"]) / 256.0,
    }


MAKERS: dict[str, Maker] = {"energies": _energies}
