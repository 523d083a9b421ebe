"""The C compiler: found, refused, run once per text, its complaints shown, its patience bounded."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from backends.c_compiled import needs_cc
from loopwright import options
from loopwright.diagnostics import ToolchainError, UsageError
from loopwright.runtime import toolchain
from loopwright.runtime.toolchain import (
    build_library,
    find_compiler,
)

TWICE = "int twice(int x) { return 2 * x; }\n"


def test_a_compiler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    with pytest.raises(ToolchainError) as told:
        find_compiler()
    assert str(told.value) == (
        "no-such-compiler -m64: there is no such program\n"
        "try: install gcc or clang, or name a compiler in the variable CC"
    )


def test_a_variable_that_is_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "gcc 'oops")
    with pytest.raises(UsageError, match="CC is no command"):
        find_compiler()


@needs_cc
def test_the_same_text_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = find_compiler()
    runs: list[list[str]] = []
    run = toolchain.call

    def counted(words: list[str], **keywords: object) -> object:
        runs.append(list(words))
        return run(words, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(toolchain, "call", counted)
    with options.override(cache_dir=str(tmp_path / "cache")):
        first = build_library(TWICE, ("-O1",), compiler)
        second = build_library(TWICE, ("-O1",), compiler)
        assert first == second
        assert len(runs) == 1
        build_library(TWICE, ("-O0",), compiler)
        assert len(runs) == 2
    with options.override(cache=False):
        build_library(TWICE, ("-O1",), compiler)
    assert len(runs) == 3


@needs_cc
def test_a_failure_shows_the_command_and_its_words() -> None:
    with pytest.raises(ToolchainError) as told:
        build_library("int f(void) { return oops; }\n", ("-O1",))
    text = str(told.value)
    assert " -O1 -shared -fPIC " in text.splitlines()[0]
    assert text.splitlines()[0].endswith(": failed")
    assert "oops" in text


def test_a_compiler_that_never_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "slow-cc"
    program.write_text('#!/bin/sh\n[ "$1" = --version ] && exit 0\nexec sleep 60\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with options.override(cache=False):
        compiler = find_compiler(str(program))
        monkeypatch.setattr(toolchain, "_SECONDS", 0.2)
        with pytest.raises(ToolchainError, match="took longer than"):
            build_library(TWICE, (), compiler)


@needs_cc
def test_libraries_are_for_the_processor_they_were_built_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One home may serve machines whose processors take other instructions."""
    compiler = find_compiler()
    here = toolchain._key(TWICE, ("-march=native",), compiler)
    assert toolchain._key(TWICE, ("-march=native",), compiler) == here
    monkeypatch.setattr(toolchain, "processor_text", lambda: "another one")
    assert toolchain._key(TWICE, ("-march=native",), compiler) != here
