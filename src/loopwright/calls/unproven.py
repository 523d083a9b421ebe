"""Unproven: the verdict on a contraction's plan after which its loops run in plain order."""

from __future__ import annotations

__all__ = ["Unproven"]


class Unproven(Exception):  # noqa: N818, a verdict and no error
    """Raised when the proof of a plan would take too long, or is at fault."""
