"""Who multiplies matrices over a pair of operators: Loopwright, C compilers, numba.

C and numba get the loops in the order i, k, j, which compilers make vectors of, and leave to ignore
NaN and to contract: that is kinder to them than what the dissertation's figures for gcc speak for.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import loopwright as lw
from benchmarks.corpus_contestants import Peer, installed_peers
from loopwright.semirings import make_semiring

__all__ = ["PAIRS", "Pair", "contestants", "installed_names"]

Array = np.ndarray[Any, Any]
Run = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Pair:
    """C <- C plus (A times B), named [times,plus] as the dissertation does."""

    name: str
    plus: str  # operators of ir/expr; sub: C - A B
    times: str
    einsum: dict[str, Any]  # keywords of lw.einsum for it; none: loops for lw.jit
    c_product: str  # x times y in C and in Python
    c_sum: str  # of the element c and the product t, in C
    start: float  # what C holds at first


@cache
def _quotients() -> Any:
    """Quotients under max are no semiring; einsum takes any pair of operators."""
    return make_semiring("max_div", "max", "div", -np.inf, 1.0, check=False)


def _pairs() -> tuple[Pair, ...]:
    least, greatest = "t < c ? t : c", "t > c ? t : c"
    inf = float("inf")
    return (
        Pair("[+,max]", "max", "add", {"semiring": "max_plus"}, "x + y", greatest, -inf),
        Pair("[/,max]", "max", "div", {"semiring": _quotients()}, "x / y", greatest, -inf),
        Pair("[min,max]", "max", "min", {"semiring": "max_min"}, "x < y ? x : y", greatest, -inf),
        Pair("[x,max]", "max", "mul", {"semiring": "max_times"}, "x * y", greatest, -inf),
        Pair("[x,min]", "min", "mul", {"semiring": "min_times"}, "x * y", least, inf),
        Pair("[x,-]", "sub", "mul", {}, "x * y", "c - t", 0.0),
        Pair("[+,min]", "min", "add", {"semiring": "min_plus"}, "x + y", least, inf),
    )


PAIRS: dict[str, Pair] = {pair.name: pair for pair in _pairs()}

_SOURCE = """
void product(long n, const {t} *restrict a_, const {t} *restrict b_, {t} *restrict c_) {{
  const {t} (*a)[n] = (const {t} (*)[n])a_;
  const {t} (*b)[n] = (const {t} (*)[n])b_;
  {t} (*c_all)[n] = ({t} (*)[n])c_;
  for (long i = 0; i < n; i++)
    for (long k = 0; k < n; k++)
      for (long j = 0; j < n; j++) {{
        {t} x = a[i][k], y = b[k][j], c = c_all[i][j], t = {product};
        c_all[i][j] = {sum};
      }}
}}
"""
# A quotient stays one: a product with a reciprocal is another pair.
_LEAVE = ("-ffast-math", "-fno-reciprocal-math", "-fPIC", "-c")


def installed_names() -> tuple[str, ...]:
    """Loopwright and the peers that are installed here."""
    numba = () if _numba_kernel("[+,max]") is None else ("numba",)
    return ("loopwright", *(peer.name for peer in installed_peers()), *numba)


def contestants(pair: Pair, a: Array, b: Array, who: tuple[str, ...]) -> dict[str, Run]:
    """Calls that compute C plus (A times B) in a result of their own; each returns it."""
    runs: dict[str, Run] = {}
    for name in who:
        c = np.full_like(a, pair.start)
        if name == "loopwright" and not pair.einsum:
            runs[name] = partial(_called, _subtract_product, a, b, c)
        elif name == "loopwright":
            given = {**pair.einsum, "out": c, "accumulate": True}
            runs[name] = partial(lw.einsum, "ik,kj->ij", a, b, **given)
        elif name == "numba":
            small = np.ones((1, 1), a.dtype)
            _called(_numba_kernel(pair.name), small, small, small.copy())  # compiles
            runs[name] = partial(_called, _numba_kernel(pair.name), a, b, c)
        else:
            peer = next(peer for peer in installed_peers() if peer.name == name)
            runs[name] = partial(_called_in_c, _c_kernel(peer, pair.name, a.dtype.name), a, b, c)
    return runs


@lw.jit(reassoc=True)
def _subtract_product(a: Any, b: Any, c: Any) -> None:
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] -= a[i, k] * b[k, j]


def _called(kernel: Any, a: Array, b: Array, c: Array) -> Array:
    kernel(a, b, c)
    return c


def _called_in_c(kernel: Any, a: Array, b: Array, c: Array) -> Array:
    kernel(len(a), a.ctypes.data, b.ctypes.data, c.ctypes.data)
    return c


@cache
def _c_kernel(peer: Peer, name: str, dtype: str) -> Any:
    pair = PAIRS[name]
    kind = {"float64": "double", "float32": "float"}[dtype]
    text = _SOURCE.format(t=kind, product=pair.c_product, sum=pair.c_sum)
    folder = Path(tempfile.mkdtemp())
    source, made, library = (folder / f"product.{end}" for end in ("c", "o", "so"))
    source.write_text(text, encoding="utf-8")
    compiled = [*peer.command, *_LEAVE, str(source), "-o", str(made)]
    # A library that is linked with -ffast-math lets all of the process flush subnormal numbers.
    linked = [peer.command[0], "-shared", str(made), "-o", str(library)]
    for command in (compiled, linked):
        subprocess.run(command, check=True, capture_output=True)
    kernel = ctypes.CDLL(str(library)).product
    kernel.argtypes = (ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    kernel.restype = None
    return kernel


@cache
def _numba_kernel(name: str) -> Any | None:
    """The same loops for numba; None where it is not installed."""
    try:
        import numba  # lazy: takes a second, and need not be there
    except ImportError:
        return None
    times = {
        "add": lambda x, y: x + y,
        "mul": lambda x, y: x * y,
        "div": lambda x, y: x / y,
        "min": lambda x, y: min(x, y),
    }
    plus = {
        "max": lambda x, y: max(x, y),
        "min": lambda x, y: min(x, y),
        "sub": lambda x, y: x - y,
    }
    pair = PAIRS[name]
    add = numba.njit(plus[pair.plus], inline="always")
    mul = numba.njit(times[pair.times], inline="always")

    @numba.njit(fastmath={"nnan", "ninf", "nsz", "contract", "reassoc"}, error_model="numpy")
    def kernel(a: Any, b: Any, out: Any) -> None:
        for i in range(a.shape[0]):
            for k in range(a.shape[1]):
                x = a[i, k]
                for j in range(b.shape[1]):
                    out[i, j] = add(out[i, j], mul(x, b[k, j]))

    return kernel
