"""LoopNest: the small loop language every backend reads and the interpreter runs.

Below this line no isl object exists. A nest works on buffers (arguments and allocations) through
explicit loops; how a loop is mapped to the machine is a mark on the loop, never another node.
Sizes, strides and block sizes are run-time integers (`scalars`), so one nest serves every size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import Enum
from typing import TypeAlias

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "Alloc",
    "Axis",
    "Barrier",
    "BarrierScope",
    "Block",
    "Buffer",
    "Commit",
    "Copy",
    "For",
    "If",
    "Interrupt",
    "LabelledBlock",
    "Leave",
    "Let",
    "LoopNest",
    "Mark",
    "MeshBroadcast",
    "MeshMessage",
    "Prefetch",
    "Space",
    "Stmt",
    "Store",
    "Wait",
    "WarpMma",
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


class Axis(Enum):
    """Along which axis of the hardware a block or thread loop is laid."""

    X = "x"  # of a grid or a block; lanes of a warp are neighbours along x
    Y = "y"
    Z = "z"
    ROW = "row"  # of a mesh of cores
    COLUMN = "column"
    MESH = "mesh"  # all cores of a mesh, row by row
    CIRCLE = "circle"  # all cores, every second row backwards: the last one is beside the first


class BarrierScope(Enum):
    """Who waits at a barrier."""

    TEAM = "team"  # all threads that share the nest
    BLOCK = "block"  # the threads of a GPU block, or the cores of a mesh


class Space(Enum):
    """Where a buffer lives."""

    GLOBAL = "global"  # an argument, in main memory
    TABLE = "table"  # an argument of int64 that follows the scalars in the launch block
    SCRATCH = "scratch"  # main memory of the nest, shared by all threads, reused between calls
    PRIVATE = "private"  # main memory of one thread, reused between calls
    STACK = "stack"  # small, constant shape, one per thread
    REGISTER = "register"  # constant shape, only constant, unrolled or vector subscripts
    SHARED = "shared"  # memory of a GPU block
    SCRATCHPAD = "scratchpad"  # memory of one core of a mesh, constant shape


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory seen through strides: element [i0, i1, ...] lies at offset sum(i_k * strides_k)."""

    name: str
    dtype: DType
    strides: tuple[Expr, ...]  # in elements, int64, over the nest's scalars
    space: Space = Space.GLOBAL
    writable: bool = False  # arguments only: whether the nest stores to it
    is_volatile: bool = False  # every use is an access: no compiler keeps elements elsewhere
    # Of complex scratch memory: so many real parts lie together, then as many imaginary parts;
    # 0: as pairs. Vectors of it are whole groups, or single elements. A backend may ignore it.
    planes: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """The statements of `body`, in order."""

    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Interrupt:
    """How a loop ends when the user interrupts: `scope` is left, and `status` says why."""

    scope: str
    status: str  # a buffer of int64: -1, then three words for what Python has raised
    quota: int  # iterations before the loop looks for the first time


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
    # Of a serial loop that looks for interrupts now and then; a backend may never look.
    interrupt: Interrupt | None = None
    axis: Axis | None = None  # of block and thread loops
    resident: int = 0  # blocks that a multiprocessor must hold at a time: caps their registers
    # Of the body of a serial or SIMD loop, in the code; 0: as a compiler likes.
    copies: int = 0
    # Of an unrolled loop: an iteration loads nothing before the loads of the one before, so that
    # no register holds what is not used yet. No meaning; a backend may ignore it.
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class If:
    """`body` where `cond` holds, else `orelse`."""

    cond: Expr
    body: Stmt
    orelse: Stmt | None = None


@dataclass(frozen=True, slots=True)
class LabelledBlock:
    """The statements of `body`, which a Leave inside ends early."""

    name: str
    body: Stmt


