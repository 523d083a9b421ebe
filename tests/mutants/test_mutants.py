"""Small faults of the source: which there are, where they stand, and which tests run for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mutants.candidates import KINDS, candidates
from mutants.kill import run_of
from mutants.mutant import MISCOMPILES, MUTANTS, read_mutants
from mutants.processes import CHOSEN, JOB, LOG
from mutants.reached import ROOT, SOURCE, package_of

TEXT = '''"""Words of a module: 1 < 2."""

__all__ = ["total"]
LIMIT: int = 3


def total(values: list[int] | None, start: int = 0) -> int:
    """Add up: 4 + 5."""
    if values is None:
        raise ValueError(f"{1 + 2} values")
    for at in range(start, len(values)):
        if values[at] > LIMIT and at:
            start += values[at]
    return start * 2
'''


def of(kind: str) -> set[tuple[str, str]]:
    """The faults of a kind in the text above: what stands there before and after."""
    found = [m for m in candidates("m.py", TEXT) if m.kind == kind]
    return {(m.before.strip(), m.after.strip()) for m in found}


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("operator", "return start * 2", "return start + 2"),
        ("operator", "start += values[at]", "start -= values[at]"),
        ("operator", "if values[at] > LIMIT and at:", "if values[at] > LIMIT or at:"),
        ("comparison", "if values[at] > LIMIT and at:", "if values[at] >= LIMIT and at:"),
        ("comparison", "if values is None:", "if values is not None:"),
        (
            "bound",
            "for at in range(start, len(values)):",
            "for at in range(start, (len(values)) - 1):",
        ),
        ("bound", "if values[at] > LIMIT and at:", "if values[at] > LIMIT + 1 and at:"),
        ("condition", "if values is None:", "if not (values is None):"),
        ("statement", "start += values[at]", "pass"),
        ("statement", "return start * 2", "return None"),
        ("constant", "LIMIT: int = 3", "LIMIT: int = 4"),
        ("constant", "return start * 2", "return start * 1"),
    ],
)
def test_faults_of_each_kind(kind: str, before: str, after: str) -> None:
    assert (before, after) in of(kind)


def test_a_fault_is_found_again_where_its_function_has_moved() -> None:
    mutant = next(m for m in candidates("m.py", TEXT) if m.kind == "operator")
    moved = TEXT.replace("LIMIT: int = 3\n", "LIMIT: int = 3\nMORE = 4\n")
    first = mutant.lines(TEXT)
    again = mutant.lines(moved)
    assert first is not None
    assert again is not None
    assert (again.start, len(again)) == (first.start + 1, len(first))
    assert mutant.after in mutant.applied(moved)


@pytest.mark.parametrize("change", [("total", "sum_of"), ("start * 2", "start * 3")])
def test_a_fault_whose_function_has_changed_is_stale(change: tuple[str, str]) -> None:
    mutant = next(m for m in candidates("m.py", TEXT) if m.after.strip() == "return start + 2")
    changed = TEXT.replace(*change)
    assert mutant.lines(changed) is None
    with pytest.raises(ValueError, match="has changed"):
        mutant.applied(changed)


@pytest.mark.parametrize(
    ("body", "how", "ended"),
    [
        ("assert False", "failed", 2),
        ("os._exit(3)", "crashed", 1),
        ("assert True", "survived", 3),
        ("pass\n    return (", "not collected", 0),
    ],
)
def test_chosen_tests_run_in_order_until_one_fails(
    body: str, how: str, ended: int, tmp_path: Path
) -> None:
    text = "import os\ndef test_a(): pass\ndef test_b():\n    {}\ndef test_c(): pass\n"
    (tmp_path / "test_few.py").write_text(text.format(body))
    order = [f"test_few.py::test_{letter}" for letter in "cba"]
    (tmp_path / "chosen.json").write_text(json.dumps(dict.fromkeys(order, 0.1)))
    log = tmp_path / "log"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += ["-p", "tests.mutants.chosen", "-c", os.devnull, "--rootdir", str(tmp_path)]
    given = {CHOSEN: str(tmp_path / "chosen.json"), LOG: str(log), JOB: "0"}
    given |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [*command, str(tmp_path / "test_few.py")],
        cwd=ROOT, env=os.environ | given, capture_output=True,
    )  # fmt: skip
    events = [json.loads(line) for line in log.read_text().splitlines()]
    begun = [name for event, name in events if event == "begun"]
    assert begun == order[: len(begun)]
    run = run_of(events, done.returncode, 0.0)
    blamed = {"survived": None, "not collected": "test_few.py"}.get(how, order[1])
    assert (run.how, run.test, run.tests) == (how, blamed, ended)


LISTS = {path.stem: read_mutants(path) for path in (MUTANTS, MISCOMPILES)}


def test_the_draw_is_of_all_packages_and_kinds() -> None:
    mutants = LISTS["mutants"]
    assert len({mutant.key for mutant in mutants}) == 200
    assert {mutant.kind for mutant in mutants} == set(KINDS)
    packages = [package_of(mutant.file) for mutant in mutants]
    assert min(packages.count(package) for package in set(packages)) >= 3
    assert MUTANTS.stat().st_size < 200_000


def test_the_seeded_miscompiles_are_all_there() -> None:
    assert len({mutant.name for mutant in LISTS["miscompiles"]}) == 28


def test_every_miscompile_stands_in_the_source() -> None:
    for mutant in LISTS["miscompiles"]:
        text = (SOURCE / mutant.file).read_text(encoding="utf-8")
        assert mutant.lines(text) is not None, mutant.name


def test_every_miscompile_is_killed_by_a_test_that_does_not_know_of_it() -> None:
    """Where the test is gone: `python -m tests.mutants kill` looks for another one."""
    for mutant in LISTS["miscompiles"]:
        assert mutant.finding is not None
        assert mutant.finding.killed_by is not None, mutant.name
        file = mutant.finding.killed_by.split("::")[0]
        assert not file.startswith("tests/mutants/"), mutant.name
        assert (ROOT / file).exists(), mutant.name
