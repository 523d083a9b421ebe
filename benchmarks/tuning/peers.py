"""Who meets the judge without a tree: the construction, NumPy, and libraries that are installed.

A peer takes a shape and its arrays (A, B, out) and gives a turn: a function that runs for a while
and gives seconds of a call. It writes `out`, so that the judge can look at it; libraries that give
a new array are called on its copy once, and timed without the copy.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import loopwright as lw
from benchmarks.tuning.construction import constructed_kernel
from benchmarks.tuning.halide_peer import halide_product
from benchmarks.tuning.native_time import WARM_UP, native_turn
from benchmarks.tuning.shapes import AnyShape, Convolution, Shape
from benchmarks.tuning.tvm_peers import tvm_turn
from loopwright.runtime.scratch import local_scratch

__all__ = ["PEERS", "Arrays", "Turn", "constructed_turn", "installed_peers", "python_turn"]

Arrays: TypeAlias = Mapping[str, Any]
Turn: TypeAlias = Callable[[], float]

_TURN = 1e-3  # seconds of a turn
_LONG = 1.0  # seconds of warm-up beyond which one run does
_PRODUCT = "mk,kn->mn"


def python_turn(call: Callable[[], Any]) -> Turn:
    """A turn of calls from Python; the fastest counts."""
    start = time.perf_counter()
    call()
    if (time.perf_counter() - start) * WARM_UP < _LONG:
        for _ in range(WARM_UP):
            call()

    def turn() -> float:
        best, end = float("inf"), time.perf_counter() + _TURN
        while True:
            start = time.perf_counter()
            call()
            stop = time.perf_counter()
            best = min(best, stop - start)
            if stop >= end:
                return best

    return turn


def constructed_turn(shape: AnyShape, arrays: Arrays) -> Turn:
    """The kernel of the construction, repeated by native code where one thread runs it."""
    if isinstance(shape, Convolution):
        return _constructed_convolution(shape, arrays)
    kernel, (_, *operands), _ = constructed_kernel(shape, (arrays["A"], arrays["B"]))
    given = (arrays["out"], *operands)
    if shape.threads > 1:
        return python_turn(partial(kernel, *given))
    words = kernel.native(*given)
    block = local_scratch().block  # a kernel that needs more than this would replace and free it
    turn = native_turn(words)
    return lambda: _keeping(turn, kernel, given, block)


def _keeping(turn: Turn, *alive: Any) -> float:
    """A turn of code that holds addresses only."""
    assert alive
    return turn()


_CONVOLUTION = """
void convolution(float out[{outputs}][{side}][{side}],
                 const float A[{channels}][{source}][{source}],
                 const float B[{outputs}][{channels}][{window}][{window}]) {{
#pragma scop
  for (int o = 0; o < {outputs}; o++)
    for (int i = 0; i < {side}; i++)
      for (int j = 0; j < {side}; j++) {{
        out[o][i][j] = 0;
        for (int c = 0; c < {channels}; c++)
          for (int p = 0; p < {window}; p++)
            for (int q = 0; q < {window}; q++)
              out[o][i][j] += A[c][i * {stride} + p][j * {stride} + q] * B[o][c][p][q];
      }}
#pragma endscop
}}
"""


def _constructed_convolution(shape: Convolution, arrays: Arrays) -> Turn:
    sizes = {
        "outputs": shape.outputs,
        "side": shape.side,
        "channels": shape.channels,
        "source": shape.source_side,
        "window": shape.window,
        "stride": shape.stride,
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "convolution.c"
        file.write_text(_CONVOLUTION.format(**sizes), encoding="utf-8")
        kernel = lw.compile(file, reassoc=True, threads=shape.threads)
        kernel(arrays["out"], arrays["A"], arrays["B"])
    return python_turn(lambda: kernel(arrays["out"], arrays["A"], arrays["B"]))


def _into(out: Any, call: Callable[[], Any]) -> Turn:
    """A turn of a call that gives a new array, which is copied once for the judge."""
    out[...] = call()
    return python_turn(call)


def _numpy(shape: AnyShape, arrays: Arrays) -> Turn:
    """Matmul of products with a given result, else einsum with its best path."""
    a, b, out = arrays["A"], arrays["B"], arrays["out"]
    if isinstance(shape, Convolution):
        return _into(out, partial(shape.by_numpy, a, b))
    if shape.subscripts == _PRODUCT:
        return python_turn(partial(np.matmul, a, b, out=out))
    return python_turn(partial(np.einsum, shape.subscripts, a, b, out=out, optimize=True))


def _opt_einsum(shape: AnyShape, arrays: Arrays) -> Turn:
    import opt_einsum

    shape = _only_einsum(shape)
    a, b = arrays["A"], arrays["B"]
    call = opt_einsum.contract_expression(shape.subscripts, a.shape, b.shape)
    return _into(arrays["out"], partial(call, a, b))


def _torch(shape: AnyShape, arrays: Arrays) -> Turn:
    import torch

    torch.set_num_threads(shape.threads)
    a, b, out = (torch.from_numpy(arrays[name]) for name in ("A", "B", "out"))
    if isinstance(shape, Convolution):
        call = partial(torch.nn.functional.conv2d, a[None], b, stride=shape.stride)
        return _into(arrays["out"], lambda: call()[0])
    if shape.subscripts == _PRODUCT:
        return python_turn(lambda: torch.matmul(a, b, out=out))
    return _into(arrays["out"], lambda: torch.einsum(shape.subscripts, a, b))


def _inductor(shape: AnyShape, arrays: Arrays) -> Turn:
    """torch.compile with its search over kernels, one shape at a time."""
    import torch

    torch.set_num_threads(shape.threads)
    torch.compiler.reset()
    a, b = (torch.from_numpy(arrays[name]) for name in ("A", "B"))
    if isinstance(shape, Convolution):
        stride = shape.stride
        work = torch.compile(lambda x, y: torch.nn.functional.conv2d(x[None], y, stride=stride)[0])
    else:
        text = shape.subscripts
        work = torch.compile(lambda x, y: torch.einsum(text, x, y), mode="max-autotune")
    return _into(arrays["out"], lambda: work(a, b))


def _numba(shape: AnyShape, arrays: Arrays) -> Turn:
    """The nest as written, by numba's -O3 with reassociation; loops m, k, n."""
    if _only_einsum(shape).subscripts != _PRODUCT or shape.dtype == "float16":
        raise TypeError("numba is given products of float32 and float64")
    work = _numba_product()
    return python_turn(lambda: work(arrays["A"], arrays["B"], arrays["out"]))


