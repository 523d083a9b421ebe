"""The measured loops: valid IR on every machine, the intended instructions, sane numbers here."""

from collections.abc import Iterator
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from loopwright import options
from loopwright.cli import main
from loopwright.machines import load_machine, machine_names
from loopwright.machines.calibration import read_calibration
from loopwright.machines.host import host, host_machine
from loopwright.runtime import calibrate as measuring
from loopwright.runtime.calibrate import clock_loop, loops, module

TRIPLES = {
    "aarch64": "aarch64-unknown-linux-gnu",
    "x86_64": "x86_64-unknown-linux-gnu",
    "ppc64le": "powerpc64le-unknown-linux-gnu",
}


def assembly(name: str) -> dict[str, list[str]]:
    """The instructions of each loop of a machine, by the loop's name."""
    machine = load_machine(name)
    parsed = llvm.parse_assembly(module([clock_loop(), *loops(machine)]))
    parsed.verify()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(TRIPLES[machine.isa])
    features = "+fullfp16" if machine.isa == "aarch64" and "fp16" in machine.features else ""
    tool = target.create_target_machine(cpu=machine.llvm_cpu, features=features, opt=3)
    found: dict[str, list[str]] = {}
    label = ""
    for line in tool.emit_assembly(parsed).splitlines():
        if line.endswith(":") and not line.startswith((".", " ", "\t")):
            label = line[:-1].strip('"')
            found[label] = []
        elif line.startswith("\t") and label:
            found[label].append(line.strip().split("\t")[0])
    return found


@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", machine_names())
def test_loops_compile_for_every_machine(name: str) -> None:
    found = assembly(name)
    wanted = [loop.name for loop in loops(load_machine(name))]
    assert set(wanted) <= set(found)
    assert len(wanted) == len(set(wanted))


def test_instructions_on_arm() -> None:
    found = assembly("neoverse-n1")
    assert found["per_cycle.fma.float32"].count("fmla") == 24
    assert found["per_cycle.fma.int32"].count("mla") == 24
    assert found["accumulate.fma.float64"].count("fmla") == 4
    assert found["accumulate.dot.int8"].count("sdot") == 4
    assert found["per_cycle.min.float32"].count("fminnm") == 24
    assert found["per_cycle.max.int16"].count("smax") == 24
    assert found["latency.mul.float64"].count("fmul") == 1
    assert found["clock"].count("eor") == found["clock"].count("add") - 1 == 8


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Shorter measurements and a cache of one's own."""
    monkeypatch.setattr(measuring, "_RUN_SECONDS", 1e-4)
    monkeypatch.setattr(measuring, "_REPEATS", 5)
    monkeypatch.setattr(measuring, "_ROUNDS", 1)
    monkeypatch.setattr(measuring, "_MOST_MEMORY", 1 << 24)
    with options.override(cache_dir=str(tmp_path)):
        host.cache_clear()
        yield tmp_path / "calibration.json"
    host.cache_clear()


@pytest.mark.only_in_all("times that are measured on this machine")
def test_measurements_are_sane(quick: Path) -> None:
    """Loose bounds, which a machine with much else to do may still miss."""
    machine = host_machine()
    lines: list[str] = []
    found = measuring.calibrate(machine, lines.append)
    assert 1e8 < found.frequency_hz < 1e10
    assert found.llvm_cpu == machine.llvm_cpu
    for dtype in ("float32", "float64"):
        assert 0.05 < found.per_cycle["add", dtype] < 16
        assert 0.2 < found.latency["mul", dtype] < 60
        if "fma" in machine.features:
            assert 0.05 < found.per_cycle["fma", dtype] < 16
            assert 0.2 < found.accumulate["fma", dtype] < 60
            assert 0.2 < found.latency["fma", dtype] < 60
    assert found.load_latency is not None
    assert len(found.cache_bytes_per_cycle) == len(machine.caches)
    assert (
        lines[0]
        == f"throughput and latency of {'float16' if 'fp16' in machine.features else 'float32'}"
    )
    assert lines[-1] == "cost of a parallel region"


def test_command_measures_shows_and_stores(quick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--dry-run"]) == 0
    assert not quick.exists()
    text = capsys.readouterr().out
    assert text.startswith(f"measuring {host_machine().llvm_cpu}, known as ")
    assert "  load latency\n" in text
    assert "fma float32 by addend" in text or "fma" not in host_machine().features
    assert main(["calibrate"]) == 0
    assert f"stored in {quick}; used from now on" in capsys.readouterr().out
    stored = read_calibration(host_machine().llvm_cpu)
    assert stored is not None
    assert host().frequency_hz == stored.frequency_hz


def test_store_that_cannot_be_written(quick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick.mkdir()
    assert main(["calibrate"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("loopwright: error: the calibration cannot be stored: ")
    assert told.endswith("try: another directory in LOOPWRIGHT_CACHE_DIR\n")
