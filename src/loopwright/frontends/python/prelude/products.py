"""Products of arrays by way of products of matrices, and what is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwright.frontends.python.prelude.fresh_memory import fresh

__all__ = [
    "convolve",
    "corrcoef",
    "correlate",
    "cov",
    "cross",
    "inner",
    "polyval",
    "tensordot",
    "vdot",
]


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    if np.ndim(axes) == 0:
        left = tuple(range(a.ndim - axes, a.ndim))
        right = tuple(range(axes))
    else:
        left = axes[0] if np.ndim(axes[0]) > 0 else (axes[0],)
        right = axes[1] if np.ndim(axes[1]) > 0 else (axes[1],)
    left = tuple([k % a.ndim for k in left])
    right = tuple([k % b.ndim for k in right])
    kept = tuple([k for k in tuple(range(a.ndim)) if k not in left])
    others = tuple([k for k in tuple(range(b.ndim)) if k not in right])
    inner_size = 1
    for k in left:
        inner_size = inner_size * a.shape[k]
    rows, columns = 1, 1
    for k in kept:
        rows = rows * a.shape[k]
    for k in others:
        columns = columns * b.shape[k]
    for k, j in zip(left, right, strict=True):
        if a.shape[k] != b.shape[j]:
            raise ValueError("shape-mismatch for sum")
    x = np.reshape(fresh(np.transpose(a, (*kept, *left))), (rows, inner_size))
    y = np.reshape(fresh(np.transpose(b, (*right, *others))), (inner_size, columns))
    shape = (*[a.shape[k] for k in kept], *[b.shape[k] for k in others])
    if len(shape) == 0:
        return np.array(np.dot(x[0], y[:, 0]))
    return np.reshape(x @ y, shape)


def inner(a: Any, b: Any) -> Any:
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return a * b
    return np.dot(a, b) if a.ndim == 1 and b.ndim == 1 else tensordot(a, b, (-1, -1))


def vdot(a: Any, b: Any) -> Any:
    x = np.conjugate(a) if a.dtype.kind == "c" else a
    if a.ndim == 1:
        return np.dot(x, b)
    return np.dot(np.ravel(fresh(x)), np.ravel(fresh(b)))


def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    if a.shape[0] == 0 or v.shape[0] == 0:
        raise ValueError("an argument of correlate cannot be empty")
    w = np.conjugate(v) if v.dtype.kind == "c" else v
    if a.shape[0] >= v.shape[0]:
        return _sliding(a, w, mode)
    return _sliding(w, a, mode)[::-1]


def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    if a.shape[0] == 0 or v.shape[0] == 0:
        raise ValueError("an argument of convolve cannot be empty")
    if a.shape[0] >= v.shape[0]:
        return _sliding(a, v[::-1], mode)
    return _sliding(v, a[::-1], mode)


def _sliding(a: Any, v: Any, mode: Any) -> Any:
    """Inner products of the shorter array with pieces of the longer one."""
    n, m = a.shape[0], v.shape[0]
    if mode == "valid":
        first, count = 0, n - m + 1
    elif mode == "same":
        first, count = -(m // 2), n
    else:
        first, count = 1 - m, n + m - 1
    found = np.empty(count, np.result_type(a, v))
    for k in range(count):
        start = first + k
        low, high = max(start, 0), min(start + m, n)
        found[k] = np.dot(a[low:high], v[low - start : high - start])
    return found


def cov(m: Any, rowvar: Any = True, bias: Any = False, ddof: Any = None) -> Any:
    x = np.atleast_2d(m).astype(np.result_type(m, np.float64))
    if not rowvar and m.ndim > 1:
        x = x.T
    free = (0 if bias else 1) if ddof is None else ddof
    count = max(x.shape[1] - free, 0)
    rest = x - np.mean(x, axis=1)[:, None]
    found = np.dot(rest, np.conjugate(rest.T)) * np.true_divide(1, np.float64(count))
    return found if m.ndim > 1 else np.array(found[0, 0])


def corrcoef(x: Any, rowvar: Any = True) -> Any:
    c = cov(x, rowvar)
    if x.ndim == 1:
        return c / c
    deviations = np.sqrt(np.diagonal(c).real)
    found = c / deviations[:, None] / deviations[None, :]
    return np.clip(found, -1, 1)


def cross(a: Any, b: Any) -> Any:
    if a.ndim == 1 and b.ndim == 1:
        return _cross_of_vectors(a, b)
    found = np.empty_like(a[..., :3] * b[..., :3])
    found[..., 0] = a[..., 1] * b[..., 2] - a[..., 2] * b[..., 1]
    found[..., 1] = a[..., 2] * b[..., 0] - a[..., 0] * b[..., 2]
    found[..., 2] = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return found


def _cross_of_vectors(a: Any, b: Any) -> Any:
    found = np.empty(3, np.result_type(a, b))
    found[0] = a[1] * b[2] - a[2] * b[1]
    found[1] = a[2] * b[0] - a[0] * b[2]
    found[2] = a[0] * b[1] - a[1] * b[0]
    return found


def polyval(p: Any, x: Any) -> Any:
    found = x * 0
    for c in p:
        found = found * x + c
    return found
