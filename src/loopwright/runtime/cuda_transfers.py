"""Device programs on arrays of the host: what is read goes to the device, what is written back.

    run_from_host(executable, arrays, scalars)

`scalars` are found from the views that lie on the device: these have no gaps, whatever strides
the arrays have. Arrays change only when all kernels are done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from loopwright.diagnostics import DtypeError, UsageError, WrongTypeError
from loopwright.ir.device import is_by_value, value_bits
from loopwright.ir.dtypes import dtype_of
from loopwright.ir.loops import Buffer
from loopwright.runtime.address import data_address
from loopwright.runtime.cuda_driver import CudaDevice, cuda_device
from loopwright.runtime.cuda_executable import CudaExecutable
from loopwright.runtime.device_arrays import DeviceArray, is_device_array, number_of
from loopwright.runtime.dlpack_tensor import row_major

__all__ = ["check_host_arguments", "run_from_host", "transfer_stream"]

_streams: dict[CudaDevice, int] = {}
_lock = threading.Lock()


def run_from_host(
    executable: CudaExecutable,
    arrays: Sequence[Any],
    scalars: Callable[[Sequence[DeviceArray]], Sequence[int]],
    reads: Sequence[bool] | None = None,
    device: CudaDevice | None = None,
) -> None:
    """Run a program on NumPy arrays and wait for it.

    `reads` says for each array whether its old contents matter. A written array of which they do
    not must be written whole, and is not brought to the device.
    """
    buffers = executable.program.buffers
    hosts = check_host_arguments(buffers, arrays)
    needed = [True] * len(hosts) if reads is None else list(reads)
    device = cuda_device() if device is None else device
    stream = transfer_stream(device)
    call = device.driver.call
    memory: list[int] = []
    with device.current():
        try:
            views, sources = [], []
            for host, buffer, is_read in zip(hosts, buffers, needed, strict=True):
                if is_by_value(buffer):
                    views.append(_view(value_bits(host[()], buffer.dtype), host, buffer, device))
                    memory.append(0)
                    continue
                place = device.allocate(stream, host.nbytes)
                memory.append(place)
                if is_read and host.nbytes:
                    source = np.ascontiguousarray(host)
                    sources.append(source)  # until the stream has read it
                    call(
                        "cuMemcpyHtoDAsync",
                        place,
                        data_address(source),
                        host.nbytes,
                        stream,
                        device=device,
                    )
                views.append(_view(place, host, buffer, device))
            executable.run(views, scalars(views), stream)
            # A fault of a kernel shows here, before any array has changed.
            device.synchronize(stream)
            _bring_back(device, stream, hosts, buffers, memory)
        finally:
            for place in filter(None, memory):
                device.release(stream, place)


def check_host_arguments(buffers: Sequence[Buffer], arrays: Sequence[Any]) -> list[Any]:
    """The arrays, if they are NumPy's and of the types that the program was made for.

    Raises UsageError for the first one that does not fit.
    """
    if len(arrays) != len(buffers):
        raise UsageError(
            "wrong number of arrays",
            found=str(len(arrays)),
            hint=f"{len(buffers)}: {', '.join(buffer.name for buffer in buffers)}",
        )
    checked: list[Any] = []
    for buffer, array in zip(buffers, arrays, strict=True):
        what = f"'{buffer.name}'"
        if is_by_value(buffer):
            checked.append(np.asarray(number_of(array, what), buffer.dtype.numpy))
            continue
        if is_device_array(array):
            raise UsageError(
                f"{what} lies on a device, other arrays on the host",
                hint="pass all arrays on one device, or all on the host",
            )
        if not isinstance(array, np.ndarray):
            raise WrongTypeError(f"{what} must be a NumPy array", found=type(array).__name__)
        if dtype_of(array.dtype) != buffer.dtype:
            raise DtypeError(
                f"{what} has dtype '{array.dtype}'",
                hint=f"the program was made for '{buffer.dtype}'",
            )
        if array.ndim != len(buffer.strides):
            raise UsageError(
                f"{what} has {array.ndim} dimensions", hint=f"it takes {len(buffer.strides)}"
            )
        if buffer.writable and not array.flags.writeable:
            raise UsageError(f"{what} is read-only", hint="pass a writable array, or a copy of it")
        checked.append(array)
    return checked


def _view(place: int, host: Any, buffer: Buffer, device: CudaDevice) -> DeviceArray:
    strides = row_major(host.shape)
    return DeviceArray(
        place, host.shape, strides, buffer.dtype, device.ordinal, True, None, "numpy", host
    )


def _bring_back(
    device: CudaDevice,
    stream: int,
    hosts: Sequence[Any],
    buffers: Sequence[Buffer],
    memory: Sequence[int],
) -> None:
    results = []
    for host, buffer, place in zip(hosts, buffers, memory, strict=True):
        if buffer.writable and host.nbytes:
            result = host if host.flags.c_contiguous else np.empty(host.shape, host.dtype)
            address = data_address(result)
            device.driver.call(
                "cuMemcpyDtoHAsync", address, place, host.nbytes, stream, device=device
            )
            results.append((host, result))
    device.synchronize(stream)
    for host, result in results:
        if result is not host:
            host[...] = result


def transfer_stream(device: CudaDevice) -> int:
    """The stream of a device for the arrays of the host; it waits for no other."""
    with _lock:
        if device not in _streams:
            flags = device.driver.api.CUstream_flags.CU_STREAM_NON_BLOCKING
            with device.current():
                _streams[device] = int(device.driver.call("cuStreamCreate", flags, device=device))
        return _streams[device]
