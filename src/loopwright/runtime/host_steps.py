"""The host's part of a device program as a function of Python, compiled once.

    bound = compile_host(program)(launches, allocate, release)
    bound(stream, pointer..., scalar...)

`launches[k](stream, x, y, z, pointer..., scalar...)` runs kernel k of the program on a grid that
is not empty; `allocate(stream, bytes)` gives device memory that `release(stream, memory)` takes
back. Names of the program never reach the generated text, so that none of them can be code.
Integers are Python's: they do not wrap, as sizes and counts of blocks never leave int64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from loopwright.diagnostics import InternalError
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
from loopwright.ir.dtypes import BOOL, INT64
from loopwright.ir.expr import COMPARISONS, Binary, Cast, Const, Expr, Select, Unary, Var

__all__ = ["HostPart", "Needs", "compile_host", "host_source", "needs_of"]

HostPart: TypeAlias = Callable[..., Callable[..., None]]  # (launches, allocate, release) -> bound

_INFIX = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", **COMPARISONS}


def compile_host(program: DeviceProgram) -> HostPart:
    """The host's part as a function of launchers; see this module. Raises InternalError for steps
    that do not fit together: an unknown name, a kernel that is not there, an expression that loads.
    """
    scope: dict[str, Any] = {}
    exec(compile(host_source(program), f"<host part of {program.name}>", "exec"), scope)
    made: HostPart = scope["bind"]
    return made


class Needs:
    """What one call of a program takes: found by a run of its host's part that launches nothing."""

    __slots__ = ("fault", "launches", "reach")

    def __init__(self) -> None:
        self.launches = 0
        self.reach = 0  # the greatest magnitude of a kernel's scalar, or count of elements
        self.fault: tuple[str, tuple[int, int, int]] | None = None  # a kernel's too large grid


def needs_of(
    program: DeviceProgram, host: HostPart, scalars: Sequence[int], most: tuple[int, int, int]
) -> Needs:
    """Launches of a call, how far its integers reach, and a grid beyond `most` if there is one."""
    needs = Needs()

    def launcher(kernel: DeviceKernel) -> Callable[..., None]:
        first = len(kernel.buffers)

        def launch(_: object, x: int, y: int, z: int, *values: int) -> None:
            needs.launches += 1
            for value in values[first:]:
                needs.reach = max(needs.reach, abs(value))
            if needs.fault is None and (x > most[0] or y > most[1] or z > most[2]):
                needs.fault = kernel.name, (x, y, z)

        return launch

    def allocate(_: object, size: int) -> int:
        # Elements have a byte or more, so that this is no less than their count.
        needs.reach = max(needs.reach, size)
        return 0

    bound = host([launcher(k) for k in program.kernels], allocate, lambda *_: None)
    bound(None, *(0 for _ in program.buffers), *scalars)
    return needs


def host_source(program: DeviceProgram) -> str:
    """The text of Python that `compile_host` compiles."""
    writer = _Writer(program)
    return "\n".join(writer.lines()) + "\n"


