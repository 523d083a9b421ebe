"""A process that lives long: every result right, memory that stops growing, signals and forks.

The program is `long_lived_child.py`. Here its caches hold a few entries each, and its calls begin
anew again and again: whatever grows then is lost. `python -m benchmarks long_lived` makes 20,000
different calls.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drawn import HUNTS, drawn

CHILD = Path(__file__).parent / "long_lived_child.py"
BROKEN_OFF = Path(__file__).parent / "broken_off_child.py"
DEBUG = {"MALLOC_PERTURB_": "165", "PYTHONMALLOC": "debug"}
ROUND = 60  # calls; then the same ones come again
SECONDS = "60" if HUNTS else "3"  # of compiles that are broken off
MOST_GROWTH = 24 << 20  # bytes; a lost engine for each call would be more


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system tells no memory")
@pytest.mark.only_in_all("a soak")
@pytest.mark.parametrize(
    "surroundings",
    [
        pytest.param({}, id="plain"),
        pytest.param(
            DEBUG, id="debug", marks=pytest.mark.only_in_all("a soak under Python's debug hooks")
        ),
    ],
)
def test_a_long_lived_process(surroundings: dict[str, str]) -> None:
    marks = [3 * ROUND, 6 * ROUND]
    command = [sys.executable, str(CHILD), "--calls", str(marks[-1]), "--repeat", str(ROUND)]
    command += ["--marks", ",".join(map(str, marks)), "--caches", "8"]
    done = subprocess.run(
        command, env={**os.environ, **surroundings}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    middle, end = told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [mark["calls"] for mark in told] == marks
    # With memory that is padded and overwritten only results count: its size says nothing.
    if not surroundings:
        assert end["resident"] - middle["resident"] <= MOST_GROWTH, done.stdout
    _require_variety(end["done"])


@pytest.mark.only_in_all("interrupts by the clock of the system, for seconds")
@pytest.mark.parametrize("seed", drawn([1, 2], 2))
def test_a_process_whose_compiles_are_broken_off(seed: int) -> None:
    command = [sys.executable, str(BROKEN_OFF), "--seconds", SECONDS, "--seed", str(seed)]
    command += ["--least", "12"]  # on a busy machine the seconds are over before
    surroundings = {**os.environ, **DEBUG}
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "islpy" not in done.stdout + done.stderr  # it tells of what it ignores
    assert json.loads(done.stdout)["broken off"] >= 12


def _require_variety(done: dict[str, Any]) -> None:
    for kind in ("einsum", "jit", "compile", "sparse_call", "again", "signals", "forks"):
        assert done.get(kind), f"no {kind} among {done}"
