"""A DeviceProgram as text of CUDA C++ or OpenCL C: a function for each kernel.

Arguments of a kernel are its buffers, each a pointer to the element with all subscripts zero or a
number that is only read, then its scalars. The type of indices is the macro LW_INDEX: `int` unless
the one who compiles the text says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.backends.c_text.c_dialect import Dialect
from loopwright.backends.c_text.c_expression_printer import NamedBuffer
from loopwright.backends.c_text.c_printer import CPrinter, Origin
from loopwright.backends.c_text.c_syntax import (
    ATOM,
    DEVICE_WORDS,
    CText,
    NamesInUse,
    Width,
    as_identifier,
    c_type,
)
from loopwright.ir.device import DeviceKernel, DeviceProgram, is_by_value
from loopwright.ir.loops import Axis, Copy, LoopNest, Mark, WarpMma
from loopwright.ir.visit import expressions, names, statements

__all__ = ["emit_kernels", "kernel_name"]

_AXES = (Axis.X, Axis.Y, Axis.Z)
_REGISTERS = 1 << 16  # of a multiprocessor, on every CUDA device since compute capability 5.0
_REGISTER_UNIT = 8  # a thread has multiples of it


def kernel_name(kernel: DeviceKernel) -> str:
    """The name of a kernel's function."""
    return as_identifier(kernel.name)


def emit_kernels(
    programs: Sequence[DeviceProgram],
    dialect: Dialect,
    *,
    from_c: bool = False,
    origin: Origin | None = None,
) -> str:
    """The kernels of programs in one text, preceded by the helpers they call."""
    helpers: dict[str, str] = {}
    bodies: list[str] = []
    kernels = [kernel for program in programs for kernel in program.kernels]
    for kernel in kernels:
        printer = _function(kernel, dialect, from_c, origin)
        used = printer.expressions.helpers
        for name, found in used.items():
            helpers[name] = dialect.helpers.get(name) or found.function(dialect.helper)
        bodies.append(str(printer.lines))
    is_async = any(isinstance(s, Copy) and s.is_async for k in kernels for s in statements(k.body))
    texts = [dialect.spelled(text) for text in (*helpers.values(), *bodies)]
    has_half = any("__half" in text for text in texts)
    parts = [dialect.prelude, *((dialect.prelude_half,) if has_half else ())]
    parts += (dialect.prelude_async,) if is_async else ()
    has_mma = any(isinstance(s, WarpMma) for k in kernels for s in statements(k.body))
    parts += (dialect.prelude_mma,) if has_mma else ()
    return "\n".join([*parts, *texts])


def _function(
    kernel: DeviceKernel, dialect: Dialect, from_c: bool, origin: Origin | None
) -> CPrinter:
    taken = NamesInUse([kernel_name(kernel), *DEVICE_WORDS])
    printer = CPrinter(dialect, taken, from_c=from_c, origin=origin)
    parameters: list[str] = []
    for buffer in kernel.buffers:
        name = taken.declare(buffer.name, is_own=False)
        const = "" if buffer.writable else "const "
        kind = c_type(buffer.dtype)
        if is_by_value(buffer):
            parameters.append(f"const {kind} {name}")
            printer.expressions.buffers[buffer.name] = NamedBuffer(name, buffer.dtype, None)
            continue
        parameters.append(f"{dialect.global_}{const}{kind} *restrict {name}")
        printer.expressions.buffers[buffer.name] = NamedBuffer(name, buffer.dtype, buffer.strides)
    for scalar in kernel.scalars:
        name = taken.declare(scalar, is_own=False)
        printer.expressions.spelling[scalar] = CText(name, ATOM, Width.LONG)
        parameters.append(f"const {dialect.index} {name}")
    x, y, z = kernel.block
    resident = dialect.resident.format(count=kernel.resident) if kernel.resident else ""
    head = dialect.kernel.format(threads=x * y * z, x=x, y=y, z=z, resident=resident)
    if kernel.registers and dialect.capped:
        head = dialect.capped.format(registers=_registers(kernel, x * y * z))
    printer.lines.add(f"{head} {kernel_name(kernel)}({', '.join(parameters)})")
    printer.lines.add("{")
    printer.lines.indent()
    if dialect.shared_static and kernel.shared_bytes > dialect.shared_static:
        printer.lines.add(dialect.shared_all)
        printer.scopes.shared_offset = 0
    _declare_coordinates(kernel, printer, taken)
    nest = LoopNest(kernel.name, kernel.buffers, kernel.scalars, kernel.body)
    printer.nest(nest)
    printer.lines.dedent()
    printer.lines.add("}")
    return printer


def _registers(kernel: DeviceKernel, threads: int) -> int:
    """The cap of a kernel's threads; a number of blocks at a time caps them as well."""
    if not kernel.resident:
        return kernel.registers
    left = _REGISTERS // (kernel.resident * threads)
    return min(kernel.registers, left // _REGISTER_UNIT * _REGISTER_UNIT)


def _declare_coordinates(kernel: DeviceKernel, printer: CPrinter, taken: NamesInUse) -> None:
    """The coordinates of block and thread that the kernel uses, as variables."""
    used = set().union(*(names(e) for s in statements(kernel.body) for e in expressions(s)))
    dialect = printer.dialect
    for mark, form in ((Mark.BLOCK, dialect.block), (Mark.THREAD, dialect.thread)):
        for number, axis in enumerate(_AXES):
            variable = f"{mark.value}.{axis.value}"
            if variable in used:
                name = taken.declare(f"{mark.value}_{axis.value}")
                value = form.format(axis=axis.value, number=number)
                printer.lines.add(f"const {dialect.index} {name} = {value};")
                printer.expressions.spelling[variable] = CText(name, ATOM, Width.LONG)
                printer.expressions.ranges[variable] = (0, (1 << 31) - 1)
