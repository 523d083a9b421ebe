"""Functions of elements, counts, and tests of whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwright.frontends.python.prelude.fresh_memory import fresh

__all__ = [
    "allclose",
    "angle",
    "array_equal",
    "bincount",
    "clip",
    "copyto",
    "degrees",
    "fix",
    "heaviside",
    "histogram",
    "isclose",
    "isin_list",
    "logaddexp",
    "nan_to_num",
    "ndim",
    "python_all",
    "python_any",
    "python_divmod",
    "python_round",
    "python_sum",
    "radians",
    "rounded",
    "select",
    "shape",
    "sinc",
    "size",
]


def ndim(a: Any) -> Any:
    return len(shape(a))


def shape(a: Any) -> Any:
    if isinstance(a, list | tuple):
        return (len(a), *shape(a[0]))
    return () if isinstance(a, bool | int | float | complex) else a.shape


def size(a: Any) -> Any:
    return a.size


def clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = a_min if min is None else min, a_max if max is None else max
    if low is None:
        return np.positive(a) if high is None else np.minimum(a, high)
    return np.maximum(a, low) if high is None else np.minimum(np.maximum(a, low), high)


def rounded(a: Any, decimals: Any = 0) -> Any:
    if a.dtype.kind in "iu":
        return np.positive(a)
    if decimals == 0:
        return np.rint(a)
    if decimals > 0:
        return np.rint(a * 10.0**decimals) / 10.0**decimals
    return np.rint(a / 10.0**-decimals) * 10.0**-decimals


def python_round(x: Any) -> Any:
    return int(np.rint(x))


def python_divmod(x: Any, y: Any) -> Any:
    return x // y, x % y


def python_sum(values: Any, start: Any = 0) -> Any:
    total = start
    for x in values:
        total = total + x
    return total


def python_any(values: Any) -> Any:
    found = False
    for x in values:
        if x:
            found = True
    return found


def python_all(values: Any) -> Any:
    found = True
    for x in values:
        if not x:
            found = False
    return found


def angle(z: Any, deg: Any = False) -> Any:
    found = np.arctan2(np.imag(z), np.real(z))
    return found * (180 / np.pi) if deg else found


def radians(x: Any) -> Any:
    return x * (np.pi / 180.0)


def degrees(x: Any) -> Any:
    return x * (180.0 / np.pi)


def fix(x: Any) -> Any:
    return np.trunc(x)


def heaviside(x: Any, h0: Any) -> Any:
    return np.where(x < 0, 0.0, np.where(x > 0, 1.0, np.where(x == 0, h0, x)))


def sinc(x: Any) -> Any:
    y = np.pi * np.where(x == 0, 1.0e-20, x)
    return np.sin(y) / y


def logaddexp(x: Any, y: Any) -> Any:
    high, low = np.maximum(x, y), np.minimum(x, y)
    return np.where(high == low, high + np.log(2.0), high + np.log1p(np.exp(low - high)))


def nan_to_num(x: Any, copy: Any = True, nan: Any = 0.0) -> Any:
    if x.dtype.kind != "f":
        return np.positive(x)
    top = np.finfo(x.dtype).max
    found = np.where(np.isnan(x), x.dtype.type(nan), x)
    found = np.where(found == np.inf, x.dtype.type(top), found)
    return np.where(found == -np.inf, x.dtype.type(-top), found)


def isclose(a: Any, b: Any, rtol: Any = 1.0e-5, atol: Any = 1.0e-8, equal_nan: Any = False) -> Any:
    near = np.abs(a - b) <= atol + rtol * np.abs(b)
    found = (near & np.isfinite(b)) | (a == b)
    return found | (np.isnan(a) & np.isnan(b)) if equal_nan else found


def allclose(a: Any, b: Any, rtol: Any = 1.0e-5, atol: Any = 1.0e-8, equal_nan: Any = False) -> Any:
    return bool(np.all(isclose(a, b, rtol, atol, equal_nan)))


def array_equal(a1: Any, a2: Any) -> Any:
    if a1.ndim != a2.ndim:
        return False
    for n, m in zip(a1.shape, a2.shape, strict=True):
        if n != m:
            return False
    return bool(np.all(a1 == a2))


def isin_list(element: Any, test_elements: Any) -> Any:
    found = element != element
    found = found & False
    for x in test_elements:
        found = found | (element == x)
    return found


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    found = default
    for cond, choice in zip(condlist[::-1], choicelist[::-1], strict=True):
        found = np.where(cond, choice, found)
    return found


def copyto(dst: Any, src: Any, where: Any = True) -> None:
    if where is True:
        dst[...] = src
    else:
        dst[...] = np.where(where, src, dst)


# -- counts ---------------------------------------------------------------------------------------


def bincount(x: Any, weights: Any = None, minlength: Any = 0) -> Any:
    count = minlength
    for v in x:
        if v < 0:
            raise ValueError("'list' argument must have no negative elements")
        count = max(count, v + 1)
    if weights is None:
        found = np.zeros(int(count), np.int64)
        for v in x:
            found[v] += 1
        return found
    sums = np.zeros(int(count), np.float64)
    for k in range(x.shape[0]):
        sums[x[k]] += weights[k]
    return sums


def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Any:
    values = a if a.ndim == 1 else np.ravel(fresh(a))
    each = weights if weights is None or weights.ndim == 1 else np.ravel(fresh(weights))
    if np.ndim(bins) == 0:
        low, high = (0.0, 1.0)
        if range is not None:
            low, high = np.float64(range[0]), np.float64(range[1])
        elif values.shape[0] > 0:
            low, high = np.float64(values.min()), np.float64(values.max())
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges = np.linspace(low, high, bins + 1)
        found = _equal_bins(values, edges, low, high, bins, each)
    else:
        edges = np.asarray(bins)
        found = _given_bins(values, edges, each)
    if density:
        return found / np.diff(edges) / found.sum(), edges
    return found, edges


def _equal_bins(a: Any, edges: Any, low: Any, high: Any, count: Any, weights: Any) -> Any:
    found = np.zeros(count, np.int64 if weights is None else weights.dtype)
    width = high - low
    for k, x in enumerate(a):
        if x >= low and x <= high:
            at = int((x - low) / width * count)
            if at == count:
                at -= 1
            if x < edges[at]:
                at -= 1
            elif x >= edges[at + 1] and at != count - 1:
                at += 1
            if weights is None:
                found[at] += 1
            else:
                found[at] += weights[k]
    return found


def _given_bins(a: Any, edges: Any, weights: Any) -> Any:
    count = edges.shape[0] - 1
    found = np.zeros(count, np.int64 if weights is None else weights.dtype)
    for k, x in enumerate(a):
        if x >= edges[0] and x <= edges[count]:
            at = min(np.searchsorted(edges, x, "right") - 1, count - 1)
            if weights is None:
                found[at] += 1
            else:
                found[at] += weights[k]
    return found
