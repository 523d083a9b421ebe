"""What runs on a GPU, in words: kernels, and which of their threads share array elements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loopwright.analysis.sharing_table import sharing_lines, sharing_table
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
from loopwright.ir.islkit import GaveUp, bounded
from loopwright.ir.loops import Alloc, Let, Space, Store
from loopwright.ir.schedule import Schedule
from loopwright.ir.text import expr_text
from loopwright.ir.visit import statements

__all__ = ["kernel_lines"]

_QUOTA = 2_000_000  # elementary isl operations of the table of each kernel
_REGISTERS = (Space.STACK, Space.REGISTER)


def kernel_lines(device: DeviceProgram, schedule: Schedule | None) -> list[str]:
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
                lines += (f"    {line}" for line in _table(schedule, mapping))
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


def _table(schedule: Schedule, mapping: ThreadMapping) -> list[str]:
    def too_hard(error: GaveUp) -> list[str]:
        return [f"which threads share elements is too hard to analyse: {error}"]

    def lines() -> list[str]:
        return sharing_lines(sharing_table(schedule.program, [mapping]))[1:]

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
