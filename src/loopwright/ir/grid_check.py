"""Which kernels of products a GPU can run: what `grid_nests/grid_product` takes for granted.

`tile_fault` knows tiles and threads only, `kernel_fault` element types as well: each gives the
first reason against a kernel, or None. `require_fit` holds any kernel against the machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from loopwright.diagnostics import UsageError
from loopwright.ir.device import DeviceKernel, DeviceProgram
from loopwright.ir.expr import Const
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.grid_kernel import WARP, GridKernel, GridVariant
from loopwright.ir.loops import Alloc, Space
from loopwright.ir.visit import statements

__all__ = ["kernel_fault", "require_fit", "tile_fault"]

_MOST = 1024  # of a size, and threads of a block on every CUDA device
_MOST_BYTES = 16  # that one instruction moves
_UNIT = (8, 4, 4)  # of the matrix unit: threads along rows, along columns, and steps
_MMA_TYPE = {"float64"}
_ASYNC_BYTES = (4, 8, 16)  # that an asynchronous copy moves


def tile_fault(variant: GridVariant) -> str | None:
    """Why a tile cannot be shared out to threads, whatever its elements are."""
    return next(_tile_faults(variant), None)


def _tile_faults(variant: GridVariant) -> Iterator[str]:
    v = variant
    sizes = (v.rows, v.columns, v.depth, v.thread_rows, v.thread_columns)
    widths = (v.left_width, v.right_width, v.out_width, v.left_apart, v.right_apart)
    others = (*widths, v.out_apart, v.piece, v.warp_rows, v.slices, v.rounds)
    if min(*sizes, *others) < 1 or max(*sizes, *others) > _MOST:
        yield f"sizes lie between 1 and {_MOST}"
        return
    if not 2 <= v.stages <= WARP or not 0 <= v.resident <= WARP:
        yield f"a block has 2 to {WARP} tiles at a time, a multiprocessor up to {WARP} blocks"
    if "".join(sorted(v.strided)) != v.strided or set(v.strided) - set("gijp"):
        yield "bundles without tables are some of 'gijp', in this order"
    if v.by_tiles and "p" in v.strided:
        yield "tiles that are alike have a table of the reduction"
    if v.rows % v.thread_rows or v.columns % v.thread_columns:
        yield "threads take equal parts of a tile"
        return
    if v.threads > _MOST:
        yield f"a block has at most {_MOST} threads, here {v.threads}"
    if v.depth % v.slices:
        yield "slices take equal parts of the steps of a tile"
    for own, piece in ((v.thread_rows, v.left_piece), (v.thread_columns, v.right_piece)):
        if own % piece:
            yield f"the elements of a thread are pieces of {piece}"
    if not v.joins and v.right_piece % v.out_width:
        yield f"{v.out_width} elements of out that are stored at once are no part of a piece"
    if v.columns % (v.out_width * v.out_apart):
        yield f"rows of a tile are multiples of {v.out_width} elements, {v.out_apart} apart"
    if v.out_apart > 1 and (v.out_width < 2 or v.out_apart % v.out_width):
        yield f"elements of out are not stored {v.out_width} at once, {v.out_apart} apart"
    if v.thread_rows % v.rounds or not _fit(v.thread_rows // v.rounds, v.left_piece):
        yield f"sums do not pass through shared memory in {v.rounds} rounds"
    if v.uses_mma and (v.rows % (_UNIT[0] * v.thread_rows) or v.thread_rows % 2):
        yield f"the matrix unit takes rows by pairs of {_UNIT[0]}"
    if v.uses_mma and v.columns % (_UNIT[1] * v.thread_columns):
        yield f"the matrix unit has {_UNIT[1]} threads along columns"
    if v.uses_mma and v.depth % (_UNIT[2] * v.slices):
        yield f"the matrix unit takes {_UNIT[2]} steps at a time"
    if WARP % v.warp_rows:
        yield f"threads of a warp along rows divide {WARP}"
    sides = (
        ("left", v.rows, v.left_along_p, v.left_width, v.left_apart),
        ("right", v.columns, v.right_along_p, v.right_width, v.right_apart),
    )
    for name, extent, along_p, width, apart in sides:
        if (v.depth // apart if along_p else extent) % width or v.depth % apart:
            yield f"rows of {name}'s tile are multiples of its {width} elements loaded at once"
        elif extent * v.depth % (width * v.threads):
            yield f"threads bring equal parts of {name}'s tile"


def _fit(rows: int, piece: int) -> bool:
    """Whether rows of a round are whole pieces of neighbours, or equal parts of one."""
    return rows % piece == 0 or piece % rows == 0


def kernel_fault(kernel: GridKernel) -> str | None:
    """Why there is no code for a kernel, on whatever machine."""
    return next(_kernel_faults(kernel), None)


def _kernel_faults(kernel: GridKernel) -> Iterator[str]:
    variant, algebra = kernel.variant, kernel.algebra
    yield from _tile_faults(variant)
    types = {dtype.name for dtype in (kernel.left, kernel.right, algebra.accumulator)}
    if variant.uses_mma and ((algebra.plus, algebra.times) != ("add", "mul") or types != _MMA_TYPE):
        yield "the matrix unit adds products of float64"
    if variant.uses_mma and not variant.in_registers:
        yield "the matrix unit adds to sums in registers"
    if variant.joins and not variant.in_registers:
        yield "sums of slices are in registers"
    if variant.out_apart > 1 and algebra.out != algebra.accumulator:
        yield "sums that are converted are stored one by one"
    sides = (
        ("left", kernel.left, variant.left_along_p, variant.left_width),
        ("right", kernel.right, variant.right_along_p, variant.right_width),
    )
    for name, dtype, along_p, width in sides:
        moved = width * dtype.bytes
        if moved > _MOST_BYTES or moved & (moved - 1):
            yield f"{width} elements of {dtype} are not loaded at once: up to {_MOST_BYTES} bytes"
        # Across, asynchronous copies go element by element.
        once = dtype.bytes if along_p else moved
        if variant.stages > 2 and once not in _ASYNC_BYTES:
            yield f"{name} is copied asynchronously by 4, 8 or 16 bytes, not {once}: 2 stages"


def require_fit(program: DeviceProgram, machine: GpuMachine, place: str = "") -> None:
    """Refuse kernels that a multiprocessor of the machine cannot hold; `place` is the source's."""
    for kernel in program.kernels:
        told = _misfit(kernel, machine)
        if told is not None:
            raise UsageError(
                f"{place}: " * bool(place)
                + f"kernel '{kernel.name}' does not fit on {machine.name}",
                found=told,
                hint="a plan of smaller tiles or fewer threads",
            )


