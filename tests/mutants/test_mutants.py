"""Small faults of the source: which there are, where they stand, and which tests run for them."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mutants.at_start.line_events import FILES, index_of
from mutants.candidates import KINDS, candidates
from mutants.draw import quotas
from mutants.kill import Results, batches, ordered, run_of
from mutants.mutant import MISCOMPILES, MUTANTS, Mutant, read_mutants, write_mutants
from mutants.processes import CHOSEN, JOB, LOG
from mutants.reached import ROOT, SOURCE, Reached, TestRun, package_of

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


def test_what_is_text_or_type_has_no_faults() -> None:
    lines = {m.before.strip() for m in candidates("m.py", TEXT)}
    assert lines == {
        "LIMIT: int = 3",
        "if values is None:",
        "for at in range(start, len(values)):",
        "if values[at] > LIMIT and at:",
        "start += values[at]",
        "return start * 2",
    }


def test_every_fault_is_another_program() -> None:
    before = ast.dump(ast.parse(TEXT))
    for mutant in candidates("m.py", TEXT):
        assert ast.dump(ast.parse(mutant.applied(TEXT))) != before


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


def test_quotas_follow_lines_with_a_least_number() -> None:
    found = quotas({"a": 9000, "b": 1000, "c": 10}, 20, 3)
    assert found == {"a": 14, "b": 3, "c": 3}


def run(name: str, seconds: float, outcome: str = "passed") -> TestRun:
    return TestRun(name, outcome, seconds, 0)


def table(tests: list[TestRun]) -> Reached:
    """A table in which every test reaches every line of one file."""
    tests = tests + [run("", 0.0, "none")] * (-len(tests) % 8)
    bits = np.packbits([[0] * len(tests), [test.name != "" for test in tests]], axis=1)
    class_of = np.ones(40, np.int32)
    return Reached(tuple(tests), {"loopwright/lower/tile.py": 0}, {}, class_of, bits, class_of)


MUTANT = Mutant("loopwright/lower/tile.py", "f", 3, "operator", "    x = a + b", "    x = a - b")


def test_tests_of_the_same_name_come_first_then_cheap_ones() -> None:
    tests = [
        run("tests/ir/test_x.py::test_cheap", 0.1),
        run("tests/lower/test_y.py::test_of_package", 0.5),
        run("tests/ir/test_tile.py::test_same_name", 2.0),
        run("tests/ir/test_tile.py::test_barred", 0.1),
        run("tests/ir/test_tile.py::test_that_fails", 0.1, "failed"),
        run("tests/mutants/test_mutants.py::test_knows", 0.1),
    ]
    found = ordered(MUTANT, range(3, 4), table(tests), {"tests/ir/test_tile.py::test_barred"})
    assert [test.name.split("::")[1] for test in found] == [
        "test_same_name",
        "test_of_package",
        "test_cheap",
    ]


def test_batches_grow_and_keep_to_the_limit() -> None:
    tests = [run(f"tests/test_{k % 7}.py::test_{k}", 1.0) for k in range(100)]
    found = list(batches(tests, 60.0))
    assert [len(batch) for batch in found][:2] == [4, 24]
    assert sum(map(len, found)) < 60
    names = [test.name for batch in found for test in batch]
    assert len(set(names)) == len(names)
    for batch in found:
        files = [test.file for test in batch]
        assert files == sorted(files, key=files.index)


def test_results_are_read_again_and_unsteady_killers_count_no_more(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")
    finding = {"killed_by": "t", "how": "failed", "tests": 1, "of": 2, "seconds": 0.5}
    results.add({"mutant": "a", "finding": finding})
    results.add({"mutant": "b", "finding": {**finding, "killed_by": "u"}})
    results.add({"unsteady": "t"})
    again = Results(tmp_path / "results.jsonl")
    assert again.findings.keys() == {"b"}
    assert again.unsteady == {"t"}


def test_mutants_are_written_and_read(tmp_path: Path) -> None:
    write_mutants(tmp_path / "m.json", [MUTANT])
    assert read_mutants(tmp_path / "m.json") == [MUTANT]


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


def test_lines_of_a_process_and_its_children_are_noted(tmp_path: Path) -> None:
    """Also those of a forked child that ends at once."""
    package = tmp_path / "src"
    package.mkdir()
    (package / "few.py").write_text("def f(x):\n    if x:\n        return 1\n    return 2\n")
    starts, positions = index_of(package)
    hits = tmp_path / "hits"
    hits.write_bytes(bytes(positions))
    (tmp_path / "files.json").write_text(json.dumps([starts, positions]))
    program = (
        "import os, sitecustomize, few\n"
        f"sitecustomize.EVENTS.attach({str(hits)!r})\n"
        "sitecustomize.EVENTS.restart()\n"
        "if os.fork() == 0:\n    few.f(1)\n    os._exit(0)\n"
        "os.wait()\n"
        "print([at for at, hit in enumerate(bytes(sitecustomize.EVENTS.hits)) if hit])\n"
    )
    paths = [str(Path(__file__).parent / "at_start"), str(package)]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        FILES: str(tmp_path / "files.json"),
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [2, 3]


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