@dataclass(frozen=True, slots=True)
class Leave:
    """Continue behind the enclosing scope of this name.

    The loops between the scope and this statement are serial.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Let:
    """Bind `name` to the value of an expression inside `body`."""

    name: str
    value: Expr
    body: Stmt
    # Compilers do not know that it is this value: what is computed from it is computed again, not
    # kept in registers since it was computed before.
    is_anew: bool = False
    # The value is the number of pieces of a parallel loop, `parts`: where fewer threads run, a
    # backend may bind the number of threads, a piece for each. 0: the value itself.
    parts: int = 0


@dataclass(frozen=True, slots=True)
class Store:
    """`buffer[index] = value`."""

    buffer: str
    index: tuple[Expr, ...]
    value: Expr
    statement: str = field(default="", compare=False)  # of the program, that it comes from
    # The value is an operation on the element, which no other thread comes between: blocks that
    # update an element so may do it in any order.
    is_atomic: bool = False


@dataclass(frozen=True, slots=True)
class Alloc:
    """Memory for `buffer` of the given extents during `body`; contents start undefined."""

    buffer: Buffer
    shape: tuple[Expr, ...]
    body: Stmt


@dataclass(frozen=True, slots=True)
class Copy:
    """A strided block copy: target[target_start + x] = source[source_start + x], all x in shape.

    A shape of fewer dimensions than a buffer has is that of the last ones. Kept as one node because
    targets have engines for it (DMA, cp.async, memcpy). Where `is_async` the copy happens at any
    time up to the Wait for its group: until then nobody uses the target or changes the source. A
    copy of `width` elements at once moves runs of so many along the last dimension, which has
    stride 1 on both sides and begins at multiples of `width` in memory. A copy `after_puts` is of
    elements that the same core has copied to memory before, by an engine that keeps no order; one
    that `lands` has come to memory when it has ended.
    """

    target: str
    target_start: tuple[Expr, ...]
    source: str
    source_start: tuple[Expr, ...]
    shape: tuple[Expr, ...]
    is_async: bool = False
    width: int = 1
    after_puts: bool = False
    lands: bool = False

    def places(self, offset: Sequence[Expr]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        """Subscripts of the target and of the source at an offset inside the shape."""
        return _moved(self.target_start, offset), _moved(self.source_start, offset)

    def as_loops(self, dtype: DType) -> Stmt:
        """The same elements copied one by one, by loops over the shape."""
        here = [Var(f"{self.target}.copy{k}") for k in range(len(self.shape))]
        target, source = self.places(here)
        body: Stmt = Store(self.target, target, Load(self.source, source, dtype))
        for var, extent in zip(reversed(here), reversed(self.shape), strict=True):
            body = For(var.name, Const(0), extent, body, Const(1))
        return body


def _moved(start: tuple[Expr, ...], offset: Sequence[Expr]) -> tuple[Expr, ...]:
    fixed = len(start) - len(offset)
    return (*start[:fixed], *(a + x for a, x in zip(start[fixed:], offset, strict=True)))


@dataclass(frozen=True, slots=True)
class MeshBroadcast:
    """One core of a mesh gives a block of its scratchpad to all cores of its row or column.

    target[target_start + x] of every core is source[source_start + x] of the core with number
    `root` in the row (its column) or column (its row); all x in shape, the places of the source by
    the root. All cores of the row or column come here together, with the same root and shape. Where
    `is_kept` the root has the block in its place already: to all but itself.
    """

    target: str
    target_start: tuple[Expr, ...]
    source: str
    source_start: tuple[Expr, ...]
    shape: tuple[Expr, ...]
    axis: Axis  # ROW or COLUMN
    root: Expr
    is_kept: bool = False


@dataclass(frozen=True, slots=True)
class MeshMessage:
    """A core of a mesh sends elements of its scratchpad to the next one, or takes those sent to it.

    Cores stand in a circle: the first row forwards, the second one backwards and so on, and the
    last core is beside the first one. Elements are buffer[start + x], all x in shape; messages come
    in the order in which they are sent, and as long. Who takes one waits for it, and what the
    sender did before it happened before.
    """

    buffer: str
    start: tuple[Expr, ...]
    shape: tuple[Expr, ...]  # of the last dimension
    cores: tuple[int, int]  # rows and columns
    is_sent: bool


@dataclass(frozen=True, slots=True)
class Commit:
    """The asynchronous copies that this thread has issued since the last Commit are a group."""


@dataclass(frozen=True, slots=True)
class Wait:
    """All groups of copies of this thread but the last `pending` ones are complete."""

    pending: int = 0


@dataclass(frozen=True, slots=True)
class Barrier:
    """All threads of the scope arrive before any goes on."""

    scope: BarrierScope = BarrierScope.TEAM


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Hint that `buffer[index]` will be used soon; no meaning, any address is allowed."""

    buffer: str
    index: tuple[Expr, ...]
    write: bool = False
    level: int = 1  # cache level the line should reach


@dataclass(frozen=True, slots=True)
class WarpMma:
    """sums[16, 8] += left[16, 4] * right[4, 8] in float64, by the matrix unit of a GPU.

    The 32 lanes of a warp, neighbours along x, come here together. Lane 4 g + t holds in registers

        left[g, t], left[g + 8, t]             from `left_start` on
        right[t, g]                            at `right_start`
        sums[g + 8 r, 2 t + c], r, c in 0, 1   at `sums_start` + (r, c)

    Products of an element are added in the order of their steps, each with one rounding.
    """

    sums: str
    sums_start: tuple[Expr, ...]
    left: str
    left_start: tuple[Expr, ...]
    right: str
    right_start: tuple[Expr, ...]


Stmt: TypeAlias = (
    Block
    | For
    | If
    | LabelledBlock
    | Leave
    | Let
    | Store
    | Alloc
    | Copy
    | MeshBroadcast
    | MeshMessage
    | Commit
    | Wait
    | Barrier
    | Prefetch
    | WarpMma
)


@dataclass(frozen=True, slots=True)
class LoopNest:
    """A complete kernel body: arguments, run-time integers, statements.

    With `leave_to_llvm` a nest is loops as people write them: LLVM optimises it with its whole
    pipeline, and a sum rounds once with the product that is written in it. Any other nest is
    explicit: vectors, registers and fused operations are written out, and code is emitted as it
    stands, with few passes.
    """

    name: str
    buffers: tuple[Buffer, ...]  # arguments in call order
    scalars: tuple[str, ...]  # run-time int64 values in call order
    body: Stmt
    leave_to_llvm: bool = False
    reassoc: bool = False  # updates `x = x + e` of floats may happen in another order
    has_many_loops: bool = False  # with leave_to_llvm: quick compilation counts for more than speed
    fuses: bool = True  # with leave_to_llvm: a product and the sum it is written in round once
    vector_bits: int = 0  # of vectors that LLVM makes of loops; 0: what it takes by itself
    of_one_vector: frozenset[str] = frozenset()  # loops in which LLVM takes one at a time
    to_lines: frozenset[str] = frozenset()  # loops that store from a line of the caches on
    near: frozenset[str] = frozenset()  # arrays that are likely to lie in the second cache
    registers: int = 0  # of a thread of its kernels, at most; 0: what the machine has
    # Functions of real numbers that C text computes by lines of its own, each with its type.
    functions: frozenset[tuple[str, DType]] = frozenset()

    def buffer(self, name: str) -> Buffer:
        return next(b for b in self.buffers if b.name == name)
