"""The command, its watchdog and launcher: with processes of MPI where there are any."""

import importlib.util
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from loopwright import options
from loopwright.integrations.mpi.mpi_command import StepProgress, main
from loopwright.integrations.mpi.mpi_launcher import mpirun_command
from loopwright.paths.elimination import eliminate
from loopwright.semirings import semiring

MODULE = "loopwright.integrations.mpi"
_beside = Path(sys.executable).parent / "mpirun"
MPIRUN = str(_beside) if _beside.exists() else shutil.which("mpirun")
needs_mpi = pytest.mark.skipif(
    MPIRUN is None or importlib.util.find_spec("mpi4py") is None,
    reason="mpi4py and mpirun are not installed",
)


def environment() -> dict[str, str]:
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    made = {**os.environ, **allowed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    # Kernels are checked where ranks are threads: four processes that check each are slow.
    made.pop(options.variable("check"), None)
    return made


def graph(n: int) -> np.ndarray:
    random = np.random.default_rng(6)
    a = random.random((n, n)) * 100
    a[random.random((n, n)) < 0.8] = np.inf
    return a


def expected(a: np.ndarray, block: int) -> np.ndarray:
    made = a.copy()
    eliminate(made, semiring("min_plus"), 1, block)
    np.fill_diagonal(made, 0)
    return made


def start(ranks: int, words: list[str]) -> "subprocess.Popen[str]":
    command = [str(MPIRUN), "--oversubscribe", "-n", str(ranks), sys.executable, "-m", MODULE]
    return subprocess.Popen(
        [*command, *words],
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@needs_mpi
@pytest.mark.parametrize("ranks", [1, 4])
def test_processes_give_the_bits_of_one_machine(tmp_path, ranks) -> None:
    a = graph(90)
    np.save(tmp_path / "a.npy", a)
    words = ["shortest", "--input", str(tmp_path / "a.npy"), "--block", "16"]
    words += ["--output", str(tmp_path / "d.npy"), "--threads", "1"]
    process = start(ranks, words)
    told = process.communicate(timeout=600)[0]
    assert process.returncode == 0, told
    assert "shortest: step 6 of 6" in told
    assert np.array_equal(np.load(tmp_path / "d.npy"), expected(a, 16))


@needs_mpi
def test_a_killed_rank_is_told_and_the_run_goes_on(tmp_path) -> None:
    a = graph(600)
    np.save(tmp_path / "a.npy", a)
    saved = tmp_path / "saved"
    words = ["shortest", "--input", str(tmp_path / "a.npy"), "--block", "8", "--threads", "1"]
    words += ["--checkpoint", str(saved), "--output", str(tmp_path / "d.npy"), "--quiet"]
    process = start(4, words)
    deadline = time.monotonic() + 600
    while len(list(saved.glob("step-*.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    about = json.loads((saved / "rank-00002.alive").read_text(encoding="utf-8"))
    os.kill(about["pid"], signal.SIGKILL)
    told = process.communicate(timeout=600)[0]
    assert process.returncode != 0
    assert f"steps are saved in {saved}" in told
    assert "try: the same command again, which goes on with step" in told
    assert not (tmp_path / "d.npy").exists()
    process = start(4, words)
    told = process.communicate(timeout=600)[0]
    assert process.returncode == 0, told
    assert np.array_equal(np.load(tmp_path / "d.npy"), expected(a, 8))


@needs_mpi
def test_errors_are_told_once(tmp_path) -> None:
    a = np.full((20, 20), np.inf)
    a[1, 8], a[8, 1] = 1.0, -2.0
    np.save(tmp_path / "a.npy", a)
    process = start(2, ["shortest", "--input", str(tmp_path / "a.npy"), "--block", "4", "--quiet"])
    told = process.communicate(timeout=600)[0]
    assert process.returncode != 0
    assert told.count("error: a cycle of negative weight") == 1


def test_progress_is_a_line_for_each_tenth() -> None:
    shown = io.StringIO()
    progress = StepProgress("shortest", shown)
    for done in range(41):
        progress(done, 40)
    lines = shown.getvalue().splitlines()
    assert len(lines) == 11
    assert lines[0] == "shortest: step 0 of 40"
    assert lines[1].startswith("shortest: step 4 of 40, ")
    assert lines[-1] == "shortest: step 40 of 40"


# -- the watchdog, in processes of its own ---------------------------------------------------------


def watched(tmp_path, body: str) -> "subprocess.Popen[str]":
    program = textwrap.dedent(f"""
        import sys, time
        from loopwright.integrations.mpi.watchdog import Watchdog
        folder, rank = sys.argv[1], int(sys.argv[2])
        with Watchdog(rank, 2, folder, beat=0.05, limit=1.0):
            {body}
    """)
    return subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path), "0"],
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_rank_that_is_silent_is_told(tmp_path) -> None:
    about = {"pid": 77, "host": "far"}
    (tmp_path / "rank-00001.alive").write_text(json.dumps(about), encoding="utf-8")
    process = watched(tmp_path, "time.sleep(60)")
    told = process.communicate(timeout=600)[1]
    assert process.returncode == 143
    assert told == (
        "\nerror: rank 1 (process 77 on far) does not answer: no sign of life for 1 s\n"
        f"note: no step was saved in {tmp_path} yet\ntry: the same command again\n"
    )


def test_a_signal_is_heard_while_the_main_thread_waits(tmp_path) -> None:
    process = watched(tmp_path, "import threading; threading.Lock().acquire(); time.sleep(60)")
    deadline = time.monotonic() + 600
    while not (tmp_path / "rank-00000.alive").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    told = process.communicate(timeout=600)[1]
    assert process.returncode == 143
    assert told.startswith(
        "\nerror: rank 0 was told to end (SIGTERM): another rank died, or somebody ended the run\n"
    )


def test_a_run_that_ends_leaves_no_sign_of_life(tmp_path) -> None:
    process = watched(tmp_path, "time.sleep(0.2)")
    assert process.communicate(timeout=600)[1] == ""
    assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []


# -- the launcher, with a stand-in for mpirun ------------------------------------------------------

FAKE = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[sys.argv.index("--checkpoint") + 1])
folder.mkdir(exist_ok=True)
saved = sorted(folder.glob("step-*.json"))
step = len(saved) + 1
if step > int(sys.argv[1]):
    sys.exit(0 if "--fresh" not in sys.argv else 5)
if step > int(sys.argv[2]):
    sys.exit(9)
content = dict(format=1, step=step, steps=8, fingerprint="", problem={}, parts=[])
(folder / f"step-{step:08}.json").write_text(json.dumps(content))
sys.exit(7)
"""


@pytest.mark.parametrize(
    ("ends_after", "saves", "status", "told"),
    [
        (2, 9, 0, ["restarted from step 1, 2 restarts left", "restarted from step 2, 1 restarts"]),
        (9, 1, 1, ["restarted from step 1", "error: the run ended with status 9"]),
        (9, 9, 1, ["restarted from step 3, 0 restarts left", "4 of 8 steps are saved in"]),
    ],
)
def test_a_run_is_started_again_as_long_as_steps_are_saved(
    tmp_path, capfd, ends_after, saves, status, told
) -> None:
    fake = tmp_path / "fake.py"
    fake.write_text(FAKE, encoding="utf-8")
    mpirun = f"{sys.executable} {fake} {ends_after} {saves}"
    words = ["--", "shortest", "--input", "a.npy", "--checkpoint", str(tmp_path / "saved")]
    assert main(["launch", "-n", "4", "--mpirun", mpirun, *words, "--fresh"]) == status
    shown = capfd.readouterr().err
    for text in told:
        assert text in shown


def test_the_command_that_starts_ranks() -> None:
    assert mpirun_command("srun --mpi=pmix") == ["srun", "--mpi=pmix"]
    if MPIRUN is not None:
        assert mpirun_command() == [MPIRUN]
