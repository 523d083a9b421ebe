"""The sets on which tuning is held against the construction: what is in them, drawn by a seed.

odd        products of float32, all three extents primes from 61 to 251
skinny     products of float32, M or N from 1 to 8, K of 1024
tensors    TCCG's contractions and random ones of ranks 3 to 5, float32
types      products of primes in float64 and float16
layouts    products of primes, operands and result stored by columns in every combination
threads    products and skinny products on two threads
stencils   the stencils of the corpus on arrays that no cache holds
affine     the other kernels of the corpus: those with little work per element on arrays that no
           cache holds, those with more at the class LARGE, beyond the second cache
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import loopwright as lw
from benchmarks.contractions import Contraction
from benchmarks.corpus_kernels import CONSTANT, KERNELS, Kernel, Sizes, make_inputs, write_source
from benchmarks.random_contractions import draw
from benchmarks.tccg import suite
from loopwright.calls.einsum import einsum_task
from loopwright.calls.tune import tasks_of
from loopwright.tuning.tasks import Task

__all__ = ["SETS", "Subject", "subjects"]

_BEYOND = 48 << 20  # bytes that cross memory: more than the last cache of most processors
_WORK = 8.0  # operations per element below which arrays decide the time
_STRIDE_ODD = [n for n in range(61, 252) if all(n % d for d in range(2, n))]
_TENSOR_WORK = 2e8  # operations of one contraction at most
SETS = ("odd", "skinny", "tensors", "types", "layouts", "threads", "stencils", "affine")


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing that is tuned."""

    group: str
    name: str
    task: Callable[[], Task]


def subjects(group: str, seed: int) -> list[Subject]:
    """The members of a set, always the same for a seed."""
    makers = {
        "odd": _odd,
        "skinny": _skinny,
        "tensors": _tensors,
        "types": _types,
        "layouts": _layouts,
        "threads": _threads,
        "stencils": _stencils,
        "affine": _affine,
    }
    return list(makers[group](Random(f"{seed} {group}")))


def _primes(random: Random) -> tuple[int, int, int]:
    m, n, k = (random.choice(_STRIDE_ODD) for _ in range(3))
    return m, n, k


def _odd(random: Random) -> Iterator[Subject]:
    for _ in range(16):
        yield _product("odd", _primes(random))


def _skinny(random: Random) -> Iterator[Subject]:
    for number in range(16):
        thin, wide = random.randint(1, 8), random.randrange(64, 1025)
        yield _product("skinny", (thin, wide, 1024) if number % 2 else (wide, thin, 1024))


def _types(random: Random) -> Iterator[Subject]:
    for number in range(12):
        yield _product("types", _primes(random), ("float64", "float16")[number % 2])


def _layouts(random: Random) -> Iterator[Subject]:
    for number in range(1, 13):
        left, right = ("ik", "ki")[number & 1], ("kj", "jk")[number >> 1 & 1]
        text = f"{left},{right}->{('ij', 'ji')[number >> 2 & 1]}"
        yield _product("layouts", _primes(random), text=text)


def _threads(random: Random) -> Iterator[Subject]:
    for number in range(12):
        sizes = _primes(random)
        if number % 3 == 2:
            sizes = random.randint(1, 8), random.randrange(256, 1025), 1024
        yield _product("threads", sizes, threads=2)


def _product(
    group: str,
    sizes: tuple[int, int, int],
    dtype: str = "float32",
    text: str = "ik,kj->ij",
    threads: int = 1,
) -> Subject:
    dims = dict(zip("ijk", sizes, strict=True))
    return _contraction(group, Contraction(text, dims), dtype, threads)


def _tensors(random: Random) -> Iterator[Subject]:
    """Contractions whose arrays have three to five dimensions, scaled down to `_TENSOR_WORK`."""
    published = [x for x in suite() if max(map(len, x.terms)) in (3, 4, 5)]
    rng = np.random.default_rng(random.randrange(1 << 30))
    for found in random.sample(published, 8):
        yield _contraction("tensors", _scaled(found))
    count = 0
    while count < 8:
        drawn = draw(rng)
        if all(3 <= len(term) <= 5 for term in drawn.terms):
            count += 1
            yield _contraction("tensors", _scaled(drawn))


def _scaled(found: Contraction) -> Contraction:
    dims = dict(found.dims)
    while 2 * float(np.prod(list(dims.values()), dtype=float)) > _TENSOR_WORK:
        largest = max(dims, key=lambda name: dims[name])
        dims[largest] = max(2, dims[largest] * 3 // 4)
    return Contraction(found.subscripts, dims)


def _contraction(
    group: str, made: Contraction, dtype: str = "float32", threads: int = 1
) -> Subject:
    def task() -> Task:
        rng = np.random.default_rng(0)
        arrays = [rng.random([made.dims[c] for c in t]).astype(dtype) for t in made.terms[:2]]
        return einsum_task(made.subscripts, *arrays, threads=threads)

    extents = ",".join(f"{name}={size}" for name, size in made.dims.items())
    words = [made.subscripts, extents, dtype, f"{threads} thread{'s' if threads > 1 else ''}"]
    return Subject(group, " ".join(words), task)


# -- loops ----------------------------------------------------------------------------------------


def _stencils(random: Random) -> Iterator[Subject]:
    for kernel in KERNELS.values():
        if kernel.kind == "stencil" and "XL" in kernel.classes:
            yield _kernel("stencils", kernel, kernel.at("XL"))


def _affine(random: Random) -> Iterator[Subject]:
    for kernel in KERNELS.values():
        if kernel.kind not in ("stencil", "nasty"):
            yield _kernel("affine", kernel, _beyond(kernel))


def _beyond(kernel: Kernel) -> Sizes:
    """LARGE; where work grows like the arrays, all sizes grow until no cache holds them."""
    sizes = kernel.at("LARGE")
    if kernel.count_flops(sizes) > _WORK * kernel.count_bytes(sizes):
        return sizes
    while kernel.count_bytes(sizes) < _BEYOND:
        sizes = {name: max(size + 1, size * 5 // 4) for name, size in sizes.items()}
    return sizes


def _kernel(group: str, kernel: Kernel, sizes: Sizes) -> Subject:
    def task() -> Task:
        values: dict[str, Any] = make_inputs(kernel, sizes, seed=1)
        with tempfile.TemporaryDirectory() as folder:
            mode = CONSTANT.with_restrict()
            source = write_source(kernel, Path(folder), mode=mode, extents=sizes)
            compiled = lw.compile(source, reassoc=True, threads=1)
            _, tasks = tasks_of(compiled, tuple(values.values()), {})
        assert len(tasks) == 1, "a kernel of the corpus is one region"
        return tasks[0]

    text = ",".join(f"{name}={size}" for name, size in sizes.items())
    return Subject(group, f"{kernel.name} {text}", task)
