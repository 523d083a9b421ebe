"""The clock of budgets and measurements, in one place so that tests can set it by hand.

Whoever asks for the time calls `clock.now()` or `clock.spent()` and waits by `clock.wait(...)`, by
the module and not by names imported from it, so that another function in their place counts
everywhere.
"""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["now", "spent", "wait"]

now = time.perf_counter  # seconds since some moment
spent = time.thread_time  # seconds of the processor that this thread has used


class _Readable(Protocol):
    def poll(self, timeout: float) -> bool: ...


def wait(connection: _Readable, seconds: float) -> bool:
    """Whether something comes that can be read within `seconds`."""
    return connection.poll(seconds)
