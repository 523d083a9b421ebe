"""The command line as a user meets it: help, exit codes, errors, pipes, signals."""

import argparse
import io
import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from loopwright import cli, clock
from loopwright.cli.progress import ProgressBar
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


def test_no_command_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("usage: loopwright [-h] [--version] command ...\n")


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


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_is_drawn_and_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([0.0, 0.05, 0.2, 0.21])
    monkeypatch.setattr(clock, "now", lambda: next(moments))
    stream = Terminal()
    with ProgressBar("reading", stream) as bar:
        for done in (0, 1, 2, 4):
            bar(done, 4)
    parts = stream.getvalue().split("\r")
    assert parts == [
        "",
        "reading [                        ]   0%",
        "reading [############            ]  50%",
        "reading [########################] 100%",
        " " * len("reading [########################] 100%"),
        "",
    ]


def test_nothing_without_a_terminal() -> None:
    stream = io.StringIO()
    with ProgressBar("reading", stream) as bar:
        bar(1, 2)
    assert stream.getvalue() == ""
    with ProgressBar("reading", stream, shown=True) as bar:
        bar(0, 0)
    assert "100%" in stream.getvalue()


SECONDS = 600  # a guard against a hang only
# A command that calls a program and then a function of C that never returns, as isl may: no signal
# is looked for meanwhile, and no other thread of Python runs.
SCRIPT = """
import itertools, os, sys, tempfile, types
from pathlib import Path
from loopwright import cli
from loopwright.child_process import Child

def run(args):
    folder = tempfile.mkdtemp()
    Path(folder, "half").write_text("written")
    Child(["sleep", "1000"], pass_fds=[ALIVE])
    line = os.fsencode(tempfile.gettempdir() + "\\n")  # written when no more Python runs
    sum(itertools.chain(map(os.write, [1], [line]), itertools.repeat(0)))

command = types.ModuleType("fake_command")
command.run, command.add_arguments = run, lambda parser: None
sys.modules["fake_command"] = command
cli.COMMANDS = (("fake", "fake_command", "do as told"),)
ALIVE = int(sys.argv.pop())
sys.argv[1:] = ["fake"]
sys.exit(cli.main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_does_not_hear(number: signal.Signals, tmp_path: Path) -> None:
    read, alive = os.pipe()  # its end is open in the command, its guardian and the called program
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(alive)],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        pass_fds=[alive],
        text=True,
    ) as process:
        os.close(alive)
        assert process.stdout is not None
        try:
            folder = Path(process.stdout.readline().strip())
            assert folder.parent == tmp_path
            process.send_signal(number)
            assert process.wait(SECONDS) == -signal.SIGKILL
        finally:
            process.kill()
    assert os.read(read, 1) == b""  # all of them are gone
    os.close(read)
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_ends_leaves_no_folder(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "loopwright", "machines"]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    assert list(tmp_path.iterdir()) == []
