"""What the prelude asks of memory."""

from __future__ import annotations

from typing import Any

__all__ = ["fresh"]


def fresh(a: Any) -> Any:
    """The elements of an array, which whoever gets them may have written."""
    return a.copy()
