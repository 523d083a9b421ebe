"""Where the C compiler lies: the first candidate that is installed, or the one that is named."""

import pytest

from loopwright.compilers import CANDIDATES, compiler_path


def test_the_first_candidate_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/tools/{name}" if name != "cc" else None)
    assert CANDIDATES[:2] == ("cc", "gcc")
    assert compiler_path() == "/tools/gcc"
    assert compiler_path("clang") == "/tools/clang"


def test_there_may_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert compiler_path() is None
    assert compiler_path("gcc") is None
