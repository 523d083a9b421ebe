"""The command line as a user meets it: help, exit codes, errors, pipes."""

import argparse
import gc
import importlib.util
import os
import subprocess
import sys
import types
from collections.abc import Callable
from importlib.metadata import version

import pytest

from loopwright import cli, options
from loopwright.diagnostics import Diagnostic, LoopwrightError, SourceError, Span, UsageError


class Fake(types.ModuleType):
    """A command module whose run() is given."""

    def __init__(self, run: Callable[[argparse.Namespace], int]) -> None:
        super().__init__("fake_command")
        self.run = run

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--size", type=int, default=1)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[argparse.Namespace], int]], None]:
    """Return a function that puts a command `fake` with the given run() on the command line."""

    def install(run: Callable[[argparse.Namespace], int]) -> None:
        monkeypatch.setitem(sys.modules, "fake_command", Fake(run))
        monkeypatch.setattr(cli, "COMMANDS", (("fake", "fake_command", "do as told"),))

    return install


def _raiser(error: BaseException) -> Callable[[argparse.Namespace], int]:
    def run(args: argparse.Namespace) -> int:
        raise error

    return run


def _child(*argv: str, **keywords: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(argv, capture_output=True, text=True, check=False, **keywords)  # type: ignore[call-overload, no-any-return]


def test_help_names_every_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert cli.main(["--help"]) == 0
    told = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert [[name, line] for name, _, line in cli.COMMANDS if [name, line] not in told] == []


def test_help_loads_no_command() -> None:
    program = "import sys; from loopwright.cli import main; main(['-h']); print(*sys.modules)"
    loaded = set(_child(sys.executable, "-c", program).stdout.split())
    heavy = {"numpy", "islpy", "llvmlite", "logging", "importlib.metadata"}
    assert loaded & (heavy | {module for _, module, _ in cli.COMMANDS}) == set()


@pytest.mark.parametrize("module", [module for _, module, _ in cli.COMMANDS])
def test_every_command_has_its_module(module: str) -> None:
    assert importlib.util.find_spec(module) is not None


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"loopwright {version('loopwright')}\n"


def test_no_command_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("usage: loopwright [-h] [--version] command ...\n")


def test_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["weave"]) == 2
    assert "invalid choice: 'weave'" in capsys.readouterr().err


def test_arguments_reach_the_command(fake: Callable[..., None]) -> None:
    fake(lambda args: int(args.size))
    assert cli.main(["fake", "--size", "7"]) == 7
    assert cli.main(["fake"]) == 1
    assert cli.main(["fake", "--si", "7"]) == 2


def test_command_help(fake: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    fake(lambda args: 0)
    assert cli.main(["fake", "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: loopwright fake [-h] [--size SIZE]\n\nDo as told.\n")


SOURCE_ERROR = SourceError(Diagnostic(Span("a.c", 1, 1, 1, 2, "x"), "wrong", "LW100"))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            UsageError("no such file", "'b.c'"),
            "loopwright: error: no such file\nnote: found 'b.c'\n",
        ),
        (SOURCE_ERROR, "a.c:1:1: error: wrong [LW100]\n    x\n    ^\n"),
    ],
)
def test_our_errors_have_no_traceback(
    fake: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    error: LoopwrightError,
    text: str,
) -> None:
    fake(_raiser(error))
    assert cli.main(["fake"]) == 2
    assert capsys.readouterr() == ("", text)


def test_full_traceback_on_request(
    fake: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    fake(_raiser(UsageError("no such file")))
    with options.override(full_tracebacks=True):
        assert cli.main(["fake"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("Traceback (most recent call last):\n")
    assert err.endswith("UsageError: no such file\n")


def test_color_on_request(fake: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    fake(_raiser(SOURCE_ERROR))
    with options.override(color="always"):
        assert cli.main(["fake"]) == 2
    assert "\033[1;31merror:\033[0m wrong" in capsys.readouterr().err


def test_other_errors_are_not_hidden(fake: Callable[..., None]) -> None:
    fake(_raiser(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        cli.main(["fake"])


def test_interrupt(fake: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    fake(_raiser(KeyboardInterrupt()))
    assert cli.main(["fake"]) == 130
    assert capsys.readouterr() == ("", "loopwright: interrupted\n")


def test_wrong_option_is_told_by_the_command_line() -> None:
    done = _child(
        sys.executable,
        *("-m", "loopwright", "info"),
        env=os.environ | {"LOOPWRIGHT_NUM_THREADS": "many", "LOOPWRIGHT_FULL_TRACEBACKS": "maybe"},
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("loopwright: error: LOOPWRIGHT_")
    assert "Traceback" not in done.stderr


def test_closed_pipe_is_quiet() -> None:
    # The child writes far more than a pipe holds to a reader that leaves at once.
    program = (
        "import sys, types; from loopwright import cli\n"
        "fake = sys.modules['fake'] = types.ModuleType('fake')\n"
        "fake.add_arguments = lambda parser: None\n"
        "fake.run = lambda args: print('x' * 10**6) or 0\n"
        "cli.COMMANDS = (('fake', 'fake', 'do'),)\n"
        "sys.exit(cli.main(['fake']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait() == 141


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MemoryError(), "there is not enough memory"),
        (MemoryError("2 GiB for 'rows'"), "2 GiB for 'rows'"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError(24, "Too many open files", "a.c"), "Too many open files: a.c"),
    ],
)
def test_what_the_system_refuses_is_told_in_a_line(
    fake: Callable[[Callable[[argparse.Namespace], int]], None],
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    told: str,
) -> None:
    fake(_raiser(error))
    assert cli.main(["fake"]) == 2
    assert capsys.readouterr().err == f"loopwright: error: {told}\n"


def test_output_to_a_full_disk_is_an_error() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "loopwright", "info"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.stderr == "loopwright: error: No space left on device\n"
    assert done.returncode == 2


def test_python_m() -> None:
    done = _child(sys.executable, "-m", "loopwright", "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"loopwright {version('loopwright')}\n"


def test_garbage_is_looked_for_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands look for it less often, also those that fail, and leave the caller's thresholds."""
    during: list[tuple[int, int, int]] = []

    def dispatched(arguments: list[str]) -> int:
        during.append(gc.get_threshold())
        if arguments:
            raise KeyboardInterrupt
        return 0

    monkeypatch.setattr(cli, "_dispatch", dispatched)
    before = gc.get_threshold()
    try:
        gc.set_threshold(701, 11, 12)
        assert cli.main([]) == 0
        assert cli.main(["cc"]) == cli.EXIT_INTERRUPTED
        assert gc.get_threshold() == (701, 11, 12)
    finally:
        gc.set_threshold(*before)
    assert all(least > 10_000 for least, _, _ in during)
    assert len(during) == 2
