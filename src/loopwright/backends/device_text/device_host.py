"""The host's part of device programs as text: functions that a user's file of C calls.

    void lw_prog_f_0(long long n, double alpha, const void *A, void *C)

Such a function allocates memory of the device, brings in what the kernels read, launches them in
the order of the program and brings back what they have written. Every call of the device's API is
checked; one that fails ends the process with a message that names it, the kernel or array, and the
line of the region. CUDA gets C++ for the file of its kernels, OpenCL gets C whose kernels are a
file of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from loopwright.backends.c_text.c_dialect import Dialect
from loopwright.backends.c_text.c_expression_printer import CExpressions
from loopwright.backends.c_text.c_syntax import (
    ATOM,
    DEVICE_WORDS,
    CText,
    IndentedText,
    NamesInUse,
    Width,
    c_type,
)
from loopwright.backends.device_text.device_api import CUDA_API, OPENCL_API
from loopwright.backends.device_text.device_module import kernel_name
from loopwright.diagnostics import InternalError
from loopwright.ir.device import (
    Bind,
    DeviceKernel,
    DeviceMemory,
    DeviceProgram,
    HostStep,
    LaunchKernel,
    Repeat,
    Transfer,
    When,
    is_by_value,
)
from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.loops import Buffer
from loopwright.ir.visit import names
from loopwright.lazy_dataclass import dataclass

__all__ = ["HostFunction", "emit_cuda_file", "emit_opencl_host", "parameter_types"]

_LONG = "long long"
_SPACES = (("lw_int", "int"), ("lw_long", _LONG))  # of C++, by the type of subscripts
_FAR = 1 << 30  # elements of an array of constant extents whose subscripts need 64 bits


@dataclass(frozen=True, slots=True)
class HostFunction:
    """A device program as a function of C.

    Its arguments are the scalars that are `given`, then the buffers: numbers by value, arrays and
    scalars that kernels write by their addresses.
    """

    name: str
    program: DeviceProgram
    transfers: tuple[Transfer, ...]  # of the buffers, in their order
    given: tuple[str, ...]
    computed: Mapping[str, Expr]  # the other scalars, over those that are given
    place: str  # of the region, for messages: prog.c:12


def parameter_types(function: HostFunction) -> tuple[str, ...]:
    """The types of the function's parameters in C."""
    return (*(_LONG for _ in function.given), *map(_parameter_type, function.program.buffers))


def _parameter_type(buffer: Buffer) -> str:
    if is_by_value(buffer):
        return c_type(buffer.dtype)
    return "void *" if buffer.writable else "const void *"


def emit_cuda_file(
    functions: Sequence[HostFunction], kernels: str, name: str, dialect: Dialect
) -> str:
    """A file of CUDA C++: the functions that launch kernels, whose text is a file named `name`.

    It is included twice: with subscripts of 32 bits, and of 64.
    """
    needed = [line for line in kernels.splitlines() if line.startswith("#include")]
    head = ["#include <cstdio>", "#include <cstdlib>", "#include <cuda_runtime.h>", *needed, ""]
    for space, index in _SPACES:
        head += [f"#define LW_INDEX {index}", f"namespace {space} {{", f'#include "{name}"', "}"]
        head += ["#undef LW_INDEX", ""]
    return "\n".join([*head, CUDA_API, *_texts(functions, dialect)])


def emit_opencl_host(functions: Sequence[HostFunction], kernels: str, dialect: Dialect) -> str:
    """A file of C that includes the text of kernels as the lines of a file named `kernels`."""
    return "\n".join([OPENCL_API.replace("@KERNELS@", kernels), *_texts(functions, dialect)])


def _texts(functions: Sequence[HostFunction], dialect: Dialect) -> list[str]:
    helpers: dict[str, str] = {}
    bodies: list[str] = []
    for function in functions:
        writer = _Writer(function, dialect)
        writer.write()
        bodies.append(str(writer.lines))
        helpers |= {name: used.macro() for name, used in writer.expressions.helpers.items()}
    return [*helpers.values(), *bodies]


