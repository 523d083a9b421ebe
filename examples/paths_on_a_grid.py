"""Shortest paths between all crossings of a town, dealt over processes: no file, no whole matrix.

Run it with `mpirun -n 4 python examples/paths_on_a_grid.py [SIDE]`. Each rank makes the blocks of
the matrix it has from a rule, and rank 0 asks for the distances it wants to know.
"""

import sys

import numpy as np

from loopwright.integrations import mpi


def streets(side: int) -> mpi.CallbackSource:
    """Crossings of a town with one-way streets: east in even rows, west in odd ones."""

    def box(slices: tuple[slice, ...]) -> np.ndarray:
        start, end = (np.arange(part.start, part.stop) for part in slices)
        y, x = (z[:, None] for z in np.divmod(start, side))
        to_y, to_x = np.divmod(end, side)
        is_along = (y == to_y) & (to_x - x == np.where(y % 2 == 0, 1, -1))
        is_across = (x == to_x) & (abs(y - to_y) == 1)
        return np.where(is_along, 1.0, np.where(is_across, 2.0, np.inf))

    return mpi.CallbackSource((side**2, side**2), np.float64, box, name=f"streets {side}")


def main(side: int = 12) -> None:
    """Solve, gather, and tell how far the corners are from each other."""
    world = mpi.world()
    distances = mpi.gather(mpi.paths("shortest", streets(side), world), world)
    if distances is not None:
        corners = np.array([0, side - 1, side * (side - 1), side**2 - 1])
        print(f"{world.size} ranks, {side**2} crossings; between the corners:")
        print(distances[np.ix_(corners, corners)].astype(int))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
