"""Workers of tuning that need not import the package: forks of one process that has done so.

A worker takes most of a second to start, and tests of searches start dozens. What starts a worker
anew, and what becomes of its exit status, is for tests with real child processes.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import subprocess
import sys
from typing import Any

import tuning.fake_tasks  # noqa: F401, what candidates of tests are
from loopwright import child_process, options
from loopwright.child_process import Child
from loopwright.tuning.worker_process import main

_START = "import sys; from tuning.warm_workers import serve; serve(int(sys.argv[1]))"
_STANDARD = ("stdin", "stdout", "stderr")


class Forker:
    """A process that imports what workers need, once, and forks on demand."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )

    def fork(self, handle: int, environment: dict[str, str]) -> int:
        """Start a worker that answers on a file descriptor; its process."""
        socket.send_fds(self._socket, [pickle.dumps(environment)], [handle])
        return int(self._socket.recv(100))

    def close(self) -> None:
        """End the process that forks; workers end by themselves or are ended."""
        self._socket.close()
        self._process.wait()


class _Forked:
    """What a `Child` asks of its process, which is no child of this one."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None  # of forks 0, however they have ended
        self._file = os.pidfd_open(pid)

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._file], [], [], 0)[0]:
            self._over()
        return self.returncode

    def wait(self, seconds: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._file], [], [], seconds)[0]:
                raise subprocess.TimeoutExpired("a forked worker", seconds or 0.0)
            self._over()
        return 0

    def _over(self) -> None:
        os.close(self._file)
        self.returncode = 0


def forked_child(forker: Forker) -> type[Child]:
    """The class of children that a process forks, to stand in the place of `Child`."""

    class ForkedChild(Child):
        def __init__(self, command: list[str], **options: Any) -> None:
            assert command[:2] == [sys.executable, "-c"]
            assert all(options[name] == subprocess.DEVNULL for name in _STANDARD)
            (handle,) = options["pass_fds"]
            self.process = _Forked(forker.fork(handle, options["env"]))  # type: ignore[assignment]
            self._owner = os.getpid()
            child_process._living.add(self)

        def _has_ended(self) -> bool:
            return self.process.poll() is not None

    return ForkedChild


def serve(handle: int) -> None:
    """Fork a worker at each request, until the parent is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for workers
    with socket.socket(fileno=handle) as requests:
        while True:
            request, handles, _, _ = socket.recv_fds(requests, 1 << 20, 1)
            if not request:
                return
            environment = pickle.loads(request)
            if pid := os.fork():
                os.setpgid(pid, pid)
                os.close(handles[0])
                requests.send(str(pid).encode())
                continue
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setpgid(0, 0)
            requests.close()
            nothing = os.open(os.devnull, os.O_RDWR)
            for standard in range(3):
                os.dup2(nothing, standard)
            os.environ.clear()
            os.environ.update(environment)
            options.reload()
            try:
                main(handles[0])
            finally:
                os._exit(1)
