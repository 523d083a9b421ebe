"""Numba's own tests with `lw.jit` in place of `njit`: passed, refused, or different.

Only tests that call it and pass with plain Python in its place count. numba need not be installed:
without it the tests are skipped, with that reason. A difference fails; refusals are counted for
each file, and may only become fewer.
"""

from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path

import pytest

from outside.suites import RUNS_ALL, Outcome, installed_tests, run_suite

# File -> the most tests that may be refused.
REFUSED: dict[str, int] = {
    "test_range.py": 6,
    "test_slices.py": 4,
    "test_indexing.py": 16,
    "test_fancy_indexing.py": 9,
    "test_flow_control.py": 34,
}
# Tests that differ, * for any text, with the row of the table in docs/python.md.
LISTED: dict[str, str] = {
    "TestArrayMethods::test_np_where_3": "`np.where` of numbers",
    "TestOperators::test_eq_scalar*": "numbers that are returned",
    "TestOperators::test_floordiv_errors*": "Python's numbers divided by zero",
    "TestOperators::test_bitwise_not*": "a name has one type: integer arguments are int64",
    "TestOperators::test_bitshift_*left_ints*": "Python's integers beyond 64 bits",
}
USUAL = ("test_slices.py",)  # of a usual run


@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
@pytest.mark.parametrize("file", REFUSED if RUNS_ALL else USUAL)
def test_numba(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted, ours = both(file, tmp_path, monkeypatch)
    passed, refused, different = split(counted, ours)
    assert [test for test in different if not is_listed(test)] == []
    assert not any(map(is_listed, passed))
    assert len(refused) <= REFUSED[file], f"refused: {refused}"


def is_listed(test: str) -> bool:
    return any(fnmatchcase(test, key) for key in LISTED)


def both(file: str, folder: Path, patch: pytest.MonkeyPatch) -> tuple[list[str], Outcome]:
    """The tests that call and pass in plain Python, and what became of all by our code."""
    files = installed_tests("numba", f"tests/{file}")
    patch.setenv("OUTSIDE_NUMBA", "plain")
    plain = run_suite(files, "outside_numba", folder)
    patch.setenv("OUTSIDE_NUMBA", "ours")
    ours = run_suite(files, "outside_numba", folder)
    passed = [test for test, outcome in plain.outcomes.items() if outcome == "passed"]
    return [test for test in passed if plain.calls.get(f"{test} called")], ours


def split(counted: list[str], ours: Outcome) -> tuple[list[str], list[str], list[str]]:
    """The tests that passed, that met a refusal, and that differ."""
    refused = [test for test in counted if ours.calls.get(f"{test} refused")]
    passed = [test for test in counted if ours.outcomes.get(test) == "passed"]
    others = [test for test in counted if test not in passed and test not in refused]
    return [test for test in passed if test not in refused], refused, others


def test_tests_are_split_by_what_became_of_them() -> None:
    ours = Outcome(
        {"a": "passed", "b": "failed", "c": "failed", "d": "passed", "e": "failed"},
        {},
        {"b refused": 1, "d refused": 2, "returned": 7},
    )
    assert split(["a", "b", "c", "d"], ours) == (["a"], ["b", "d"], ["c"])
