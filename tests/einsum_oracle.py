"""What an einsum over a semiring means, with NumPy's broadcasting and ufuncs alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def saturated_sum(x: Any, y: Any, infinite: int, dtype: Any = None) -> np.ndarray:
    """The sum of integers, at most and at least the ends of their type; `infinite` absorbs."""
    x, y = (np.asarray(value, dtype) for value in (x, y))
    limits, total = np.iinfo(x.dtype), x + y
    if limits.min == 0:
        total = np.where(total < x, limits.max, total)
    else:
        total = np.where((y > 0) & (total < x), limits.max, total)
        total = np.where((y < 0) & (total > x), limits.min, total)
    return np.where((x == infinite) | (y == infinite), infinite, total).astype(x.dtype)


def add_top(x: Any, y: Any, dtype: Any = None) -> np.ndarray:
    return saturated_sum(x, y, np.iinfo(dtype or np.asarray(x).dtype).max, dtype)


def add_bottom(x: Any, y: Any, dtype: Any = None) -> np.ndarray:
    return saturated_sum(x, y, np.iinfo(dtype or np.asarray(x).dtype).min, dtype)


def mul_sat(x: Any, y: Any, dtype: Any = None) -> np.ndarray:
    x, y = (np.asarray(value, dtype) for value in (x, y))
    limits = np.iinfo(x.dtype)
    # Of rank 0 NumPy would make Python's integers of the products, and those int64 again.
    exact = np.atleast_1d(x.astype(object)) * np.atleast_1d(y.astype(object))
    clamped = np.minimum(np.maximum(exact, int(limits.min)), int(limits.max))
    return clamped.astype(x.dtype).reshape(np.broadcast_shapes(x.shape, y.shape))


SATURATING = {
    "min_plus": add_top,
    "max_plus": add_bottom,
    "max_times": mul_sat,
    "min_times": mul_sat,
}
UFUNCS = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "or": np.bitwise_or,
    "and": np.bitwise_and,
    "xor": np.bitwise_xor,
}
OPERATORS = {
    "plus_times": ("add", "mul"),
    "min_plus": ("min", "add"),
    "max_plus": ("max", "add"),
    "max_times": ("max", "mul"),
    "min_times": ("min", "mul"),
    "min_max": ("min", "max"),
    "max_min": ("max", "min"),
    "or_and": ("or", "and"),
    "xor_and": ("xor", "and"),
}


def operators_of(semiring: str, dtype: np.dtype) -> tuple[np.ufunc, Callable[..., Any]]:
    """plus and times on elements of a type."""
    plus, times = (UFUNCS[name] for name in OPERATORS[semiring])
    return plus, SATURATING.get(semiring, times) if dtype.kind in "iu" else times


def zero_of(semiring: str, dtype: np.dtype) -> object:
    """The identity of plus."""
    plus = OPERATORS[semiring][0]
    if plus in ("add", "or", "xor"):
        return dtype.type(0)
    if dtype.kind == "b":
        return plus == "min"
    if dtype.kind == "f":
        return np.inf if plus == "min" else -np.inf
    limits = np.iinfo(dtype)
    return limits.max if plus == "min" else limits.min


def accumulator_of(dtype: np.dtype) -> np.dtype:
    """Half precision is summed in single precision, as NumPy does."""
    return np.dtype("float32") if dtype == np.float16 else dtype


def oracle(
    text: str, *arrays: np.ndarray, semiring: str = "plus_times", dtype: object = None
) -> np.ndarray:
    """The einsum of a text without ellipsis; sums of products wrap around."""
    left, out = text.split("->")
    terms = left.split(",")
    result = np.result_type(*arrays) if dtype is None else np.dtype(dtype)
    wide = accumulator_of(result) if dtype is None else result
    plus, times = operators_of(semiring, wide)
    letters = [*out, *sorted(set(left) - set(out) - {","})]
    with np.errstate(all="ignore"):
        factors = [spread(t, a, letters) for t, a in zip(terms, arrays, strict=True)]
        shape = np.broadcast_shapes(*(f.shape for f in factors))
        product = np.broadcast_to(factors[0].astype(wide), shape)
        for factor in factors[1:]:
            product = times(product, factor.astype(wide), dtype=wide)
        axes = tuple(range(len(out), len(letters)))
        if axes:
            product = plus.reduce(product, axis=axes, dtype=wide, initial=zero_of(semiring, wide))
        return np.asarray(product).astype(result)


def spread(term: str, array: np.ndarray, letters: list[str]) -> np.ndarray:
    """An operand with one axis per letter, of size 1 where it has none."""
    distinct = list(dict.fromkeys(term))
    for c in distinct:
        while term.count(c) > 1:
            first, second = term.index(c), term.index(c, term.index(c) + 1)
            # The diagonal becomes the last axis.
            array = np.diagonal(array, axis1=first, axis2=second)
            term = "".join(x for k, x in enumerate(term) if k not in (first, second)) + c
    order = [c for c in letters if c in term]
    array = array.transpose([term.index(c) for c in order])
    return array.reshape([array.shape[order.index(c)] if c in term else 1 for c in letters])