def _halide(shape: AnyShape, arrays: Arrays) -> Turn:
    """A schedule by hand; calls are JIT-compiled realizations into the given result."""
    if _only_einsum(shape).subscripts != _PRODUCT or shape.dtype != "float32" or shape.threads > 1:
        raise TypeError("Halide is given products of float32 on one thread")
    return python_turn(halide_product(arrays))


@cache
def _numba_product() -> Any:
    import numba

    def product(a: Any, b: Any, out: Any) -> None:
        for i in range(a.shape[0]):
            out[i, :] = 0
            for k in range(a.shape[1]):
                for j in range(b.shape[1]):
                    out[i, j] += a[i, k] * b[k, j]

    return numba.njit(fastmath=True)(product)


def _jax(shape: AnyShape, arrays: Arrays) -> Turn:
    import jax

    if shape.dtype == "float64":
        jax.config.update("jax_enable_x64", True)
    here = jax.devices("cpu")[0]  # where a GPU is found, the default is that, in fewer bits
    a, b = (jax.device_put(arrays[name], here) for name in ("A", "B"))
    if isinstance(shape, Convolution):
        steps = (shape.stride,) * 2
        work = jax.jit(lambda x, y: jax.lax.conv(x[None], y, steps, "VALID")[0])
    else:
        text = shape.subscripts
        work = jax.jit(lambda x, y: jax.numpy.einsum(text, x, y))
    return _into(arrays["out"], lambda: work(a, b).block_until_ready())


def _only_einsum(shape: AnyShape) -> Shape:
    if isinstance(shape, Convolution):
        raise TypeError("a convolution is no einsum")
    return shape


# Peers by name with the module that each needs.
PEERS: Mapping[str, tuple[str, Callable[[AnyShape, Arrays], Turn]]] = {
    "numpy": ("numpy", _numpy),
    "opt_einsum": ("opt_einsum", _opt_einsum),
    "torch": ("torch", _torch),
    "inductor": ("torch", _inductor),
    "numba": ("numba", _numba),
    "jax": ("jax", _jax),
    "halide_hand": ("halide", _halide),
    "tvm_default": ("tvm", partial(tvm_turn, "tvm_default")),
    "tvm_hand": ("tvm", partial(tvm_turn, "tvm_hand")),
    "metaschedule": ("tvm", partial(tvm_turn, "metaschedule")),
}


def installed_peers(names: list[str]) -> dict[str, Callable[[AnyShape, Arrays], Turn]]:
    """The named ones that are installed here."""
    return {n: PEERS[n][1] for n in names if find_spec(PEERS[n][0]) is not None}
