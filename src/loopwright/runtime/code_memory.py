"""Machine code in this process: its bytes, their limit, and the caches that give it back.

Code stays loaded while a callable refers to it: those of the user do as long as they live, those
that caches hold do to save time. Before code is loaded that would exceed LOOPWRIGHT_CODE_LIMIT,
the caches forget the older half of what they hold, then all of it; what users hold stays.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Protocol, TypeVar

from loopwright import options
from loopwright.lazy_dataclass import dataclass
from loopwright.log import log

__all__ = ["CodeState", "bounded", "code_state", "count_code", "keeps_code", "make_room"]

_PAGE = 4096
# Records of LLVM and Python beside the pages of code: a process grows by 70 to 90 KB for each
# kernel that stays (measured, loops of one statement).
_RECORDS = 64 << 10


class BoundedCode(Protocol):
    """A cache whose entries keep code loaded."""

    def forget_older(self) -> None:
        """Forget the older half of the entries."""

    def clear(self) -> None:
        """Forget all entries."""


class _Clearable(Protocol):
    def cache_clear(self) -> None: ...


Cache = TypeVar("Cache", bound=BoundedCode)
Cached = TypeVar("Cached", bound=_Clearable)


@dataclass(frozen=True, slots=True)
class CodeState:
    """What is loaded now."""

    kernels: int  # objects and libraries
    bytes: int  # of their pages and records
    limit: int


_older: list[Callable[[], None]] = []
_all: list[Callable[[], None]] = []
# The callback of these references is a function of C, which no handler of a signal breaks off.
_sizes: dict[weakref.ref[object], int] = {}
_gone: list[weakref.ref[object]] = []
_pinned = 0  # the most bytes that remain where all caches are empty


def bounded(cache: Cache) -> Cache:
    """Register a cache of code: it forgets its entries where they exceed the limit."""
    _older.append(cache.forget_older)
    _all.append(cache.clear)
    return cache


def keeps_code(cached: Cached) -> Cached:
    """Register a function under `lru_cache`, likewise: what it returns keeps code loaded."""
    _all.append(cached.cache_clear)
    return cached


def count_code(owner: object, size: int) -> None:
    """Count code of `size` bytes as long as `owner` lives."""
    _sizes[weakref.ref(owner, _gone.append)] = _counted(size)


def code_state() -> CodeState:
    """The code that is loaded now."""
    used = _used()
    return CodeState(len(_sizes), used, options.current().code_limit)


def make_room(size: int) -> None:
    """Have caches forget code where `size` more bytes would exceed the limit."""
    if _fits(size):
        return
    before, most = _used(), options.current().code_limit - _counted(size)
    for forgets in (_older, _all):
        for forget in list(forgets):
            forget()
        if _used() > most:
            gc.collect()  # functions and what they compiled to refer to each other
        if _used() <= most:
            break
    else:
        global _pinned
        _pinned = _used()
    after = _used()
    log("cache", lambda: f"code given back: {before - after} bytes, {after} bytes stay")


def _fits(size: int) -> bool:
    """Whether `size` more bytes are within the limit.

    Bytes that only users hold cannot be given back: a quarter of the limit is left beyond them, or
    every kernel would empty all caches again.
    """
    global _pinned
    used, limit = _used(), options.current().code_limit
    _pinned = min(_pinned, used)
    return used + _counted(size) <= max(limit, _pinned + limit // 4)


def _counted(size: int) -> int:
    return -(-size // _PAGE) * _PAGE + _RECORDS


def _used() -> int:
    while _gone:
        _sizes.pop(_gone.pop(), None)
    return sum(list(_sizes.values()))
