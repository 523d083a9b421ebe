"""Programs that we call end with the call: on signals, at time-outs, with those they started.

Each waits at a fifo that only it reads: opening the fifo for writing returns when the program
waits, and the writing end reports an error when nothing has it open any more. Nothing here looks
at a clock; what hangs is ended by an alarm.
"""

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broken_off import Broken, broken_off
from frontends.c_functions import needs_compiler
from loopwright.child_process import Child, call
from loopwright.diagnostics import ToolchainError
from loopwright.frontends.c import read_c
from loopwright.runtime import toolchain
from outside.campaigns.failing_resources import failing

TEXT = '#include "{}"\nvoid f(void) {{\n#pragma scop\n#pragma endscop\n}}\n'
BOTH = 'sleep 1000 < "{0}" & exec cat "{0}"'  # a program and one that it has started


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(600)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


# The command, with a guardian that gives it all the time that a busy machine takes.
PATIENT = """
import sys
from loopwright import cli
from loopwright.cli import guardian
guardian._GRACE = 600.0
sys.exit(cli.main())
"""


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo.h"
    os.mkfifo(path)
    return path


def await_no_reader(writer: int) -> None:
    """Return when nothing reads the fifo any more."""
    events = select.poll()
    events.register(writer, 0)
    assert events.poll()[0][1] & select.POLLERR
    os.close(writer)


def shell(text: str, path: Path) -> list[str]:
    return ["/bin/sh", "-c", text.format(path)]


@needs_compiler
@pytest.mark.drawn(2)
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_whose_preprocessor_waits(
    number: signal.Signals, status: int, fifo: Path
) -> None:
    file = fifo.parent / "k.c"
    file.write_text(TEXT.format(fifo))
    command = [sys.executable, "-c", PATIENT, "cc", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True) as ours:
        writer = os.open(fifo, os.O_WRONLY)
        ours.send_signal(number)
        assert ours.wait() == status
    await_no_reader(writer)
    assert sorted(path.name for path in fifo.parent.iterdir()) == ["fifo.h", "k.c"]


@needs_compiler
def test_a_preprocessor_that_takes_too_long(fifo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwright.frontends.c.preprocessor._SECONDS", 0.05)
    monkeypatch.setattr("loopwright.frontends.c.preprocessor._LIMITED", 'exec "$@"')
    writers: list[int] = []
    opening = threading.Thread(target=lambda: writers.append(os.open(fifo, os.O_WRONLY)))
    opening.start()
    with pytest.raises(ToolchainError, match="took too long"):
        read_c(TEXT.format(fifo), filename="k.c")
    if opening.is_alive():  # the program was ended before it had opened the fifo
        os.close(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))
    opening.join()
    await_no_reader(writers[0])


def raising(fifo: Path, ask: Callable[[], object], number: signal.Signals) -> None:
    """`ask()` while a handler raises, once the program waits at the fifo."""

    def handle(*_: object) -> None:
        raise Broken

    writers: list[int] = []

    def send() -> None:
        writers.append(os.open(fifo, os.O_WRONLY))
        os.kill(os.getpid(), number)

    before = signal.signal(number, handle)
    sender = threading.Thread(target=send)
    try:
        sender.start()
        with pytest.raises(Broken):
            ask()
    finally:
        signal.signal(number, before)
        sender.join()
    await_no_reader(writers[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_handler_that_raises(number: signal.Signals, fifo: Path) -> None:
    """The program ends, and the one that it has started in the background."""
    raising(fifo, lambda: call(shell(BOTH, fifo)), number)
    raising(fifo, lambda: toolchain.run_tool(shell(BOTH, fifo)), number)


def test_programs_that_do_not_hear_sigterm(fifo: Path) -> None:
    raising(fifo, lambda: call(shell("trap '' TERM; " + BOTH, fifo), grace=0.05), signal.SIGINT)


def test_a_tool_that_takes_too_long(fifo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_SECONDS", 0.5)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(fifo, os.O_WRONLY)
    os.close(reader)
    with pytest.raises(ToolchainError, match="took longer than"):
        toolchain.run_tool(shell(BOTH, fifo))
    await_no_reader(writer)


def test_programs_end_with_the_interpreter(fifo: Path) -> None:
    script = (
        "import sys\n"
        "from loopwright.child_process import Child\n"
        "Child(sys.argv[1:])\n"
        f"open({str(fifo)!r}, 'wb', buffering=0)\n"
    )
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(fifo, os.O_WRONLY)
    os.close(reader)
    command = [sys.executable, "-c", script, *shell(BOTH, fifo)]
    assert subprocess.run(command, check=False).returncode == 0
    await_no_reader(writer)


def test_a_call_that_is_broken_off_leaves_nothing() -> None:
    """Wherever a handler raises, this process has no more children than before."""
    call(["true"])  # what is loaded once is loaded
    before = children()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as one:
        assert children() - before == {str(one.pid)}
    for _ in broken_off(lambda: call(["cat"], given=b"x")):
        assert children() <= before


def children() -> set[str]:
    """The processes that this one has started, those included that nobody has waited for."""
    listed = Path("/proc/self/task").glob("*/children")
    return {number for file in listed for number in file.read_text(encoding="ascii").split()}


def test_what_a_program_says() -> None:
    ended = call(["/bin/sh", "-c", "cat; echo two >&2; exit 3"], given=b"one")
    assert (ended.status, ended.output, ended.errors) == (3, b"one", b"two\n")
    assert not ended.is_late
    assert not ended.is_long


def test_a_program_that_says_too_much() -> None:
    ended = call(["/bin/sh", "-c", "yes"], most=1000)
    assert ended.is_long
    assert ended.output == b"y\n" * 500


def test_a_program_that_cannot_be_started() -> None:
    with pytest.raises(FileNotFoundError):
        call(["/no/such/program"])


def test_a_forked_child_ends_no_program_of_its_parent() -> None:
    child = Child(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    forked = os.fork()
    if forked == 0:
        child.end()
        os._exit(0)
    assert os.waitpid(forked, 0)[1] == 0
    assert not child.is_over()
    assert child.process.communicate(b"lives") == (b"lives", None)
    child.end()


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="a system without files in memory")
def test_a_program_is_called_where_the_disk_is_full() -> None:
    with failing("write", 1, lasting=True):
        assert call(("cat",), given=b"text").output == b"text"
