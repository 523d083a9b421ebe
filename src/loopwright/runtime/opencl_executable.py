"""A device program on OpenCL devices: its text compiled by their driver, launched in a queue.

    executable = OpenclExecutable(program, text, context)
    executable.launch(queue, buffers, scalars)
    executable.run_from_host(arrays, scalars)

Buffers of OpenCL have no addresses: element zero of each lies at its start. Everything goes through
`pyopencl`, which is imported when it is needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from loopwright.diagnostics import DeviceError, RoomError, ToolchainError, UsageError
from loopwright.ir.device import DeviceKernel, DeviceProgram, is_by_value
from loopwright.ir.dtypes import BOOL
from loopwright.memo import BoundedCache
from loopwright.runtime.cuda_transfers import check_host_arguments
from loopwright.runtime.device_arrays import DeviceArray
from loopwright.runtime.dlpack_tensor import row_major
from loopwright.runtime.host_steps import Needs, compile_host, needs_of

__all__ = ["OpenclExecutable", "opencl_context"]

_INSTALL = "pip install 'loopwright[opencl]'"
_NARROW_REACH = 1 << 30  # as on CUDA: threads without work compute subscripts, too
_MOST_BLOCKS = (2**31 - 1,) * 3


def opencl_context(device: str | None = None) -> Any:
    """A context of one device: the first GPU, else any; or one whose name contains `device`.

    Raises UsageError where there is none.
    """
    cl = _pyopencl()
    try:
        devices = [d for platform in cl.get_platforms() for d in platform.get_devices()]
    except cl.Error as error:
        raise UsageError(
            "there is no OpenCL here",
            found=str(error),
            hint="install a driver, such as the package pocl-opencl-icd",
        ) from error
    wanted = [d for d in devices if device is None or device.lower() in d.name.lower()]
    if not wanted:
        raise UsageError(
            "there is no such OpenCL device",
            found=repr(device),
            hint=f"devices: {', '.join(d.name for d in devices) or 'none'}",
        )
    gpus = [d for d in wanted if d.type & cl.device_type.GPU]
    return cl.Context([(gpus or wanted)[0]])


class OpenclExecutable:
    """A program with its text, for the devices of one context."""

    def __init__(
        self,
        program: DeviceProgram,
        text: str,
        context: Any | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self.program = program
        self.text = text
        self.options = tuple(options)
        self.context = opencl_context() if context is None else context
        self._cl = _pyopencl()
        self._host = compile_host(program)
        self._ready: dict[type[Any], Callable[..., None]] = {}  # by the type of subscripts
        self._needs: BoundedCache[tuple[int, ...], Needs] = BoundedCache(256)
        self._lock = threading.RLock()  # kernels of OpenCL hold their arguments

    def launch(
        self, queue: Any, buffers: Sequence[Any], scalars: Sequence[int], reach: int = 0
    ) -> None:
        """Run the program on buffers of its context, in the order of a queue; does not wait.

        Numbers that are passed by value stand among the buffers, as NumPy's. `reach` is the
        greatest offset of an element: where 32 bits do not hold it, subscripts have 64.
        """
        scalars = tuple(scalars)
        needs = self._needs.get(scalars) or self._needs_of(scalars)
        is_wide = max(reach, needs.reach) >= _NARROW_REACH
        index: type[Any] = np.int64 if is_wide else np.int32
        with self._lock:
            run = self._ready.get(index) or self._make_ready(index)
            try:
                run(queue, *buffers, *scalars)
            except self._cl.Error as error:
                raise self._error(error) from error

    def run_from_host(
        self,
        arrays: Sequence[Any],
        scalars: Callable[[Sequence[DeviceArray]], Sequence[int]],
        reads: Sequence[bool] | None = None,
        queue: Any | None = None,
    ) -> None:
        """Run the program on NumPy arrays and wait for it: as cuda_transfers.run_from_host."""
        cl, buffers = self._cl, self.program.buffers
        hosts = check_host_arguments(buffers, arrays)
        needed = [True] * len(hosts) if reads is None else list(reads)
        try:
            queue = cl.CommandQueue(self.context) if queue is None else queue
            memory, views, sources = [], [], []
            for host, buffer, is_read in zip(hosts, buffers, needed, strict=True):
                if is_by_value(buffer):
                    # OpenCL passes no booleans: their kernels take bytes.
                    kind = np.uint8 if buffer.dtype == BOOL else buffer.dtype.numpy.type
                    memory.append(kind(host[()]))
                else:
                    # A buffer of no bytes cannot be had.
                    size = max(1, host.nbytes)
                    memory.append(cl.Buffer(self.context, cl.mem_flags.READ_WRITE, size))
                if is_read and host.nbytes and not is_by_value(buffer):
                    place = memory[-1]
                    source = np.ascontiguousarray(host)
                    sources.append(source)
                    cl.enqueue_copy(queue, place, source, is_blocking=False)
                views.append(
                    DeviceArray(
                        0,
                        host.shape,
                        row_major(host.shape),
                        buffer.dtype,
                        0,
                        True,
                        None,
                        "numpy",
                        host,
                    )
                )
            reach = max((view.reach for view in views), default=0)
            self.launch(queue, memory, scalars(views), reach)
            queue.finish()  # faults show here, before any array has changed
            for host, buffer, place in zip(hosts, buffers, memory, strict=True):
                if buffer.writable and host.nbytes:
                    result = host if host.flags.c_contiguous else np.empty(host.shape, host.dtype)
                    cl.enqueue_copy(queue, result, place, is_blocking=True)
                    if result is not host:
                        host[...] = result
        except cl.Error as error:
            raise self._error(error) from error

    def _needs_of(self, scalars: tuple[int, ...]) -> Needs:
        needs = needs_of(self.program, self._host, scalars, _MOST_BLOCKS)
        if needs.fault is not None:
            kernel, grid = needs.fault
            raise UsageError(
                f"kernel '{kernel}' of '{self.program.name}' needs too many blocks",
                found=" x ".join(map(str, grid)),
            )
        self._needs[scalars] = needs
        return needs

    def _make_ready(self, index: type[Any]) -> Callable[..., None]:
        built = self._built("long" if index is np.int64 else "int")
        launches = [self._launcher(built, kernel, index) for kernel in self.program.kernels]
        run = self._host(launches, self._allocate, _release)
        self._ready[index] = run
        return run

    def _built(self, index: str) -> Any:
        # No warnings: conditions that are constant, say, are those of the emitter, not of users.
        words = [f"-DLW_INDEX={index}", "-w", *self.options]
        try:
            return self._cl.Program(self.context, self.text).build(words, cache_dir=False)
        except self._cl.RuntimeError as error:
            command = ("opencl", *words, self.program.name)
            raise ToolchainError(command, str(error)) from error

    def _launcher(self, built: Any, kernel: DeviceKernel, index: type[Any]) -> Callable[..., None]:
        cl = self._cl
        function = cl.Kernel(built, kernel.name)
        a, b, c = kernel.block
        threads = a * b * c
        device = self.context.devices[0]
        most = function.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, device)
        if threads > most:
            raise UsageError(
                f"kernel '{kernel.name}' has too large blocks",
                found=f"{threads} threads",
                hint=f"'{device.name}' runs {most} in a block",
            )
        first = len(kernel.buffers)

        def launch(queue: Any, x: int, y: int, z: int, *values: Any) -> None:
            function.set_args(*values[:first], *map(index, values[first:]))
            cl.enqueue_nd_range_kernel(queue, function, (x * a, y * b, z * c), (a, b, c))

        return launch

    def _allocate(self, _: object, size: int) -> Any:
        return self._cl.Buffer(self.context, self._cl.mem_flags.READ_WRITE, max(1, size))

    def _error(self, error: Any) -> Exception:
        if isinstance(error, self._cl.MemoryError):
            return RoomError(f"'{self.program.name}' on OpenCL: {error}")
        return DeviceError(f"'{self.program.name}' on OpenCL", str(error))


def _release(_: object, memory: Any) -> None:
    memory.release()  # it lives until the queue is done with it


def _pyopencl() -> Any:
    try:
        import pyopencl  # lazy: optional, and only those who run OpenCL need it
    except ImportError as error:
        raise UsageError(
            "OpenCL needs the package pyopencl", found=str(error), hint=_INSTALL
        ) from error
    return pyopencl
