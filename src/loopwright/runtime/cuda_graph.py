"""Calls of many launches as graphs of CUDA: recorded once, replayed in one go.

A launch costs the host some microseconds, a kernel of a replayed graph a fraction of one. A graph
holds the arguments of its kernels, so it serves calls with the same arrays and sizes: those of a
loop in time, say, or of an iterative method.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from loopwright.diagnostics import LoopwrightError
from loopwright.runtime.cuda_driver import CudaDevice

__all__ = ["CudaGraph"]


class CudaGraph:
    """What `record(stream)` launches in a stream, to be launched again."""

    def __init__(self, device: CudaDevice, record: Callable[[int], None]) -> None:
        self._device = device
        driver = device.driver
        call, api = driver.call, driver.api
        flags = api.CUstream_flags.CU_STREAM_NON_BLOCKING
        stream = call("cuStreamCreate", flags, device=device)
        try:
            mode = api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
            call("cuStreamBeginCapture", stream, mode, device=device)
            try:
                record(int(stream))
            finally:
                graph = call("cuStreamEndCapture", stream, device=device)
            self._graph = call("cuGraphInstantiate", graph, 0, device=device)
            call("cuGraphDestroy", graph, device=device)
        finally:
            call("cuStreamDestroy", stream, device=device)

    def launch(self, stream: int) -> None:
        """Launch all of it, in the order in which it was recorded."""
        self._device.driver.call("cuGraphLaunch", self._graph, stream, device=self._device)

    def __del__(self) -> None:
        # What runs at the moment is finished by the driver.
        with contextlib.suppress(LoopwrightError, AttributeError), self._device.current():
            self._device.driver.call("cuGraphExecDestroy", self._graph, device=self._device)
