"""A line that grows while something long is done; silent where nobody watches a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TextIO

__all__ = ["ProgressBar"]

_CELLS = 24
_PAUSE = 0.1  # seconds between two drawings: drawing must not cost more than the work


class ProgressBar:
    """Draws `label [####    ] 50%` on a terminal; call it with (done, total), use it in `with`."""

    def __init__(self, label: str, stream: TextIO | None = None, *, shown: bool | None = None):
        self._label = label
        self._stream = sys.stderr if stream is None else stream
        self._shown = self._stream.isatty() if shown is None else shown
        self._drawn = ""
        self._next = 0.0

    def __enter__(self) -> ProgressBar:
        return self

    def __call__(self, done: int, total: int) -> None:
        """Draw how much is done, if the last drawing is old enough or all is done."""
        now = time.monotonic()
        if not self._shown or (now < self._next and done < total):
            return
        self._next = now + _PAUSE
        share = min(done / total, 1.0) if total else 1.0
        line = f"{self._label} [{'#' * int(share * _CELLS):<{_CELLS}}] {share:4.0%}"
        if line != self._drawn:
            self._stream.write("\r" + line)
            self._stream.flush()
            self._drawn = line

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wipe the line, so that results and messages stand alone."""
        if self._drawn:
            self._stream.write("\r" + " " * len(self._drawn) + "\r")
            self._stream.flush()
