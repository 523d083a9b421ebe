"""The four jobs of `loopwright demo`, each beside what people use today."""

from __future__ import annotations

import ctypes
import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

import loopwright as lw
from loopwright.cli.demo_heat import heat
from loopwright.compilers import compiler_path
from loopwright.diagnostics import ToolchainError
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.address import data_address
from loopwright.runtime.array_arguments import Array
from loopwright.runtime.toolchain import build_library, find_compiler, load_library

__all__ = ["Call", "Comparison", "DemoJob", "Peer", "Scene", "Sizes", "demo_jobs"]

Call: TypeAlias = Callable[[], Any]

_HAND_TUNED = "BLAS is tuned by hand for products; Loopwright makes its code from any loops"
_VALIDATED = "Loopwright validates the index arrays in each call, scipy does not"
_CROWDED = "the threads wait for each other where the cores have other work"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the jobs; a call of the slowest contestant takes about a tenth of a second."""

    points: int = 500  # along an edge of the plate
    steps: int = 20
    nodes: int = 300
    matrix: int = 320
    grid: int = 300  # points along an edge


@dataclass(frozen=True, slots=True)
class Peer:
    """What people use today for a job."""

    name: str
    run: Call  # returns the result
    where_faster: str = _CROWDED  # why it may be faster than Loopwright


@dataclass(frozen=True, slots=True)
class Comparison:
    """A computation by Loopwright, and the same by others."""

    title: str  # of what Loopwright does
    ours: Call  # returns the result
    peers: tuple[Peer, ...]
    arrays: Callable[[Any], Sequence[Array]] = lambda result: (result,)  # of a result, to compare


@dataclass(frozen=True, slots=True)
class Scene:
    """The operands of a job, and what is computed with them."""

    comparisons: tuple[Comparison, ...]
    note: str = ""  # about a peer that is missing


@dataclass(frozen=True, slots=True)
class DemoJob:
    """A job, shown before it is prepared and run."""

    title: str
    text: str  # as a user writes it
    prepare: Callable[[], Scene]


def _heat(points: int, steps: int) -> Scene:
    start = np.random.default_rng(1).random((points, points))
    ours, theirs = (start.copy(), start.copy()), (start.copy(), start.copy())

    def loops() -> Any:
        heat(*ours, steps)
        return ours[0]

    def slices() -> Any:
        u, v = theirs
        for _ in range(steps):
            v[1:-1, 1:-1] = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4
            u[1:-1, 1:-1] = v[1:-1, 1:-1]
        return u

    return Scene((Comparison("Loopwright", loops, (Peer("NumPy, by slices", slices),)),))


_SHORTEST = 'C = lw.einsum("ik,kj->ij", A, B, semiring="min_plus")'


def _shortest(nodes: int) -> Scene:
    a, b = np.random.default_rng(1).random((2, nodes, nodes))

    def by_rows() -> Any:
        return np.stack([np.min(row[:, None] + b, axis=0) for row in a])

    def einsum() -> Any:
        return lw.einsum("ik,kj->ij", a, b, semiring="min_plus")

    return Scene((Comparison("Loopwright", einsum, (Peer("NumPy, row by row", by_rows),)),))


_CHAIN = """\
void chain(int n, double E[n][n], double D[n][n],
           double A[n][n], double B[n][n], double C[n][n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      D[i][j] = 0.0;
      for (int k = 0; k < n; k++)
        D[i][j] += A[i][k] * B[k][j];
    }
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      E[i][j] = 0.0;
      for (int k = 0; k < n; k++)
        E[i][j] += D[i][k] * C[k][j];
    }
#pragma endscop
}
"""


def _chain(n: int) -> Scene:
    a, b, c = np.random.default_rng(1).random((3, n, n))
    compiled = lw.compile(_CHAIN.encode())
    ours, theirs = np.zeros((2, n, n)), np.zeros((2, n, n))

    def loops() -> Any:
        compiled(n, *ours, a, b, c)
        return ours[0]

    def products() -> Any:
        return (a @ b) @ c

    blas = Peer("NumPy's BLAS", products, _HAND_TUNED)
    try:
        name, original = _by_compiler(_CHAIN, "chain")
    except ToolchainError:
        return Scene(
            (Comparison("Loopwright", loops, (blas,)),),
            "No C compiler was found to compare with. None is needed: this code is LLVM's.",
        )

    def as_it_stands() -> Any:
        original(n, *(ctypes.c_void_p(data_address(x)) for x in (*theirs, a, b, c)))
        return theirs[0]

    return Scene((Comparison("Loopwright", loops, (Peer(name, as_it_stands), blas)),))


def _by_compiler(text: str, function: str) -> tuple[str, Any]:
    """How the C compiler is called, and a function of the text as it compiles that."""
    wanted = "gcc" if not os.environ.get("CC") and compiler_path("gcc") else None
    compiler = find_compiler(wanted)
    native = [flag for flag in ("-march=native", "-mcpu=native") if compiler.accepts(flag)]
    flags = ("-O3", *native[:1])
    library = load_library(build_library(text, flags, compiler))
    return " ".join((os.path.basename(compiler.command[0]), *flags)), getattr(library, function)


_CONVERSIONS = """\
A = ...  # scipy's CSR, of a grid: five entries in a row
D = lw.sparse.convert(A, "dia")
C = lw.sparse.convert(A, "csc")
"""


def _conversions(n: int) -> Scene:
    try:
        import scipy.sparse as sp  # lazy: Loopwright runs without scipy
    except ImportError:
        return Scene((), "Left out, for scipy is not installed: pip install scipy")
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n))
    one = sp.eye_array(n)
    a = sp.csr_array(sp.kron(line, one) + sp.kron(one, line))

    def arrays(result: Any) -> Sequence[Array]:
        rows = result.tocsr()
        rows.sort_indices()
        return rows.data, rows.indices, rows.indptr

    def to(name: str, theirs: Callable[[], Any]) -> Comparison:
        peer = Peer(f"scipy's to{name}", theirs, _VALIDATED)
        return Comparison(
            f"Loopwright, to {name}", lambda: lw.sparse.convert(a, name), (peer,), arrays
        )

    return Scene((to("dia", a.todia), to("csc", a.tocsc)))


def demo_jobs(sizes: Sizes) -> tuple[DemoJob, ...]:
    """The jobs in the order they are shown."""
    points, nodes, n = sizes.points, sizes.nodes, sizes.matrix
    rows, entries = sizes.grid**2, 5 * sizes.grid**2 - 4 * sizes.grid
    return (
        DemoJob(
            f"Python loops: {sizes.steps} steps of heat in a plate of {points} x {points} points",
            inspect.getsource(heat.py_func),
            lambda: _heat(points, sizes.steps),
        ),
        DemoJob(
            f"einsum over a semiring: shortest paths of two edges, {nodes} nodes",
            _SHORTEST,
            lambda: _shortest(nodes),
        ),
        DemoJob(f"C: two products of {n} x {n} matrices in a chain", _CHAIN, lambda: _chain(n)),
        DemoJob(
            f"Sparse formats: a matrix of {rows:,} rows and {entries:,} entries",
            _CONVERSIONS,
            lambda: _conversions(sizes.grid),
        ),
    )
