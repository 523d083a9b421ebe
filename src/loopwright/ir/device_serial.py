"""Device programs as JSON values, and back: all that the host needs to launch them.

What a kernel computes is left out: it stands in the text that was emitted for it, so a program that
is read has empty kernels. Readers take nothing on trust: what is not of this form raises Malformed.
Whether names fit together is for the compiler of the host's part to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar, assert_never

from loopwright.ir.device import (
    Axes,
    Bind,
    DeviceKernel,
    DeviceMemory,
    DeviceProgram,
    HostStep,
    LaunchKernel,
    Repeat,
    When,
)
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.loops import Block, Buffer, Space
from loopwright.ir.serial import Json, Malformed, read_expr, to_json

__all__ = ["device_program_to_json", "read_device_program"]

T = TypeVar("T")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPACES = frozenset(space.value for space in Space)
_MOST_THREADS = 1024
_MOST_BYTES = 1 << 31


def device_program_to_json(program: DeviceProgram) -> Json:
    """A program as an object, its kernels without their bodies."""
    return {
        "name": program.name,
        "buffers": [_buffer(buffer) for buffer in program.buffers],
        "scalars": list(program.scalars),
        "kernels": [_kernel(kernel) for kernel in program.kernels],
        "host": _steps(program.host),
    }


def _buffer(buffer: Buffer) -> Json:
    strides = [to_json(stride) for stride in buffer.strides]
    return [buffer.space.value, buffer.name, buffer.dtype.name, strides, buffer.writable]


def _kernel(kernel: DeviceKernel) -> Json:
    return {
        "name": kernel.name,
        "buffers": [_buffer(buffer) for buffer in kernel.buffers],
        "scalars": list(kernel.scalars),
        "grid": [to_json(axis) for axis in kernel.grid],
        "block": list(kernel.block),
        "shared_bytes": kernel.shared_bytes,
    }


def _steps(steps: tuple[HostStep, ...]) -> list[Json]:
    return [_step(step) for step in steps]


def _step(step: HostStep) -> Json:
    match step:
        case LaunchKernel(kernel=kernel):
            return ["launch", kernel]
        case Repeat(var=var, start=start, stop=stop, step=by, body=body, until=until):
            ends = [to_json(end) for end in (start, stop, by)]
            return ["repeat", var, ends, _steps(body), None if until is None else to_json(until)]
        case When(cond=cond, body=body, orelse=orelse):
            return ["when", to_json(cond), _steps(body), _steps(orelse)]
        case Bind(name=name, value=value, body=body):
            return ["bind", name, to_json(value), _steps(body)]
        case DeviceMemory(buffer=buffer, shape=shape, body=body):
            return ["memory", _buffer(buffer), [to_json(extent) for extent in shape], _steps(body)]
        case _:
            assert_never(step)


# -- and back -------------------------------------------------------------------------------------


def read_device_program(data: Json) -> DeviceProgram:
    """The program that `device_program_to_json` wrote, with empty kernels."""
    match data:
        case {
            "name": str(name),
            "buffers": list(buffers),
            "scalars": list(scalars),
            "kernels": list(kernels),
            "host": list(host),
        } if len(data) == 5:
            return DeviceProgram(
                name,
                _all(_read_buffer, buffers),
                _all(_read_name, scalars),
                _all(_read_kernel, kernels),
                _all(_read_step, host),
            )
    raise Malformed("a device program", data)


def _all(read: Callable[[Json], T], data: list[Json]) -> tuple[T, ...]:
    return tuple(map(read, data))


def _read_name(data: Json) -> str:
    if isinstance(data, str):
        return data
    raise Malformed("a name", data)


def _read_buffer(data: Json) -> Buffer:
    match data:
        case [str(space), str(name), str(dtype), list(strides), bool(writable)] if (
            space in _SPACES and dtype in DTYPES
        ):
            steps = _all(read_expr, strides)
            return Buffer(name, DTYPES[dtype], steps, Space(space), writable)
    raise Malformed("a buffer", data)


def _read_kernel(data: Json) -> DeviceKernel:
    match data:
        case {
            "name": str(name),
            "buffers": list(buffers),
            "scalars": list(scalars),
            "grid": [x, y, z],
            "block": [a, b, c],
            "shared_bytes": shared,
        } if (
            len(data) == 6
            and _IDENTIFIER.fullmatch(name)
            and all(_is_count(size, 1, _MOST_THREADS) for size in (a, b, c))
            and _is_count(shared, 0, _MOST_BYTES)
        ):
            grid: Axes = (read_expr(x), read_expr(y), read_expr(z))
            return DeviceKernel(
                name,
                _all(_read_buffer, buffers),
                _all(_read_name, scalars),
                grid,
                (a, b, c),
                Block(()),
                shared,
            )
    raise Malformed("a kernel", data)


def _is_count(value: Any, least: int, most: int) -> bool:
    # JSON's true is an int in Python, but not a number to us.
    return type(value) is int and least <= value <= most


def _read_step(data: Json) -> HostStep:
    match data:
        case ["launch", str(kernel)]:
            return LaunchKernel(kernel)
        case ["repeat", str(var), [start, stop, by], list(body), until]:
            return Repeat(
                var,
                read_expr(start),
                read_expr(stop),
                read_expr(by),
                _all(_read_step, body),
                None if until is None else read_expr(until),
            )
        case ["when", cond, list(body), list(orelse)]:
            return When(read_expr(cond), _all(_read_step, body), _all(_read_step, orelse))
        case ["bind", str(name), value, list(body)]:
            return Bind(name, read_expr(value), _all(_read_step, body))
        case ["memory", buffer, list(shape), list(body)]:
            return DeviceMemory(
                _read_buffer(buffer), _all(read_expr, shape), _all(_read_step, body)
            )
    raise Malformed("a step of a host's part", data)
