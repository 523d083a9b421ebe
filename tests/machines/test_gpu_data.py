"""GPUs as data: every file reads back, every field has a source, occupancy as the vendor counts."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

import loopwright.machines.load_gpu as load_gpu_module
from loopwright.diagnostics import UsageError
from loopwright.ir.gpu_machine import GpuMachine, Occupancy
from loopwright.machines.load_gpu import gpu_from_json, gpu_names, load_gpu

DATA = Path(load_gpu_module.__file__).parent / "data" / "gpu"


@pytest.mark.parametrize("name", gpu_names())
def test_every_field_has_a_source(name: str) -> None:
    gpu = load_gpu(name)
    assert gpu.name == name == gpu.target
    assert {f.name for f in fields(GpuMachine)} - {"sources"} <= set(gpu.sources)


def test_the_gpus_of_three_generations() -> None:
    assert set(gpu_names()) >= {"sm_75", "sm_80", "sm_90"}
    assert [load_gpu(name).has_async_copy for name in ("sm_75", "sm_80", "sm_90")] == [
        False,
        True,
        True,
    ]


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


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"warp": 0}, "field 'warp' must be a whole number of at least 1"),
        ({"capability": [9]}, "field 'capability' is two whole numbers"),
        ({"has_async_copy": 1}, "field 'has_async_copy' must be true or false"),
        ({"colour": "green"}, "unknown field"),
        ({"format": 2}, "format 2 is not 1"),
    ],
)
def test_bad_files_are_refused(change: dict[str, object], told: str) -> None:
    data = json.loads((DATA / "sm_90.json").read_text()) | change
    with pytest.raises(UsageError, match=told):
        gpu_from_json(data, "mine.json")


def test_an_unknown_gpu_is_refused() -> None:
    with pytest.raises(UsageError, match="no GPU is named 'sm_1'"):
        load_gpu("sm_1")
