"""Functions that repeat, join, pad and turn arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from loopwright.frontends.python.prelude.fresh_memory import fresh

__all__ = [
    "append",
    "array_split",
    "column_stack",
    "diag",
    "dstack",
    "fill_diagonal",
    "indices",
    "kron",
    "meshgrid",
    "pad",
    "repeat",
    "rot90",
    "split",
    "stack",
    "take",
    "tile",
    "tri",
    "vstack",
]


def stack(arrays: Any, axis: Any = 0) -> Any:
    return np.concatenate([np.expand_dims(x, axis) for x in arrays], axis)


def vstack(tup: Any) -> Any:
    return np.concatenate([np.atleast_2d(x) for x in tup], 0)


def dstack(tup: Any) -> Any:
    rows = [np.atleast_2d(x) for x in tup]
    return np.concatenate([x if x.ndim > 2 else np.expand_dims(x, 2) for x in rows], 2)


def column_stack(tup: Any) -> Any:
    return np.concatenate([x if x.ndim > 1 else np.expand_dims(x, 1) for x in tup], 1)


def append(arr: Any, values: Any, axis: Any = None) -> Any:
    more = np.asarray(values if np.ndim(values) > 0 else [values])
    if axis is None:
        first = arr if arr.ndim == 1 else np.ravel(fresh(arr))
        return np.concatenate([first, more if more.ndim == 1 else np.ravel(fresh(more))])
    return np.concatenate([arr, more], axis)


def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    if axis is None:
        return repeat(a if a.ndim == 1 else np.ravel(fresh(a)), repeats, 0)
    turned = np.expand_dims(np.moveaxis(a, axis, 0), 1)
    count = turned.shape[0]
    wide = np.broadcast_to(turned, (count, repeats, *turned.shape[2:]))
    found = np.reshape(fresh(wide), (count * repeats, *turned.shape[2:]))
    if axis == 0 or axis == -a.ndim:
        return found
    return np.ascontiguousarray(np.moveaxis(found, 0, axis))


def tile(A: Any, reps: Any) -> Any:
    times = reps if isinstance(reps, tuple) else (reps,)
    a = np.broadcast_to(A, (1,) * max(0, len(times) - A.ndim) + A.shape)
    times = (1,) * max(0, a.ndim - len(times)) + times
    wide = a
    for k in _places(a):
        wide = np.expand_dims(wide, 2 * k)
    pairs = tuple([x for k in _places(a) for x in (times[k], a.shape[k])])
    shape = tuple([times[k] * a.shape[k] for k in _places(a)])
    return np.reshape(fresh(np.broadcast_to(wide, pairs)), shape)


def _places(a: Any) -> Any:
    """The numbers of the axes."""
    return tuple(range(a.ndim))


def kron(a: Any, b: Any) -> Any:
    rank = max(a.ndim, b.ndim)
    x = np.broadcast_to(a, (1,) * (rank - a.ndim) + a.shape)
    y = np.broadcast_to(b, (1,) * (rank - b.ndim) + b.shape)
    shape = tuple([x.shape[k] * y.shape[k] for k in _places(x)])
    for k in _places(y):
        x, y = np.expand_dims(x, 2 * k + 1), np.expand_dims(y, 2 * k)
    return np.reshape(x * y, shape)


def meshgrid(*xi: Any, indexing: Any = "xy", sparse: Any = False) -> Any:
    count = len(xi)
    places = tuple(range(count))
    if indexing == "xy" and count > 1:
        places = (1, 0, *places[2:])
    pairs = tuple(zip(xi, places, strict=True))
    wide = [np.reshape(x, (1,) * k + (-1,) + (1,) * (count - 1 - k)) for x, k in pairs]
    if sparse:
        return tuple([x.copy() for x in wide])
    shape = tuple([xi[places.index(k)].shape[0] for k in range(count)])
    return tuple([np.broadcast_to(x, shape).copy() for x in wide])


def rot90(m: Any, k: Any = 1, axes: Any = (0, 1)) -> Any:
    turns = k % 4
    if turns == 0:
        return m[...]
    if turns == 2:
        return np.flip(np.flip(m, axes[0]), axes[1])
    if turns == 1:
        return np.swapaxes(np.flip(m, axes[1]), axes[0], axes[1])
    return np.flip(np.swapaxes(m, axes[0], axes[1]), axes[1])


def take(a: Any, indices: Any, axis: Any = None) -> Any:
    if axis is None:
        return take(a if a.ndim == 1 else np.ravel(fresh(a)), indices, 0)
    at = np.asarray(indices) if isinstance(indices, list | tuple) else indices
    found = np.moveaxis(a, axis, 0)[at]
    if a.ndim == 1:
        return found
    if np.ndim(at) == 0:
        return found.copy()
    places = tuple(range(at.ndim))
    first = axis if axis >= 0 else axis + a.ndim
    return np.ascontiguousarray(np.moveaxis(found, places, tuple([first + k for k in places])))


def diag(v: Any, k: Any = 0) -> Any:
    if v.ndim == 2:
        return np.diagonal(v, k)
    size = v.shape[0] + abs(k)
    found = np.zeros((size, size), v.dtype)
    for i in range(v.shape[0]):
        found[i + max(0, -k), i + max(0, k)] = v[i]
    return found


def fill_diagonal(a: Any, val: Any) -> None:
    for i in range(min(a.shape)):
        a[(i,) * a.ndim] = val


def tri(N: Any, M: Any = None, k: Any = 0, dtype: Any = float) -> Any:
    return np.tril(np.ones((N, N if M is None else M), dtype), k)


def indices(dimensions: Any, dtype: Any = int) -> Any:
    found = np.empty((len(dimensions), *dimensions), dtype)
    for k, extent in enumerate(dimensions):
        turned = np.moveaxis(found[k], k, -1)
        turned[...] = np.arange(extent)
    return found


def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    if np.ndim(indices_or_sections) == 0 and ary.shape[axis] % indices_or_sections != 0:
        raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, axis)


def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    turned = np.moveaxis(ary, axis, 0)
    count = turned.shape[0]
    if isinstance(indices_or_sections, list | tuple):
        ends = (0, *indices_or_sections, count)
    else:
        size, more = count // indices_or_sections, count % indices_or_sections
        every = tuple(range(indices_or_sections + 1))
        ends = tuple([k * size + min(k, more) for k in every])
    count = len(ends) - 1
    return [np.moveaxis(turned[ends[k] : ends[k + 1]], 0, axis) for k in range(count)]


def pad(array: Any, pad_width: Any, mode: Any = "constant", constant_values: Any = 0) -> Any:
    if np.ndim(pad_width) == 0:
        widths = ((pad_width, pad_width),) * array.ndim
    elif np.ndim(pad_width[0]) == 0:
        widths = ((pad_width[0], pad_width[-1]),) * array.ndim
    else:
        widths = tuple(pad_width) * (array.ndim if len(pad_width) == 1 else 1)
    shape = tuple([n + x + y for n, (x, y) in zip(array.shape, widths, strict=True)])
    found = np.empty(shape, array.dtype)
    if mode == "constant":
        found.fill(constant_values)
    inner = found
    for k, (x, _) in enumerate(widths):
        inner = np.moveaxis(np.moveaxis(inner, k, 0)[x : x + array.shape[k]], 0, k)
    inner[...] = array
    if mode != "constant":
        part = found
        for k, (x, y) in enumerate(widths):
            _extend(np.moveaxis(part, k, 0), array.shape[k], x, y, mode)
    return found


def _extend(a: Any, count: Any, before: Any, behind: Any, mode: Any) -> None:
    """Fill what lies before and behind some rows."""
    for i in range(before):
        a[i] = a[before + _origin(i - before, count, mode)]
    for i in range(behind):
        a[before + count + i] = a[before + _origin(count + i, count, mode)]


def _origin(i: Any, count: Any, mode: Any) -> Any:
    """The row that a row outside repeats."""
    if mode == "edge":
        return min(max(i, 0), count - 1)
    if mode == "wrap":
        return i % count
    if mode == "symmetric":
        return min(i % (2 * count), 2 * count - 1 - i % (2 * count))
    if mode != "reflect":
        raise NotImplementedError("this mode of np.pad")
    period = max(1, 2 * count - 2)
    return min(i % period, period - i % period) if count > 1 else 0
