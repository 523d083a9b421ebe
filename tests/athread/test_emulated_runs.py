"""Whole programs on the emulator: results, counts, predictions, and faults beside those of DMA."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopwright.diagnostics import ToolchainError, UsageError
from loopwright.machines.load_mesh import load_mesh
from loopwright.machines.mesh_timeline import predict_teams
from loopwright.runtime.athread_emulator.athread_run import AthreadFault, AthreadRun, run_athread
from loopwright.runtime.athread_emulator.athread_trace import count_events, profile_lines
from needed_tools import needs_compiler

RUNS = Path(__file__).parent / "runs"
EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "athread"
SW = load_mesh("sw26010")


def _run(name: str, *flags: str, folder: Path = RUNS, **keywords: object) -> AthreadRun:
    files = [str(folder / f"{name}_{side}.c") for side in ("master", "slave")]
    return run_athread(
        files[:1], files[1:], SW, flags=flags, timeout=600, **keywords  # type: ignore[arg-type]
    )  # fmt: skip


# Bytes of a request, of its blocks and gaps, GB/s measured (swCandle), the error allowed.
MEASURED = (
    (128, 128, 0, 2.95, 0.15),
    (256, 256, 0, 5.99, 0.06),
    (2048, 2048, 0, 15.3, 0.06),
    (24576, 24576, 0, 20.4, 0.06),
    (24576, 256, 512, 8.02, 0.06),
    (24576, 2048, 128, 17.41, 0.06),
)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("length", "block", "gap", "rate", "error"), MEASURED)
def test_stream_takes_as_long_as_measured(
    length: int, block: int, gap: int, rate: float, error: float
) -> None:
    done = _run("stream", f"-DLENGTH={length}", f"-DBLOCK={block}", f"-DGAP={gap}", profile=True)
    assert done.output == "1\n"
    assert done.trace is not None
    found = predict_teams(SW, done.trace.teams)
    cycles = found.cycles - found.launch_cycles
    bytes_ = 2 * 64 * 8 * length
    assert count_events(done.trace).bytes == bytes_
    assert bytes_ / cycles * SW.frequency_hz / 1e9 == pytest.approx(rate, rel=error)


@pytest.mark.skipif(not EXAMPLE.exists(), reason="the package was installed without its examples")
def test_the_example_is_priced() -> None:
    done = _run("gemm", folder=EXAMPLE, profile=True)
    assert (done.status, done.output) == (0, "0 elements differ\n")
    assert done.trace is not None
    counts = count_events(done.trace)
    assert counts.flops == 2 * 256**3  # no more, no less
    assert counts.requests == 64 * (1 + 2 * 8 + 1)
    assert counts.blocks == 64 * (1 + 2 * 8 * 32 + 32)
    assert counts.global_accesses == 0
    found = predict_teams(SW, done.trace.teams)
    assert found.bound[0] == "the queue of DMA requests"
    assert found.flops_per_second / 1e9 == pytest.approx(30, rel=0.05)  # of this tile: 33 at most
    assert len(profile_lines(done.trace, SW)) == 5
    assert 36_000 < done.trace.ldm_bytes < 44_000


def test_messages_along_rows_and_columns() -> None:
    done = _run("broadcast", profile=True, seed=3)
    assert done.output == "0 wrong\n"
    assert done.trace is not None
    counts = count_events(done.trace)
    assert counts.flops == 2 * 64**3
    assert counts.messages == 2 * 8 * 8 * 16  # 16 vectors of each CPE's two tiles
    assert counts.barriers == 8 * 64


def test_the_side_of_the_host() -> None:
    done = _run("host", arguments=["seven"])
    assert done.status == 3
    assert done.output.splitlines() == [
        "10 of 64 marks, 10 threads, helper 2, argument seven",
        "CPE 42, row 5",
        "CPE 5 says hello",
        "kept 103 103",
    ]


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("NULL_POINTER", "CPE 0 (row 0, column 0) uses address 0x14, where there is no memory"),
        (
            "ENDLESS",
            "loops without an end and without touching memory: is a variable that it waits",
        ),
        ("RECURSION", "stack, deepest at"),
        ("HEAP", "\n     16384  ldm_malloc of"),
        ("BAD_FREE", "frees 64 bytes of a piece of 128"),
        ("NEGATIVE", "calls athread_get for -4 bytes"),
        ("NO_REPLY", "calls athread_get with a reply that is not in its LDM: main memory at"),
        ("RANK", "calls athread_get in a mode that is not emulated: PE_MODE, BCAST_MODE"),
        ("HOST_ONLY", "calls athread_join, which only the host can"),
        ("BEYOND_LDM", "calls athread_get with a target buffer: 1048576 bytes go beyond the LDM"),
        ("TO_ITSELF", "sends to itself by putr"),
        ("NO_INIT", "the host calls athread_spawn before athread_init"),
        ("TWICE", "the host starts a team while another one runs: athread_join is missing"),
        ("NO_JOIN", "the program ends while CPEs run: athread_join is missing"),
    ],
)
def test_other_faults(flag: str, told: str) -> None:
    with pytest.raises(AthreadFault) as raised:
        _run("faults", f"-D{flag}")
    assert told in raised.value.message
    assert raised.value.line > 0


@needs_compiler
def test_what_the_compiler_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolchainError, match="vaddd"):
        _run("faults", "-DUNSENT")
    with pytest.raises(UsageError, match="there is no file"):
        _run("nothing")
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ToolchainError, match="there is no such program"):
        _run("faults")
