"""`prange`: a range whose iterations are claimed to be independent."""

from __future__ import annotations

__all__ = ["prange"]


def prange(*bounds: int) -> range:
    """`range(*bounds)`; compiled, it claims that no iteration touches what another one writes.

    A claim that is wrong is refused. One that cannot be proven is no claim: the iterations run in
    order, and `explain` says so.
    """
    return range(*bounds)
