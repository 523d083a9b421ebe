"""What a terminal shows while something long is done: a line that is drawn over and over."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TextIO

from loopwright import clock

__all__ = ["ProgressBar", "StatusLine"]

_CELLS = 24
_PAUSE = 0.1  # seconds between two drawings: drawing must not cost more than the work


class StatusLine:
    """The last line of a terminal, replaced by each text shown; use it in `with`.

    On a stream that is no terminal nothing is shown, or every text is a line of its own (`lines`).
    """

    def __init__(
        self, stream: TextIO | None = None, *, shown: bool | None = None, lines: bool = False
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self.is_shown = self._stream.isatty() if shown is None else shown
        self._has_lines = lines and not self.is_shown
        self._drawn = ""

    def show(self, text: str) -> None:
        """Replace what is shown."""
        if self._has_lines:
            print(f"  {text}", file=self._stream, flush=True)
        elif self.is_shown and text != self._drawn:
            self._stream.write("\r" + text.ljust(len(self._drawn)))
            self._stream.flush()
            self._drawn = text

    def __enter__(self) -> StatusLine:
        return self

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


class ProgressBar:
    """Shows `label [####    ] 50%` on a terminal; call it with (done, total), use it in `with`."""

    def __init__(self, label: str, stream: TextIO | None = None, *, shown: bool | None = None):
        self._label = label
        self._line = StatusLine(stream, shown=shown)
        self._next = 0.0

    def __call__(self, done: int, total: int) -> None:
        """Show how much is done, if the last drawing is old enough or all is done."""
        now = clock.now()
        if not self._line.is_shown or (now < self._next and done < total):
            return
        self._next = now + _PAUSE
        share = min(done / total, 1.0) if total else 1.0
        self._line.show(f"{self._label} [{'#' * int(share * _CELLS):<{_CELLS}}] {share:4.0%}")

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._line.__exit__(kind, error, trace)
