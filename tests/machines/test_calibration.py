"""Calibrations: merged over a machine, stored atomically, ignored when they do not fit."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from loopwright import options
from loopwright.machines import load_machine
from loopwright.machines.calibration import (
    Calibration,
    calibrated,
    read_calibration,
    write_calibration,
)
from loopwright.machines.host import host, host_machine

N1 = load_machine("neoverse-n1")
FOUND = Calibration(
    llvm_cpu="neoverse-n1",
    frequency_hz=3.0e9,
    per_cycle={("fma", "float64"): 1.96, ("add", "float32"): 1.0, ("dot", "int16"): 1.0},
    latency={("fma", "float64"): 4.03, ("add", "float32"): 3.0},
    accumulate={("fma", "float64"): 3.0, ("dot", "int16"): 2.0},
    load_latency=5.1,
    cache_bytes_per_cycle=(31.9, 18.0),
    memory_bytes_per_cycle=4.0,
    parallel=((2, 600.0), (4, 1000.0)),
    date="2026-01-02",
)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    with options.override(cache_dir=str(tmp_path / "cache")):
        host.cache_clear()
        yield tmp_path / "cache" / "calibration.json"
    host.cache_clear()


def test_measured_numbers_replace_the_believed_ones() -> None:
    machine = calibrated(N1, FOUND)
    assert machine.frequency_hz == 3.0e9
    addition = machine.arithmetic["add", "float32"]
    assert (addition.latency, addition.accumulate, addition.per_cycle) == (3, 3, 1)
    assert dict(addition.uses) == {"N1UnitV": 1.0}, "half the throughput, twice the unit time"
    assert machine.source("arithmetic.add.float32") == "measured on this machine 2026-01-02"
    assert machine.source("arithmetic.add.float64") == N1.source("arithmetic.add.float64")
    assert machine.vmma("min", "add", "float32").per_cycle == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        "{}",
        json.dumps({"format": 2}),
        "[" * 100_000,
        '{"format": 1, "llvm_cpu": "neoverse-n1"}',
        '{"format": 1, "llvm_cpu": "neoverse-n1", "frequency_hz": -1}',
        '{"format": 1, "llvm_cpu": "neoverse-n1", "frequency_hz": NaN}',
    ],
)
def test_damaged_file_is_ignored(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True)
    place.write_text(text, encoding="utf-8")
    assert read_calibration("neoverse-n1") is None
    assert host() == host_machine()


@pytest.mark.parametrize("value", [0, -1, "fast", None, float("inf"), [2]])
def test_absurd_numbers_are_ignored(place: Path, value: object) -> None:
    write_calibration(FOUND)
    data = json.loads(place.read_text(encoding="utf-8"))
    data["per_cycle"]["fma.float64"] = value
    place.write_text(json.dumps(data), encoding="utf-8")
    assert read_calibration("neoverse-n1") is None


def test_host_uses_a_calibration_of_its_processor(place: Path) -> None:
    write_calibration(replace(FOUND, llvm_cpu=host_machine().llvm_cpu))
    host.cache_clear()
    assert host().frequency_hz == 3.0e9
    write_calibration(replace(FOUND, llvm_cpu="another"))
    host.cache_clear()
    assert host() == host_machine()
