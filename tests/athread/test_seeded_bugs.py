"""Athread programs with one fault each, beside a twin without it: the emulator names the line.

The line of the fault has the comment `fault` in the source; where a race has two ends, both have.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from drawn import drawn
from loopwright.machines.load_mesh import load_mesh
from loopwright.runtime.athread_emulator.athread_run import AthreadFault, AthreadRun, run_athread
from needed_tools import needs_compiler

pytestmark = needs_compiler

PROGRAMS = Path(__file__).parent / "programs"
MASTER = str(PROGRAMS / "master.c")

# What the emulator says of each.
BUGS = {
    "missing_reset": "waits for ever for 'reply', which stays 2: no transfer that counts to it",
    "swapped_stride": "2048 bytes in blocks of 896: no whole number of blocks; the gap",
    "overlapping_put": "writes byte 13312 of the 131072 allocated at",
    "box_put": "with no barrier or join between the two",
    "static_overflow": "the LDM overflows by 8 bytes\nLDM of CPE 0: 65544 of 65536 bytes\n"
    "     63488  variable more\n      2048  variable rows\n         4  variable reply",
    "stack_overflow": "finds that the LDM overflows by ",
    "missing_barrier": "with no barrier or join between the two",
    "unaligned_address": "calls athread_get with the main memory address",
    "unaligned_vector": "loads or stores a vector of 32 bytes at rows + 8 bytes, 8 bytes beyond",
    "early_read": "reads 8 bytes at rows, under transfer by the athread_get of",
    "wrong_count": "waits for ever for 'reply', which stays 1",
    "count_too_low": "under transfer by the athread_get of",
    "changed_source": "changes rows + 1048 bytes, the source of the athread_put of",
    "ldm_pointer_on_host": "the host reads an address of the LDM: rows",
    "message_missing": "no CPE can go on:\n  7 wait for a message that nobody sends at",
    "message_left": "sends a message that CPE 3",
    "in_flight_at_end": "ends with the athread_put of this line in flight",
    "broadcast_without_barrier": "with no barrier, message or reply between the two",
    "barrier_not_by_all": "no CPE can go on:\n  7 wait at the row barrier at",
    "beyond_the_array": "1024 beyond the end of the 131072 that were allocated at",
    "source_and_target_swapped": "is not in the LDM",
    "byte_of_another": "writes byte 12292 of the 131072 allocated at",
    "shared_variable": "writes main memory at",
    "newer_generation": "with no barrier, message or reply between the two",
    "broadcast_over_source": "athread_rma_row_ibcast with a target that overlaps its source: box",
    "broadcast_of_no_data": "reads 1024 bytes at box, under transfer by the athread_dma_iget",
    "descriptors": "reads 8 bytes at a local variable, under transfer by the dma (get) of",
}
OF_PRO = {"newer_generation", "broadcast_over_source", "broadcast_of_no_data"}


def _run(name: str, *flags: str, seed: int = 1) -> AthreadRun:
    machine = load_mesh("sw26010pro" if name in OF_PRO else "sw26010")
    slave = str(PROGRAMS / f"{name}.c")
    return run_athread([MASTER], [slave], machine, flags=flags, seed=seed, timeout=600)


def _lines(file: str) -> list[int]:
    text = Path(file).read_text(encoding="utf-8").splitlines()
    return [n for n, line in enumerate(text, 1) if "/* fault" in line]


def test_every_program_is_run() -> None:
    there = {path.stem for path in PROGRAMS.glob("*.c")} - {"master"}
    assert there == set(BUGS)
    assert len(BUGS) >= 13


@pytest.mark.parametrize("name", drawn(BUGS, 8, 1))
def test_the_right_twin_runs(name: str) -> None:
    assert _run(name).output == "0 wrong\n"


@pytest.mark.parametrize("name", BUGS)
def test_the_bug_is_found(name: str) -> None:
    with pytest.raises(AthreadFault) as raised:
        _run(name, "-DBAD")
    fault = raised.value
    assert BUGS[name] in fault.message
    if name != "static_overflow":  # of no line: it is found when the CPEs are set up
        assert fault.line in _lines(fault.file)


def test_the_host_must_not_read_what_cpes_write() -> None:
    with pytest.raises(AthreadFault) as raised:
        _run("wrong_count", "-DEARLY")
    assert f"which the host reads at {MASTER}:{_lines(MASTER)[0]}, with no" in raised.value.message
