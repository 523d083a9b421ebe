"""Unproven: the verdict on a contraction's plan after which its loops run in plain order."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["Unproven", "unproven"]


class Unproven(Exception):  # noqa: N818, a verdict and no error
    """Raised when the proof of a plan would take too long, or is at fault."""


def unproven(error: Exception) -> NoReturn:
    """Raise Unproven for a proof that was given up."""
    raise Unproven(str(error)) from error
