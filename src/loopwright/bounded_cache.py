"""A dict that holds so many entries at most: what a process remembers of earlier calls."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["BoundedCache"]

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """A dict that forgets the older half of its entries when it is full.

    To find an entry costs what it costs in a dict. Half goes at a time: a process whose calls come
    round in more ways than it holds would else forget with every call the one that comes next, and
    to forget all at once would make every call slow at the same moment. Several threads may use it
    at once. What an entry holds must not be freed with the entry while a call uses it: see
    runtime/address for code and memory.
    """

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= self._most and key not in self:
            # The list is made in one step, so that no other thread changes the dict meanwhile.
            for old in list(self)[: -(-self._most // 2)]:
                self.pop(old, None)
        super().__setitem__(key, value)
