"""A CUDA driver for tests without a device: host memory, kernels run by the shim, calls recorded.

It stands for the module `cuda.bindings.driver`: an image is the text of CUDA C++ itself, and a
stream or a context is a number. `faults` makes functions fail.
"""

# ruff: noqa: N802, N815  (names of the driver API)

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from gpu.shim.cuda_shim import CAPACITY, ShimModule
from loopwright.runtime import cuda_driver as ours

NAMES = {
    0: b"CUDA_SUCCESS",
    1: b"CUDA_ERROR_INVALID_VALUE",
    2: b"CUDA_ERROR_OUT_OF_MEMORY",
    500: b"CUDA_ERROR_NOT_FOUND",
    700: b"CUDA_ERROR_ILLEGAL_ADDRESS",
}
ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 227 * 1024,
    "MAX_GRID_DIM_X": 2**31 - 1,
    "MAX_GRID_DIM_Y": 65535,
    "MAX_GRID_DIM_Z": 65535,
    "MAX_THREADS_PER_BLOCK": 1024,
    "MEMORY_POOLS_SUPPORTED": 1,
}


class FakeApi:
    """Functions of the driver; each gives a status and its results, as cuda-bindings does."""

    def __init__(self, devices: int = 1) -> None:
        self.devices = devices
        self.calls: list[tuple[Any, ...]] = []  # but for questions
        self.faults: dict[str, int] = {}
        self.memory: dict[int, np.ndarray] = {}
        self.on_device: dict[int, int] = {}  # address -> number of its device
        self.contexts: list[int] = []
        self.capturing: set[int] = set()
        self.spilled: Callable[[str], int] = lambda _: 0  # bytes that kernels of a text spill
        self._count = 100
        prefix = "CU_DEVICE_ATTRIBUTE_"
        self.CUdevice_attribute = SimpleNamespace(**{prefix + n: n for n in ATTRIBUTES})
        self.CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2, CU_EVENT_DEFAULT=0)
        self.CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
        self.CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)
        self.CUstreamCaptureStatus = SimpleNamespace(CU_STREAM_CAPTURE_STATUS_NONE=0)
        self.CUmemPool_attribute = SimpleNamespace(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD=4)
        self.CUpointer_attribute = SimpleNamespace(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL=9)
        self.CUfunction_attribute = SimpleNamespace(
            CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES="static",
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="dynamic",
            CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES="local",
        )
        self.cuuint64_t = int

    def names(self) -> list[str]:
        return [name for name, *_ in self.calls]

    def cuGetErrorName(self, status: int) -> tuple[int, bytes]:
        return 0, NAMES.get(status, b"")

    def cuCtxGetCurrent(self) -> tuple[int, int]:
        return 0, self.contexts[-1] if self.contexts else 0

    def cuDeviceGetAttribute(self, name: str, device: int) -> tuple[int, int]:
        return 0, ATTRIBUTES[name]

    def cuPointerGetAttribute(self, attribute: int, pointer: int) -> tuple[int, int]:
        found = self.on_device.get(pointer)
        return (1, None) if found is None else (0, found)

    def cuStreamIsCapturing(self, stream: int) -> tuple[int, int]:
        return 0, int(stream in self.capturing)

    def cuFuncGetAttribute(self, attribute: str, function: tuple[Any, str]) -> tuple[int, int]:
        return 0, self.spilled(function[0].text) if attribute == "local" else 0

    def __getattr__(self, name: str) -> Any:
        """Any other function: recorded, then `_name` if there is one."""
        if not name.startswith("cu"):
            raise AttributeError(name)
        work = getattr(type(self), f"_{name}", lambda *_: ())

        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            status = self.faults.get(name, 0)
            if status:
                return (status, None)[: 1 if work is type(self)._cuLaunchKernel else 2]
            return (0, *work(self, *arguments))

        return call

    def _cuDeviceGetCount(self) -> tuple[int]:
        return (self.devices,)

    def _cuDeviceGet(self, ordinal: int) -> tuple[int]:
        return (ordinal,)

    def _cuDevicePrimaryCtxRetain(self, device: int) -> tuple[int]:
        return (1000 + device,)

    def _cuDeviceGetDefaultMemPool(self, device: int) -> tuple[int]:
        return (7,)

    def _cuMemPoolGetAttribute(self, *_: Any) -> tuple[int]:
        return (0,)

    def _cuCtxPushCurrent(self, context: int) -> tuple[()]:
        self.contexts.append(context)
        return ()

    def _cuCtxPopCurrent(self) -> tuple[int]:
        return (self.contexts.pop(),)

    def _number(self, *_: Any) -> tuple[int]:
        self._count += 1
        return (self._count,)

    _cuEventCreate = _cuStreamCreate = _number
    # What is recorded runs at once, and a graph that is launched does nothing.
    _cuStreamEndCapture = _cuGraphInstantiate = _number

    def _cuEventElapsedTime(self, *_: Any) -> tuple[float]:
        return (2.0,)

    def _cuMemAllocAsync(self, size: int, stream: int) -> tuple[int]:
        memory = np.full(size, 0xFF, np.uint8)
        self.memory[memory.ctypes.data] = memory
        return (memory.ctypes.data,)

    def _cuMemFreeAsync(self, memory: int, stream: int) -> tuple[()]:
        del self.memory[memory]
        return ()

    def _cuMemcpyHtoDAsync(self, target: int, source: int, size: int, stream: int) -> tuple[()]:
        assert self.memory[target].size >= size
        ctypes.memmove(target, source, size)
        return ()

    def _cuMemcpyDtoHAsync(self, target: int, source: int, size: int, stream: int) -> tuple[()]:
        assert self.memory[source].size >= size
        ctypes.memmove(target, source, size)
        return ()

    def _cuModuleLoadData(self, image: bytes) -> tuple[ShimModule]:
        text = image.rstrip(b"\0").decode()
        wide = text.startswith("// wide")
        return (ShimModule(text, index="long long" if wide else "int"),)

    def _cuModuleGetFunction(self, module: ShimModule, name: bytes) -> tuple[Any]:
        return ((module, name.decode()),)

    def _cuLaunchKernel(self, function: Any, *arguments: Any) -> tuple[()]:
        x, y, z, a, b, c, dynamic, _, places, _ = arguments
        module, name = function
        assert dynamic <= CAPACITY
        if not module.has_dynamic_memory:
            dynamic = 0  # a device counts what the code declares, which the shim does not tell
        run = module._library[f"lw_run_{name}"]
        run.restype = ctypes.c_char_p
        axes = ctypes.c_uint * 3
        fault = run(
            ctypes.c_void_p(places), axes(x, y, z), axes(a, b, c), ctypes.c_size_t(dynamic), 1
        )
        assert fault is None, fault
        return ()


