"""How readers of C say that something is outside the language."""

from __future__ import annotations

__all__ = ["Refusal", "Reported"]


class Refusal(Exception):  # noqa: N818, not an error of ours: it becomes a Diagnostic
    """A piece of C that is refused; the caller knows where it stands."""

    def __init__(self, code: str, message: str, found: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.found = found
        self.hint = hint


class Reported(Exception):  # noqa: N818, as above
    """Part of what is being read was refused, and reported already."""
