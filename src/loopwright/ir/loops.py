"""LoopNest: the small loop language every backend reads and the interpreter runs.

Below this line no isl object exists. A nest works on buffers (arguments and allocations) through
explicit loops; how a loop is mapped to the machine is a mark on the loop, never another node.
Sizes, strides and block sizes are run-time integers (`scalars`), so one nest serves every size.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import TypeAlias

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Expr
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "Alloc",
    "Barrier",
    "Block",
    "Buffer",
    "Copy",
    "For",
    "If",
    "Let",
    "LoopNest",
    "Mark",
    "Prefetch",
    "Space",
    "Stmt",
    "Store",
]


class Mark(Enum):
    """How the iterations of a loop are mapped to the machine. The meaning stays the serial one."""

    SERIAL = "serial"
    PARALLEL = "parallel"  # iterations shared out to threads; independent of each other
    VECTOR = "vector"  # constant extent; iterations are lanes; independent of each other
    SIMD = "simd"  # any extent; iterations independent of each other, lanes the backend's choice
    UNROLL = "unroll"  # constant extent; the body is repeated
    BLOCK = "block"  # GPU block index
    THREAD = "thread"  # GPU thread index


class Space(Enum):
    """Where a buffer lives."""

    GLOBAL = "global"  # an argument, in main memory
    TABLE = "table"  # an argument of int64 that follows the scalars in the launch block
    SCRATCH = "scratch"  # main memory of the nest, shared by all threads, reused between calls
    PRIVATE = "private"  # main memory of one thread, reused between calls
    STACK = "stack"  # small, constant shape, one per thread
    REGISTER = "register"  # constant shape, only constant, unrolled or vector subscripts
    SHARED = "shared"  # memory of a GPU block or a Sunway core group


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory seen through strides: element [i0, i1, ...] lies at offset sum(i_k * strides_k)."""

    name: str
    dtype: DType
    strides: tuple[Expr, ...]  # in elements, int64, over the nest's scalars
    space: Space = Space.GLOBAL
    writable: bool = False  # arguments only: whether the nest stores to it


@dataclass(frozen=True, slots=True)
class Block:
    """The statements of `body`, in order."""

    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class For:
    """`for var in range(start, stop, step): body`; step is a positive expression.

    Where `until` is given, a serial loop ends before the first iteration of which it is true.
    """

    var: str
    start: Expr
    stop: Expr
    body: Stmt
    step: Expr
    mark: Mark = Mark.SERIAL
    until: Expr | None = None  # over `var` too


@dataclass(frozen=True, slots=True)
class If:
    """`body` where `cond` holds, else `orelse`."""

    cond: Expr
    body: Stmt
    orelse: Stmt | None = None


@dataclass(frozen=True, slots=True)
class Let:
    """Bind `name` to the value of an expression inside `body`."""

    name: str
    value: Expr
    body: Stmt


@dataclass(frozen=True, slots=True)
class Store:
    """`buffer[index] = value`."""

    buffer: str
    index: tuple[Expr, ...]
    value: Expr
    statement: str = field(default="", compare=False)  # of the program, that it comes from


@dataclass(frozen=True, slots=True)
class Alloc:
    """Memory for `buffer` of the given extents during `body`; contents start undefined."""

    buffer: Buffer
    shape: tuple[Expr, ...]
    body: Stmt


@dataclass(frozen=True, slots=True)
class Copy:
    """A strided block copy: target[target_start + x] = source[source_start + x], all x in shape.

    Kept as one node because targets have engines for it (DMA, cp.async, memcpy).
    """

    target: str
    target_start: tuple[Expr, ...]
    source: str
    source_start: tuple[Expr, ...]
    shape: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Barrier:
    """All threads that share the nest (or the GPU block) arrive before any goes on."""


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Hint that `buffer[index]` will be used soon; no meaning, any address is allowed."""

    buffer: str
    index: tuple[Expr, ...]
    write: bool = False
    level: int = 1  # cache level the line should reach


Stmt: TypeAlias = Block | For | If | Let | Store | Alloc | Copy | Barrier | Prefetch


@dataclass(frozen=True, slots=True)
class LoopNest:
    """A complete kernel body: arguments, run-time integers, statements.

    With `leave_to_llvm` a nest is loops as people write them: LLVM optimises it with its whole
    pipeline, and may contract a product and a sum that uses it to one rounding. Any other nest is
    explicit: vectors, registers and fused operations are written out, and code is emitted as it
    stands, with few passes.
    """

    name: str
    buffers: tuple[Buffer, ...]  # arguments in call order
    scalars: tuple[str, ...]  # run-time int64 values in call order
    body: Stmt
    leave_to_llvm: bool = False
    reassoc: bool = False  # updates `x = x + e` of floats may happen in another order
    fuses: bool = True  # with leave_to_llvm: contract a product and a sum that uses it

    def buffer(self, name: str) -> Buffer:
        return next(b for b in self.buffers if b.name == name)
