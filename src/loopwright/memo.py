"""What is remembered: the latest entries, facts of objects, properties computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Self, TypeVar, overload
from weakref import ref

__all__ = ["BoundedCache", "IdentityMap", "SharedWhileUsed", "computed_once"]

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
            self._forget(-(-self._most // 2))
        super().__setitem__(key, value)

    def forget_older(self) -> None:
        """Forget the older half of the entries there are."""
        self._forget(-(-len(self) // 2))

    def _forget(self, count: int) -> None:
        # The list is made in one step, so that no other thread changes the dict meanwhile.
        for old in list(self)[:count]:
            self.pop(old, None)


class SharedWhileUsed(Generic[K, V]):
    """A mapping to objects that it does not keep alive: they are shared while somebody uses them.

    What runs when an object goes is a function of C, which no handler of a signal breaks off; that
    of the standard library's mapping is one of Python. Entries are dropped when one is added.
    """

    __slots__ = ("_entries", "_gone")

    def __init__(self) -> None:
        self._entries: dict[K, _KeyedRef[K, V]] = {}
        self._gone: list[ref[V]] = []

    def get(self, key: K) -> V | None:
        """The object, if it lives."""
        found = self._entries.get(key)
        return None if found is None else found()

    def __len__(self) -> int:
        return len(self._entries)

    def __setitem__(self, key: K, value: V) -> None:
        while self._gone:
            old = self._gone.pop()
            assert isinstance(old, _KeyedRef)
            if self._entries.get(old.key) is old:
                self._entries.pop(old.key, None)
        entry: _KeyedRef[K, V] = _KeyedRef(value, self._gone.append)
        entry.key = key
        self._entries[key] = entry


class _KeyedRef(ref[V], Generic[K, V]):
    """A reference that knows the key of its entry."""

    __slots__ = ("key",)
    key: K


class IdentityMap(Generic[K, V]):
    """A mapping by identity: equal keys that are different objects have entries of their own.

    For keys that cannot be hashed, or whose hash takes long, as that of a tree does. The map holds
    its keys, so that no other object takes the address of one.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[tuple[K, V]] = ()) -> None:
        self._entries: dict[int, tuple[V, K]] = {id(key): (value, key) for key, value in entries}

    def get(self, key: K) -> V | None:
        """The value of this very object, or None."""
        try:
            return self._entries[id(key)][0]
        except KeyError:
            return None

    def values(self) -> list[V]:
        return [value for value, _ in self._entries.values()]

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return id(key) in self._entries

    def __getitem__(self, key: K) -> V:
        return self._entries[id(key)][0]

    def __setitem__(self, key: K, value: V) -> None:
        self._entries[id(key)] = value, key


T_co = TypeVar("T_co", covariant=True)


class computed_once(Generic[T_co]):  # noqa: N801 - a decorator, named like property
    """A property that is computed when first asked for and kept in the object.

    Threads that ask at the same time may each compute it; all get the same one. The cached_property
    of Python 3.11 holds a lock for each attribute of a class while it computes: two threads that
    hash terms within calls and calls within terms would wait for each other for ever, and a fork
    would copy the lock.
    """

    def __init__(self, compute: Callable[[Any], T_co]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T_co: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T_co:
        if instance is None:
            return self
        found: T_co = instance.__dict__.setdefault(self._name, self._compute(instance))
        return found
