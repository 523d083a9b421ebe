"""CUDA's driver API: loaded on first use, devices by number, faults as errors of ours.

Everything of CUDA goes through `cuda-bindings`, which is imported when a device is asked for, never
before. Work happens in the primary context of a device: the one PyTorch, CuPy and Numba use too.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from loopwright.diagnostics import DeviceError, RoomError, UsageError

__all__ = ["CudaDevice", "CudaDriver", "cuda_device", "cuda_driver"]

INSTALL = "pip install 'loopwright[cuda]'"
# Memory between launches stays with the process up to so many bytes: without a limit of its own
# the driver gives it back whenever the host waits, and the next launch asks for it again.
_KEPT_BYTES = 256 << 20
_HINTS = {
    "CUDA_ERROR_NOT_INITIALIZED": "start processes by 'spawn': CUDA does not survive a fork",
    "CUDA_ERROR_ILLEGAL_ADDRESS": "start a new process: no later call on this device can succeed",
    "CUDA_ERROR_LAUNCH_FAILED": "start a new process: no later call on this device can succeed",
    "CUDA_ERROR_ASSERT": "start a new process: no later call on this device can succeed",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "compile for the architecture of this device",
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": "launch once before the capture begins",
    "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT": "launch on the stream that is captured",
}


class CudaDriver:
    """The functions of the driver, with their statuses made errors.

    `api` is the module `cuda.bindings.driver`, or what stands for it in tests.
    """

    def __init__(self, api: Any) -> None:
        self.api = api
        self._devices: dict[int, CudaDevice] = {}
        self._lock = threading.Lock()
        try:
            (status,) = api.cuInit(0)
        except (OSError, RuntimeError) as error:  # of the loader of libcuda
            raise UsageError(
                "there is no CUDA driver here",
                found=str(error).splitlines()[0],
                hint="install NVIDIA's driver, or target='host'",
            ) from error
        if status != 0:
            raise UsageError(
                "CUDA cannot be used here",
                found=self.name_of(status),
                hint="nvidia-smi tells whether the driver sees a device",
            )
        self.device_count: int = self.call("cuDeviceGetCount")

    def call(self, function: str, *arguments: Any, device: CudaDevice | None = None) -> Any:
        """The result of a function of the driver: None, a value or a tuple of them.

        Raises DeviceError, or RoomError where memory is short.
        """
        status, *results = getattr(self.api, function)(*arguments)
        if status != 0:
            raise self.error(status, function, device)
        return results[0] if len(results) == 1 else tuple(results) if results else None

    def error(self, status: Any, doing: str, device: CudaDevice | None) -> Exception:
        """The error for a status that is no success; `doing` names what was asked for."""
        fault = self.name_of(status)
        last = "" if device is None else device.last_program
        if fault == "CUDA_ERROR_OUT_OF_MEMORY":
            where = "" if device is None else f" of device {device.ordinal}"
            return RoomError(f"{doing}: the memory{where} is not enough")
        return DeviceError(doing, fault, f"'{last}'" if last else "", _HINTS.get(fault, ""))

    def name_of(self, status: Any) -> str:
        """The driver's name of a status, such as CUDA_ERROR_ILLEGAL_ADDRESS."""
        _, name = self.api.cuGetErrorName(status)
        return name.decode() if name else f"status {int(status)}"

    def device(self, ordinal: int) -> CudaDevice:
        """A device by its number. Raises UsageError where there is none of that number."""
        found = self._devices.get(ordinal)
        if found is not None:
            return found
        if not 0 <= ordinal < self.device_count:
            there = f"0 to {self.device_count - 1}" if self.device_count else "none"
            raise UsageError(
                "there is no such CUDA device", found=f"device {ordinal}", hint=f"devices: {there}"
            )
        with self._lock:
            if ordinal not in self._devices:
                self._devices[ordinal] = CudaDevice(self, ordinal)
            return self._devices[ordinal]


