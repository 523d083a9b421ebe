"""What the algorithms ask of a set of ranks, and the rows and columns of a grid of them.

Arrays that are sent are C-contiguous and of any element type: messages are bytes. The one
implementation with processes is `mpi_communicator`; the tests have one with threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from loopwright.integrations.mpi.block_layout import ProcessGrid
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.array_arguments import Array

__all__ = ["Communicator", "GridRanks", "PendingBroadcast", "agree", "on_grid"]


class PendingBroadcast(Protocol):
    """A broadcast that is under way; the array may be touched when it is done."""

    def test(self) -> bool:
        """Move it on, without waiting; whether it is done."""

    def wait(self) -> None:
        """Wait until it is done."""


class Communicator(Protocol):
    """A set of ranks. All of them call its collective methods, in the same order."""

    rank: int
    size: int

    def split(self, color: int, key: int) -> Communicator:
        """The ranks that give the same color, ordered by key."""

    def broadcast(self, array: Array, root: int) -> None:
        """Overwrite the array of every rank with that of the root."""

    def start_broadcast(self, array: Array, root: int) -> PendingBroadcast:
        """Begin a broadcast."""

    def reduce_all(self, array: Array, operation: str) -> Array:
        """The 'sum', 'min' or 'max' of the arrays of all ranks, element by element."""

    def share(self, value: Any, root: int = 0) -> Any:
        """The root's Python object on every rank."""

    def collect(self, value: Any) -> Sequence[Any]:
        """The Python objects of all ranks, on every rank."""

    def send(self, array: Array, to: int) -> None:
        """Send an array to a rank that receives it."""

    def receive(self, array: Array, source: int) -> None:
        """Overwrite an array with the one that a rank sends."""

    def barrier(self) -> None:
        """Wait for all ranks."""


@dataclass(frozen=True, slots=True)
class GridRanks:
    """The ranks of a grid, and those in this rank's row and column of it."""

    grid: ProcessGrid
    world: Communicator
    along: tuple[Communicator, Communicator]  # [0]: this column, over the rows; [1]: this row

    @property
    def place(self) -> tuple[int, int]:
        return self.grid.place(self.world.rank)


def on_grid(world: Communicator, grid: ProcessGrid) -> GridRanks:
    """The ranks as a grid; a collective call."""
    assert grid.size == world.size, f"{world.size} ranks for a grid of {grid}"
    row, column = grid.place(world.rank)
    return GridRanks(grid, world, (world.split(column, row), world.split(row, column)))


def agree(world: Communicator, action: Callable[[], Any]) -> Any:
    """What `action` returns; where it raises on some rank, the first rank's error on all of them.

    A rank that raised alone would leave the others waiting for it.
    """
    result, fault = None, None
    try:
        result = action()
    except (ValueError, OSError, ArithmeticError, RuntimeError, MemoryError) as error:
        fault = error
    for found in world.collect(fault):
        if found is not None:
            raise found
    return result