class _Writer:
    """Writes the steps of one program, with names of its own for variables and buffers."""

    def __init__(self, program: DeviceProgram) -> None:
        self._program = program
        self._count = 0
        self._kernels = {kernel.name: i for i, kernel in enumerate(program.kernels)}
        if len(self._kernels) < len(program.kernels):
            raise InternalError(f"two kernels of '{program.name}' have the same name")

    def lines(self) -> Iterator[str]:
        program = self._program
        buffers = {buffer.name: self._fresh("p") for buffer in program.buffers}
        scalars = {name: self._fresh("v") for name in program.scalars}
        if len(buffers) < len(program.buffers) or len(scalars) < len(program.scalars):
            raise InternalError(f"two arguments of '{program.name}' have the same name")
        yield "def bind(launches, allocate, release):"
        for i in range(len(program.kernels)):
            yield f"    launch{i} = launches[{i}]"
        yield f"    def run({', '.join(('stream', *buffers.values(), *scalars.values()))}):"
        yield from _indented(self._steps(program.host, buffers, scalars), 2)
        yield "    return run"

    def _fresh(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"

    def _steps(
        self, steps: tuple[HostStep, ...], buffers: Mapping[str, str], names: Mapping[str, str]
    ) -> Iterator[str]:
        if not steps:
            yield "pass"
        for step in steps:
            yield from self._step(step, buffers, names)

    def _step(
        self, step: HostStep, buffers: Mapping[str, str], names: Mapping[str, str]
    ) -> Iterator[str]:
        match step:
            case LaunchKernel(kernel=kernel):
                yield from self._launch(kernel, buffers, names)
            case Repeat(var=var, start=start, stop=stop, step=by, body=body, until=until):
                name = self._fresh("v")
                inside = {**names, var: name}
                ends = ", ".join(_text(end, names) for end in (start, stop, by))
                yield f"for {name} in range({ends}):"
                if until is not None:
                    yield f"    if {_text(until, inside)}:"
                    yield "        break"
                yield from _indented(self._steps(body, buffers, inside))
            case When(cond=cond, body=body, orelse=orelse):
                yield f"if {_text(cond, names)}:"
                yield from _indented(self._steps(body, buffers, names))
                if orelse:
                    yield "else:"
                    yield from _indented(self._steps(orelse, buffers, names))
            case Bind(name=bound, value=value, body=body):
                name = self._fresh("v")
                yield f"{name} = {_text(value, names)}"
                yield from self._steps(body, buffers, {**names, bound: name})
            case DeviceMemory(buffer=buffer, shape=shape, body=body):
                name = self._fresh("p")
                extents = " * ".join(f"max(0, {_text(e, names)})" for e in shape)
                size = str(buffer.dtype.bytes) + (f" * {extents}" if extents else "")
                yield f"{name} = allocate(stream, {size})"
                yield "try:"
                yield from _indented(self._steps(body, {**buffers, buffer.name: name}, names))
                yield "finally:"
                yield f"    release(stream, {name})"
            case _:
                raise InternalError(f"no step of a host's part: {step!r:.200}")

    def _launch(
        self, name: str, buffers: Mapping[str, str], names: Mapping[str, str]
    ) -> Iterator[str]:
        if name not in self._kernels:
            raise InternalError(f"'{self._program.name}' launches '{name}', which it does not have")
        index = self._kernels[name]
        kernel = self._program.kernels[index]
        values = [_known(buffer.name, buffers) for buffer in kernel.buffers]
        values += [_known(scalar, names) for scalar in kernel.scalars]
        axes = [_text(axis, names) for axis in kernel.grid]
        tests = []
        for i, axis in enumerate(axes):
            if not axis.isdecimal():
                # A name of its own: the count is used twice.
                axes[i] = self._fresh("g")
                yield f"{axes[i]} = {axis}"
                tests.append(f"{axes[i]} > 0")
            elif axis == "0":
                return
        call = f"launch{index}({', '.join(('stream', *axes, *values))})"
        yield f"if {' and '.join(tests)}: {call}" if tests else call


def _indented(lines: Iterator[str], times: int = 1) -> Iterator[str]:
    return ("    " * times + line for line in lines)


def _known(name: str, names: Mapping[str, str]) -> str:
    if name not in names:
        raise InternalError(f"no variable or buffer of a host's part: '{name}'")
    return names[name]


def _text(expr: Expr, names: Mapping[str, str]) -> str:
    """`expr` in Python, in brackets where it is no single word."""
    match expr:
        case Const(value=bool() | int() as value, dtype=dtype) if dtype in (INT64, BOOL):
            return str(value) if value >= 0 else f"({value})"
        case Var(name=name, dtype=dtype) if dtype in (INT64, BOOL):
            return _known(name, names)
        case Unary(op="neg", x=x):
            return f"(-{_text(x, names)})"
        case Unary(op="abs", x=x):
            return f"abs({_text(x, names)})"
        case Unary(op="not", x=x):
            inside = _text(x, names)
            return f"(not {inside})" if x.dtype == BOOL else f"(~{inside})"
        case Binary(op="floordiv" | "mod" as op, x=x, y=y):
            sign = "//" if op == "floordiv" else "%"
            left, right = _text(x, names), _text(y, names)
            if isinstance(y, Const) and y.value != 0:
                return f"({left} {sign} {right})"
            return f"({left} {sign} {right} if {right} else 0)"
        case Binary(op="min" | "max" as op, x=x, y=y):
            return f"{op}({_text(x, names)}, {_text(y, names)})"
        case Binary(op=op, x=x, y=y) if op in _INFIX:
            return f"({_text(x, names)} {_INFIX[op]} {_text(y, names)})"
        case Select(cond=cond, x=x, y=y):
            return f"({_text(x, names)} if {_text(cond, names)} else {_text(y, names)})"
        case Cast(x=x, dtype=dtype) if dtype == INT64 and x.dtype in (INT64, BOOL):
            return f"int({_text(x, names)})"
        case Cast(x=x, dtype=dtype) if dtype == BOOL and x.dtype in (INT64, BOOL):
            return f"bool({_text(x, names)})"
    raise InternalError(f"no expression of a host's part: {expr!r:.200}")
