"""What notices that a rank died or hangs, and tells what was saved and how to go on.

Libraries of MPI end all ranks when one dies, most of them by SIGTERM before SIGKILL: a thread of
its own hears that signal, since the main one is likely to wait inside MPI. A rank that is frozen,
or on a machine that is gone, ends nothing: so each rank touches a file every second, and looks at
the file of the next rank.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import TextIO

from loopwright.integrations.mpi.checkpoint import saved_steps

__all__ = ["Watchdog", "how_to_restart"]

_BEAT = 1.0  # seconds
_LIMIT = 60.0  # seconds without a beat after which a rank counts as dead
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
STOPPED = 143  # the exit status of a run that was ended from outside


def how_to_restart(folder: str | os.PathLike[str] | None) -> str:
    """Which step was saved, and what to do, as lines of a message."""
    if folder is None:
        return "note: nothing was saved\ntry: --checkpoint FOLDER saves each step"
    saved = saved_steps(folder)
    if not saved:
        return f"note: no step was saved in {folder} yet\ntry: the same command again"
    last = saved[0]
    done = f"{last.step} of {last.steps} steps are saved in {folder}"
    return f"note: {done}\ntry: the same command again, which goes on with step {last.step + 1}"


class Watchdog:
    """Watches over the ranks of a run while it is entered (`with`)."""

    def __init__(
        self,
        rank: int,
        size: int,
        folder: str | os.PathLike[str] | None,
        *,
        beat: float = _BEAT,
        limit: float = _LIMIT,
        stream: TextIO | None = None,
    ) -> None:
        """`folder` is that of the checkpoints; without it only signals are heard."""
        self._rank, self._size = rank, size
        self._folder = None if folder is None else Path(folder)
        self._beat, self._limit = beat, limit
        self._stream = sys.stderr if stream is None else stream
        self._is_over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._before: dict[int, object] = {}
        self._pipe: tuple[int, int] | None = None

    def __enter__(self) -> Watchdog:
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            about = {"pid": os.getpid(), "host": socket.gethostname()}
            self._file(self._rank).write_text(json.dumps(about), encoding="utf-8")
            if self._rank == 0:
                (self._folder / "stopped").unlink(missing_ok=True)
            self._start(self._watch)
        if threading.current_thread() is threading.main_thread():
            self._pipe = os.pipe()
            os.set_blocking(self._pipe[1], False)
            for number in _SIGNALS:
                # Python writes the number to the pipe before this handler runs.
                self._before[number] = signal.signal(number, lambda *_: None)
            signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
            self._start(self._listen)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        if self._pipe is not None:
            signal.set_wakeup_fd(-1)
            for number, handler in self._before.items():
                signal.signal(number, handler)  # type: ignore[arg-type]
            os.write(self._pipe[1], b"\0")
        for thread in self._threads:
            thread.join()
        if self._pipe is not None:
            for end in self._pipe:
                os.close(end)
        if self._folder is not None:
            self._file(self._rank).unlink(missing_ok=True)

    def _start(self, target: object) -> None:
        thread = threading.Thread(target=target, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _file(self, rank: int) -> Path:
        assert self._folder is not None
        return self._folder / f"rank-{rank:05}.alive"

    def _listen(self) -> None:
        assert self._pipe is not None
        number = os.read(self._pipe[0], 1)[0]
        if number:
            name = signal.Signals(number).name
            heard = f"rank {self._rank} was told to end ({name})"
            self._stop(f"{heard}: another rank died, or somebody ended the run")

    def _watch(self) -> None:
        """Beat, and look at the next rank's file, until the run is over."""
        other = self._file((self._rank + 1) % self._size)
        seen, since = -1, time.monotonic()
        while not self._is_over.wait(self._beat):
            with contextlib.suppress(OSError):
                os.utime(self._file(self._rank))
            now = _beaten(other)
            if now != seen:
                seen, since = now, time.monotonic()
            elif now >= 0 and self._size > 1 and time.monotonic() - since > self._limit:
                self._stop(
                    f"{_named(other)} does not answer: no sign of life for {self._limit:g} s"
                )

    def _stop(self, message: str) -> None:
        """Tell it once for all ranks, and end this process; MPI ends the others."""
        if self._is_over.is_set():
            return
        if self._is_first():
            self._stream.write(f"\nerror: {message}\n{how_to_restart(self._folder)}\n")
            self._stream.flush()
        os._exit(STOPPED)

    def _is_first(self) -> bool:
        if self._folder is None:
            return self._rank == 0
        try:
            os.close(os.open(self._folder / "stopped", os.O_CREAT | os.O_EXCL))
        except OSError:
            return False
        return True


def _beaten(path: Path) -> int:
    """When a file was touched; -1 where there is none: its rank has not begun, or has ended."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return -1


def _named(path: Path) -> str:
    rank = int(path.stem.removeprefix("rank-"))
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return f"rank {rank}"
    return f"rank {rank} (process {about['pid']} on {about['host']})"
