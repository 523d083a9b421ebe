"""A process that lives long: every result right, memory that stops growing, signals and forks.

The programs are `long_lived_child.py`, and `many_kernels_child.py` for distinct kernels. In the
first one caches hold a few entries each, and its calls begin anew again and again: whatever grows
then is lost. `python -m benchmarks long_lived` makes 20,000 different calls.
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
from needed_tools import NO_COMPILER, has_compiler

CHILD = Path(__file__).parent / "long_lived_child.py"
MANY = Path(__file__).parent / "many_kernels_child.py"
BROKEN_OFF = Path(__file__).parent / "broken_off_child.py"
DEBUG = {"MALLOC_PERTURB_": "165", "PYTHONMALLOC": "debug"}
ROUND = 60  # calls; then the same ones come again
SECONDS = "60" if HUNTS else "3"  # of compiles that are broken off
MOST_GROWTH = 24 << 20  # bytes; a lost engine for each call would be more
KERNEL_PAGES = 80 << 10  # bytes that a small kernel counts for, at most


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


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system tells no mappings")
@pytest.mark.parametrize(
    ("kind", "marks", "kernels"),
    [
        ("einsum", (10, 15, 20), 8),
        ("conversion", (3, 5, 7), 10),
        *(
            pytest.param(
                kind,
                marks,
                100,
                marks=pytest.mark.only_in_all("a thousand kernels take minutes"),
                id=f"{kind}-thousand",
            )
            for kind, marks in (
                ("einsum", (400, 700, 1000)),
                ("jit", (400, 700, 1000)),
                ("library", (400, 700, 1000)),
                ("conversion", (100, 200, 300)),  # several kernels each
            )
        ),
    ],
)
def test_distinct_kernels_are_given_back(
    kind: str, marks: tuple[int, ...], kernels: int, tmp_path: Path
) -> None:
    """Bytes, mappings, open files and files on disk do not grow once the limit is reached."""
    if kind == "library" and not has_compiler():
        pytest.skip(NO_COMPILER)
    limit, on_disk = kernels * KERNEL_PAGES, kernels * 2500
    variables = {"CACHE_DIR": str(tmp_path / "cache"), "RACE": "0"}
    variables |= {"CODE_LIMIT": str(limit), "CACHE_LIMIT": str(on_disk)}
    done = subprocess.run(
        [sys.executable, str(MANY), "--kind", kind, "--marks", ",".join(map(str, marks))],
        env={**os.environ, **{f"LOOPWRIGHT_{name}": value for name, value in variables.items()}},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [mark["made"] for mark in told] == list(marks)
    first, *later = told
    for mark in told:
        assert mark["code"] <= limit, done.stdout
        assert mark["disk"] <= on_disk, done.stdout
        assert mark["damaged"] == 0
    for mark in later:
        assert mark["open"] <= first["open"], done.stdout
        # Two of each kernel that may be loaded, and what Python and LLVM allocate besides.
        assert mark["mappings"] - first["mappings"] <= 2 * kernels + 40, done.stdout
        assert mark["resident"] - first["resident"] <= limit + (16 << 20), done.stdout


def _require_variety(done: dict[str, Any]) -> None:
    for kind in ("einsum", "jit", "compile", "sparse_call", "again", "signals", "forks"):
        assert done.get(kind), f"no {kind} among {done}"
