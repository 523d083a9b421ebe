"""Run tests of other projects, from their installed wheels, with functions replaced by ours.

A suite runs in a child pytest process, so that nothing replaced reaches our own tests. What it
cannot pass is written down, test by test, with the reason. The list is strict: a listed test that
passes is a fault of the list, a test that fails and is not listed is a fault of ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path

import pytest

from drawn import in_all
from loopwright import options

# Alone on the path of a child: the folder of our tests has names of other packages (`sparse`).
PLUGINS = Path(__file__).parent / "plugins"
SECONDS = 3600  # after which a child is ended and its test fails
# All tests ran: all passed, or some failed.
_TO_ITS_END = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
# A usual run takes the parts of the suites that reach us in many ways; this one takes all.
RUNS_ALL = in_all()


@dataclass(frozen=True)
class Outcome:
    """What a run of another project's tests gave."""

    outcomes: dict[str, str]  # "Class::test[parameters]" -> passed, failed or skipped
    errors: dict[str, str]  # the last message of each failed test
    calls: dict[str, int]  # replaced function -> calls that ours answered

    def count(self, outcome: str) -> int:
        return sum(found == outcome for found in self.outcomes.values())


def installed_tests(package: str, *files: str) -> list[Path]:
    """The test files of an installed package; skips the calling test if the wheel has none."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} is not installed, or was installed without its tests")
    folder = Path(spec.submodule_search_locations[0])
    missing = [name for name in files if not (folder / name).exists()]
    if missing:
        pytest.skip(f"{package} was installed without {', '.join(missing)}")
    return [folder / name for name in files]


def run_suite(
    files: Sequence[Path], plugin: str, folder: Path, *arguments: str, seconds: float = SECONDS
) -> Outcome:
    """Run test files under one of our plugins; `arguments` go to the child's pytest.

    Plugins that happen to be installed take no part. A run that ended before its last test fails
    the calling one: what it did not reach was not judged.
    """
    settings, target = folder / "pytest.ini", folder / "outcomes.json"
    settings.write_text("[pytest]\n", encoding="utf-8")
    target.unlink(missing_ok=True)
    command = [
        sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=short", "--assert=plain",
        "-c", str(settings), "-p", "no:cacheprovider", "-p", "outside_record", "-p", plugin,
        f"--outcomes={target}", *arguments, *map(str, files),
    ]  # fmt: skip
    paths = [str(PLUGINS), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    if not RUNS_ALL:
        # What results are is judged here; our own tests check every stage.
        environment[options.variable("check")] = "0"
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds
    )
    if done.returncode not in _TO_ITS_END or not target.exists():
        pytest.fail(f"the child process ended with {done.returncode}:\n{done.stdout[-4000:]}\n"
                    f"{done.stderr[-4000:]}")  # fmt: skip
    return Outcome(**json.loads(target.read_text(encoding="utf-8")))


def disagreements(outcome: Outcome, listed: Mapping[str, str]) -> list[str]:
    """How a run differs from its list: failures that are not listed, passes that are.

    A key of `listed` is a test with or without its parameters, * stands for any text.
    """
    found = []
    used = set()
    for test, result in outcome.outcomes.items():
        keys = [key for key in listed if _is_meant(key, test)]
        used.update(keys)
        if result == "failed" and not keys:
            found.append(f"{test} fails: {outcome.errors.get(test, '')}")
        if result == "passed" and keys:
            found.append(f"{test} passes, but is listed: {listed[keys[0]]}")
    found += [f"{key} is listed, but there is no such test" for key in listed if key not in used]
    return found


def _is_meant(key: str, test: str) -> bool:
    name = key.replace("[", "[[]")
    return fnmatchcase(test, name) or fnmatchcase(test.partition("[")[0], name)
