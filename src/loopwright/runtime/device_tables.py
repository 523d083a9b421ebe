"""Tables in the memory of a device: written once, read by launches in any stream.

Memory goes back to the driver when the table is forgotten, once all launches that read it are done;
of a table that is part of a graph it never does, as a graph does not say when it goes.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.runtime.address import data_address
from loopwright.runtime.cuda_driver import CudaDevice
from loopwright.runtime.cuda_transfers import transfer_stream

__all__ = ["DeviceTable", "is_captured", "refuse_capture"]

_captured: set[DeviceTable] = set()
_LAST_NAMED = 2  # the default streams are 0 to 2; no graph captures them


def is_captured(device: CudaDevice, stream: int) -> bool:
    """Whether what is launched on a stream becomes part of a graph."""
    if stream <= _LAST_NAMED:
        return False
    api = device.driver.api
    found = device.driver.call("cuStreamIsCapturing", stream, device=device)
    return bool(found != api.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE)


class DeviceTable:
    """An array of the host, copied to a device."""

    def __init__(self, device: CudaDevice, data: np.ndarray[Any, np.dtype[Any]]) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._events: dict[int, Any] = {}  # of the last launch in each stream
        stream = transfer_stream(device)
        source = np.ascontiguousarray(data)
        with device.current():
            self.pointer = device.allocate(stream, source.nbytes)
            device.driver.call(
                "cuMemcpyHtoDAsync",
                self.pointer,
                data_address(source),
                source.nbytes,
                stream,
                device=device,
            )
            # Once for each table; from then on it is there for all streams.
            device.synchronize(stream)
        free = weakref.finalize(self, _release, device, self.pointer, self._events)
        free.atexit = False  # the driver has gone by then

    def used(self, stream: int) -> None:
        """Note that launches on a stream up to now read the table."""
        device = self._device
        if is_captured(device, stream):
            _captured.add(self)
            return
        call = device.driver.call
        with device.current(), self._lock:
            event = self._events.get(stream)
            if event is None:
                flags = device.driver.api.CUevent_flags.CU_EVENT_DISABLE_TIMING
                event = self._events[stream] = call("cuEventCreate", flags, device=device)
            call("cuEventRecord", event, stream, device=device)


def refuse_capture(device: CudaDevice, stream: int, what: str) -> None:
    """Refuse to make what a graph would make anew each time it runs."""
    if is_captured(device, stream):
        raise UsageError(
            f"{what} has no tables yet, which cannot be made while a graph is captured",
            hint="call it once before the capture begins",
        )


def _release(device: CudaDevice, pointer: int, events: dict[int, Any]) -> None:
    """Free memory behind the launches that read it, in the stream of transfers."""
    stream, api = transfer_stream(device), device.driver.api
    with device.current():
        # After a fault of a kernel nothing can be freed, to no harm.
        for event in events.values():
            api.cuStreamWaitEvent(stream, event, 0)
            api.cuEventDestroy(event)
        api.cuMemFreeAsync(pointer, stream)
