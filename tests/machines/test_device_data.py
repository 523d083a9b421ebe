"""GPUs and core groups as data: fields have sources, bad files are refused, occupancy."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import loopwright.machines.load_gpu as load_gpu_module
from loopwright.diagnostics import UsageError
from loopwright.ir.gpu_machine import Occupancy
from loopwright.machines.load_gpu import gpu_from_json, gpu_names, load_gpu
from loopwright.machines.load_mesh import load_mesh, mesh_from_json, mesh_names

DATA = Path(load_gpu_module.__file__).parent / "data"
MACHINES = [*((load_gpu, name) for name in gpu_names()), *((load_mesh, n) for n in mesh_names())]


@pytest.mark.parametrize(("load", "name"), MACHINES)
def test_every_field_has_a_source(load: Any, name: str) -> None:
    machine = load(name)
    assert machine.name == name
    assert {f.name for f in fields(machine)} - {"sources"} <= set(machine.sources)
    assert all(machine.sources.values())


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "expected"),
    [
        (256, 128, 33280, Occupancy(2, 16, "registers")),
        (256, 32, 0, Occupancy(8, 64, "threads")),
        (32, 16, 0, Occupancy(32, 32, "blocks")),
        (128, 32, 100_000, Occupancy(2, 8, "shared memory")),
        (2048, 16, 0, Occupancy(0, 0, "threads")),
        (256, 32, 232449, Occupancy(0, 0, "threads")),
    ],
)
def test_occupancy(threads: int, registers: int, shared: int, expected: Occupancy) -> None:
    assert load_gpu("sm_90").occupancy(threads, registers, shared) == expected


GPU, MESH = ("gpu/sm_90.json", gpu_from_json), ("mesh/sw26010.json", mesh_from_json)


@pytest.mark.parametrize(
    ("kind", "change", "told"),
    [
        (GPU, {"warp": 0}, "field 'warp' must be a whole number of at least 1"),
        (GPU, {"capability": [9]}, "field 'capability' is two whole numbers"),
        (GPU, {"has_async_copy": 1}, "field 'has_async_copy' must be true or false"),
        (GPU, {"colour": "green"}, "unknown field"),
        (GPU, {"format": 2}, "format 2 is not 1"),
        (MESH, {"rows": 0}, "field 'rows' must be a whole number of at least 1"),
        (MESH, {"has_remote_access": 1}, "field 'has_remote_access' must be true or false"),
        (MESH, {"byte_cycles": -1.0}, "field 'byte_cycles' must be a positive number"),
        (MESH, {"scratchpad_reserved": 65536}, "the stack takes all of the scratchpad"),
        (MESH, {"colour": "red"}, "unknown field"),
        (MESH, {"format": 2}, "format 2 is not 1"),
    ],
)
def test_bad_files_are_refused(kind: Any, change: dict[str, object], told: str) -> None:
    file, read = kind
    data = json.loads((DATA / file).read_text()) | change
    with pytest.raises(UsageError, match=told):
        read(data, "mine.json")


def test_names_and_files_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(json.loads((DATA / MESH[0]).read_text()) | {"rows": 4}))
    assert load_mesh(str(file)).cores == 32
    with pytest.raises(UsageError) as raised:
        load_mesh("sw1600")
    assert str(raised.value) == (
        "no processor of core groups is named 'sw1600'\n"
        "try: one of sw26010, sw26010pro, or the path of a JSON file"
    )
    with pytest.raises(UsageError, match="no GPU is named 'sm_1'"):
        load_gpu("sm_1")
