"""The seconds that a compilation may take before it ends with an error (ADR 85).

What is counted is the processor time of the thread that compiles: a busy machine ends nothing. A
compilation asks for it between its stages, passes and analyses and wherever a quota of isl begins,
so that no signal is needed. A single call of isl may take longer: commands answer signals then.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from loopwright import clock, options
from loopwright.diagnostics import TimeLimitError

__all__ = ["require_time", "stage", "time_limit"]

_HINT = "simpler conditions, or several functions; {}=0 for no limit"
_local = threading.local()


class _Compilation:
    """A compilation under way on this thread."""

    __slots__ = ("end", "error", "name", "seconds", "stage")

    def __init__(self, name: str, seconds: int) -> None:
        self.name = name
        self.seconds = seconds
        self.end = clock.spent() + seconds
        self.stage = "analysed"
        self.error: TimeLimitError | None = None


@contextmanager
def time_limit(name: str) -> Iterator[None]:
    """Raise TimeLimitError where compiling `name` in this block takes more than its seconds.

    A block inside another one belongs to it. Whoever catches the error inside changes nothing: it
    is raised again at the end, so that no fallback is chosen by a clock.
    """
    seconds = options.current().compile_seconds
    if seconds == 0 or _under_way() is not None:
        yield
        return
    compilation = _Compilation(name, seconds)
    _local.compilation = compilation
    try:
        yield
    finally:
        _local.compilation = None
        if compilation.error is not None:
            raise compilation.error


@contextmanager
def stage(word: str) -> Iterator[None]:
    """Name what is done in this block, such as "planned", in the error of a limit; check it."""
    compilation = _under_way()
    if compilation is None:
        yield
        return
    require_time()
    before, compilation.stage = compilation.stage, word
    try:
        yield
        require_time()
    finally:
        compilation.stage = before


def require_time() -> None:
    """Raise TimeLimitError where the compilation on this thread has used up its seconds."""
    compilation = _under_way()
    if compilation is None or clock.spent() <= compilation.end:
        return
    if compilation.error is None:
        what, seconds = compilation.name, compilation.seconds
        hint = _HINT.format(options.variable("compile_seconds"))
        compilation.error = TimeLimitError(what, compilation.stage, seconds, hint)
    raise compilation.error


def _under_way() -> _Compilation | None:
    found: _Compilation | None = getattr(_local, "compilation", None)
    return found
