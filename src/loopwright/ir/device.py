"""DeviceProgram: a nest as kernels that a device runs, and the host's part that launches them.

A kernel is what stands inside the outermost block loops of a LoopNest. What stands around them is
the host's part: loops, conditions, bindings, memory that lives between launches, and launches in
their order. Kernels of one program run in one stream: each sees what those before it have stored.
"""

from __future__ import annotations

import struct
from typing import Any, TypeAlias

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Expr
from loopwright.ir.loops import Buffer, Stmt
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "Bind",
    "DeviceKernel",
    "DeviceMemory",
    "DeviceProgram",
    "HostStep",
    "LaunchKernel",
    "Repeat",
    "Transfer",
    "When",
    "is_by_value",
    "shared_part",
    "value_bits",
]

_ADDRESS = 8  # bytes
_PART = 16  # bytes that the widest access moves: arrays begin at multiples
Axes: TypeAlias = tuple[Expr, Expr, Expr]  # along x, y and z


def is_by_value(buffer: Buffer) -> bool:
    """Whether a kernel takes the number itself and not its address: one that it only reads."""
    return not buffer.strides and not buffer.writable


def shared_part(size: int) -> int:
    """Bytes that an array takes in the memory that all shared arrays of a kernel have in common."""
    return -(-size // _PART) * _PART


def value_bits(number: complex, dtype: DType) -> Any:
    """A number in the place of its buffer's address: its bits as those of one, if they fit.

    What is longer than an address stays bytes, of which a launch takes all.
    """
    data = dtype.numpy.type(number).tobytes()
    if len(data) > _ADDRESS:
        return data
    (bits,) = struct.unpack("<Q", data.ljust(_ADDRESS, b"\0"))
    return int(bits)


@dataclass(frozen=True, slots=True)
class DeviceKernel:
    """What every thread of a grid of blocks executes.

    In `body` the coordinates of the block and of the thread in it are variables: `block.x` to
    `block.z` and `thread.x` to `thread.z`.
    """

    name: str
    buffers: tuple[Buffer, ...]  # arguments in device memory, or by value, in call order
    scalars: tuple[str, ...]  # int64 arguments behind them: variables of the host's part
    grid: Axes  # blocks along each axis, over the scalars; with none of them nothing runs
    block: tuple[int, int, int]  # threads of a block along each axis
    body: Stmt
    shared_bytes: int = 0  # memory of a block that `body` allocates
    resident: int = 0  # blocks that a multiprocessor must hold at a time; 0: as many as it can
    registers: int = 0  # of a thread, at most; 0: what the machine has


@dataclass(frozen=True, slots=True)
class LaunchKernel:
    """Run a kernel on the buffers and variables that have the names of its arguments."""

    kernel: str


@dataclass(frozen=True, slots=True)
class Repeat:
    """`for var in range(start, stop, step)`; it ends before an iteration where `until` is true."""

    var: str
    start: Expr
    stop: Expr
    step: Expr
    body: tuple[HostStep, ...]
    until: Expr | None = None


@dataclass(frozen=True, slots=True)
class When:
    """`body` where `cond` holds, else `orelse`."""

    cond: Expr
    body: tuple[HostStep, ...]
    orelse: tuple[HostStep, ...] = ()


@dataclass(frozen=True, slots=True)
class Bind:
    """`name` stands for a value inside `body`."""

    name: str
    value: Expr
    body: tuple[HostStep, ...]


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Device memory for `buffer` of the given extents during `body`; contents start undefined."""

    buffer: Buffer
    shape: tuple[Expr, ...]
    body: tuple[HostStep, ...]


HostStep: TypeAlias = LaunchKernel | Repeat | When | Bind | DeviceMemory


@dataclass(frozen=True, slots=True)
class DeviceProgram:
    """Kernels, and the order in which the host launches them.

    Expressions of the host's part are over int64 variables: the scalars of the program and what
    the steps around bind. None of them loads from memory.
    """

    name: str
    buffers: tuple[Buffer, ...]  # arguments in call order, as in the LoopNest
    scalars: tuple[str, ...]  # run-time int64 values in call order, as in the LoopNest
    kernels: tuple[DeviceKernel, ...]
    host: tuple[HostStep, ...]

    def kernel(self, name: str) -> DeviceKernel:
        return next(kernel for kernel in self.kernels if kernel.name == name)


@dataclass(frozen=True, slots=True)
class Transfer:
    """The rows of an argument that lie in memory of the host and of the device.

    A row is what one value of the outermost subscript selects; a scalar is one row.
    """

    array: str
    first: Expr  # rows first to stop - 1, over the scalars of the program
    stop: Expr
    row: Expr  # elements of a row
    is_brought_in: bool  # before the first kernel
    is_brought_back: bool  # behind the last one
