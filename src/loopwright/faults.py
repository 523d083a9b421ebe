"""What happens when our own planning is at fault: an error in strict mode, else a simpler plan.

A planner or a lowering that fails on a correct program is a fault of ours. In strict mode
(LOOPWRIGHT_STRICT, set by tests) it is raised. Otherwise whoever meets it calls `survive` and goes
on with less: without the planner that failed, with the plain loops of a contraction, or in source
order. The fault is told under LOOPWRIGHT_LOG=plan and counted for `loopwright info`, in a file of
the cache's folder that outlives this process.
"""

from __future__ import annotations

import os

from loopwright import options
from loopwright.diagnostics import IllegalStep, InternalError, LoopwrightError
from loopwright.lazy_dataclass import dataclass
from loopwright.log import log

__all__ = ["FAULTS", "Faults", "recorded_faults", "survive"]

# What a faulty planner or lowering may end in. Errors of users are of these classes as well:
# `survive` raises them again.
FAULTS = (
    AssertionError,
    ArithmeticError,
    AttributeError,
    IllegalStep,
    InternalError,
    LookupError,
    NameError,
    RuntimeError,
    StopIteration,
    TypeError,
    ValueError,
)
_FILE = "faults.txt"
_MOST_BYTES = 1 << 16  # of the file; a fault beyond is not written down
_MOST_LETTERS = 200


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults that calls of this user have survived."""

    count: int
    last: str  # the newest one; empty when there is none


def survive(error: Exception, where: str) -> None:
    """Return, so that the caller goes on with a simpler plan after a fault of ours.

    Raises `error` in strict mode, and when it is not our fault: what is wrong with a program or a
    call is told to its writer. `where` names what failed, such as "plan_contractions of 'gemm'".
    """
    is_users = isinstance(error, LoopwrightError) and not isinstance(
        error, InternalError | IllegalStep
    )
    if is_users or options.current().strict:
        raise error
    told = _line(error, where)
    log("plan", lambda: f"a fault of ours was passed over, {told}")
    if options.current().cache:
        _record(told)


def recorded_faults() -> Faults:
    """What `survive` has written down, in this and in earlier processes."""
    try:
        with open(options.cache_dir() / _FILE, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file.read(2 * _MOST_BYTES).splitlines()]
    except OSError:
        return Faults(0, "")
    found = [line for line in lines if line]
    return Faults(len(found), found[-1] if found else "")


def _line(error: Exception, where: str) -> str:
    """The fault in one line of bounded length."""
    reason = " ".join(str(error).split())
    text = f"{where}: {type(error).__name__}{reason and f': {reason}'}"
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 3]}..."


def _record(line: str) -> None:
    """Append a line to the file of faults; a disk that does not take it costs the line only."""
    directory = options.cache_dir()
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(directory / _FILE, flags, 0o600)
        try:
            if os.fstat(handle).st_size < _MOST_BYTES:
                os.write(handle, f"{line}\n".encode(errors="replace"))
        finally:
            os.close(handle)
    except OSError:
        return
