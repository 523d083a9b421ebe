"""Tests that need a compiler are skipped where there is none, and fail where there is one."""

import subprocess

import pytest

from loopwright.diagnostics import ToolchainError
from loopwright.runtime.toolchain import find_compiler
from needed_tools import NO_COMPILER, skipped_without_tools


@pytest.fixture
def _no_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)


@pytest.mark.usefixtures("_no_tools")
def test_what_a_system_lacks_is_the_reason() -> None:
    with pytest.raises(pytest.skip.Exception, match=NO_COMPILER), skipped_without_tools():
        find_compiler()
    with pytest.raises(pytest.skip.Exception, match="there is no nvcc"), skipped_without_tools():
        subprocess.run(["nvcc"])
    with pytest.raises(pytest.skip.Exception, match=NO_COMPILER), skipped_without_tools():
        subprocess.run([""])


def test_other_errors_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("needed_tools.has_compiler", lambda: True)
    with pytest.raises(ToolchainError), skipped_without_tools():
        find_compiler("no-such-compiler")
    with pytest.raises(FileNotFoundError), skipped_without_tools():
        subprocess.run(["no-such-tool"])
