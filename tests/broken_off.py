"""Work that is broken off after each of its calls in turn, as handlers of signals break it off."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["Broken", "broken_off"]

_MOMENTS = ("call", "c_return")  # a function of Python begins, one of C has returned


class Broken(BaseException):
    """Raised where the work is broken off."""


def broken_off(work: Callable[[], Any], step: int = 1) -> Iterator[int]:
    """Do `work` again and again, broken off at one moment later each time, until it gets through.

    Yields the number of the moment after each time. Python handles signals at these moments.
    """
    at = 0
    is_through = False
    while not is_through:
        at += step
        left = at

        def watch(*event: Any) -> None:
            nonlocal left
            left -= event[1] in _MOMENTS
            if left == 0:
                raise Broken

        sys.setprofile(watch)
        try:
            work()
            is_through = True
        except Broken:
            pass
        finally:
            sys.setprofile(None)
        yield at
