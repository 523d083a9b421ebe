"""What a call of a NumPy function leaves behind, and how two such outcomes differ.

An outcome is what is returned or raised and what the arguments hold afterwards. Two are equal when
types, dtypes, shapes and bits are; any two NaNs count as equal. Numbers in floating point may be
given an allowance, an absolute error for each array or number.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

import numpy as np

__all__ = [
    "Gap",
    "Outcome",
    "called",
    "difference",
    "excused",
    "gap",
    "kind_of",
    "layout_difference",
    "leaves",
    "runs_in_python",
    "with_python_numbers",
]

CAST = "invalid value encountered in cast"  # such a value is undefined in NumPy


@dataclass(frozen=True)
class Gap:
    """How far a value is from what it should be."""

    wrong: str = ""  # the difference in words; empty where it is allowed or there is none
    error: float = 0.0  # the largest, in units in the last place of the largest number beside it

    def __bool__(self) -> bool:
        return bool(self.wrong)


@dataclass(frozen=True)
class Outcome:
    """What a call returned or raised, and its arguments afterwards."""

    result: Any
    error: Exception | None
    arguments: tuple[Any, ...]
    casts: bool = False  # a number was cast to an integer type that does not hold it


def called(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    passing: tuple[type[Exception], ...] = (),
) -> Outcome:
    """Call a function without floating-point warnings; errors of the types `passing` are raised."""
    with warnings.catch_warnings(record=True) as seen, np.errstate(all="warn"):
        warnings.simplefilter("always")
        try:
            result, error = function(*arguments), None
        except passing:
            raise
        except Exception as raised:  # noqa: BLE001, whatever a call raises is part of its outcome
            result, error = None, raised
    casts = any(CAST in str(warning.message) for warning in seen)
    return Outcome(result, error, tuple(arguments), casts)


def kind_of(error: Exception | None) -> type[BaseException] | None:
    """The type of an error that users can name: of Python, or of `np.exceptions`."""
    if error is None:
        return None
    public = ("builtins", "numpy.exceptions")
    return next(kind for kind in type(error).__mro__ if kind.__module__ in public)


def with_python_numbers(found: Any, right: Any) -> Any:
    """What was returned, NumPy's numbers made Python's where Python's are right and types agree.

    Functions of numbers alone, which `jit` has always taken, return NumPy's.
    """
    if isinstance(found, tuple) and isinstance(right, tuple) and len(found) == len(right):
        pairs = zip(found, right, strict=True)
        return tuple(with_python_numbers(one, other) for one, other in pairs)
    is_number = isinstance(right, bool | int | float | complex) and not isinstance(
        right, np.generic
    )
    if is_number and isinstance(found, np.generic) and type(found.item()) is type(right):
        return found.item()
    return found


def difference(found: Outcome, right: Outcome, ulps: float = 0.0) -> str:
    """The first difference between two outcomes, in words; empty where there is none.

    `ulps` are allowed to numbers in floating point, in units in the last place of the largest one
    of the same array.
    """
    if kind_of(found.error) is not kind_of(right.error):
        return f"{_ending(found)}, not {_ending(right)}"
    pairs = zip(found.arguments, right.arguments, strict=True)
    for number, (one, other) in enumerate(pairs, start=1):
        if wrong := _gap_within(one, other, ulps).wrong:
            return f"argument {number} afterwards: {wrong}"
    if right.error is not None:
        return ""
    return _gap_within(found.result, right.result, ulps).wrong


def _ending(outcome: Outcome) -> str:
    if outcome.error is not None:
        return f"raised {type(outcome.error).__name__}: {str(outcome.error)[:200]}"
    return f"returned {_shown(outcome.result)}"


def _gap_within(found: Any, right: Any, ulps: float) -> Gap:
    limits = [ulps * _unit(np.asarray(leaf)) for leaf in leaves(right)] if ulps else None
    return gap(found, right, limits)


def _unit(values: np.ndarray) -> float:
    """The unit in the last place of the largest finite number, at the least of a normal one.

    Of what is not in floating point it is 0.
    """
    if values.dtype.kind not in "fc":
        return 0.0
    finite = np.abs(values[np.isfinite(values)])
    info = np.finfo(values.dtype)
    largest = max(float(finite.max(initial=0)), float(info.smallest_normal))
    return largest * float(info.eps)


def leaves(value: Any) -> Iterator[Any]:
    """What a result consists of, tuples and lists opened."""
    if isinstance(value, tuple | list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def excused(text: str, found: Outcome, right: Outcome) -> str:
    """The row of the table of differences in docs/python.md that excuses an outcome, or nothing.

    `text` is the function's.
    """
    if isinstance(right.error, ZeroDivisionError) and found.error is None:
        return "Python's numbers divided by zero"
    if isinstance(right.error, OverflowError) and found.error is None:
        return "an integer beyond its type"
    numbers = [leaf for leaf in leaves(right.result) if type(leaf) is int]
    if any(abs(number) >= 2**63 for number in numbers):
        return "Python's integers beyond 64 bits"
    is_extreme = any(word in text for word in ("min", "max", "clip"))
    if is_extreme and right.error is None and found.error is None:
        wrong = difference(found, right)
        if wrong and not difference(_without_signs(found), _without_signs(right)):
            return "which of two zeros"
    if right.error is None and found.error is None and _is_bound_twice(text):
        widened = replace(right, result=_widened(right.result, found.result))
        if difference(found, right) and not difference(found, widened):
            return "a name has one type"
    return ""


def _is_bound_twice(text: str) -> bool:
    """Whether some name is assigned twice."""
    stores = [n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name) and _is_store(n)]
    return len(stores) > len(set(stores))


def _is_store(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _widened(right: Any, found: Any) -> Any:
    """Python's integers as the floats of the same value that were found in their place."""
    if isinstance(right, tuple) and isinstance(found, tuple) and len(right) == len(found):
        return tuple(map(_widened, right, found))
    if type(right) in (int, bool) and isinstance(found, float | complex) and found == right:
        return found
    return right


