"""Machine code on a device: loaded once, its kernels as functions that launch a grid.

A launch takes numbers only: `launch(stream, x, y, z, pointer..., scalar...)`. Every argument has a
place of 8 bytes, from which the driver copies as many as the kernel's parameter has: integers of 32
and of 64 bits are written alike. A number of 16 bytes, which is given as such, has two places.
"""

from __future__ import annotations

import hashlib
import sys
import threading
import weakref
from collections.abc import Callable
from struct import Struct
from typing import Any

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.ir.device import DeviceKernel, is_by_value
from loopwright.memo import BoundedCache
from loopwright.runtime.address import Address, data_address
from loopwright.runtime.cuda_driver import CudaDevice

__all__ = ["CudaModule", "load_module"]

_STATIC_BYTES = 48 << 10  # shared memory that a block has without being asked for
_MOST_MODULES = 1024

_modules: BoundedCache[tuple[CudaDevice, bytes], CudaModule] = BoundedCache(_MOST_MODULES)
_lock = threading.RLock()
# Modules whose kernels are nodes of graphs: a graph does not say when it goes.
_captured: set[CudaModule] = set()


def load_module(device: CudaDevice, image: bytes) -> CudaModule:
    """The module of a cubin or a PTX text on a device, loaded when it is not there."""
    key = device, hashlib.sha256(image).digest()
    found = _modules.get(key)
    if found is None:
        with _lock:
            found = _modules.get(key)
            if found is None:
                found = _modules[key] = CudaModule(device, image)
    return found


class CudaModule:
    """Loaded machine code. It is unloaded when nothing refers to it or its kernels any more."""

    def __init__(self, device: CudaDevice, image: bytes) -> None:
        self.device = device
        call = device.driver.call
        with device.current():
            # PTX is text, which ends with a zero.
            self._handle = call("cuModuleLoadData", image + b"\0", device=device)
        unload = weakref.finalize(self, _unload, device, self._handle)
        unload.atexit = False  # the driver has gone by then

    def keep(self) -> None:
        """Never unload the module."""
        _captured.add(self)

    def launcher(self, kernel: DeviceKernel) -> Callable[..., None]:
        """A function that launches a kernel on a grid: see this module. It checks no grid."""
        device = self.device
        threads = kernel.block[0] * kernel.block[1] * kernel.block[2]
        if threads > device.most_threads:
            raise UsageError(
                f"kernel '{kernel.name}' has too large blocks",
                found=f"{threads} threads",
                hint=f"device {device.ordinal} runs {device.most_threads} in a block",
            )
        with device.current():
            function = self._function(kernel)
            dynamic = self._shared(function, kernel)
        return _launcher(self, kernel, function, dynamic)

    def local_bytes(self, kernel: DeviceKernel) -> int:
        """Bytes of each thread of a kernel in memory, since its registers are not enough."""
        driver = self.device.driver
        attribute = driver.api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES
        with self.device.current():
            function = self._function(kernel)
            found = driver.call("cuFuncGetAttribute", attribute, function, device=self.device)
        return int(found)

    def _function(self, kernel: DeviceKernel) -> Any:
        return self.device.driver.call(
            "cuModuleGetFunction", self._handle, kernel.name.encode(), device=self.device
        )

    def _shared(self, function: Any, kernel: DeviceKernel) -> int:
        """Bytes of shared memory that a launch must ask for: those that the code declares none of.

        Raises UsageError where the device has fewer.
        """
        device = self.device
        call, attribute = device.driver.call, device.driver.api.CUfunction_attribute
        static = call(
            "cuFuncGetAttribute",
            attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
            function,
            device=device,
        )
        dynamic: int = max(0, kernel.shared_bytes - static)
        if static + dynamic > device.shared_bytes:
            raise UsageError(
                f"kernel '{kernel.name}' needs more shared memory than a block has",
                found=f"{static + dynamic} bytes",
                hint=f"device {device.ordinal} has {device.shared_bytes}",
            )
        if dynamic and static + dynamic > _STATIC_BYTES:
            call(
                "cuFuncSetAttribute",
                function,
                attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                dynamic,
                device=device,
            )
        return dynamic


def _launcher(
    module: CudaModule, kernel: DeviceKernel, function: Any, dynamic: int
) -> Callable[..., None]:
    """A function that launches one kernel; several threads may call it at once.

    A closure, whose variables cost less than attributes: a launch takes a few microseconds.
    """
    device = module.device
    launch_kernel = device.driver.api.cuLaunchKernel
    wide = [is_by_value(b) and b.dtype.bytes > 8 for b in kernel.buffers]
    sizes = [*(16 if is_wide else 8 for is_wide in wide), *(8 for _ in kernel.scalars)]
    kinds = "".join("16s" if is_wide else "Q" for is_wide in wide)
    pack = Struct(f"<{kinds}{len(kernel.scalars)}q").pack_into
    a, b, c = kernel.block
    free: list[tuple[memoryview, Address]] = []  # memory for arguments, of launches that are done

    def launch(stream: int, x: int, y: int, z: int, *values: int) -> None:
        # The driver reads the arguments while other threads of Python run: each launch has its own.
        try:
            arguments = free.pop()
        except IndexError:
            arguments = _arguments(sizes)
        pack(arguments[0], 0, *values)
        (status,) = launch_kernel(function, x, y, z, a, b, c, dynamic, stream, arguments[1], 0)
        free.append(arguments)
        if status != 0:
            # To name the device here refers to the module, too, and so keeps the code.
            doing = f"kernel '{kernel.name}' on a grid of {x} x {y} x {z} blocks"
            raise module.device.driver.error(status, doing, module.device)

    return launch


def _arguments(sizes: list[int]) -> tuple[memoryview, Address]:
    """Memory for the values of a launch, and the address of the array of their addresses."""
    assert sys.byteorder == "little", "parameters of 4 bytes lie at the start of their places"
    values = np.zeros(max(1, sum(sizes) // 8), dtype=np.uint64)
    places = np.cumsum([int(data_address(values)), *sizes[:-1]], dtype=np.uint64)
    return values.data, data_address(places)


def _unload(device: CudaDevice, handle: Any) -> None:
    with device.current():
        device.driver.api.cuModuleUnload(handle)  # fails after a fault of a kernel, to no harm
