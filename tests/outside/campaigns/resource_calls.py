"""Public calls with work behind them: einsums, loops, C regions, sparse tensors, paths, commands.

Every number is a small integer, so that a result is the same to the bit by any plan. A call
works in an empty folder, in which `prepare` has put what it reads.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import loopwright as lw
from loopwright.cli import main
from loopwright.sparse import computations

__all__ = ["CALLS", "Call", "CommandError"]

# Primitives without which a call may end in an error. A computation asks for memory, for code and
# for files of the package; space on a disk and threads are to be done without.
COMPUTES = ("load", "memory", "open")
PREPROCESSES = (*COMPUTES, "fork")
CALLS_TOOLS = (*PREPROCESSES, "write")

_REGION = """
void f(int n, double y[n], double x[n]) {
#pragma scop
  for (int t = 0; t < 3; t++)
    for (int i = 1; i < n - 1; i++)
      y[i] += 2 * x[i - 1] + x[i + 1];
#pragma endscop
}
"""
_PRODUCT = """
void gemm(int n, double C[n][n], double A[n][n], double B[n][n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      C[i][j] = 0;
      for (int k = 0; k < n; k++)
        C[i][j] += A[i][k] * B[k][j];
    }
#pragma endscop
}
"""


class CommandError(Exception):
    """A command that ended with a status other than 0, and what it said."""


@dataclass(frozen=True)
class Call:
    """One call, what it may fail for, and the files that it leaves."""

    run: Callable[[], Any]
    may_fail: tuple[str, ...] = COMPUTES
    writes: tuple[str, ...] = ()  # each is there and whole, or as it was


def numbers(*shape: int, dtype: str = "float64") -> np.ndarray[Any, np.dtype[Any]]:
    """Small integers."""
    count = int(np.prod(shape))
    return (np.arange(count) * 7 % 11 - 3).reshape(shape).astype(dtype)


def prepare(folder: Path) -> None:
    """What calls read."""
    (folder / "region.c").write_text(_REGION, encoding="utf-8")
    (folder / "product.c").write_text(_PRODUCT, encoding="utf-8")
    lines = [f"{k % 5 + 1} {k + 1} {k - 3}" for k in range(8)]
    head = "%%MatrixMarket matrix coordinate real general\n5 8 8"
    (folder / "a.mtx").write_text("\n".join([head, *lines, ""]), encoding="utf-8")


# -- einsums --------------------------------------------------------------------------------------


def product() -> Any:
    return lw.einsum("ik,kj->ij", numbers(96, 80), numbers(80, 72), threads=2)


def large_product() -> Any:
    return lw.einsum("ik,kj->ij", numbers(320, 300), numbers(300, 310), threads=2)


def chain() -> Any:
    given = numbers(20, 30), numbers(30, 10), numbers(10, 25)
    return lw.einsum("ij,jk,kl->il", *given), lw.einsum_path("ij,jk,kl->il", *given)[0]


def strided_trace() -> Any:
    a = numbers(40, 40, 3)[:, ::2, ::-1]
    return lw.einsum("ijk->jk", a), lw.einsum("iik->k", numbers(12, 12, 3))


def semiring_product() -> Any:
    return lw.einsum("ik,kj->ij", numbers(40, 50), numbers(50, 30), semiring="min_plus", threads=2)


def permuted_tensor() -> Any:
    return lw.einsum("efbad,cf->abcde", numbers(4, 5, 3, 4, 3), numbers(6, 5), threads=2)


def integer_product() -> Any:
    a, b = numbers(33, 40, dtype="int64"), numbers(40, 17, dtype="int64")
    out = np.zeros((33, 17), np.int64)
    lw.einsum("ik,kj->ij", a, b, out=out)
    return out


def checked_product() -> Any:
    from loopwright import options

    with options.override(boundscheck=True):
        return lw.einsum("ik,kj->ij", numbers(30, 20), numbers(20, 10))


def plan_of_einsum() -> Any:
    plan = lw.einsum_plan("ik,kj->ij", numbers(64, 64), numbers(64, 64))
    return lw.Plan.loads(plan.dumps()) == plan


# -- loops ----------------------------------------------------------------------------------------


def smooth(a, b, n):
    for t in range(3):
        for i in range(1, n - 1):
            b[i] = a[i - 1] + a[i] + a[i + 1] + t
        for i in range(1, n - 1):
            a[i] = b[i]


def add_up(a):
    total = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] > 0:
                total += a[i, j]
    return total


def jit_loops() -> Any:
    function = lw.jit(smooth)
    found = []
    for dtype in ("float64", "float64", "int64"):
        a, b = numbers(5000, dtype=dtype), numbers(5000, dtype=dtype)
        function(a, b, 5000)
        found += [a, b]
    return found


def jit_result() -> Any:
    function = lw.jit(add_up)
    return [function(numbers(70, 90)), function(numbers(7, 9, dtype="float32"))]


def jit_texts() -> Any:
    function = lw.jit(smooth)
    given = numbers(50), numbers(50), 50
    inspect = function.inspect_llvm, function.inspect_asm, function.inspect_schedule
    texts = [one(*given) for one in inspect]
    return [bool(text) for text in texts], bool(str(function.explain(*given)))


# -- C text ---------------------------------------------------------------------------------------


def _region_by(**options: Any) -> Any:
    function = lw.compile(_REGION, **options)
    y, x = numbers(6000), numbers(6000) + 1
    function(6000, y, x)
    function(6000, y, x)
    return y


def compiled() -> Any:
    return _region_by()


def compiled_product() -> Any:
    c = np.zeros((130, 130))
    lw.compile(_PRODUCT)(130, c, numbers(130, 130), numbers(130, 130) + 1)
    return c


def compiled_by_tool() -> Any:
    return _region_by(target="c")


def compiled_openmp() -> Any:
    return _region_by(target="openmp")


def parsed() -> Any:
    return [str(program) for program in lw.parse_c(_PRODUCT)]


def tuned() -> Any:
    function = lw.compile(_REGION)
    lw.tune(function, 600, numbers(600), numbers(600), by="search", budget_ms=400)
    y = numbers(600)
    function(600, y, numbers(600))
    return y


def tuned_einsum() -> Any:
    given = numbers(40, 40), numbers(40, 40)
    lw.tune("ik,kj->ij", *given, by="search", budget_ms=400)
    return lw.einsum("ik,kj->ij", *given)


def modelled() -> Any:
    given = numbers(64, 64), numbers(64, 64)
    return [len(lw.tune("ik,kj->ij", *given, by=by)) >= 0 for by in ("model", "policy")]


# -- sparse ---------------------------------------------------------------------------------------


def _matrix() -> Any:
    found = scipy.sparse.random(60, 70, 0.1, random_state=5, format="coo")
    found.data[:] = numbers(found.nnz) + 12
    return found


def _arrays(tensor: Any) -> Any:
    """The arrays of a Loopwright or scipy tensor."""
    found = getattr(tensor, "arrays", None) or vars(tensor)
    named = {name: array for name, array in found.items() if isinstance(array, np.ndarray)}
    return dict(sorted(named.items()))


def converted() -> Any:
    matrix = _matrix()
    return [_arrays(lw.sparse.convert(matrix, name)) for name in ("csr", "dia", "ell", "bcsr")]


def converted_back() -> Any:
    csr = lw.sparse.convert(_matrix(), "csr")
    return [_arrays(lw.sparse.convert(csr, name, threads=2)) for name in ("csc", "coo")]


def sparse_vector() -> Any:
    a = lw.sparse.from_scipy(_matrix().tocsr())
    return lw.sparse.spmv(a, numbers(70)), lw.sparse.spmm(a, numbers(70, 6))


def sparse_einsum() -> Any:
    a = lw.sparse.convert(_matrix(), "csr")
    return lw.sparse.einsum("ij,jk->ik", a, numbers(70, 4))


def sparse_sum() -> Any:
    a = lw.sparse.convert(_matrix(), "csr")
    return _arrays(lw.sparse.add(a, a))


_CSR = {"rowptr": np.array([0, 1, 3]), "col": np.array([1, 0, 2])}


def sparse_entry() -> Any:
    own = lw.sparse.sparse_tensor("csr", (2, 3), _CSR, numbers(3))
    return lw.sparse.to_scipy(own).toarray(), _arrays(lw.sparse.from_dense(numbers(6, 6)))


def sparse_verified() -> Any:
    return str(lw.sparse.verify("coo", rank=1))[:20], str(lw.sparse.recommend(_matrix()))[:10]


def sparse_files() -> Any:
    tensor = lw.sparse.read_tensor("a.mtx")
    for name in ("b.mtx", "b.npz", "b.mtx.gz"):
        lw.sparse.write_tensor(name, tensor)
    return [_arrays(lw.sparse.read_tensor(name)) for name in ("b.mtx", "b.npz", "b.mtx.gz")]


def computed() -> Any:
    made = computations.computation(
        "made",
        "in p[N]: int32, in x[N]: float64, inout y[N]: float64",
        "move: {[i] : 0<=i<N} at (0,i,0): y(p(i)) += x(i)",
    )
    y = np.zeros(40)
    given = {"p": np.arange(40, dtype=np.int32)[::-1].copy(), "x": numbers(40), "y": y}
    computations.compile_computation(made)(given, {"N": 40}, 2)
    return y


# -- paths ----------------------------------------------------------------------------------------


def _weights(n: int) -> Any:
    found = (numbers(n, n) + 4) * 1.0
    found[numbers(n, n) > 0] = np.inf
    np.fill_diagonal(found, 0)
    return found


def shortest() -> Any:
    return lw.paths.shortest(_weights(60))


def shortest_by_steps() -> Any:
    return lw.paths.shortest(_weights(200), threads=2)


def routes() -> Any:
    return lw.paths.shortest(_weights(150), predecessors=True, threads=2).distances


def from_sources() -> Any:
    graph = scipy.sparse.csr_array(np.where(np.isinf(_weights(90)), 0, _weights(90)))
    return lw.paths.shortest(graph, sources=[0, 5])


def closures() -> Any:
    adjacency = _weights(80) < np.inf
    forest = lw.paths.minimum_spanning_forest(_weights(50) + _weights(50).T)
    widest = lw.paths.closure(numbers(40, 40), "max_min")
    return lw.paths.reachability(adjacency), widest, str(type(forest).__name__)


# -- commands -------------------------------------------------------------------------------------


def _command(*words: str) -> str:
    """What a command prints; CommandError with its complaint where it fails."""
    out, complaint = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(complaint):
        try:
            status = main(list(words))
        except (MemoryError, OSError) as error:
            raise AssertionError("a command raises") from error
    if status:
        raise CommandError(f"status {status}: {out.getvalue()}{complaint.getvalue()}")
    return out.getvalue()


def _text(*names: str) -> list[str]:
    return [sha256(Path(name).read_bytes()).hexdigest() for name in names]


def cc() -> Any:
    _command("cc", "region.c", "--target", "openmp", "-o", "region.opt.c")
    return _text("region.opt.c")


def cc_device() -> Any:
    _command("cc", "product.c", "--target", "cuda", "-o", "made")
    return _text(*sorted(str(path) for path in Path("made").iterdir()))


def cc_athread() -> Any:
    _command("cc", "product.c", "--target", "athread", "-o", "slaves")
    return _text(*sorted(str(path) for path in Path("slaves").iterdir()))


def cc_plan() -> Any:
    _command("cc", "product.c", "--dump-schedule", "plan.json", "-o", "a.c")
    _command("cc", "product.c", "--load-schedule", "plan.json", "-o", "b.c")
    return _text("plan.json", "a.c", "b.c")


def cc_checked() -> Any:
    _command("cc", "region.c", "--check", "-o", "checked.c")
    return _text("checked.c")


def explain() -> Any:
    return bool(_command("explain", "product.c"))


def cache_commands() -> Any:
    lw.einsum("i,i->", numbers(5), numbers(5))
    _command("cache")
    return [_command("cache", "clear")[:8]]


def cache_check() -> Any:
    return _command("cache", "check")[-13:]


def convert_command() -> Any:
    _command("convert", "a.mtx", "--to", "csr", "-o", "c.npz")
    return _arrays(lw.sparse.read_tensor("c.npz"))


def tune_command() -> Any:
    return bool(_command("tune", "ik,kj->ij", "--size", "i=30", "--seconds", "0.4"))


def info_commands() -> Any:
    return [bool(_command(*words)) for words in (("info",), ("machines",))]


CALLS = {
    "product": Call(product),
    "large_product": Call(large_product),
    "chain": Call(chain),
    "strided_trace": Call(strided_trace),
    "semiring_product": Call(semiring_product),
    "permuted_tensor": Call(permuted_tensor),
    "integer_product": Call(integer_product),
    "checked_product": Call(checked_product),
    "plan_of_einsum": Call(plan_of_einsum),
    "jit_loops": Call(jit_loops),
    "jit_result": Call(jit_result),
    "jit_texts": Call(jit_texts),
    "compiled": Call(compiled, PREPROCESSES),
    "compiled_product": Call(compiled_product, PREPROCESSES),
    "compiled_by_tool": Call(compiled_by_tool, CALLS_TOOLS),
    "compiled_openmp": Call(compiled_openmp, CALLS_TOOLS),
    "parsed": Call(parsed, PREPROCESSES),
    "tuned": Call(tuned, PREPROCESSES),
    "tuned_einsum": Call(tuned_einsum),
    "modelled": Call(modelled),
    "converted": Call(converted),
    "converted_back": Call(converted_back),
    "sparse_vector": Call(sparse_vector),
    "sparse_einsum": Call(sparse_einsum),
    "sparse_sum": Call(sparse_sum),
    "sparse_entry": Call(sparse_entry),
    "sparse_verified": Call(sparse_verified),
    "sparse_files": Call(sparse_files, (*COMPUTES, "write"), ("b.mtx", "b.npz", "b.mtx.gz")),
    "computed": Call(computed),
    "shortest": Call(shortest),
    "shortest_by_steps": Call(shortest_by_steps),
    "routes": Call(routes),
    "from_sources": Call(from_sources),
    "closures": Call(closures),
    "cc": Call(cc, CALLS_TOOLS, ("region.opt.c",)),
    "cc_device": Call(cc_device, CALLS_TOOLS, ("made",)),
    "cc_athread": Call(cc_athread, CALLS_TOOLS, ("slaves",)),
    "cc_plan": Call(cc_plan, CALLS_TOOLS, ("plan.json", "a.c", "b.c")),
    "cc_checked": Call(cc_checked, CALLS_TOOLS, ("checked.c",)),
    "explain": Call(explain, CALLS_TOOLS),
    "cache_commands": Call(cache_commands),
    "cache_check": Call(cache_check, (*COMPUTES, "write")),
    "convert_command": Call(convert_command, (*COMPUTES, "write"), ("c.npz",)),
    "tune_command": Call(tune_command),
    "info_commands": Call(info_commands),
}
