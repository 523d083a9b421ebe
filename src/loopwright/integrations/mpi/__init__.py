"""Products, closures and einsums over semirings on several processes, by MPI.

mpirun -n 4 python -m loopwright.integrations.mpi shortest --input graph.mtx --checkpoint folder
"""

from __future__ import annotations

from loopwright.integrations.mpi.block_cyclic import BlockCyclic, gather, write_npy
from loopwright.integrations.mpi.block_layout import BlockLayout, ProcessGrid
from loopwright.integrations.mpi.block_sources import (
    ArraySource,
    CallbackSource,
    MtxSource,
    NpySource,
    open_source,
)
from loopwright.integrations.mpi.dealt_calls import GridOptions, closure, einsum, paths
from loopwright.integrations.mpi.mpi_communicator import world

__all__ = [
    "ArraySource",
    "BlockCyclic",
    "BlockLayout",
    "CallbackSource",
    "GridOptions",
    "MtxSource",
    "NpySource",
    "ProcessGrid",
    "closure",
    "einsum",
    "gather",
    "open_source",
    "paths",
    "world",
    "write_npy",
]
