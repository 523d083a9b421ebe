"""How long launches take on a device, by events in their stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loopwright.runtime.cuda_driver import CudaDevice, cuda_device

__all__ = ["CudaEvent", "time_launches"]


class CudaEvent:
    """A point in the work of a stream."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        with device.current():
            default = device.driver.api.CUevent_flags.CU_EVENT_DEFAULT
            self._handle: Any = device.driver.call("cuEventCreate", default, device=device)

    def record(self, stream: int = 0) -> None:
        """Set the event behind what is on the stream by now."""
        with self._device.current():
            self._device.driver.call("cuEventRecord", self._handle, stream, device=self._device)

    def elapsed(self, since: CudaEvent) -> float:
        """Seconds from another event to this one. Waits for both."""
        call = self._device.driver.call
        with self._device.current():
            call("cuEventSynchronize", self._handle, device=self._device)
            milliseconds = call(
                "cuEventElapsedTime", since._handle, self._handle, device=self._device
            )
        return float(milliseconds) * 1e-3

    def close(self) -> None:
        """Give the event back to the driver."""
        with self._device.current():
            self._device.driver.call("cuEventDestroy", self._handle, device=self._device)


def time_launches(
    launch: Callable[[], object],
    repeats: int = 20,
    stream: int = 0,
    device: CudaDevice | None = None,
    warm_up: int = 3,
) -> list[float]:
    """Seconds that each of `repeats` calls of `launch` takes on the device, after `warm_up` more.

    A call shorter than the host takes to launch it is timed as that: let it launch many.
    """
    device = cuda_device() if device is None else device
    events: list[CudaEvent] = []
    for _ in range(warm_up):
        launch()
    try:
        events = [CudaEvent(device) for _ in range(2 * repeats)]
        for start, end in zip(events[::2], events[1::2], strict=True):
            start.record(stream)
            launch()
            end.record(stream)
        return [end.elapsed(start) for start, end in zip(events[::2], events[1::2], strict=True)]
    finally:
        for event in events:
            event.close()
