"""Properties that are computed once and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

__all__ = ["computed_once"]

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
