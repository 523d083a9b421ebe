"""Functions along one axis, or of all elements in a row."""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwright.frontends.python.prelude.fresh_memory import fresh

__all__ = [
    "argmax",
    "argmin",
    "average",
    "cumprod",
    "cumsum",
    "diff",
    "gradient",
    "interp",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
    "ptp",
    "running",
    "searchsorted",
    "trace",
    "trapezoid",
]


def argmax(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    return _extreme_at(_first_greatest, a, axis, keepdims)


def argmin(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    return _extreme_at(_first_least, a, axis, keepdims)


def _extreme_at(function: Any, a: Any, axis: Any, keepdims: Any) -> Any:
    if axis is None:
        found = function(np.ravel(fresh(a)) if a.ndim > 1 else a)
        return np.full((1,) * a.ndim, found) if keepdims else found
    if a.ndim == 1:
        return np.array([function(a)]) if keepdims else function(a)
    turned = np.moveaxis(a, axis, -1)
    out = np.empty(turned.shape[:-1], np.int64)
    _of_rows(function, turned, out)
    return np.expand_dims(out, axis) if keepdims else out


def _of_rows(function: Any, a: Any, out: Any) -> None:
    for k in range(a.shape[0]):
        if a.ndim == 2:
            out[k] = function(a[k])
        else:
            _of_rows(function, a[k], out[k])


def _first_greatest(a: Any) -> Any:
    if a.shape[0] == 0:
        raise ValueError("attempt to get argmax of an empty sequence")
    best = 0
    for i in range(1, a.shape[0]):
        if a[i] > a[best] or (a[i] != a[i] and a[best] == a[best]):
            best = i
    return np.int64(best)


def _first_least(a: Any) -> Any:
    if a.shape[0] == 0:
        raise ValueError("attempt to get argmin of an empty sequence")
    best = 0
    for i in range(1, a.shape[0]):
        if a[i] < a[best] or (a[i] != a[i] and a[best] == a[best]):
            best = i
    return np.int64(best)


def cumsum(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    return running(np.add, a, axis, np.sum(a[:0], dtype=dtype).dtype)


def cumprod(a: Any, axis: Any = None, dtype: Any = None) -> Any:
    return running(np.multiply, a, axis, np.prod(a[:0], dtype=dtype).dtype)


def running(function: Any, a: Any, axis: Any, dtype: Any) -> Any:
    """`function.accumulate`: each element with all before it."""
    if axis is None:
        return running(function, np.ravel(fresh(a)) if a.ndim > 1 else a, 0, dtype)
    found = np.empty_like(a, dtype=dtype)
    source, target = np.moveaxis(a, axis, 0), np.moveaxis(found, axis, 0)
    if a.ndim == 1:
        if a.shape[0] > 0:
            found[0] = np.dtype(dtype).type(a[0])
            for i in range(1, a.shape[0]):
                found[i] = function(found[i - 1], np.dtype(dtype).type(a[i]))
    elif source.shape[0] > 0:
        target[0] = source[0].astype(dtype)
        for i in range(1, source.shape[0]):
            target[i] = function(target[i - 1], source[i].astype(dtype))
    return found


def diff(a: Any, n: Any = 1, axis: Any = -1) -> Any:
    if n == 0:
        return a
    turned = np.moveaxis(a, axis, -1)
    if a.dtype == np.bool_:
        found = turned[..., 1:] != turned[..., :-1]
    else:
        found = turned[..., 1:] - turned[..., :-1]
    return diff(np.moveaxis(found, -1, axis), n - 1, axis)


def trace(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Any:
    return np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1)


def ptp(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    return np.max(a, axis, keepdims=keepdims) - np.min(a, axis, keepdims=keepdims)


def average(a: Any, axis: Any = None, weights: Any = None, *, keepdims: Any = False) -> Any:
    if weights is None:
        return np.mean(a, axis, keepdims=keepdims)
    w = np.asarray(weights)
    if w.ndim < a.ndim:
        w = np.moveaxis(np.broadcast_to(w, (1,) * (a.ndim - 1) + w.shape), -1, axis)
    whole = w.sum(axis, dtype=np.result_type(a, w, np.float64), keepdims=keepdims)
    return np.multiply(a, w).sum(axis, keepdims=keepdims) / whole


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> Any:
    turned = np.moveaxis(y, axis, -1)
    if x is None:
        return (dx * (turned[..., 1:] + turned[..., :-1]) / 2.0).sum(-1)
    points = x if x.ndim == 1 else np.moveaxis(x, axis, -1)
    return (diff(points) * (turned[..., 1:] + turned[..., :-1]) / 2.0).sum(-1)


def gradient(f: Any, *spacing: Any, axis: Any = None, edge_order: Any = 1) -> Any:
    if axis is not None:
        return _slope(f, spacing[0] if len(spacing) == 1 else 1.0, axis, edge_order)
    if f.ndim == 1:
        return _slope(f, spacing[0] if len(spacing) == 1 else 1.0, 0, edge_order)
    steps = spacing if len(spacing) > 1 else (spacing if len(spacing) == 1 else (1.0,)) * f.ndim
    return tuple([_slope(f, step, k, edge_order) for k, step in enumerate(steps)])


def _slope(f: Any, dx: Any, axis: Any, edge_order: Any) -> Any:
    out = np.empty_like(f) if f.dtype.kind in "fc" else np.empty_like(f, dtype=np.float64)
    y, g = np.moveaxis(f, axis, 0), np.moveaxis(out, axis, 0)
    if y.shape[0] < edge_order + 1:
        raise ValueError("Shape of array too small to calculate a numerical gradient")
    if np.ndim(dx) == 0:
        g[1:-1] = (y[2:] - y[:-2]) / (2.0 * dx)
        if edge_order == 1:
            g[0] = (y[1] - y[0]) / dx
            g[-1] = (y[-1] - y[-2]) / dx
        else:
            a, b, c = -1.5 / dx, 2.0 / dx, -0.5 / dx
            g[0] = a * y[0] + b * y[1] + c * y[2]
            a, b, c = 0.5 / dx, -2.0 / dx, 1.5 / dx
            g[-1] = a * y[-3] + b * y[-2] + c * y[-1]
        return out
    d = diff(dx)
    before, behind = d[:-1], d[1:]
    shape = (-1,) + (1,) * (f.ndim - 1)
    a = np.reshape(fresh(-behind / (before * (before + behind))), shape)
    b = np.reshape(fresh((behind - before) / (before * behind)), shape)
    c = np.reshape(fresh(before / (behind * (before + behind))), shape)
    g[1:-1] = a * y[:-2] + b * y[1:-1] + c * y[2:]
    if edge_order != 1:
        raise NotImplementedError("edges of second order along coordinates")
    g[0] = (y[1] - y[0]) / d[0]
    g[-1] = (y[-1] - y[-2]) / d[-1]
    return out


# -- without NaN ----------------------------------------------------------------------------------


def nansum(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    return np.sum(_filled(a, 0), axis, keepdims=keepdims)


def nanprod(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    return np.prod(_filled(a, 1), axis, keepdims=keepdims)


def _filled(a: Any, value: Any) -> Any:
    return np.where(np.isnan(a), a.dtype.type(value), a) if a.dtype.kind == "f" else a


def nanmax(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    if a.dtype.kind != "f":
        return np.max(a, axis, keepdims=keepdims)
    found = np.max(_filled(a, -np.inf), axis, keepdims=keepdims)
    return np.where(np.all(np.isnan(a), axis, keepdims=keepdims), a.dtype.type(np.nan), found)[()]


def nanmin(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    if a.dtype.kind != "f":
        return np.min(a, axis, keepdims=keepdims)
    found = np.min(_filled(a, np.inf), axis, keepdims=keepdims)
    return np.where(np.all(np.isnan(a), axis, keepdims=keepdims), a.dtype.type(np.nan), found)[()]


def nanmean(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    if a.dtype.kind != "f":
        return np.mean(a, axis, keepdims=keepdims)
    total = np.sum(_filled(a, 0), axis, keepdims=keepdims)
    return _divided(total, np.sum(~np.isnan(a), axis, keepdims=keepdims), a.dtype)


def _divided(total: Any, count: Any, dtype: Any) -> Any:
    found = total / count
    return dtype.type(found) if np.ndim(found) == 0 else found.astype(dtype)


def nanvar(a: Any, axis: Any = None, ddof: Any = 0, *, keepdims: Any = False) -> Any:
    if a.dtype.kind != "f":
        return np.var(a, axis, ddof=ddof, keepdims=keepdims)
    count = np.sum(~np.isnan(a), axis, keepdims=True)
    mean = _divided(np.sum(_filled(a, 0), axis, keepdims=True), count, a.dtype)
    rest = np.where(np.isnan(a), a.dtype.type(0), _filled(a, 0) - mean)
    free = np.sum(~np.isnan(a), axis, keepdims=keepdims) - ddof
    found = _divided(np.sum(rest * rest, axis, keepdims=keepdims), free, a.dtype)
    return np.where(free <= 0, a.dtype.type(np.nan), found)[()]


def nanstd(a: Any, axis: Any = None, ddof: Any = 0, *, keepdims: Any = False) -> Any:
    return np.sqrt(nanvar(a, axis, ddof, keepdims=keepdims))


# -- places among sorted numbers ------------------------------------------------------------------


def searchsorted(a: Any, v: Any, side: Any = "left") -> Any:
    if np.ndim(v) == 0:
        return _place(a, v, side)
    values = np.ravel(fresh(v)) if v.ndim > 1 else v
    found = np.empty(values.shape[0], np.int64)
    for k in range(values.shape[0]):
        found[k] = _place(a, values[k], side)
    return np.reshape(found, v.shape)


def _place(a: Any, x: Any, side: Any) -> Any:
    low, high = 0, a.shape[0]
    while low < high:
        middle = (low + high) // 2
        if side == "left":
            goes_on = a[middle] < x or (x != x and a[middle] == a[middle])
        else:
            goes_on = not (x < a[middle] or (a[middle] != a[middle] and x == x))
        if goes_on:
            low = middle + 1
        else:
            high = middle
    return np.int64(low)


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Any:
    if xp.shape[0] != fp.shape[0]:
        raise ValueError("fp and xp are not of the same length.")
    if xp.shape[0] == 0:
        raise ValueError("array of sample points is empty")
    if np.ndim(x) == 0:
        return np.float64(_between(np.float64(x), xp, fp, left, right))
    points = np.ravel(fresh(x)) if x.ndim > 1 else x
    found = np.empty(points.shape[0], np.float64)
    for k in range(points.shape[0]):
        found[k] = _between(np.float64(points[k]), xp, fp, left, right)
    return np.reshape(found, x.shape)


def _between(x: Any, xp: Any, fp: Any, left: Any, right: Any) -> Any:
    last = xp.shape[0] - 1
    if x != x:
        return x
    if x < xp[0]:
        return np.float64(fp[0] if left is None else left)
    if x > xp[last]:
        return np.float64(fp[last] if right is None else right)
    low, high = 0, last + 1  # xp[low] <= x < xp[high]
    while high - low > 1:
        middle = (low + high) // 2
        if x >= xp[middle]:
            low = middle
        else:
            high = middle
    if low == last or xp[low] == x:
        return np.float64(fp[low])
    y, z = np.float64(fp[low]), np.float64(fp[low + 1])
    slope = (z - y) / (np.float64(xp[low + 1]) - np.float64(xp[low]))
    found = slope * (x - np.float64(xp[low])) + y
    if found != found:
        found = slope * (x - np.float64(xp[low + 1])) + z
        if found != found and y == z:
            found = y
    return found
