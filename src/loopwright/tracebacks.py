"""Tracebacks of user errors end at the user's call: our frames below it tell nothing that helps.

LOOPWRIGHT_FULL_TRACEBACKS=1 keeps them all; an InternalError, which is ours to mend, keeps its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, TypeVar

from loopwright import options
from loopwright.diagnostics import InternalError, LoopwrightError, UsageError

__all__ = ["hide_frames", "public_edge"]

P = ParamSpec("P")
R = TypeVar("R")

# Context managers and wrappers of the standard library stand between frames of ours.
_HIDDEN = ("loopwright", "contextlib", "functools")


def public_edge(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, with the tracebacks of its refusals ending at its caller."""

    @functools.wraps(function)
    def edge(*args: P.args, **named: P.kwargs) -> R:
        try:
            return function(*args, **named)
        except LoopwrightError as error:
            hide_frames(error)
            raise

    return edge


def hide_frames(error: LoopwrightError) -> None:
    """Take our frames out of the traceback of an error and of those it came from.

    To be called in the `except` clause of a public function, before a bare `raise`: that one does
    not enter the function itself into the traceback again. Frames of a user's own functions that
    we called, such as the operators of a semiring, stay.
    """
    if isinstance(error, InternalError) or _are_wanted():
        return
    linked: BaseException | None = error
    seen: set[int] = set()
    while linked is not None and id(linked) not in seen:
        seen.add(id(linked))
        if not isinstance(linked, InternalError):
            linked.__traceback__ = _users(linked.__traceback__)
        linked = linked.__cause__ or linked.__context__


def _are_wanted() -> bool:
    try:
        return options.current().full_tracebacks
    except UsageError:  # the options themselves may be what is wrong
        return False


def _users(traceback: TracebackType | None) -> TracebackType | None:
    """The frames that are not ours, in the same order."""
    frames = []
    while traceback is not None:
        if traceback.tb_frame.f_globals.get("__name__", "").partition(".")[0] not in _HIDDEN:
            frames.append(traceback)
        traceback = traceback.tb_next
    kept: TracebackType | None = None
    for entry in reversed(frames):
        kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept
