"""How the front ends refuse what is outside their language: raised below, reported above."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

__all__ = ["Refusal", "Reported", "did_you_mean", "wrong_rank"]


class Refusal(Exception):  # noqa: N818, not an error of ours: it becomes a Diagnostic
    """A part of the source that is refused; the caller knows its location and reports it."""

    def __init__(self, code: str, message: str, found: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.found = found
        self.hint = hint


class Reported(Exception):  # noqa: N818, as above
    """Part of what is being read was refused and has been reported."""


def wrong_rank(name: str, rank: int, count: int) -> Refusal:
    """The refusal of an element with `count` subscripts of an array of another rank."""
    return Refusal(
        "LW111",
        f"'{name}' has {rank} dimension{'s' if rank != 1 else ''}",
        found=f"{count} subscript{'s' if count != 1 else ''}",
        hint="write one subscript per dimension",
    )


def did_you_mean(name: str, known: Sequence[str], otherwise: str) -> str:
    """The hint for an unknown name: the known one that is spelled most alike, or `otherwise`."""
    near = get_close_matches(name, known, 1)
    return f"did you mean '{near[0]}'?" if near else otherwise
