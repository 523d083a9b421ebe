"""What runs on a GPU, in words: kernels, and which of their threads share array elements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod

from loopwright.analysis.sharing import copies_of_threads
from loopwright.analysis.sharing_table import sharing_lines, sharing_table
from loopwright.analysis.size_estimates import likely_trips
from loopwright.analysis.thread_mapping import ThreadMapping, scheduled_mappings, statements_of
from loopwright.diagnostics import UsageError
from loopwright.ir.device import (
    Bind,
    DeviceKernel,
    DeviceMemory,
    DeviceProgram,
    HostStep,
    LaunchKernel,
    Repeat,
    When,
)
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.islkit import GaveUp, bounded
from loopwright.ir.loops import Alloc, Let, Mark, Space, Store
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, bands, nodes_of
from loopwright.ir.text import expr_text
from loopwright.ir.time_stencil import TimeTiles
from loopwright.ir.visit import statements
from loopwright.planner.grid_plans.block_shapes import rank_block_shapes
from loopwright.transform.plan import Plan
from loopwright.transform.register_limits import CapRegisters, KeepInMemory

__all__ = ["kernel_lines", "register_lines"]

_QUOTA = 8_000_000  # elementary isl operations of the table of each kernel
_MOST_SHAPES = 3  # of blocks that were not taken
_REGISTERS = (Space.STACK, Space.REGISTER)


def kernel_lines(
    device: DeviceProgram, schedule: Schedule | None, machine: GpuMachine
) -> list[str]:
    """Every kernel: its grid and block, the loops around its launch, its registers, its accesses.

    The table of accesses follows from the `schedule`; without one it is left out. Kernels that isl
    has made of one nest share a table, which stands under the first of them.
    """
    mappings = [] if schedule is None else _mappings(schedule)
    around = _loops_around(device.host, ())
    lines: list[str] = []
    told: dict[int, str] = {}
    for kernel in device.kernels:
        lines += _head(kernel, around.get(kernel.name, ()))
        if schedule is None:
            continue
        stored, bound = _stored(kernel), _bound(kernel)
        for at, (mapping, names) in enumerate(mappings):
            if mapping.kernel not in bound and not stored & names:
                continue
            if at in told:
                lines.append(f"    accesses as in {told[at]}")
            else:
                told[at] = kernel.name
                lines += (f"    {line}" for line in _shapes(schedule, names, kernel, machine))
                lines += (f"    {line}" for line in _table(schedule, mapping))
    if schedule is not None and schedule.time_tiles is not None:
        lines += (f"  {line}" for line in _stencil_lines(schedule.time_tiles))
    return lines


def _stencil_lines(tiles: TimeTiles) -> Iterator[str]:
    """What blocks of overlapped tiles bring, and how often they compute an element."""
    yield f"stencil: {tiles}"
    whole = prod(tiles.sizes)
    for name in (*tiles.stencil.carried, *tiles.stencil.fixed):
        box = " x ".join(map(str, tiles.extents(name)))
        yield f"  {name}: a block brings {box} elements for {tiles.steps} steps"
    for own in tiles.stencil.statements:
        if all(own.iterators):
            points = sum(
                prod(size + more for size, more in zip(tiles.sizes, own.beyond(left), strict=True))
                for left in range(tiles.steps)
            )
            times = points / (whole * tiles.steps)
            yield f"  {own.name} computes an element {times:.2f} times in the mean"


def register_lines(plan: Plan) -> list[str]:
    """What a plan says about registers of all threads."""
    lines: list[str] = []
    for step in plan:
        match step:
            case KeepInMemory():
                lines.append("privatisation is off: no element is kept in registers over a loop")
            case CapRegisters(registers=most):
                lines.append(f"a thread has at most {most} registers")
    return lines


def _head(kernel: DeviceKernel, around: Sequence[str]) -> list[str]:
    grid = ", ".join(map(expr_text, kernel.grid))
    block = ", ".join(map(str, kernel.block))
    lines = [f"  {kernel.name}", f"    grid ({grid}), block ({block})"]
    if kernel.block == (1, 1, 1) and all(expr_text(extent) == "1" for extent in kernel.grid):
        lines[-1] = "    one thread: no loop around its statements is parallel"
    if around:
        lines.append(f"    launched by the host in every iteration of {', '.join(around)}")
    memory = [s for s in statements(kernel.body) if isinstance(s, Alloc)]
    if kernel.shared_bytes:
        shared = [_held(s) for s in memory if s.buffer.space is Space.SHARED]
        told = f"shared memory: {kernel.shared_bytes} bytes of a block"
        lines.append(f"    {told}, {', '.join(shared)}")
    held = [_held(s) for s in memory if s.buffer.space in _REGISTERS]
    if held:
        lines.append(f"    registers of a thread: {', '.join(dict.fromkeys(held))}")
    return lines


def _stored(kernel: DeviceKernel) -> set[str]:
    """The statements of a kernel, but for those whose elements are in registers."""
    return {s.statement for s in statements(kernel.body) if isinstance(s, Store)} - {""}


def _bound(kernel: DeviceKernel) -> set[str]:
    """The loops that are coordinates of the kernel's grid."""
    return {s.name for s in statements(kernel.body) if isinstance(s, Let)}


