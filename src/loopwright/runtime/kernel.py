"""Kernels: loaded machine code, bound to the sizes of a call and run on arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import Any

import numpy as np

from loopwright.runtime.jit import LoadedObject
from loopwright.runtime.scratch import local_scratch
from loopwright.runtime.threads import Pool

__all__ = ["Bound", "CompiledKernel"]

_pointer = ctypes.c_void_p


class CompiledKernel:
    """The entry points of one module (see backends/llvm_entry)."""

    __slots__ = (
        "_call",
        "_code",
        "_private",
        "_run",
        "_scratch",
        "buffers",
        "is_parallel",
        "needs_memory",
        "scalars",
    )

    def __init__(
        self,
        code: LoadedObject,
        entry: str,
        buffers: Sequence[str],
        scalars: Sequence[str],
        is_parallel: bool = True,
        needs_memory: bool = True,
    ) -> None:
        self._code = code
        self.buffers = tuple(buffers)
        self.scalars = tuple(scalars)
        self.is_parallel = is_parallel  # False: each thread of a team would do all the work
        self.needs_memory = needs_memory  # True: perhaps, the launch values tell how much
        arguments = [_pointer] * (2 + len(self.buffers))
        self._call = ctypes.CFUNCTYPE(None, *arguments)(code.address(f"{entry}_call"))
        self._run = code.address(f"{entry}_run")
        size = ctypes.CFUNCTYPE(ctypes.c_int64, _pointer)
        self._scratch = size(code.address(f"{entry}_scratch"))
        self._private = size(code.address(f"{entry}_private"))

    def alone(self, names: Sequence[str]) -> Callable[..., None] | None:
        """The code on the caller's thread, called with the arrays and launch values of `names`.

        Nothing is kept of a call, so that one whose values are new costs no more than others. None
        where the code needs memory or a table besides.
        """
        if self.needs_memory:
            return None
        given = {name: f"x{k}" for k, name in enumerate(names)}
        values = ", ".join(given[name] for name in self.scalars)
        objects = "".join(f", id({given[name]})" for name in self.buffers)
        # Written out: to pass arguments on through tuples takes as long as the call itself.
        text = f"lambda {', '.join(given.values())}: call(pack({values}), None{objects})"
        pack = Struct(f"{len(self.scalars)}q").pack
        run: Callable[..., None] = eval(text, {"call": self._call, "pack": pack, "kernel": self})
        return run

    def bind(
        self,
        values: dict[str, int],
        table: np.ndarray[Any, np.dtype[np.int64]],
        threads: int = 1,
        pool: Callable[[], Pool] | None = None,
    ) -> Bound:
        """Fix the launch values: a callable on arrays given in the order of `buffers`.

        A kernel without parallel loops runs on the caller's thread, whatever `threads` says.
        """
        head = np.array([values[name] for name in self.scalars], dtype=np.int64)
        launch = np.concatenate([head, table])
        address = launch.ctypes.data
        return Bound(
            self,
            launch,
            (self._call, address, self._run),
            (int(self._scratch(address)), int(self._private(address))),
            threads if self.is_parallel else 1,
            pool,
        )


class Bound:
    """A kernel with its launch values. Safe to call from several threads at once."""

    __slots__ = ("_address", "_call", "_keep", "_need", "_pool", "_run", "_sizes", "threads")

    def __init__(
        self,
        kernel: CompiledKernel,
        launch: np.ndarray[Any, np.dtype[np.int64]],
        entries: tuple[Callable[..., None], int, int],
        sizes: tuple[int, int],
        threads: int,
        pool: Callable[[], Pool] | None,
    ) -> None:
        self._keep = (kernel, launch)  # the addresses below point into these
        self._call, self._address, self._run = entries
        self._sizes = sizes
        self._need = sizes[0] + sizes[1]
        self._pool = pool
        self.threads = threads

    def __call__(self, *arrays: object) -> None:
        """Run on array objects, which must be what the launch was made for."""
        if self.threads > 1 and self._run_team(arrays):
            return
        scratch = local_scratch()
        if scratch.size < self._need:
            scratch.reserve(self._need)
        self._call(self._address, scratch.address, *map(id, arrays))

    def again(self) -> tuple[Bound, np.ndarray[Any, np.dtype[np.int64]]]:
        """The same with a copy of the launch values, which the caller may change."""
        kernel, launch = self._keep
        fresh = launch.copy()
        entries = self._call, fresh.ctypes.data, self._run
        return Bound(kernel, fresh, entries, self._sizes, self.threads, self._pool), fresh

    def quick(self, exchange: bool = False) -> Callable[[object, object, object], None]:
        """This call for out, left and right (or right and left), with the least detours.

        Small kernels take as long as a few attribute look-ups: these are done once, here.
        """
        call, address, need = self._call, self._address, self._need
        if self.threads > 1:
            return (lambda out, x, y: self(out, y, x)) if exchange else self

        def run(out: object, x: object, y: object) -> None:
            scratch = local_scratch()
            if scratch.size < need:
                scratch.reserve(need)
            call(address, scratch.address, id(out), id(x), id(y))

        def run_exchanged(out: object, x: object, y: object) -> None:
            run(out, y, x)

        def run_bare(out: object, x: object, y: object) -> None:
            call(address, None, id(out), id(x), id(y))

        if exchange:
            return run_exchanged
        return run if need else run_bare

    def bare(self) -> Callable[..., None] | None:
        """This call on the identities of array objects; None where it needs threads or memory."""
        if self.threads > 1 or self._need:
            return None
        return partial(self._call, self._address, None)

    def _run_team(self, arrays: tuple[object, ...]) -> bool:
        assert self._pool is not None
        shared, private = self._sizes
        base = local_scratch().reserve(shared + self.threads * private)
        objects = (_pointer * len(arrays))(*map(id, arrays))
        return self._pool().run(
            self._run,
            self._address,
            (base, base + shared, private),
            ctypes.addressof(objects),
            self.threads,
        )
