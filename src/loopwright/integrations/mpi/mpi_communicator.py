"""Ranks as processes of MPI, by mpi4py; the only file that imports it."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.runtime.array_arguments import Array

__all__ = ["MpiCommunicator", "world"]

_PAUSE = 0.005  # seconds


class _Request:
    """A broadcast of MPI that is under way."""

    def __init__(self, request: Any) -> None:
        self._request = request

    def test(self) -> bool:
        return bool(self._request.Test())

    def wait(self) -> None:
        self._request.Wait()


class MpiCommunicator:
    """A communicator of mpi4py as the algorithms see it."""

    def __init__(self, comm: Any, library: Any) -> None:
        self._comm = comm
        self._mpi = library
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()

    def split(self, color: int, key: int) -> MpiCommunicator:
        return MpiCommunicator(self._comm.Split(color, key), self._mpi)

    def on_this_node(self) -> MpiCommunicator:
        """The ranks that share this rank's memory."""
        return MpiCommunicator(self._comm.Split_type(self._mpi.COMM_TYPE_SHARED), self._mpi)

    def broadcast(self, array: Array, root: int) -> None:
        self._comm.Bcast(_bytes(array), root)

    def start_broadcast(self, array: Array, root: int) -> _Request:
        return _Request(self._comm.Ibcast(_bytes(array), root))

    def reduce_all(self, array: Array, operation: str) -> Array:
        result = np.empty_like(array)
        kind = {"sum": self._mpi.SUM, "min": self._mpi.MIN, "max": self._mpi.MAX}[operation]
        self._comm.Allreduce(array, result, kind)
        return result

    def share(self, value: Any, root: int = 0) -> Any:
        return self._comm.bcast(value, root)

    def collect(self, value: Any) -> Sequence[Any]:
        found: Sequence[Any] = self._comm.allgather(value)
        return found

    def send(self, array: Array, to: int) -> None:
        self._comm.Send(_bytes(array), to)

    def receive(self, array: Array, source: int) -> None:
        self._comm.Recv(_bytes(array), source)

    def barrier(self) -> None:
        self._comm.Barrier()

    def idle_barrier(self) -> None:
        """Wait for all ranks and leave the core to others meanwhile: MPI's own waits spin."""
        request = self._comm.Ibarrier()
        while not request.Test():
            time.sleep(_PAUSE)

    def meets_within(self, seconds: float) -> bool:
        """Whether all ranks come here within so many seconds."""
        request = self._comm.Ibarrier()
        deadline = time.monotonic() + seconds
        while not request.Test():
            if time.monotonic() > deadline:
                return False
            time.sleep(_PAUSE)
        return True

    def abort(self, code: int) -> None:
        """End all ranks of the run."""
        self._comm.Abort(code)


def world() -> MpiCommunicator:
    """All ranks that were started together."""
    try:
        from mpi4py import MPI  # lazy: it starts MPI, and is an extra
    except ImportError as error:
        raise UsageError(
            "runs on several processes need mpi4py and a library of MPI",
            found=str(error),
            hint="pip install 'loopwright[mpi]', or mpi4py for the MPI of the system",
        ) from None
    comm = MPI.COMM_WORLD
    started = os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ.get("PMI_SIZE")
    if started is not None and int(started) != comm.Get_size():
        raise UsageError(
            "mpirun and mpi4py are of different libraries of MPI: each rank sees itself alone",
            found=f"{started} ranks were started, mpi4py has {comm.Get_size()}",
            hint="the mpirun of the library that mpi4py loads: python -m mpi4py --mpi-lib-version",
        )
    return MpiCommunicator(comm, MPI)


def _bytes(array: Array) -> Any:
    """The memory of a C-contiguous array of any element type."""
    assert array.flags.c_contiguous, "messages are contiguous"
    return array.reshape(-1).view(np.uint8)