def _without_signs(outcome: Outcome) -> Outcome:
    """The same with positive zeros."""

    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(plain(item) for item in value)
        if not isinstance(value, np.ndarray | np.generic) or value.dtype.kind not in "fc":
            return value
        positive = np.where(value == 0, value.dtype.type(0), value)
        return positive if isinstance(value, np.ndarray) else value.dtype.type(positive)

    arguments = tuple(plain(value) for value in outcome.arguments)
    return replace(outcome, result=plain(outcome.result), arguments=arguments)


def gap(found: Any, right: Any, allowed: Sequence[float] | None = None) -> Gap:
    """How far `found` is from `right`; `allowed` has an absolute error for each leaf of `right`."""
    shape, expected = _structure(found), _structure(right)
    if shape != expected:
        return Gap(f"{shape}, not {expected}")
    pairs = list(zip(leaves(found), leaves(right), strict=True))
    limits = [0.0] * len(pairs) if allowed is None else allowed
    worst = 0.0
    for (one, other), limit in zip(pairs, limits, strict=True):
        close = _leaf_gap(one, other, limit)
        if close.wrong:
            return close
        worst = max(worst, close.error)
    return Gap("", worst)


def _structure(value: Any) -> str:
    """The types, dtypes and shapes of a result."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_structure, value))})"
    if isinstance(value, list):
        return f"[{', '.join(map(_structure, value))}]"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} array of shape {value.shape}"
    return f"np.{value.dtype}" if isinstance(value, np.generic) else type(value).__name__


def _leaf_gap(found: Any, right: Any, allowed: float) -> Gap:
    if isinstance(right, bool | int | str | type(None)):
        return Gap("" if found == right else f"{_shown(found)}, not {_shown(right)}")
    one, other = np.asarray(found), np.asarray(right)
    same = _same_bits(one, other)
    if same.all():
        return Gap()
    place = tuple(int(at) for at in np.argwhere(~same)[0])
    count = int(np.count_nonzero(~same))
    where = f" at {list(place)} ({count} of {same.size} differ)" if place else ""
    wrong = f"{one[place]!r}, not {other[place]!r}{where}"
    if other.dtype.kind not in "fc" or not _same_infinities(one, other):
        return Gap(wrong, float("inf"))
    finite = np.isfinite(other)
    error = float(np.abs(one[finite] - other[finite]).max(initial=0))
    units = error / _unit(other)
    return Gap("" if error <= allowed else f"{wrong}, {units:.3g} ulp", units)


def _same_bits(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Which numbers are equal, signs of zeros included; any NaN equals any."""
    if one.dtype.kind == "c":
        return np.asarray(_same_bits(one.real, other.real) & _same_bits(one.imag, other.imag))
    if one.dtype.kind != "f":
        return np.asarray(one == other)
    equal = (one == other) & (np.signbit(one) == np.signbit(other))
    return np.asarray(equal | (np.isnan(one) & np.isnan(other)))


def _same_infinities(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether infinities and NaN stand in the same places."""
    finite = np.isfinite(one)
    if not np.array_equal(finite, np.isfinite(other)):
        return False
    if one.dtype.kind == "c":
        return True  # infinite in one part or the other
    return np.array_equal(one[~finite], other[~finite], equal_nan=True)


def _shown(value: Any) -> str:
    return f"{_structure(value)} {' '.join(repr(value).split())[:200]}"


def layout_difference(found: Outcome, right: Outcome) -> str:
    """A difference in strides, flags and shared memory of what is returned; empty without one."""
    if found.error is not None or right.error is not None:
        return ""
    pairs = [
        (one, other)
        for one, other in zip(leaves(found.result), leaves(right.result), strict=True)
        if isinstance(other, np.ndarray)
    ]
    for one, other in pairs:
        if _strides(one) != _strides(other):
            return f"strides {one.strides}, not {other.strides} of shape {other.shape}"
        if one.flags.writeable != other.flags.writeable:
            return f"writeable is {one.flags.writeable}, not {other.flags.writeable}"
    ours = [*found.arguments, *(one for one, _ in pairs)]
    theirs = [*right.arguments, *(other for _, other in pairs)]
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        for later in range(max(number + 1, len(found.arguments)), len(ours)):
            if _shares(one, ours[later]) != _shares(other, theirs[later]):
                shares = "shares no" if _shares(other, theirs[later]) is None else "shares"
                is_argument = number < len(found.arguments)
                whose = f"argument {number + 1}" if is_argument else "another result"
                return f"a result that {shares} memory with {whose} in NumPy does not here"
    return ""


def _strides(array: np.ndarray) -> tuple[int, ...]:
    """The strides that say where elements are."""
    if array.size == 0:
        return ()
    return tuple(s for s, n in zip(array.strides, array.shape, strict=True) if n > 1)


def _shares(one: Any, other: Any) -> int | None:
    """How many bytes lie between the starts of two arrays that share memory; None without any."""
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return None
    if not np.may_share_memory(one, other):
        return None
    return int(other.__array_interface__["data"][0] - one.__array_interface__["data"][0])


def runs_in_python(code: CodeType, call: Callable[[], Any]) -> bool:
    """Whether a call enters the Python function with this code, in this thread."""
    seen = False

    def watch(frame: Any, event: str, _: Any) -> None:
        nonlocal seen
        seen |= event == "call" and frame.f_code is code

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(before)
    return seen
