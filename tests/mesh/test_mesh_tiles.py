"""Tile sizes: what is priced all at once is what each size costs alone."""

from __future__ import annotations

import itertools

import pytest

from loopwright.machines.load_mesh import load_mesh
from loopwright.planner.mesh_plans import mesh_tiles
from loopwright.planner.mesh_plans.mesh_tiles import (
    MovedBox,
    NestWork,
    TiledLoop,
    TileSizes,
    best_sizes,
)

MACHINE = load_mesh("sw26010")
OFFERED = (1, 8, 24, 32, 48)


def a_product(*, shared: int, trips: float) -> tuple[list[TiledLoop], list[MovedBox]]:
    """C[i, j] += A[i, k] * B[k, j], with A and B in panels that rows and columns share."""
    loops = [TiledLoop("i", trips, 0), TiledLoop("j", trips, 1), TiledLoop("k", trips, -1)]

    def side(name: str) -> tuple[tuple[tuple[str, int], ...], int]:
        return ((name, 1),), 0

    boxes = [
        MovedBox(8, (side("i"), side("j")), 2, 2, is_ahead=False),
        MovedBox(8, (side("i"), side("k")), 3, 1, is_ahead=True, shared=shared, window="k"),
        MovedBox(8, (side("k"), side("j")), 3, 1, is_ahead=True, shared=shared, window="k"),
    ]
    return loops, boxes


@pytest.mark.parametrize(("shared", "room"), [(1, 60_000), (8, 30_000), (8, 12_000)])
def test_the_best_of_all_is_the_best_one_by_one(
    shared: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops, boxes = a_product(shared=shared, trips=250.0)
    work = NestWork(250.0**3, is_vector=True, factors=(("i", "k"),))
    monkeypatch.setattr(mesh_tiles, "_MAPPED", OFFERED)
    monkeypatch.setattr(mesh_tiles, "_INNER", OFFERED)
    found = best_sizes(loops, boxes, work, MACHINE, (8, 8), room)
    alone: list[TileSizes] = []
    for sizes in itertools.product(OFFERED, repeat=3):
        only = [[size] for size in sizes]
        priced = mesh_tiles._best(only, loops, boxes, work, MACHINE, (8, 8), room)
        if priced is not None:
            alone.append(priced)
    assert found is not None
    assert 1 < len(alone) < len(OFFERED) ** 3  # some do not fit
    assert found == min(alone, key=lambda priced: priced.cycles)
