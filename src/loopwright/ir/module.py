"""Module: emitted code and what a caller must know to run it. No tool has been called yet."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Module"]


@dataclass(frozen=True, slots=True)
class Module:
    """The text of one kernel in a target's language.

    The entry takes (launch, team, thread, buffer...): `launch` points to the int64 scalars, `team`
    to the thread team (see backends/llvm_team), `thread` is the number of the calling thread.
    `<entry>_scratch(launch)` and `<entry>_private(launch)` return the bytes of scratch memory the
    call needs once and once per thread.
    """

    language: str  # "llvm"
    text: str
    entry: str  # name of the kernel's function
    buffers: tuple[str, ...]  # names of the array arguments in call order
    scalars: tuple[str, ...]  # names of the launch values in order
    is_plain: bool = False  # see LoopNest
    # The same text as two modules: plain loops, and procedures that are to be taken as they stand.
    apart: tuple[str, str] | None = None
