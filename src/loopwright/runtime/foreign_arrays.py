"""Arrays of other libraries that lie in this process's memory: views in, results of their kind out.

An array is another library's where it has `__dlpack__` or `__array_interface__` and is none of
NumPy's. What makes arrays of its kind is its namespace of the array API standard, or the package of
its type, as long as that has `from_dlpack` (PyTorch); without either, results are NumPy's. No way
copies elements.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass

__all__ = ["ArrayLibrary", "array_view", "library_of"]


@dataclass(frozen=True, slots=True)
class ArrayLibrary:
    """A library with arrays of its own."""

    namespace: Any  # a module with from_dlpack; None where results stay NumPy's

    def views(self, values: Iterable[Any], what: str, first: int = 1) -> tuple[Any, ...]:
        """The values, each array of another library as NumPy's view of its elements.

        Errors name a value by `what` it is and its number, counted from `first`.
        """
        return tuple(
            array_view(value, f"{what} {number}") if _is_foreign(value) else value
            for number, value in enumerate(values, first)
        )

    def in_kind(self, result: Any) -> Any:
        """A result of NumPy as an array of the library; tuples by their parts, None as it is.

        A number is an array without axes. What the library cannot have without a copy, it has as
        one.
        """
        if isinstance(result, tuple):
            return tuple(self.in_kind(part) for part in result)
        if self.namespace is None or not isinstance(result, np.ndarray | np.generic):
            return result
        array = np.asarray(result)
        if min(array.strides, default=0) < 0 or not array.flags.writeable:
            array = array.copy()
        return self.namespace.from_dlpack(array)


def library_of(values: Iterable[Any]) -> ArrayLibrary | None:
    """The library of the first value that has one of its own; None where all arrays are NumPy's."""
    foreign = [value for value in values if _is_foreign(value)]
    for value in foreign:
        namespace = _namespace(value)
        if namespace is not None:
            return ArrayLibrary(namespace)
    return ArrayLibrary(None) if foreign else None


def array_view(value: Any, what: str) -> np.ndarray[Any, np.dtype[Any]]:
    """An array of another library as NumPy's view of its elements; raises UsageError."""
    if _is_lazily_negative(value):
        # PyTorch hands over the elements without the sign that is still to be applied.
        hint = "resolve_neg() makes a tensor of the negated numbers"
        raise UsageError(f"{what} stands for the negative of its elements", hint=hint)
    try:
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
        return np.asarray(value)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        # The library says it best: gradients, types that NumPy has not, other devices.
        found = f"{type(value).__name__}: {error}"
        raise UsageError(f"{what} is no array of numbers", found) from error


def _is_lazily_negative(value: Any) -> bool:
    ask = getattr(value, "is_neg", None)
    return callable(ask) and ask() is True


def _is_foreign(value: Any) -> bool:
    if isinstance(value, np.ndarray | np.generic | type):
        return False
    return hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__")


def _namespace(value: Any) -> Any | None:
    ask = getattr(value, "__array_namespace__", None)
    if ask is not None:
        found = ask()
    else:
        package, _, _ = type(value).__module__.partition(".")
        found = sys.modules.get(package)
    return found if hasattr(found, "from_dlpack") else None