def _misfit(kernel: DeviceKernel, machine: GpuMachine) -> str | None:
    """Why no multiprocessor of a machine can hold a block of a kernel."""
    x, y, z = kernel.block
    threads, shared, registers = x * y * z, kernel.shared_bytes, _registers(kernel)
    if threads > machine.threads_per_block:
        return f"{threads} threads in a block, of at most {machine.threads_per_block}"
    if shared > machine.shared_per_block:
        return f"{shared} bytes of shared memory, of at most {machine.shared_per_block}"
    if registers > machine.registers_per_thread:
        return (
            f"{registers} registers of a thread for its arrays, of at most "
            f"{machine.registers_per_thread}"
        )
    # Compilers keep to the registers that a block of so many threads leaves each of them.
    found = machine.occupancy(threads, max(1, registers), shared)
    wanted = max(1, kernel.resident)
    if found.blocks < wanted:
        return (
            f"{wanted} block{'s' if wanted > 1 else ''} of {threads} threads, {shared} bytes of "
            f"shared memory and {registers} registers of a thread: "
            f"{found.bound} of a multiprocessor are for {found.blocks}"
        )
    return None


def _registers(kernel: DeviceKernel) -> int:
    """Registers for the arrays that a thread keeps in them, of 32 bits."""
    total = 0
    for stmt in statements(kernel.body):
        if isinstance(stmt, Alloc) and stmt.buffer.space is Space.REGISTER:
            extents = [int(x.value.real) for x in stmt.shape if isinstance(x, Const)]
            total += math.prod(extents) * stmt.buffer.dtype.bytes
    return -(-total // 4)