def _held(alloc: Alloc) -> str:
    extents = "".join(f"[{expr_text(extent)}]" for extent in alloc.shape)
    return f"{alloc.buffer.name}{extents} of {alloc.buffer.dtype.name}"


def _mappings(schedule: Schedule) -> list[tuple[ThreadMapping, frozenset[str]]]:
    """The kernels of a schedule with the names of their statements."""

    def found() -> list[tuple[ThreadMapping, frozenset[str]]]:
        axes = {loop: axis.value for loop, axis in schedule.axes}
        program = schedule.program
        return [
            (mapping, frozenset(s.name for s in statements_of(program, mapping)))
            for mapping in scheduled_mappings(schedule, axes)
        ]

    try:
        return bounded(found, lambda _: [])
    except UsageError:  # block loops that do not stand directly inside each other
        return []


def _shapes(
    schedule: Schedule, names: frozenset[str], kernel: DeviceKernel, machine: GpuMachine
) -> list[str]:
    """The shapes that blocks of two or three parallel loops may have, and which was taken."""
    loops: dict[str, Band] = {}
    tall: list[str] = []
    for band in bands(nodes_of(schedule)):
        axis, mark = schedule.axis(band.loop), schedule.mark(band.loop)
        if loops and mark is Mark.UNROLL and band.statements <= names:
            count = dict(schedule.factors)[band.loop]
            tall.append(f"each thread takes {count} iterations of {band.loop}: they share loads")
        # A loop of blocks counts where it is not cut: it stands before the threads of its axis.
        if axis is not None and band.statements & names and mark in (Mark.BLOCK, Mark.THREAD):
            loops[axis.value] = band
    if len(loops) < 2 or (tall and len(loops) == 2):
        return tall
    program = schedule.program
    trips = likely_trips(program)
    shapes = rank_block_shapes(schedule, [loops[x] for x in "xyz" if x in loops], trips, machine)
    taken = " x ".join(map(str, kernel.block[: len(loops)]))
    others = [str(shape) for shape in shapes if shape.threads != kernel.block[: len(loops)]]
    known = [str(shape) for shape in shapes if shape.threads == kernel.block[: len(loops)]]
    head = f"blocks by what they move for each iteration: {(known or [taken])[0]} taken"
    if not others:
        return [*tall, head]
    more = f", {len(others) - _MOST_SHAPES} more" if len(others) > _MOST_SHAPES else ""
    found = f"{head}, before {', '.join(others[:_MOST_SHAPES])}{more}"
    if shapes[0].bytes_per_iteration > min(x.bytes_per_iteration for x in shapes[1:]):
        found += "; a tenth less is too little to leave the usual shape"
    return [*tall, found]


def _table(schedule: Schedule, mapping: ThreadMapping) -> list[str]:
    def too_hard(error: GaveUp) -> list[str]:
        return [f"which threads share elements is too hard to analyse: {error}"]

    def lines() -> list[str]:
        copies = copies_of_threads(schedule)
        return sharing_lines(sharing_table(schedule.program, [mapping], copies=copies))[1:]

    return [line.removeprefix("  ") for line in bounded(lines, too_hard, _QUOTA)]


def _loops_around(steps: Iterable[HostStep], around: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The host's loops around the first launch of every kernel."""
    found: dict[str, tuple[str, ...]] = {}

    def take(inner: Iterable[HostStep], loops: tuple[str, ...]) -> None:
        for name, path in _loops_around(inner, loops).items():
            found.setdefault(name, path)

    for step in steps:
        match step:
            case LaunchKernel(kernel=name):
                found.setdefault(name, around)
            case Repeat(var=var, body=body):
                take(body, (*around, var))
            case When(body=body, orelse=orelse):
                take((*body, *orelse), around)
            case Bind(body=body) | DeviceMemory(body=body):
                take(body, around)
    return found