class _Writer:
    """Writes one function."""

    def __init__(self, function: HostFunction, dialect: Dialect) -> None:
        self.function = function
        self.dialect = dialect
        self.is_cuda = dialect.name == "cuda"
        self.lines = IndentedText()
        # Sizes of the host have 64 bits, whatever the kernels take.
        host = replace(dialect, index=_LONG, long_suffix="LL")
        self.expressions = CExpressions(host, from_c=True)
        taken = [function.name, *(kernel_name(k) for k in function.program.kernels)]
        self.names = NamesInUse([*taken, *DEVICE_WORDS])
        self.places: dict[str, str] = {}  # buffers by name: memory of the device
        self.far: dict[str, str] = {}  # buffers by name: whether subscripts need 64 bits

    def write(self) -> None:
        function = self.function
        program = function.program
        parameters = [f"{_LONG} {self._scalar(scalar)}" for scalar in function.given]
        given: dict[str, str] = {}  # arrays of the host by the names of buffers
        for buffer in program.buffers:
            name = self.names.declare(buffer.name, is_own=False)
            if is_by_value(buffer):
                self.places[buffer.name] = name
                parameters.append(f"{self._type(buffer.dtype)} {name}")
            else:
                given[buffer.name] = name
                parameters.append(f"{_parameter_type(buffer)}{name}".replace("* ", "*"))
        head = 'extern "C" void' if self.is_cuda else "void"
        if not self.is_cuda:
            self.lines.add(f"void {function.name}({', '.join(parameters) or 'void'});")
        self.lines.add(f"{head} {function.name}({', '.join(parameters) or 'void'})")
        with self._block():
            self.lines.add(f"const char *const lw_place = {_quoted(function.place)};")
            if not self.is_cuda:
                self.lines.add("lw_start(lw_place);")
            used = _used(program)
            for scalar, value in function.computed.items():
                if scalar not in used:
                    continue
                text = self.expressions.index(value)
                self.lines.add(f"const {_LONG} {self._scalar(scalar)} = {text};")
            moved = [
                (buffer, transfer)
                for buffer, transfer in zip(program.buffers, function.transfers, strict=True)
                if not is_by_value(buffer)
            ]
            for buffer, transfer in moved:
                self._take(buffer, transfer, given[buffer.name])
            self._steps(program.host)
            for buffer, transfer in moved:
                if transfer.is_brought_back:
                    self._move("lw_bring_back", buffer, transfer, given[buffer.name])
            self.lines.add(f"lw_finish({_quoted(program.name)}, lw_place);")
            for buffer, _ in moved:
                self._release(self.places[buffer.name], buffer)

    # -- memory -----------------------------------------------------------------------------------

    def _take(self, buffer: Buffer, transfer: Transfer, host: str) -> None:
        """Memory of an argument; element zero of it lies at its start, as in the host's."""
        if not isinstance(transfer.first, Const):
            first, label = self._text(transfer.first), _quoted(buffer.name)
            self.lines.add(f"lw_check_first({first}, {label}, lw_place);")
        self._allocate(buffer, transfer.stop * transfer.row)
        if transfer.is_brought_in:
            self._move("lw_bring_in", buffer, transfer, host)

    def _allocate(self, buffer: Buffer, count: Expr) -> None:
        label = _quoted(buffer.name)
        elements = self._text(count)
        if not isinstance(count, Const):
            far = self.far[buffer.name] = self.names.declare(f"{buffer.name}_is_far")
            self.lines.add(f"const int {far} = lw_is_far({elements});")
        elif int(count.value.real) >= _FAR:
            self.far[buffer.name] = "1"
        name = self.names.declare(f"{buffer.name}_device")
        self.places[buffer.name] = name
        size = self._bytes(count, buffer)
        made = f"lw_allocate({size}, {label}, lw_place)"
        if self.is_cuda:
            kind = self._type(buffer.dtype)
            self.lines.add(f"{kind} *{name} = ({kind} *){made};")
        else:
            self.lines.add(f"cl_mem {name} = {made};")

    def _move(self, call: str, buffer: Buffer, transfer: Transfer, host: str) -> None:
        first = self._bytes(transfer.first * transfer.row, buffer)
        size = self._bytes((transfer.stop - transfer.first) * transfer.row, buffer)
        device = self.places[buffer.name]
        label = _quoted(buffer.name)
        self.lines.add(f"{call}({device}, {host}, {first}, {size}, {label}, lw_place);")

    def _release(self, name: str, buffer: Buffer) -> None:
        self.lines.add(f"lw_release({name}, {_quoted(buffer.name)}, lw_place);")

    def _bytes(self, count: Expr, buffer: Buffer) -> str:
        return self._text(count * Const(buffer.dtype.bytes))

    # -- steps ------------------------------------------------------------------------------------

    def _steps(self, steps: tuple[HostStep, ...]) -> None:
        for step in steps:
            self._step(step)

    def _step(self, step: HostStep) -> None:
        match step:
            case LaunchKernel(kernel=kernel):
                self._launch(self.function.program.kernel(kernel))
            case Repeat(var=var, start=start, stop=stop, step=by, body=body, until=until):
                first, end, stride = map(self._text, (start, stop, by))
                with self._inside():
                    name = self._scalar(var)
                    head = f"for ({_LONG} {name} = {first}; {name} < {end}; {name} += {stride})"
                    with self._block(head):
                        if until is not None:
                            self.lines.add(f"if ({self.expressions.condition(until)})")
                            self.lines.add("    break;")
                        self._steps(body)
            case When(cond=cond, body=body, orelse=orelse):
                with self._inside(), self._block(f"if ({self.expressions.condition(cond)})"):
                    self._steps(body)
                if orelse:
                    with self._inside(), self._block("else"):
                        self._steps(orelse)
            case Bind(name=bound, value=value, body=body):
                text = self._text(value)
                with self._inside(), self._block():
                    self.lines.add(f"const {_LONG} {self._scalar(bound)} = {text};")
                    self._steps(body)
            case DeviceMemory(buffer=buffer, shape=shape, body=body):
                count: Expr = Const(1)
                for extent in shape:
                    count = count * extent
                with self._inside(), self._block():
                    self._allocate(buffer, count)
                    self._steps(body)
                    self._release(self.places[buffer.name], buffer)
            case _:
                raise InternalError(f"no step of a host's part: {step!r:.200}")

    def _launch(self, kernel: DeviceKernel) -> None:
        name = kernel_name(kernel)
        with self._inside(), self._block():
            arguments = [self.places[buffer.name] for buffer in kernel.buffers]
            far = [self.far[buffer.name] for buffer in kernel.buffers if buffer.name in self.far]
            sizes = [f"sizeof {argument}" for argument in arguments]
            for scalar in kernel.scalars:
                copy = self.names.declare(f"{scalar}_index")
                self.lines.add(f"{_LONG} {copy} = {self._text(Var(scalar))};")
                arguments.append(copy)
                far.append(f"lw_is_far({copy})")
                sizes.append("lw_size")
            self.lines.add(f"const int lw_is_wide = {' || '.join(far) or '0'};")
            grid = ", ".join(map(self._text, kernel.grid))
            self.lines.add(f"const {_LONG} lw_grid[] = {{{grid}}};")
            given = ", ".join(f"&{argument}" for argument in arguments)
            block = ", ".join(map(str, kernel.block))
            if self.is_cuda:
                limit = self.dialect.shared_static
                dynamic = kernel.shared_bytes if kernel.shared_bytes > limit else 0
                self.lines.add(f"void *lw_arguments[] = {{{given}}};")
                both = ", ".join(f"{space}::{name}" for space, _ in _SPACES)
                self.lines.add(
                    f"lw_launch({both}, lw_is_wide, {_quoted(name)}, lw_grid, dim3({block}), "
                    f"{dynamic}, lw_arguments, lw_place);"
                )
                return
            self.lines.add(f"const size_t lw_block[] = {{{block}}};")
            if kernel.scalars:
                # Of integers in 64 bits the first 32 are the lower ones, on hosts of OpenCL.
                size = "lw_is_wide ? sizeof(cl_long) : sizeof(cl_int)"
                self.lines.add(f"const size_t lw_size = {size};")
            self.lines.add(f"const size_t lw_sizes[] = {{{', '.join(sizes)}}};")
            self.lines.add(f"const void *const lw_arguments[] = {{{given}}};")
            self.lines.add(
                f"lw_launch({_quoted(name)}, lw_is_wide, lw_grid, lw_block, {len(arguments)}, "
                "lw_sizes, lw_arguments, lw_place);"
            )

    # -- text -------------------------------------------------------------------------------------

    def _scalar(self, name: str) -> str:
        """Declare an integer variable."""
        text = self.names.declare(name, is_own=False)
        self.expressions.spelling[name] = CText(text, ATOM, Width.LONG)
        return text

    def _text(self, expr: Expr) -> str:
        return str(self.expressions.index(expr))

    def _type(self, dtype: DType) -> str:
        return self.dialect.spelled(c_type(dtype)) if self.is_cuda else c_type(dtype)

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """A scope for names; those that it hides are seen again behind it."""
        spelling = dict(self.expressions.spelling)
        places, far = dict(self.places), dict(self.far)
        with self.names.block():
            yield
        self.expressions.spelling.clear()
        self.expressions.spelling.update(spelling)
        self.places, self.far = places, far

    @contextmanager
    def _block(self, head: str = "") -> Iterator[None]:
        if head:
            self.lines.add(f"{head} {{")
        else:
            self.lines.add("{")
        self.lines.indent()
        yield
        self.lines.dedent()
        self.lines.add("}")


def _used(program: DeviceProgram) -> set[str]:
    """The variables that the kernels and the steps of a program use."""
    found = {scalar for kernel in program.kernels for scalar in kernel.scalars}
    found = found.union(*(names(axis) for kernel in program.kernels for axis in kernel.grid))
    waiting = list(program.host)
    while waiting:
        match waiting.pop():
            case Repeat(start=start, stop=stop, step=by, body=body, until=until):
                found |= names(start) | names(stop) | names(by)
                found |= set() if until is None else names(until)
                waiting += body
            case When(cond=cond, body=body, orelse=orelse):
                found |= names(cond)
                waiting += (*body, *orelse)
            case Bind(value=value, body=body):
                found |= names(value)
                waiting += body
            case DeviceMemory(shape=shape, body=body):
                found = found.union(*map(names, shape))
                waiting += body
    return found


def _quoted(text: str) -> str:
    """A literal of C."""
    plain = "".join(c if " " <= c <= "~" and c not in '\\"?' else "_" for c in text)
    return f'"{plain}"'
