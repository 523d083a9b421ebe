"""Calls that compile anew though this process holds their kernels."""

import pytest

from loopwright import kernels
from loopwright.memo import BoundedCache, SharedWhileUsed


def forget_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the kernels in memory until the test ends, those in use included."""
    monkeypatch.setattr(kernels, "_kernels", BoundedCache(1024))
    monkeypatch.setattr(kernels, "_loaded", SharedWhileUsed())
