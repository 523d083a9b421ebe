"""Kernels of the corpus on the emulator beside plain C, with tiles that a test chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from athread.emulated import Edit, Emulated, Job
from kernels.corpus import KERNELS, make_inputs, reference
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.program import Program
from loopwright.planner.mesh_plans import tiled_nests
from loopwright.planner.mesh_plans.mesh_tiles import TiledLoop, TileSizes
from loopwright.transform.plan import Plan

__all__ = ["Tiles", "call_of", "choose_tiles", "has_bits_of", "require_bits"]

Tiles = tuple[tuple[int, int, int], int, tuple[int, int]]  # sizes, window of steps, strips


def choose_tiles(tiles: Tiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every product have these tiles: for small matrices others than for large ones."""
    sizes, window, strips = tiles

    def chosen(loops: Sequence[TiledLoop], *_: object) -> TileSizes | None:
        if len(loops) < 3:
            return None
        names = [loop.name for loop in loops]
        cuts = {name: size for name, size in zip(names, strips, strict=False) if size}
        return TileSizes(dict(zip(names, sizes, strict=True)), {names[2]: window}, 1.0, cuts)

    monkeypatch.setattr(tiled_nests, "product_sizes", chosen)


def call_of(name: str, sizes: Mapping[str, int]) -> tuple[Job, dict[str, Any]]:
    """A call of a kernel, and the arrays that plain C leaves."""
    inputs = make_inputs(KERNELS[name], dict(sizes))
    expected = reference(KERNELS[name], inputs)
    assert expected is not None
    arrays = {
        key: value.copy() if isinstance(value, np.ndarray) else np.array(value)
        for key, value in inputs.items()
    }
    return (name, arrays, sizes), expected


def has_bits_of(found: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays are equal bit by bit; one NaN is as good as another."""
    same = found.view(f"u{found.itemsize}") == right.view(f"u{right.itemsize}")
    return bool(np.all(same | ((found != found) & (right != right))))


def require_bits(
    name: str,
    program: Program,
    machine: MeshMachine,
    sizes: Sequence[Mapping[str, int]],
    folder: Path,
    *,
    plan: Plan | None = None,
    shape: tuple[int, int] = (8, 8),
    edit: Edit | None = None,
    seed: int = 0,
) -> Emulated:
    """Build a kernel, run it at all sizes in one process, and require the bits of plain C."""
    plans = {} if plan is None else {name: plan}
    build = Emulated({name: program}, machine, shape, folder, plans=plans, edit=edit)
    calls = [call_of(name, each) for each in sizes]
    build.run([job for job, _ in calls], seed=seed)
    for (_, arrays, given), expected in calls:
        for array, right in expected.items():
            assert has_bits_of(arrays[array], right), f"{array} at {dict(given)}"
    return build
