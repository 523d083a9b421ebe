"""Core groups as data: every file reads back, every field has a source, DMA as it was measured."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

import loopwright.machines.load_mesh as load_mesh_module
from loopwright.diagnostics import UsageError
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.machines.load_mesh import load_mesh, mesh_from_json, mesh_names

DATA = Path(load_mesh_module.__file__).parent / "data" / "mesh"
# GB/s of copies on 64 cores of SW26010, requests of 24 KiB, by bytes of a block (swCandle).
MEASURED = {256: 8.3, 512: 11.5, 1024: 14.9, 2048: 17.4, 4096: 18.5, 8192: 19.5}


@pytest.mark.parametrize("name", mesh_names())
def test_every_field_has_a_source(name: str) -> None:
    mesh = load_mesh(name)
    assert mesh.name == name
    assert {f.name for f in fields(MeshMachine)} - {"sources"} <= set(mesh.sources)
    assert all(mesh.sources.values())


def test_the_two_generations() -> None:
    assert mesh_names() == ("sw26010", "sw26010pro")
    old, new = map(load_mesh, mesh_names())
    assert (old.cores, new.cores) == (64, 64)
    assert old.peak_flops("float64") == pytest.approx(742.4e9)
    assert new.groups * new.peak_flops("float64") == pytest.approx(13.8e12, rel=0.01)
    assert (old.has_remote_access, new.has_remote_access) == (False, True)


@pytest.mark.parametrize("block", MEASURED)
def test_the_model_of_requests_is_within_its_error(block: int) -> None:
    mesh, size = load_mesh("sw26010"), 24 << 10
    cycles = mesh.dma_cycles(1, size // block, size)
    assert size / cycles * mesh.frequency_hz == pytest.approx(MEASURED[block] * 1e9, rel=0.06)


def test_an_unknown_cost_of_blocks_is_left_out() -> None:
    mesh = load_mesh("sw26010pro")
    assert mesh.block_cycles is None
    assert mesh.dma_cycles(2, 100, 1000) == pytest.approx(2 * 1.4 + 47.8)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"rows": 0}, "field 'rows' must be a whole number of at least 1"),
        ({"has_remote_access": 1}, "field 'has_remote_access' must be true or false"),
        ({"byte_cycles": -1.0}, "field 'byte_cycles' must be a positive number"),
        ({"scratchpad_reserved": 65536}, "the stack takes all of the scratchpad"),
        ({"colour": "red"}, "unknown field"),
        ({"format": 2}, "format 2 is not 1"),
    ],
)
def test_bad_files_are_refused(change: dict[str, object], told: str) -> None:
    data = json.loads((DATA / "sw26010.json").read_text()) | change
    with pytest.raises(UsageError, match=told):
        mesh_from_json(data, "mine.json")


def test_files_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(json.loads((DATA / "sw26010.json").read_text()) | {"rows": 4}))
    assert load_mesh(str(file)).cores == 32
    with pytest.raises(UsageError) as raised:
        load_mesh("sw1600")
    assert str(raised.value) == (
        "no processor of core groups is named 'sw1600'\n"
        "try: one of sw26010, sw26010pro, or the path of a JSON file"
    )
