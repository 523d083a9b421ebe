"""`loopwright machines`: the table, one machine with its sources, JSON."""

import json

import pytest

from loopwright.cli import main
from loopwright.machines import host, load_machine, machine_names
from loopwright.machines.load import machine_from_json
from loopwright.machines.load_gpu import gpu_names
from loopwright.machines.load_mesh import load_mesh, mesh_from_json, mesh_names


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(lines[0].split()) == "machine isa bits regs L1 L2 L3 L/N f64 ops/cycle"
    rows = {line.split()[0]: " ".join(line.split()) for line in lines[1:] if line}
    assert rows["neoverse-n1"] == "neoverse-n1 aarch64 128 32 64 KiB 1 MiB 32 MiB 2/2 8 4"
    assert rows["power8"] == "power8 ppc64le 128 64 64 KiB 512 KiB 8 MiB 5.5/2 8 4"
    assert rows["core-e5450"] == "core-e5450 x86_64 128 16 32 KiB 6 MiB - 8/1 4 2"
    assert rows.keys() >= set(machine_names())


def test_one_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines", "power8"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "power8: IBM POWER8NVL: 2 x 128-bit VSX pipes, 64 registers"
    assert "frequency_hz 4.02 GHz Gareev's dissertation, table 4.2" in lines
    assert "prefetch_latency 300 Gareev's dissertation, section 2.1: 300 when unknown" in lines
    assert "fma float64 5.5 2 1 Gareev's dissertation, table 4.2 (LLVM 22.1: 6)" in lines
    assert "add int8 2 2 1 LLVM 22.1 scheduling model of pwr8" in lines


def test_both_latencies_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines", "neoverse-n1"]) == 0
    text = capsys.readouterr().out
    assert "\nfma float32            4 (2)     2" in text
    assert text.endswith("\n(n): cycles from the addend to the result\n")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines", "zen3", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert machine_from_json(data, "zen3") == load_machine("zen3")
    assert main(["machines", "--json"]) == 0
    names = [item["name"] for item in json.loads(capsys.readouterr().out)]
    assert names == [*machine_names(), *gpu_names(), *mesh_names()]


def test_gpus_and_meshes(capsys: pytest.CaptureFixture[str]) -> None:
    """Each kind in its table, and every field of one with its source."""
    assert main(["machines"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "GPU SMs GHz threads shared L2 GB/s Tflop/s f32 f64" in lines
    assert "sm_80 108 1.41 2048 164 KiB 40 MiB 2039 19.5 9.75" in lines
    assert "mesh groups cores GHz bits scratchpad GB/s Gflop/s f64" in lines
    assert "sw26010 4 8 x 8 1.45 256 64 KiB 34.1 742.4" in lines
    assert main(["machines", "sw26010pro"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "sw26010pro: Sunway SW26010-Pro (SW39000), 6 core groups of 1 + 64 cores"
    assert "block_cycles unknown not published" in lines
    assert main(["machines", "sm_90"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "sector 32 CUDA C++ Programming Guide: transactions of 32 bytes" in lines
    assert main(["machines", "sw26010", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert mesh_from_json({**data, "format": 1}, "sw26010") == load_mesh("sw26010")


def test_host(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines", "host"]) == 0
    assert capsys.readouterr().out.startswith(f"{host().name}: {host().description}\n")


def test_unknown_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines", "zen33"]) == 2
    assert capsys.readouterr().err == (
        "loopwright: error: no machine is named 'zen33'\n"
        "try: one of zen3, zen4, or the path of a JSON file\n"
    )


def test_a_table_of_a_mesh_has_a_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines", "sw26010"]) == 0
    out = capsys.readouterr().out
    row = next(line for line in out.splitlines() if line.startswith("small_blocks[3]"))
    assert row.split()[1:7] == ["bytes", "8,", "gap", "8,", "bytes_per_second", "3.6e+08"]
    assert "swCandle" in row
    assert main(["machines", "sw26010", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["small_blocks"]
    assert rows[0] == {"bytes": 8, "gap": 0, "bytes_per_second": 470000000.0}
