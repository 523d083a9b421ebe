"""The data files: complete, consistent, sourced, and equal to what the seed prints."""

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from loopwright.ir.machine import Machine
from loopwright.machines.load import load_machine, machine_from_json, machine_to_json

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = {
    "aarch64",
    "alderlake",
    "broadwell-e5-2697-v4",
    "cascadelake",
    "core-e5450",
    "k10-opteron-8354",
    "kaby-lake-i7-7700",
    "neoverse-n1",
    "neoverse-v1",
    "power8",
    "sandy-bridge-e5-2660",
    "sandy-bridge-i7-3820",
    "sapphirerapids",
    "skylake-avx512",
    "x-gene1",
    "x86-64-v3",
    "xeon-e5-2630-v4",
    "xeon-phi-7210",
    "zen3",
    "zen4",
}
SOURCED = {f.name for f in fields(Machine)} - {"name", "description", "sources"}
OPTIONAL = {"memory_bytes_per_cycle", "prefetch_streams"}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_file_is_complete_and_round_trips(name: str) -> None:
    machine = load_machine(name)
    assert machine.name == name
    assert set(machine.sources) >= SOURCED - OPTIONAL, "every field has a source"
    assert all(text.strip() for text in machine.sources.values())
    data = json.loads(json.dumps(machine_to_json(machine)))
    assert machine_from_json(data, name) == machine
    assert {op for op, _ in machine.arithmetic} >= {"add", "mul", "min", "max", "div", "and", "or"}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_numbers_are_consistent(name: str) -> None:
    machine = load_machine(name)
    sizes = [cache.size for cache in machine.caches]
    assert sizes == sorted(sizes), "caches grow with their level"
    for cache in machine.caches:
        assert cache.sets * cache.line * cache.ways == cache.size
    for (operation, dtype), cost in machine.arithmetic.items():
        row = f"{operation} {dtype}"
        assert cost.accumulate <= cost.latency, row
        if cost.uses:
            busiest = max(share for _, share in cost.uses)
            assert cost.per_cycle * busiest == pytest.approx(1, rel=0.01), row
    assert ("fma", "float64") in machine.arithmetic or "fma" not in machine.features


# name, GHz, N_VEC, L_VFMA, N_VFMA, S_L1 KB, W_L1, S_L2 KB, W_L2 as table 4.2 of the seed prints.
TABLE_4_2 = [
    ("sandy-bridge-i7-3820", 3.8, 4, 8, 1, 32, 8, 256, 8),
    ("kaby-lake-i7-7700", 4.2, 4, 4, 2, 32, 8, 256, 8),
    ("xeon-phi-7210", 1.3, 8, 6, 2, 32, 8, 1024, 16),
    ("power8", 4.023, 2, 5.5, 2, 64, 8, 512, 8),
    ("x-gene1", 2.4, 2, 9, 0.5, 32, 8, 256, 8),
    ("xeon-e5-2630-v4", 3.1, 4, 5, 2, 32, 8, 256, 8),
]


@pytest.mark.parametrize("row", TABLE_4_2, ids=lambda row: row[0])
def test_table_4_2(row: tuple[str, float, int, float, float, int, int, int, int]) -> None:
    """Frequencies in brackets (turbo) where the seed prints two: its bounds use them."""
    name, ghz, n_vec, latency, per_cycle, s_l1, w_l1, s_l2, w_l2 = row
    machine = load_machine(name)
    step = machine.vmma("add", "mul", "float64")
    assert machine.frequency_hz == pytest.approx(ghz * 1e9)
    assert machine.lanes(64) == n_vec
    assert (step.latency, step.per_cycle) == (latency, per_cycle)
    l1, l2 = machine.cache(1), machine.cache(2)
    assert (l1.size, l1.ways, l2.size, l2.ways) == (s_l1 << 10, w_l1, s_l2 << 10, w_l2)


# name, GHz, N_VEC, L_VFMA, N_VFMA, N_prefetch, L_VLOAD, N_REG, L_ADD of table 4.17.
TABLE_4_17 = [
    ("core-e5450", 3.0, 2, 8, 1, 1, 4, 16, 3),
    ("sandy-bridge-e5-2660", 2.2, 4, 8, 1, 2, 4, 16, 3),
    ("broadwell-e5-2697-v4", 2.3, 4, 5, 2, 2, 4, 16, 3),
    ("k10-opteron-8354", 2.2, 2, 8, 1, 2, 4, 16, 4),
]


@pytest.mark.parametrize("row", TABLE_4_17, ids=lambda row: row[0])
def test_table_4_17(row: tuple[str, float, int, int, int, int, int, int, int]) -> None:
    name, ghz, n_vec, latency, per_cycle, prefetch, load, registers, addition = row
    machine = load_machine(name)
    processor = machine.processor("add", "mul", "float64")
    assert machine.frequency_hz == pytest.approx(ghz * 1e9)
    assert (processor.lanes, processor.latency, processor.per_cycle) == (n_vec, latency, per_cycle)
    assert (processor.prefetches_per_cycle, processor.prefetch_latency) == (prefetch, 300)
    assert (processor.load_latency, processor.registers) == (load, registers)
    assert processor.add_latency == addition


@pytest.mark.parametrize(
    ("name", "points"),
    [
        (
            "core-e5450",
            {1: 763, 2: 3886, 4: 4649, 8: 7958, 16: 39774, 32: 189503, 36: 179263},
        ),
        (
            "broadwell-e5-2697-v4",
            {1: 455, 2: 3410, 4: 4779, 8: 6501, 16: 8399, 32: 85658, 36: 14850},
        ),
    ],
)
def test_table_4_21(name: str, points: dict[int, int]) -> None:
    cost = load_machine(name).parallel_cost
    assert {threads: cost.cycles(threads) for threads in points} == points


def test_llvm_numbers_are_those_of_this_llvm() -> None:
    """The generator script agrees with one data file (all of them: its --all --check)."""
    if llvm.llvm_version_info[:2] != (22, 1) or llvm.llvm_assertions_state != "on":
        pytest.skip("the data are those of LLVM 22.1, read through its assertions")
    script = ROOT / "scripts" / "machine_from_llvm.py"
    command = [sys.executable, str(script), "--check", "zen3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
