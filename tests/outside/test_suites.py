"""Runs of other projects' tests: which are judged, and which are refused as not complete."""

import os
from pathlib import Path

import pytest

from outside.suites import disagreements, run_suite

ALONE = "outside_record"  # the plugin that only writes outcomes down


def written(folder: Path, text: str) -> list[Path]:
    file = folder / "test_theirs.py"
    file.write_text(text, encoding="utf-8")
    return [file]


def test_failures_are_judged_by_the_list(tmp_path: Path) -> None:
    files = written(
        tmp_path, "def test_a():\n    pass\n\n\ndef test_b():\n    raise ValueError(2)\n"
    )
    outcome = run_suite(files, ALONE, tmp_path)
    assert outcome.outcomes == {"test_a": "passed", "test_b": "failed"}
    assert disagreements(outcome, {"test_b": "one is not two"}) == []
    assert disagreements(outcome, {}) == ["test_b fails: ValueError: 2"]


@pytest.mark.parametrize("end", ["pytest.exit('enough')", "raise KeyboardInterrupt"])
def test_a_run_that_ends_early_is_refused(end: str, tmp_path: Path) -> None:
    lines = "import pytest\n\n\ndef test_a():\n    pass\n\n\ndef test_b():\n    "
    with pytest.raises(pytest.fail.Exception, match="the child process ended with 2:"):
        run_suite(written(tmp_path, lines + end + "\n"), ALONE, tmp_path)


def test_installed_plugins_take_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    told = site / "disturbing-1.0.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text("Name: disturbing\nVersion: 1.0\n", encoding="utf-8")
    (told / "entry_points.txt").write_text("[pytest11]\nit = disturbing\n", encoding="utf-8")
    (site / "disturbing.py").write_text("raise SystemExit(9)\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
    outcome = run_suite(written(tmp_path, "def test_a():\n    pass\n"), ALONE, tmp_path)
    assert outcome.outcomes == {"test_a": "passed"}
