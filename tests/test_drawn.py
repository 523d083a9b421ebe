"""The part of the cases that a run takes, by its level."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import drawn
from drawn import in_turn, taken

# What a machine may have otherwise.
SURROUNDINGS = (
    {"PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo", "LC_ALL": "POSIX", "DRAW": "5"},
    {"PYTHONHASHSEED": "2", "TZ": "America/Lima", "LC_ALL": "C.UTF-8", "CI": "true"},
)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 11, 12, 13, 100])
@pytest.mark.parametrize("one_in", [1, 2, 3, 4, 19])
def test_every_case_has_its_turn(count: int, one_in: int) -> None:
    cases = list(range(count))
    turns = [in_turn(cases, one_in, turn) for turn in range(one_in * 7)]
    step = max(1, min(one_in, count))
    assert all(turns)
    assert all(len(found) - count // step in (0, 1) for found in turns)
    assert sorted(case for found in turns[:step] for case in found) == cases


def at_level(monkeypatch: pytest.MonkeyPatch, level: str, draw: str | None = None) -> None:
    monkeypatch.setattr(drawn, "LEVEL", level)
    monkeypatch.setattr(drawn, "HUNTS", level == "hunt")
    if draw is None:
        monkeypatch.delenv("DRAW", raising=False)
    else:
        monkeypatch.setenv("DRAW", draw)


def test_days_of_the_long_run_take_every_case(monkeypatch: pytest.MonkeyPatch) -> None:
    found: set[int] = set()
    for draw in range(739_000, 739_004):
        at_level(monkeypatch, "all", draw=str(draw))
        found |= set(taken(range(12), 4))
    assert found == set(range(12))


def test_workers_of_a_long_run_agree_on_the_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAW", "0")  # put back at the end: the call below writes it
    at_level(monkeypatch, "all")
    assert drawn.turn() > 738_000
    assert os.environ["DRAW"] == str(drawn.turn())


# Prints what it draws: by our own means, by hypothesis, and which cases are left.
FILE = """
import signal
import pytest
import constants
from hypothesis import given, strategies
from drawn import drawn

@pytest.mark.drawn(3)
@pytest.mark.parametrize("case", drawn(range(18), 2))
def test_case(case):
    print("case", case)

@given(strategies.lists(strategies.integers(), min_size=4))
def test_example(numbers):
    print("example", numbers)

@pytest.mark.only_in_all("takes minutes")
def test_long():
    print("long")

def test_control_c():
    print("Ctrl-C", signal.getsignal(signal.SIGINT).__name__)
"""


def printed(file: Path, level: str, surroundings: dict[str, str]) -> list[str]:
    """The lines that the tests of a file print in a process started in the background."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-s", "-q", "-p", "conftest", "-p", "no:cacheprovider",
         "-p", "no:randomly", str(file)],
        cwd=file.parent, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": ":".join(filter(None, sys.path)), "DRAW": "",
                                "TEST_LEVEL": level} | surroundings,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),  # as shells do it
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    words = ("case", "example", "long", "Ctrl-C")
    lines = [line.lstrip(".") for line in done.stdout.splitlines()]
    return [line for line in lines if line.startswith(words)]


def test_only_the_level_changes_what_runs(tmp_path: Path) -> None:
    """Hash seed, time zone, locale, day, and what is loaded besides, change nothing."""
    file = tmp_path / "test_draws.py"
    file.write_text(FILE, encoding="utf-8")
    loaded = tmp_path / "constants.py"
    loaded.write_text("", encoding="utf-8")
    usual = printed(file, "test", SURROUNDINGS[0])
    loaded.write_text(f"NUMBERS = {list(range(1000, 2000))}", encoding="utf-8")
    assert printed(file, "test", SURROUNDINGS[1]) == usual
    cases = [line for line in usual if line.startswith("case")]
    assert cases == ["case 0", "case 14"]
    assert sum(line.startswith("example") for line in usual) == 12
    assert "long" not in usual
    assert "Ctrl-C default_int_handler" in usual
    longer = printed(file, "all", {"DRAW": "1", "CI": "true"})
    assert set(cases) < set(longer)
    assert "long" in longer
    assert not {line for line in longer if line.startswith("example")} <= set(usual)


def test_an_unknown_level_is_an_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import drawn"], cwd=Path(__file__).parent, capture_output=True,
        text=True, check=False, env=os.environ | {"TEST_LEVEL": "some"},
    )  # fmt: skip
    assert done.stderr.endswith("ValueError: TEST_LEVEL=some: accepted are test, all, hunt\n")
