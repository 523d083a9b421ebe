"""A process beside a command, which ends it where it does not hear signals, and clears up after it.

Python handles a signal between two of its own instructions. A call of isl or of LLVM is one of
them, and no other thread of Python runs meanwhile: Ctrl-C and SIGTERM would wait until it returns.
So each command has a guardian. What the C part of Python's handlers writes to a pipe, the number of
the signal, reaches the guardian at once; the command writes 0 when it has heard the signal. Where
it does not within a second, the guardian ends the command and the programs that it has called. When
the command is gone, in whatever way, its folder of temporary files is removed.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["guarded", "heard"]

_GRACE = 1.0  # seconds in which a command hears a signal
_NUMBERS = frozenset({signal.SIGINT, signal.SIGTERM})
_HEARD = b"\0"
_pipe: int | None = None  # to the guardian of this process


def heard() -> None:
    """Let the guardian know that a signal is handled; the command ends by itself."""
    if _pipe is not None:
        with suppress(OSError):
            os.write(_pipe, _HEARD)


@contextmanager
def guarded() -> Iterator[None]:
    """Run a command with a guardian, and with a folder of its own for temporary files."""
    global _pipe
    folder = _own_folder()
    before = os.environ.get("TMPDIR")
    _pipe = _started(folder)
    if _pipe is None:
        _clear(folder)
        yield
        return
    os.set_blocking(_pipe, False)
    signal.set_wakeup_fd(_pipe, warn_on_full_buffer=False)
    if folder:
        os.environ["TMPDIR"] = folder
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        if before is None:
            os.environ.pop("TMPDIR", None)
        else:
            os.environ["TMPDIR"] = before
        _clear(folder)
        os.close(_pipe)
        _pipe = None


def _started(folder: str) -> int | None:
    """The pipe to a new guardian; None where the system has no more processes or files."""
    if not hasattr(os, "fork"):
        return None
    command = os.getpid()
    try:
        read, write = os.pipe()
    except OSError:
        return None
    try:
        guardian = os.fork()
    except OSError:
        os.close(read)
        os.close(write)
        return None
    if guardian == 0:
        try:
            os.close(write)
            _guard(read, command)
            _clear(folder)
        finally:
            os._exit(0)
    os.close(read)
    return write


def _own_folder() -> str:
    """A new folder that only this user can read; "" where there can be none."""
    name = f"loopwright-{os.getpid()}-{os.urandom(8).hex()}"
    path = os.path.join(os.environ.get("TMPDIR") or "/tmp", name)
    try:
        os.mkdir(path, 0o700)
    except OSError:
        return ""
    return path


def _guard(read: int, command: int) -> None:
    """Return when the command is gone; end it where it does not hear a signal."""
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)
    os.setsid()  # what is sent to the command's group is for the command
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    if not is_heard(read, _GRACE) and os.getppid() == command:
        _end_called(command)
        os.kill(command, signal.SIGKILL)
        while os.read(read, 64):
            pass


def is_heard(read: int, grace: float) -> bool:
    """Whether the command heard all signals until it was gone; False at once where it does not."""
    is_waiting = False
    while True:
        if not select.select([read], [], [], grace if is_waiting else None)[0]:
            return False
        said = os.read(read, 64)
        if not said:
            return True
        for number in said:
            is_waiting = number in _NUMBERS or (is_waiting and number != _HEARD[0])


def _end_called(command: int) -> None:
    """End the groups that programs of a command lead, where the system lists its processes."""
    try:
        found = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return
    for process in found:
        with suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{process}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            parent, group = int(fields[1]), int(fields[2])
            if parent == command and group == process != os.getpid():
                os.killpg(group, signal.SIGKILL)


def _clear(folder: str) -> None:
    """Remove a folder of temporary files."""
    if not folder:
        return
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return
    except OSError:
        import shutil  # lazy: most commands leave nothing

        shutil.rmtree(folder, ignore_errors=True)
