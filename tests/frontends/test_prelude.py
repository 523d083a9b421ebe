"""Functions of the prelude, and index arrays, mean what NumPy's mean."""

from typing import Any

import numpy as np
import pytest

from frontends.kernels import define
from procedure_oracle import agree

RANDOM = np.random.default_rng(7)
M = RANDOM.normal(size=(4, 6))
GIVEN: dict[str, Any] = {
    "v": RANDOM.normal(size=9),
    "w": RANDOM.normal(size=4),
    "m": M,
    "f": np.asfortranarray(M),
    "s": M[::2, ::-1],
    "c": RANDOM.normal(size=(3, 4, 5)),
    "n": np.arange(24, dtype=np.int32).reshape(4, 6) % 7 - 2,
    "u": np.array([3, 1, 200, 3], np.uint8),
    "b": np.array([True, False, True, True]),
    "nan": np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan], [4.0, -1.0, np.nan]]),
    "z": RANDOM.normal(size=(3, 4)) + 1j * RANDOM.normal(size=(3, 4)),
    "i": np.array([2, 0, -1, 2]),
    "j": np.array([[0, 1], [3, -2]]),
    "sorted": np.array([-1.0, 0.0, 0.5, 0.5, 2.0]),
    "k": 3,
}
EXACT = """
np.argmax(v)
v.argmin()
np.argmax(m, axis=0), m.argmin(axis=1), np.argmax(m), np.argmax(c, 1), np.argmin(f, axis=-1)
np.argmax(m, axis=1, keepdims=True), np.argmin(c, axis=2)
np.cumsum(v), np.cumsum(u), np.cumsum(b), np.cumprod(n[0])
np.cumsum(m, axis=0), m.cumsum(axis=1), np.cumsum(m), np.cumprod(c, axis=1)
np.cumsum(n, axis=1)
np.cumsum(f, axis=0), np.cumsum(s, axis=1), np.cumsum(u, dtype=np.float32)
np.add.accumulate(v), np.multiply.accumulate(m)
np.diff(v), np.diff(v, 2), np.diff(m), np.diff(m, axis=0), np.diff(b), np.diff(u)
np.diff(c, 2, 1)
np.trace(m), np.trace(c), np.trace(m, 1), np.trace(m, offset=-1), m.trace()
np.ptp(v), np.ptp(m, 0), m.max(axis=0, keepdims=True), np.ptp(m, axis=1, keepdims=True)
np.average(v), np.average(w, weights=w * w), np.average(m, axis=0), np.average(m, 1, m[0])
np.trapezoid(v), np.trapezoid(v, dx=0.5), np.trapezoid(m, axis=0), np.trapezoid(v, v * 2)
np.gradient(v), np.gradient(m)[0], np.gradient(m, axis=1), np.gradient(m, 0.5)[1]
np.gradient(n[0])
np.gradient(v, 2.0, edge_order=2)
np.gradient(sorted[[0, 1, 2, 4]], np.array([0.0, 1.0, 3.0, 7.0]))
np.nansum(nan), np.nansum(nan, 0), np.nanmax(nan, axis=1), np.nanmin(nan)
np.nanmean(nan, axis=1)
np.nanmean(nan), np.nanvar(nan, axis=0), np.nanstd(nan), np.nanprod(nan, axis=1), np.nanmax(n)
np.searchsorted(sorted, 0.5), np.searchsorted(sorted, v)
np.searchsorted(sorted, m, side="right")
sorted.searchsorted(0.5, "right"), np.searchsorted(np.arange(9), n[0])
np.interp(0.3, sorted[1:3], sorted[:2]), np.interp(v, sorted, w[[0, 1, 1, 2, 3]])
np.interp(m, sorted, np.cumsum(sorted), left=-7.0, right=9)
np.stack((v, v * 2)), np.stack([m, m + 1], axis=1), np.stack((m, m), -1)
np.vstack((w, w)), np.vstack((m, m)), np.hstack((w, v)), np.dstack((m, m))
np.column_stack((w, m))
np.append(v, 1.0), np.append(v, w), np.append(m, m[:1], axis=0)
np.repeat(v, 3), np.repeat(m, 2), np.repeat(m, 2, axis=0), np.repeat(m, k, axis=1), v.repeat(2)
np.tile(v, 2), np.tile(v, (2, 1)), np.tile(m, (2, k)), np.tile(m, 2), np.tile(b, 2)
np.kron(w, v), np.kron(m, n), np.kron(w, m)
np.meshgrid(w, v), np.meshgrid(w, v, indexing="ij"), np.meshgrid(w, v, sparse=True)
np.rot90(m), np.rot90(m, 2), np.rot90(m, -1), np.rot90(m, 0), np.rot90(c, axes=(1, 2))
np.moveaxis(c, 0, -1), np.moveaxis(c, (0, 1), (1, 2)), np.flipud(m), np.fliplr(m), np.flip(c, 1)
np.squeeze(m[1:2], axis=0), np.squeeze(m[None, :, None]), np.expand_dims(v, (0, 2))
np.atleast_2d(v)
np.diagonal(m), m.diagonal(1), np.diagonal(m, -2), np.diagonal(c, 0, 0, 2), np.diag(m)
np.diag(w, -1)
np.take(v, i), np.take(m, i), np.take(m, i, axis=1), m.take(j, axis=1), np.take(c, 1, axis=1)
np.tri(3), np.tri(2, 4, 1, int), np.indices((2, 3)), np.split(v, 3)[1], np.array_split(v, 4)[2]
np.pad(v, 2), np.pad(m, ((1, 0), (2, 3))), np.pad(m, 1, mode="edge"), np.pad(v, (3, 1), "wrap")
np.pad(v, 4, "reflect"), np.pad(m, 2, mode="symmetric"), np.pad(n, 1, constant_values=7)
np.pad(w, 11, "reflect"), np.pad(w, 9, "symmetric"), np.pad(w, 9, "wrap")
np.roll(m, 3), np.roll(v, -2), np.roll(c, 1, axis=2)
np.reshape(v, (3, 3)), v.reshape(3, -1).sum(axis=0), m.reshape(2, 2, 6), m.reshape(-1)
c.ravel()
m.T.reshape(4, 6), np.reshape(m * 2, (3, 8)), v[:8].reshape(2, 2, 2), v[::2].reshape(5, 1)
m.flatten()
f.ravel(), np.ravel(s), c[:, 1:].reshape(3, 15) * 1, m.reshape(4, 2, 3)[:, ::-1] + 0
np.clip(m, -0.5, 0.5), np.clip(n, 0, None), np.clip(v, None, 0.0), m.clip(0)
np.clip(m, a_min=0, a_max=1)
np.round(v, 1), np.round(m), np.round(n), m.round(2), np.round(v * 100, -1), round(v[0])
np.fmax(nan, 2.0), np.fmin(nan[0], nan[2]), np.signbit(v), np.fix(v), np.isclose(m, m + 1e-9)
np.allclose(v, v), np.array_equal(m, m), np.array_equal(v, w), np.nan_to_num(nan)
np.positive(v)
np.heaviside(v, 0.5), np.deg2rad(v), np.degrees(v), np.angle(z) > 0, np.ndim(m), np.size(m)
np.shape(c)
np.select([v > 1, v > 0], [v * 2, v * 3]), np.select([m > 0], [m], -1.0)
sum(v), sum([x * x for x in (1, 2, k)]), any([x > 2 for x in (1, 2, k)]), all([k > 0, True])
max((1, k))
sum(u), min([v[0], v[1]]), round(2.5), round(-0.6)
np.histogram(v, 4), np.histogram(m, bins=3, range=(-1, 1))
np.histogram(v, sorted[[0, 1, 2, 4]])
np.histogram(v, 4, weights=v), np.histogram(v, bins=3, density=True)
np.sum(m, axis=0, keepdims=True), np.max(m, initial=0.5), np.min(v, initial=-9)
m.sum(initial=2.0)
np.max(v[:0], initial=1.0), np.max(m[:0], axis=0, initial=2.0), np.max(m, axis=1, initial=0.0)
np.sum(n, where=n > 0), np.max(v, where=v < 0, initial=-5), np.all(m > 0, where=m > -1)
n.mean(where=n > 0)
np.std(v, ddof=1), m.std(axis=0, ddof=1), np.var(m, ddof=1, axis=1)
m.var(ddof=1, axis=0, keepdims=True)
np.any(b), np.count_nonzero(n, axis=0), np.all(n, axis=1, keepdims=True), np.mean(u), np.sum(b)
np.add.reduce(m), np.add.reduce(m, axis=1), np.maximum.reduce(v)
np.multiply.reduce(n, axis=None)
np.add.outer(w, v), np.multiply.outer(m, w), np.subtract.outer(w, m), np.outer(m, w)
np.less.outer(w, w)
np.add(m, 1, where=m > 0, out=np.zeros((4, 6)))
np.divide(1.0, n, out=np.ones((4, 6)), where=n != 0)
np.add(n, 1, dtype=np.float64), np.sqrt(n[n > 0][0]), np.multiply(u, 2, dtype=np.int64)
m[i], m[i, 1], m[1, i], m[:, i], m[i, i], m[j], v[j], m[[0, 2]], m[[0, 2], [1, 3]], c[:, i]
c[i - 1, :, i - 1]
c[0, :, [1, 2]], c[:, 0, [1, 2]], m[i][:, i], m[i, 1:4], m[j, 2], m[..., i], c[..., i - 1, None]
m[i[:, None], i]
f[i], f[:, i], v[u % 9], m[np.array([1, 0], np.int8)], c[[1]], m[(0, 1), :], v[[k, 1]]
np.real(z), z.real * 2, z.imag.sum(), np.conj(z), m.real, np.imag(m), (z * z).real
np.cross(v[:3], v[3:6]), np.cross(c[..., :3], c[..., 2:5]), np.fliplr(n)
np.broadcast_to(w, (3, 4)) + 0
[x * 2 for x in (v, w)][1], len([x for x in range(4) if x % 2]), tuple(range(3))
(1, *(2, k))[2]
1 if k in (1, 2, 3) else 0, k not in (1, 2), 2 in (k, 2), isinstance(k, int)
isinstance(v, np.ndarray)
np.array([[1, 2], [k, 4]]), np.array([v[:2], w[:2]]), np.asarray([1.5, k])
np.array([w, w * 2]).T
np.finfo(v.dtype).eps * v, np.iinfo(np.int8).max + n, m.dtype.kind == "f", divmod(7, k)
divmod(v[0], 2.0)
m[slice(1, k)], m[slice(None), slice(None, None, 2)], v[k - 5 :: k - 5], v[:: k - 4]
v[7 : 1 : -k]
np.hypot(*(v[0], v[1])), np.ascontiguousarray(f), np.ascontiguousarray(m[:, 1]), m[0].copy()
np.positive(m).T
"""
NEAR = """
np.tensordot(m, n, ([0, 1], [0, 1])), np.tensordot(c, m, (1, 0))
np.tensordot(c, w[:3], ((0,), (0,)))
np.inner(v, v), np.inner(m, n), np.vdot(v, v), np.vdot(m, m), np.vdot(z, z)
np.tensordot(m, m.T, 1)
np.correlate(v, w), np.correlate(w, v, "full"), np.convolve(v, w)
np.convolve(w, v, mode="same")
np.convolve(v, w, "valid"), np.correlate(v, w, mode="same"), np.convolve(u, u)
np.cov(m), np.cov(v), np.corrcoef(m), np.cov(m, rowvar=False), np.cov(m, bias=True)
np.logaddexp(v, 0.5), np.sinc(v), np.polyval([1.0, 2.0, 3.0], v), np.polyval(w, 0.5)
np.angle(z, deg=True)
np.nanvar(nan, ddof=1, axis=0), np.sum(v, where=v > 0), np.mean(m, axis=0, where=m > 0)
"""


pytestmark = pytest.mark.filterwarnings("ignore")  # of NumPy, about NaN and zeros


def lines(text: str) -> list[str]:
    return [line for line in text.strip().splitlines() if line]


def check(body: str, slack: float) -> None:
    names = [name for name in GIVEN if name in body]
    function = define(f"def f({', '.join(names)}):\n    return {body}\n")
    agree(function, *(GIVEN[name] for name in names), wanted="", slack=slack)


@pytest.mark.parametrize("body", lines(EXACT))
def test_to_the_bit(body: str) -> None:
    check(body, 0.0)


@pytest.mark.parametrize("body", lines(NEAR))
def test_within_rounding(body: str) -> None:
    check(body, 1e-13)
