"""Kernels: loaded machine code, bound to the sizes of a call and run on arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import Any

import numpy as np

from loopwright.runtime.address import (
    Address,
    addresses_of,
    data_address,
    function_at,
)
from loopwright.runtime.llvm_engine import LoadedObject
from loopwright.runtime.scratch import local_scratch, per_thread
from loopwright.runtime.thread_pool import Pool

__all__ = ["BoundKernel", "CompiledKernel"]

_pointer = ctypes.c_void_p


class CompiledKernel:
    """The entry points of one module (see backends/llvm/llvm_entry)."""

    __slots__ = (
        "_call",
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
        self.buffers = tuple(buffers)
        self.scalars = tuple(scalars)
        self.is_parallel = is_parallel  # False: each thread of a team would do all the work
        self.needs_memory = needs_memory  # True: perhaps, the kernel arguments tell how much
        arguments = [_pointer] * (2 + len(self.buffers))
        self._call = function_at(code.address(f"{entry}_call"), *arguments)
        self._run = code.address(f"{entry}_run")
        scratch, private = (code.address(f"{entry}_{part}") for part in ("scratch", "private"))
        self._scratch = function_at(scratch, _pointer, result=ctypes.c_int64)
        self._private = function_at(private, _pointer, result=ctypes.c_int64)

    def alone(self, names: Sequence[str]) -> Callable[..., None] | None:
        """The code on the caller's thread, called with the arrays and kernel arguments of `names`.

        No state is kept between calls, so that one with new values costs no more than others. None
        where the code also needs scratch memory or a table.
        """
        if self.needs_memory:
            return None
        given = {name: f"x{k}" for k, name in enumerate(names)}
        values = ", ".join(given[name] for name in self.scalars)
        objects = "".join(f", id({given[name]})" for name in self.buffers)
        # Written out: to pass arguments on through tuples takes as long as the call itself.
        text = f"lambda {', '.join(given.values())}: call(pack({values}), None{objects})"
        pack = Struct(f"{len(self.scalars)}q").pack
        run: Callable[..., None] = eval(text, {"call": self._call, "pack": pack})
        return run

    def bind(
        self,
        values: dict[str, int],
        table: np.ndarray[Any, np.dtype[np.int64]],
        threads: int = 1,
        pool: Callable[[], Pool] | None = None,
    ) -> BoundKernel:
        """Fix the kernel arguments: a callable on arrays given in the order of `buffers`.

        A kernel without parallel loops runs on the caller's thread, whatever `threads` says.
        """
        head = np.array([values[name] for name in self.scalars], dtype=np.int64)
        launch = data_address(np.concatenate([head, table]))
        return BoundKernel(
            launch,
            (self._call, self._run),
            (int(self._scratch(launch)), int(self._private(launch))),
            threads if self.is_parallel else 1,
            pool,
        )


class BoundKernel:
    """A kernel with fixed kernel arguments. Safe to call from several threads at once."""

    __slots__ = ("_call", "_launch", "_need", "_pool", "_run", "_sizes", "threads")

    def __init__(
        self,
        launch: Address,
        entries: tuple[Callable[..., None], Address],
        sizes: tuple[int, int],
        threads: int,
        pool: Callable[[], Pool] | None,
    ) -> None:
        self._launch = launch  # of an array of int64, its owner
        self._call, self._run = entries  # for one thread, for a team
        self._sizes = sizes
        self._need = sizes[0] + sizes[1]
        self._pool = pool
        self.threads = threads

    def __call__(self, *arrays: object) -> None:
        """Run on array objects, whose shapes and strides must be those the kernel was bound for."""
        if self.threads > 1 and self._run_team(arrays):
            return
        block = local_scratch().block
        if block.size < self._need:
            block = local_scratch().reserve(self._need)
        self._call(self._launch, block, *map(id, arrays))

    def again(self) -> tuple[BoundKernel, np.ndarray[Any, np.dtype[np.int64]]]:
        """The same with a copy of the kernel arguments, which the caller may change."""
        launch = self._launch.owner
        assert isinstance(launch, np.ndarray)
        fresh = launch.copy()
        entries = self._call, self._run
        return BoundKernel(
            data_address(fresh), entries, self._sizes, self.threads, self._pool
        ), fresh

    def quick(self, exchange: bool = False) -> Callable[[object, object, object], None]:
        """This call as a function of out, left and right (or right and left), with least overhead.

        Small kernels take as long as a few attribute look-ups: these are done once, here.
        """
        call, launch, need = self._call, self._launch, self._need
        if self.threads > 1:
            return (lambda out, x, y: self(out, y, x)) if exchange else self

        def run(out: object, x: object, y: object) -> None:
            block = per_thread.scratch.block
            if block.size < need:
                block = per_thread.scratch.reserve(need)
            call(launch, block, id(out), id(x), id(y))

        def run_exchanged(out: object, x: object, y: object) -> None:
            block = per_thread.scratch.block
            if block.size < need:
                block = per_thread.scratch.reserve(need)
            call(launch, block, id(out), id(y), id(x))

        def run_bare(out: object, x: object, y: object) -> None:
            call(launch, None, id(out), id(x), id(y))

        if exchange:
            return run_exchanged
        return run if need else run_bare

    def native(self, *arrays: object) -> tuple[int, ...]:
        """Words for a native call on one thread: entry, kernel arguments, scratch, objects.

        They hold while this kernel and the arrays live and the thread reserves no more scratch.
        """
        entry = ctypes.cast(self._call, _pointer).value  # type: ignore[arg-type]
        assert entry is not None
        scratch = local_scratch().reserve(self._need)
        return entry, int(self._launch), int(scratch), *map(id, arrays)

    def words(self) -> tuple[int, int, int, int]:
        """For a native call on one thread: entry of teams, kernel arguments, shared bytes, bytes.

        They hold while this kernel lives.
        """
        return int(self._run), int(self._launch), self._sizes[0], self._need

    def bare(self) -> Callable[..., None] | None:
        """This call on the identities of array objects; None where it needs threads or memory."""
        if self.threads > 1 or self._need:
            return None
        return partial(self._call, self._launch, None)

    def _run_team(self, arrays: tuple[object, ...]) -> bool:
        assert self._pool is not None
        shared, private = self._sizes
        base = local_scratch().reserve(shared + self.threads * private)
        return self._pool().run(
            self._run,
            self._launch,
            (base, int(base) + shared, private),
            addresses_of(arrays),
            self.threads,
        )