class FakeArray:
    """An array of another library on the fake device: NumPy's memory behind the interface."""

    def __init__(
        self, data: np.ndarray, api: FakeApi, device: int = 0, stream: int | None = None
    ) -> None:
        self.data = data
        self._stream = stream
        self.read_only = False
        api.on_device[data.ctypes.data] = device

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        told = {
            "shape": self.data.shape,
            "typestr": self.data.dtype.str,
            "data": (self.data.ctypes.data, self.read_only),
            "strides": self.data.strides,
            "version": 3,
        }
        return told if self._stream is None else {**told, "stream": self._stream}


class CupyArray:
    """CuPy's array, as far as it is read: NumPy's memory; bfloat16 lies in it as its bits."""

    def __init__(self, host: np.ndarray, dtype: Any = None, device: int = 0) -> None:
        self.host = host
        self.data = SimpleNamespace(ptr=host.ctypes.data)
        self.shape, self.strides, self.ndim = host.shape, host.strides, host.ndim
        self.dtype = host.dtype if dtype is None else dtype
        self.device = SimpleNamespace(id=device)
        self.__cuda_array_interface__: dict[str, Any] = {}

    def __getitem__(self, at: Any) -> Any:
        return self.host[at]

    def __setitem__(self, at: Any, value: Any) -> None:
        self.host[at] = value


CupyArray.__module__ = "cupy"


@contextmanager
def fake_driver(devices: int = 1) -> Iterator[FakeApi]:
    """A driver of so many fake devices in place of CUDA's until the block ends."""
    api = FakeApi(devices)
    before = ours._driver
    ours._driver = ours.CudaDriver(api)
    try:
        yield api
    finally:
        ours._driver = before
