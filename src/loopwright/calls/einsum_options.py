"""The keywords that `einsum` shares with numpy.einsum: optimize, dtype, order and casting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from loopwright.diagnostics import DtypeError, PathError, UsageError, WrongTypeError
from loopwright.ir.dtypes import DType, dtype_of
from loopwright.lazy_dataclass import dataclass
from loopwright.runtime.array_arguments import Array, as_operand

__all__ = [
    "GREEDY",
    "Groups",
    "NumpyOptions",
    "Path",
    "as_operands",
    "check_castings",
    "checked_path",
    "is_value",
    "memory_order",
    "plain_number",
    "read_options",
]

Groups: TypeAlias = tuple[tuple[int, ...], ...]  # positions that meet, as in numpy.einsum_path

_SEARCHES = ("greedy", "optimal")
_HINT = "True, False, 'greedy', 'optimal', (name, elements), or a path of einsum_path"

_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")
_ORDERS = "CFAK"


@dataclass(frozen=True, slots=True)
class Path:
    """Which order is asked for."""

    search: str = "greedy"  # one of _SEARCHES
    limit: int | None = None  # elements of an intermediate result
    groups: Groups | None = None  # an explicit path, in the place of a search


GREEDY = Path()


@dataclass(frozen=True, slots=True)
class NumpyOptions:
    """What numpy.einsum's keywords ask for, checked."""

    path: Path
    dtype: np.dtype[Any] | None = None  # of the calculation and its result; None: promoted
    order: str = "K"  # memory order of a fresh result, one of _ORDERS
    casting: str | None = None  # None: safe for operands, same_kind for out

    @property
    def are_default(self) -> bool:
        """Whether a call with them computes and lays out its result as one without them."""
        return self.dtype is None and self.order == "K" and self.casting is None


def read_options(optimize: Any, dtype: Any, order: Any, casting: Any) -> NumpyOptions:
    """Check the keywords of a call."""
    if casting is not None and casting not in _CASTINGS:
        raise UsageError("unknown casting", found=repr(casting)[:60], hint=", ".join(_CASTINGS))
    chosen = "K" if order is None else order
    if not isinstance(chosen, str):
        raise WrongTypeError("order must be a letter", found=repr(order)[:60], hint="C, F, A or K")
    if len(chosen) != 1 or chosen.upper() not in _ORDERS:
        raise UsageError("unknown order", found=repr(order)[:60], hint="C, F, A or K")
    try:
        found = None if dtype is None else np.dtype(dtype)
    except TypeError:
        raise DtypeError("dtype is no dtype", found=repr(dtype)[:60]) from None
    return NumpyOptions(checked_path(optimize), found, chosen.upper(), casting)


def checked_path(optimize: Any) -> Path:
    """What numpy.einsum's `optimize` asks for; nothing, False and True ask for the greedy order."""
    if optimize is None or isinstance(optimize, bool):
        return GREEDY
    if isinstance(optimize, str):
        return Path(_search(optimize))
    if not isinstance(optimize, list | tuple) or not optimize:
        raise WrongTypeError("optimize is no path", found=repr(optimize)[:60], hint=_HINT)
    first, *rest = optimize
    if first == "einsum_path":
        return Path(groups=tuple(map(_group, rest)))
    if isinstance(first, str) and len(rest) == 1 and isinstance(rest[0], int | float):
        return Path(_search(first), int(rest[0]))
    raise WrongTypeError("optimize is no path", found=repr(optimize)[:60], hint=_HINT)


def _search(name: str) -> str:
    if name not in _SEARCHES:
        raise UsageError("optimize names no search", found=repr(name)[:60], hint=_HINT)
    return name


def _group(group: Any) -> tuple[int, ...]:
    """One step of an explicit path: the positions of the operands that meet."""
    is_group = isinstance(group, list | tuple) and len(group) > 0
    if not is_group or not all(isinstance(x, int | np.integer) and x >= 0 for x in group):
        hint = "tuples of positions, counted from 0 as in numpy.einsum_path"
        raise WrongTypeError("a path holds groups", found=repr(group)[:60], hint=hint)
    if len(set(group)) < len(group):
        raise PathError("a path takes an operand twice", found=repr(tuple(group))[:60])
    return tuple(map(int, group))


def as_operands(operands: Sequence[Any], options: NumpyOptions) -> tuple[Array, ...]:
    """The operands as arrays that kernels can read, converted to `dtype` where that loses values.

    Kernels convert what they load, so an operand that `dtype` can hold is left as it is.
    """
    names = [f"operand {number}" for number in range(1, len(operands) + 1)]
    if options.dtype is None:
        return tuple(map(as_operand, operands, names))
    dtype_of(options.dtype)
    return tuple(
        as_operand(_converted(value, name, options.dtype, options.casting or "safe"), name)
        for value, name in zip(operands, names, strict=True)
    )


def _converted(value: Any, name: str, dtype: np.dtype[Any], casting: Any) -> Any:
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    _check_cast(array.dtype, dtype, casting, name)
    return array if np.can_cast(array.dtype, dtype, "safe") else array.astype(dtype)


def check_castings(arrays: tuple[Array, ...], result: DType, options: NumpyOptions) -> None:
    """Refuse operands that the rule does not let become `result`."""
    if options.casting is not None and options.dtype is None:
        for number, array in enumerate(arrays, 1):
            _check_cast(array.dtype, result.numpy, options.casting, f"operand {number}")


def _check_cast(source: np.dtype[Any], target: np.dtype[Any], casting: Any, name: str) -> None:
    if not np.can_cast(source, target, casting):
        raise DtypeError(
            f"{name} has dtype {source}, which does not become {target} by the rule '{casting}'",
            hint="another casting= or dtype=",
        )


def memory_order(arrays: tuple[Array, ...], order: str) -> Any:
    """C or F for a fresh result; K, which promises nothing for sums of products, is C."""
    if order == "A":
        return "F" if all(a.flags.f_contiguous for a in arrays) else "C"
    return "F" if order == "F" else "C"


# -- the factors alpha and beta of a call: plain numbers that the sums can hold -------------------


Number: TypeAlias = bool | int | float | complex


def plain_number(value: Any, what: str) -> Number:
    """`value` as a number of Python; NumPy's scalars and arrays of rank 0 stand for theirs."""
    if isinstance(value, np.generic | np.ndarray) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, bool | int | float | complex):
        raise UsageError(f"{what} must be a number", found=repr(value))
    return value


def is_value(number: Number, dtype: DType) -> bool:
    """Whether a number can be written in `dtype`, up to rounding."""
    if isinstance(number, complex):
        return dtype.is_complex
    if not (dtype.is_integer or dtype.kind == "b"):
        return True
    if isinstance(number, float) and not number.is_integer():
        return False
    limits = np.iinfo(dtype.name) if dtype.is_integer else None
    low, high = (0, 1) if limits is None else (limits.min, limits.max)
    return bool(low <= number <= high)
