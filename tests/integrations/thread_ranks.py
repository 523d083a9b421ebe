"""Ranks as threads of one process, strict where MPI is silent: for tests of what runs on a grid.

A broadcast fills the array of a receiver with noise until it is waited for, and asserts that its
root has not written to the array meanwhile. A rank that fails breaks the waits of all others.
"""

import threading
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_LIMIT = 600.0  # seconds until a rank that waits gives up: some rank left the common order


class BrokenRanksError(RuntimeError):
    """Another rank failed, or did not come."""


class _Hub:
    """What the ranks of one communicator share."""

    def __init__(self, size: int, run: "_Run") -> None:
        self.size = size
        self.run = run
        self.posted: dict[Any, Any] = {}
        self.taken: dict[Any, int] = {}


class _Run:
    """What all communicators of a run share."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.fault: BaseException | None = None
        self.hubs: dict[Any, _Hub] = {}


class _ThreadTransfer:
    def __init__(self, ranks: "ThreadRanks", key: Any, array: Any, root: int) -> None:
        self._ranks, self._key, self._array = ranks, key, array
        self._is_root = ranks.rank == root
        self._is_done = False
        if self._is_root:
            self._crc = zlib.crc32(array.tobytes())
            ranks.post(key, array.copy(), readers=ranks.size - 1)
        else:
            array.reshape(-1).view(np.uint8)[...] = 0xA5

    def test(self) -> bool:
        return self._is_done

    def wait(self) -> None:
        if self._is_done:
            return
        self._is_done = True
        if self._is_root:
            assert zlib.crc32(self._array.tobytes()) == self._crc, "written while it was sent"
        else:
            found = self._ranks.take(self._key)
            assert found.shape == self._array.shape, "ranks broadcast different shapes"
            assert found.dtype == self._array.dtype, "ranks broadcast different types"
            self._array[...] = found


class ThreadRanks:
    """One rank's view of a communicator whose ranks are threads."""

    def __init__(self, hub: _Hub, rank: int) -> None:
        self._hub = hub
        self._name = id(hub)
        self._calls = 0
        self.rank = rank
        self.size = hub.size

    def post(self, key: Any, value: Any, readers: int) -> None:
        run = self._hub.run
        with run.changed:
            self._hub.posted[key] = value
            self._hub.taken[key] = readers
            run.changed.notify_all()

    def take(self, key: Any) -> Any:
        hub, run = self._hub, self._hub.run
        deadline = time.monotonic() + _LIMIT
        with run.changed:
            while key not in hub.posted:
                if run.fault is not None or time.monotonic() > deadline:
                    raise BrokenRanksError(f"rank {self.rank} waits in vain for {key}")
                run.changed.wait(1.0)
            value = hub.posted[key]
            hub.taken[key] -= 1
            if not hub.taken[key]:
                del hub.posted[key], hub.taken[key]
            return value

    def _next(self) -> int:
        self._calls += 1
        return self._calls

    def collect(self, value: Any) -> Sequence[Any]:
        call = self._next()
        self.post((call, self.rank), value, readers=self.size)
        return [self.take((call, rank)) for rank in range(self.size)]

    def share(self, value: Any, root: int = 0) -> Any:
        return self.collect(value if self.rank == root else None)[root]

    def split(self, color: int, key: int) -> "ThreadRanks":
        call = self._calls + 1
        members = sorted(
            (k, rank) for rank, (c, k) in enumerate(self.collect((color, key))) if c == color
        )
        run = self._hub.run
        with run.changed:
            hub = run.hubs.setdefault((self._name, call, color), _Hub(len(members), run))
        return ThreadRanks(hub, [rank for _, rank in members].index(self.rank))

    def start_broadcast(self, array: Any, root: int) -> _ThreadTransfer:
        assert array.flags.c_contiguous
        return _ThreadTransfer(self, (self._next(), "broadcast"), array, root)

    def broadcast(self, array: Any, root: int) -> None:
        self.start_broadcast(array, root).wait()

    def reduce_all(self, array: Any, operation: str) -> Any:
        ufunc = {"sum": np.add, "min": np.minimum, "max": np.maximum}[operation]
        return ufunc.reduce([np.array(x) for x in self.collect(array.copy())], axis=0)

    def send(self, array: Any, to: int) -> None:
        self.post(("message", self.rank, to), array.copy(), readers=1)

    def receive(self, array: Any, source: int) -> None:
        array[...] = self.take(("message", source, self.rank))

    def barrier(self) -> None:
        self.collect(None)


def run_ranks(size: int, function: Callable[[ThreadRanks], Any]) -> list[Any]:
    """Run a function on so many ranks; what each returned, or the first fault of them."""
    run = _Run()
    hub = _Hub(size, run)
    results: list[Any] = [None] * size
    faults: list[BaseException | None] = [None] * size

    def work(rank: int) -> None:
        try:
            results[rank] = function(ThreadRanks(hub, rank))
        except BaseException as error:  # noqa: BLE001, told by the caller's thread
            faults[rank] = error
            if not isinstance(error, BrokenRanksError):
                with run.changed:
                    run.fault = run.fault or error
                    run.changed.notify_all()

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if run.fault is not None:
        raise run.fault
    for fault in faults:
        if fault is not None:
            raise fault
    return results
