"""`loopwright demo`: right results, text that fits any terminal, the proof, commands that exist."""

import sys
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from loopwright import options
from loopwright.cli import demo_command, demo_jobs, main
from loopwright.cli.demo_jobs import Comparison, DemoJob, Peer, Scene, Sizes
from loopwright.diagnostics import InternalError, ToolchainError

SMALL = Sizes(points=6, steps=2, nodes=5, matrix=4, grid=4)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small sizes, one round, no pauses."""
    monkeypatch.setattr(demo_command, "SIZES", SMALL)
    monkeypatch.setattr(demo_command, "ROUNDS", 1)
    monkeypatch.setattr(demo_command, "MOST_CALLS", 1)
    monkeypatch.setattr(demo_command, "PAUSE", 0.0)


def test_output(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    # Conversions are compiled also where loops are interpreted: seconds, and tests of their own.
    monkeypatch.setattr(lw.sparse, "convert", lambda a, name: getattr(a, f"to{name}")())
    with options.override(interpret=True):
        assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert out.isascii()
    assert "\r" not in out
    assert "\033" not in out
    assert [line for line in out.splitlines() if len(line) > 80] == []
    heads = ["1. Python", "2. einsum", "3. C", "4. Sparse", "5. A reordering", "Your own"]
    assert [line for line in out.splitlines() if line.startswith(tuple(heads))] != []
    assert sorted(heads, key=out.index) == heads
    assert out.count("Loopwright, to ") == 2
    assert out.count(" times as long\n") >= 5


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str | None = None) -> None:
        raise ToolchainError(("cc",), "", "there is no C compiler here")

    monkeypatch.setattr(demo_jobs, "find_compiler", none)
    scene = demo_jobs.demo_jobs(SMALL)[2].prepare()
    assert scene.note == (
        "No C compiler was found to compare with. None is needed: this code is LLVM's."
    )
    assert [peer.name for peer in scene.comparisons[0].peers] == ["NumPy's BLAS"]


def test_no_scipy(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    job = demo_jobs.demo_jobs(SMALL)[3]
    demo_command._show_job(4, job)
    assert capsys.readouterr().out.endswith(
        "\nLeft out, for scipy is not installed: pip install scipy\n"
    )


def _job(ours: float, theirs: float) -> DemoJob:
    peer = Peer("NumPy", lambda: np.array([theirs]), "it does less")
    comparison = Comparison("Loopwright", lambda: np.array([ours]), (peer,))
    return DemoJob("numbers", "x = 1", lambda: Scene((comparison,)))


def test_wrong_result() -> None:
    with pytest.raises(
        InternalError, match=r"Loopwright, beside NumPy: the result is wrong by 0\.5"
    ):
        demo_command._show_job(1, _job(1.0, 2.0))


@pytest.mark.parametrize("line", demo_command.COMMANDS)
def test_commands_that_are_recommended_exist(
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing but the file is missing."""
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    err = capsys.readouterr().err
    assert "usage:" not in err
    assert "YOUR." in err
