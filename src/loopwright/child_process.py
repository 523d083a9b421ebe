"""Programs that are called: each in a process group of its own, which is ended with the call.

A compiler may start others and may wait for ever, at a fifo or for a disk that is gone. Python
handles signals on the main thread, between any two instructions, and the handlers of Ctrl-C and of
`loopwright`'s SIGTERM raise there. So a thread of its own, which they do not disturb, starts the
program, reads what it says and ends it; the caller waits for that thread, and says by a mark when
it waits no longer.
"""

from __future__ import annotations

import atexit
import os
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from loopwright.lazy_dataclass import dataclass
from loopwright.undisturbed import undisturbed

__all__ = ["INHERITED", "Child", "Ended", "call"]

INHERITED = None  # as subprocess has it: our own stdout or stderr
_GRACE = 1.0  # seconds from SIGTERM, which compilers answer by removing their files, to SIGKILL
_LAST = 4.0  # seconds after SIGKILL: a program that waits for a disk that is gone is left behind
_TICK = 0.1  # seconds after which the caller's mark is looked at
_MOST = 64 << 20  # bytes of output


@dataclass(frozen=True, slots=True)
class Ended:
    """What a program left behind when it ended, or was ended."""

    status: int  # as of subprocess: minus the number of the signal that ended it
    output: bytes = b""
    errors: bytes = b""
    is_late: bool = False  # it was ended because its time was over
    is_long: bool = False  # it was ended because it said too much


class Child:
    """A program beside us, the first one of a process group."""

    def __init__(self, command: Sequence[str], **options: Any) -> None:
        """Start it with options of subprocess.Popen."""
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            command, start_new_session=True, **options
        )
        self._owner = os.getpid()
        _living.add(self)

    def is_over(self, seconds: float = 0.0) -> bool:
        """Whether the program has ended, or does so within some seconds.

        It stays a zombie, so that nobody else can have the number of its group.
        """
        end, pause = time.monotonic() + seconds, 0.0005
        while not self._has_ended():
            left = end - time.monotonic()
            if left <= 0.0:
                return False
            pause = min(2 * pause, left, 0.05)
            time.sleep(pause)
        return True

    def end(self, grace: float = 0.0) -> int:
        """End the program and those it has started, if they have not ended; the exit status.

        Returns within seconds, also where nothing ends the program. With `grace` it is asked first.
        """
        try:
            if grace and not self.is_over():
                self._send(signal.SIGTERM)
                self.is_over(grace)
        finally:
            self._send(getattr(signal, "SIGKILL", signal.SIGTERM))
            self._leave()
        return self.process.returncode or 0

    def ended(self) -> int:
        """The exit status of a program that is over; those it has started go on."""
        self._leave()
        return self.process.returncode or 0

    def _has_ended(self) -> bool:
        if self.process.returncode is not None:
            return True
        if not hasattr(os, "waitid"):
            return self.process.poll() is not None
        try:
            how = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.process.pid, how) is not None
        except ChildProcessError:  # somebody has waited for all children of this process
            return True

    def _send(self, number: int) -> None:
        # A child of a fork has copies of us, but the program is its parent's.
        if self.process.returncode is not None or self._owner != os.getpid():
            return
        with suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, number)
            else:
                self.process.send_signal(number)

    def _leave(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        if self._owner == os.getpid():
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_LAST)
        _living.discard(self)


_living: set[Child] = set()


@atexit.register
def _end_all() -> None:
    """End what still runs when the interpreter ends, such as programs of other threads."""
    for child in tuple(_living):
        child.end()


class _Wait:
    """What the caller and the thread that calls the program say to each other."""

    __slots__ = ("has_begun", "is_left", "over")

    def __init__(self) -> None:
        self.has_begun = False  # by the thread: there may be a program
        self.is_left = False  # by the caller: nobody waits any more
        self.over = threading.Lock()  # released when there is no program any more
        self.over.acquire()


def call(
    command: Sequence[str],
    *,
    seconds: float | None = None,
    given: bytes | None = b"",
    output: int | None = subprocess.PIPE,
    errors: int | None = subprocess.PIPE,
    environment: Mapping[str, str] | None = None,
    most: int = _MOST,
    grace: float = _GRACE,
) -> Ended:
    """Run a program to its end, for at most some seconds; nothing of it runs after the call.

    `given` is its stdin, None our own; of output and errors at most `most` bytes are taken. One
    that is ended has some seconds of `grace` after SIGTERM. Raises OSError where it cannot be
    started.
    """
    wait = _Wait()

    def work() -> Ended:
        wait.has_begun = True
        try:
            if wait.is_left:
                return Ended(0)
            with _memory_file() as stdin:
                stdin.write(given or b"")
                stdin.seek(0)
                child = Child(
                    command,
                    stdin=None if given is None else stdin,
                    stdout=output,
                    stderr=errors,
                    env=environment,
                )
            return _heard(child, wait, seconds, most, grace)
        finally:
            wait.over.release()

    try:
        return undisturbed(work)
    finally:
        # A store, before which no handler runs. The thread sees it, or we see that it has begun.
        wait.is_left = True
        if wait.has_begun:
            wait.over.acquire(timeout=_TICK + grace + 2 * _LAST)


def _memory_file() -> IO[bytes]:
    """A file without a name: in memory, where the system has such files, else on the disk."""
    if hasattr(os, "memfd_create"):  # a full disk ends no call
        return os.fdopen(os.memfd_create("stdin"), "w+b")
    return tempfile.TemporaryFile()


def _heard(child: Child, wait: _Wait, seconds: float | None, most: int, grace: float) -> Ended:
    """What a child says until it ends, or is ended."""
    end = time.monotonic() + (float("inf") if seconds is None else seconds)
    pipes = (child.process.stdout, child.process.stderr)
    texts = (bytearray(), bytearray())
    is_late = is_long = is_over = False
    try:
        with selectors.DefaultSelector() as open_:
            for pipe, text in zip(pipes, texts, strict=True):
                if pipe is not None:
                    open_.register(pipe, selectors.EVENT_READ, text)
            while not (is_over or is_late or is_long or wait.is_left):
                left = end - time.monotonic()
                is_late = left <= 0.0
                pause = max(0.0, min(_TICK, left))
                if not open_.get_map():
                    is_over = child.is_over(pause)
                    continue
                for key, _ in open_.select(pause):
                    part = os.read(key.fd, 1 << 16)
                    key.data.extend(part)
                    if not part:
                        open_.unregister(key.fileobj)
                    is_long = is_long or len(key.data) > most
    finally:
        status = child.ended() if is_over else child.end(grace)
    said, complained = map(bytes, texts)
    return Ended(status, said[:most], complained[:most], is_late and not is_over, is_long)
