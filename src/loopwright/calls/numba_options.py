"""The options of numba.jit on `jit`: what each one means here, or what to use in its place."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from loopwright.diagnostics import UsageError, WrongTypeError

__all__ = ["NUMBA_OPTIONS", "disk_cache_wanted", "reassociation", "refuse_others", "team"]

NUMBA_OPTIONS = ("parallel", "fastmath", "cache", "nogil", "nopython", "boundscheck")

# Options that mean nothing here, with what a user of them wants to know.
_INSTEAD = {
    "forceobj": "on_unsupported='python' runs in Python what cannot be compiled",
    "looplift": "on_unsupported='python' runs in Python what cannot be compiled",
    "error_model": "leave it out: numbers divided by zero give what NumPy gives",
    "locals": "leave it out: types follow from the arguments of each call",
    "inline": "leave it out: functions that are called are read with their caller",
    "forceinline": "leave it out: functions that are called are read with their caller",
    "debug": "LOOPWRIGHT_DUMP=loops prints what was made, LOOPWRIGHT_INTERPRET=1 runs it slowly",
    "target": "leave it out: code is made for this machine; lw.compile has targets",
    "target_backend": "leave it out: code is made for this machine; lw.compile has targets",
}


def team(threads: int | None, parallel: Any) -> int | None:
    """The number of threads that `threads` and numba's `parallel` ask for; None: the default."""
    if parallel is None or parallel is True:
        return threads
    if parallel is not False:
        hint = "True, or False for one thread"
        raise WrongTypeError("parallel is True or False", found=repr(parallel)[:60], hint=hint)
    if threads not in (None, 1):
        raise UsageError("parallel=False means one thread", found=f"threads={threads}")
    return 1


def reassociation(reassoc: bool, fastmath: Any) -> bool:
    """Whether floating sums may be reassociated: `reassoc`, or numba's `fastmath` or a set of it.

    Nothing else of fastmath is done: NaN and infinities keep their meaning.
    """
    if isinstance(fastmath, Collection) and all(isinstance(x, str) for x in fastmath):
        return reassoc or bool({"reassoc", "fast"} & set(fastmath))
    if fastmath is None or isinstance(fastmath, bool):
        return reassoc or bool(fastmath)
    hint = "True stands for reassoc=True"
    raise WrongTypeError("fastmath is True or False", found=repr(fastmath)[:60], hint=hint)


def disk_cache_wanted(cache: Any) -> bool:
    """Whether a function may lie in the disk cache: always, but with numba's `cache=False`."""
    if cache is None or isinstance(cache, bool):
        return cache is not False
    raise WrongTypeError("cache is True or False", found=repr(cache)[:60])


def refuse_others(nopython: Any, others: dict[str, Any], known: Collection[str]) -> None:
    """Refuse numba's options that have no meaning here, and those that nobody has."""
    if nopython is not None and nopython is not True:
        raise UsageError(
            "jit compiles or refuses",
            found=f"nopython={nopython!r}"[:60],
            hint=_INSTEAD["forceobj"],
        )
    for name in others:
        hint = _INSTEAD.get(name, f"one of {', '.join(sorted({*known, *NUMBA_OPTIONS}))}")
        raise WrongTypeError(f"jit has no option '{name}'", hint=hint)