class CudaDevice:
    """One device, its primary context and what a planner and a launch must know of it."""

    def __init__(self, driver: CudaDriver, ordinal: int) -> None:
        self.driver = driver
        self.ordinal = ordinal
        self.last_program = ""  # the name of the program that was launched last
        call, api = driver.call, driver.api
        self._handle = call("cuDeviceGet", ordinal)
        self._attributes = api.CUdevice_attribute
        self.context = call("cuDevicePrimaryCtxRetain", self._handle)
        self._context_number = int(self.context)
        self._get_current = api.cuCtxGetCurrent
        capability = "COMPUTE_CAPABILITY_M"
        major, minor = (self.attribute(f"{capability}{x}") for x in ("AJOR", "INOR"))
        self.arch = f"sm_{major}{minor}"
        self.shared_bytes = self.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")
        self.most_grid = tuple(self.attribute(f"MAX_GRID_DIM_{axis}") for axis in "XYZ")
        self.most_threads = self.attribute("MAX_THREADS_PER_BLOCK")
        if self.attribute("MEMORY_POOLS_SUPPORTED"):
            self._keep_memory()

    @property
    def name(self) -> str:
        """The vendor's name, such as 'NVIDIA H200'."""
        name = self.driver.call("cuDeviceGetName", 128, self._handle)
        return bytes(name).split(b"\0")[0].decode()

    def attribute(self, name: str) -> int:
        """A number that the driver knows of the device, by the end of its name in CUDA."""
        which = getattr(self._attributes, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.driver.call("cuDeviceGetAttribute", which, self._handle))

    def enter(self) -> bool:
        """Make the primary context current; whether it was not, so that `leave` must follow."""
        status, current = self._get_current()
        if status == 0 and int(current) == self._context_number:
            return False
        self.driver.call("cuCtxPushCurrent", self.context, device=self)
        return True

    def leave(self) -> None:
        """Take back what `enter` has made current."""
        self.driver.call("cuCtxPopCurrent", device=self)

    @contextmanager
    def current(self) -> Iterator[None]:
        """A block in which the primary context of the device is current."""
        entered = self.enter()
        try:
            yield
        finally:
            if entered:
                self.leave()

    def allocate(self, stream: int, size: int) -> int:
        """Memory that what is launched on `stream` from now on may use; 0 for no bytes."""
        if size <= 0:
            return 0
        return int(self.driver.call("cuMemAllocAsync", size, stream, device=self))

    def release(self, stream: int, memory: int) -> None:
        """Give memory back when what is on `stream` by now is done."""
        if memory:
            self.driver.call("cuMemFreeAsync", memory, stream, device=self)

    def synchronize(self, stream: int = 0) -> None:
        """Wait for all that was launched on a stream; faults of kernels are raised here."""
        with self.current():
            self.driver.call("cuStreamSynchronize", stream, device=self)

    def order(self, before: int, after: int) -> None:
        """What is launched on stream `after` from now on waits for what is on `before` by now."""
        api = self.driver.api
        with self.current():
            event = self.driver.call(
                "cuEventCreate", api.CUevent_flags.CU_EVENT_DISABLE_TIMING, device=self
            )
            try:
                self.driver.call("cuEventRecord", event, before, device=self)
                self.driver.call("cuStreamWaitEvent", after, event, 0, device=self)
            finally:
                self.driver.call("cuEventDestroy", event, device=self)

    def _keep_memory(self) -> None:
        """Let the driver keep memory of `allocate` for the next launch."""
        api, call = self.driver.api, self.driver.call
        threshold = api.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        pool = call("cuDeviceGetDefaultMemPool", self._handle)
        if int(call("cuMemPoolGetAttribute", pool, threshold)) < _KEPT_BYTES:
            call("cuMemPoolSetAttribute", pool, threshold, api.cuuint64_t(_KEPT_BYTES))


_driver: CudaDriver | None = None
_lock = threading.Lock()


def cuda_driver() -> CudaDriver:
    """The driver of this process. Raises UsageError where CUDA cannot be used, with the reason."""
    global _driver
    if _driver is None:
        with _lock:
            if _driver is None:
                _driver = CudaDriver(_bindings())
    return _driver


def cuda_device(ordinal: int = 0) -> CudaDevice:
    """A CUDA device by its number. Raises UsageError where it cannot be had."""
    return cuda_driver().device(ordinal)


def _bindings() -> Any:
    try:
        from cuda.bindings import driver  # lazy: optional, and only those with a device need it
    except ImportError as error:
        raise UsageError(
            "CUDA needs the package cuda-bindings", found=str(error), hint=INSTALL
        ) from error
    return driver


def _after_fork() -> None:
    """A child cannot use the contexts of its parent; to ask anew tells it so."""
    global _driver, _lock
    _driver, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
