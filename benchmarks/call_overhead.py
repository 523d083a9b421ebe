"""What a repeated call costs beside its arithmetic: calls on tiny arrays against NumPy's."""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

import loopwright as lw
from benchmarks.measure import Bar, Outcome, Setting, Table, geometric_mean

__all__ = ["run"]

_TURN = 0.01  # seconds
Call = Callable[[], Any]


@lw.jit
def _add_scaled(s, x, y):  # type: ignore[no-untyped-def]
    for i in range(x.shape[0]):
        y[i] = y[i] + s * x[i]


@lw.jit
def _product(c, a, b):  # type: ignore[no-untyped-def]
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


@lw.jit
def _whole(s, x, y):  # type: ignore[no-untyped-def]
    y[:] = y + s * x


@lw.jit
def _fresh(x, y, z):  # type: ignore[no-untyped-def]
    return x + y + z


@lw.jit
def _three(x, y, z):  # type: ignore[no-untyped-def]
    total = (x + y).sum()
    return x + y, z[1:], total


@lw.jit
def _counted(x, y, i):  # type: ignore[no-untyped-def]
    n = 0
    while n < 3:
        y[i[n]] = x[n]
        n += 1
    return n


def run(setting: Setting) -> Outcome:
    """Race calls of each kind against what NumPy has for it."""
    table = Table((("call", "26s"), ("ours us", "8.3f"), ("numpy us", "8.3f"), ("times", "7.2f")))
    print(table.head())
    rows = []
    for name, (ours, theirs) in _calls().items():
        times = [float("inf")] * 2
        calls = ours, theirs
        for call in calls:
            call(), call(), call()
        for _ in range(setting.rounds):
            for k, call in enumerate(calls):
                times[k] = min(times[k], _seconds(call))
        row = {"call": name, "us": 1e6 * times[0], "numpy_us": 1e6 * times[1]}
        rows.append(row | {"times": times[1] / times[0]})
        print(table.row(name, row["us"], row["numpy_us"], times[1] / times[0]), flush=True)
    speeds = [row["times"] for row in rows]
    print(f"times NumPy {geometric_mean(speeds):.2f}")
    bars = (
        Bar("repeated call, longest", max(row["us"] for row in rows), 2.5, True, " us"),
        Bar("times NumPy, least", min(speeds), 1.0),
    )
    return Outcome(tuple(rows), bars)


def _seconds(call: Call) -> float:
    """Seconds of a call, among as many as last a turn."""
    count = max(1, round(_TURN / max(timeit.timeit(call, number=20) / 20, 1e-7)))
    return timeit.timeit(call, number=count) / count


def _calls() -> dict[str, tuple[Call, Call]]:
    """Calls by what is special about them, each with NumPy's."""
    random = np.random.default_rng(0)
    a, b, c, d = (random.random((4, 4)).astype(np.float32) for _ in range(4))
    x, y, z = random.random(8), random.random(8), np.zeros(8)
    out, other = np.empty_like(a), np.empty_like(a)
    i, j = ((9 * v).astype(np.int64) for v in (a, b))
    places = np.arange(8)
    e, n, text = lw.einsum, np.einsum, "mk,kn->mn"
    return {
        "product, matmul": (lambda: e(text, a, b), lambda: np.matmul(a, b)),
        "product, matmul, out=": (
            lambda: e(text, a, b, out=out),
            lambda: np.matmul(a, b, out=other),
        ),
        "product": (lambda: e(text, a, b), lambda: n(text, a, b)),
        "transposed": (lambda: e(text, a, b.T), lambda: np.matmul(a, b.T)),
        "reversed": (lambda: e(text, a[::-1], b), lambda: n(text, a[::-1], b)),
        "integers": (lambda: e(text, i, j), lambda: np.matmul(i, j)),
        "dtype=": (
            lambda: e(text, a, b, dtype=np.float64),
            lambda: n(text, a, b, dtype=np.float64),
        ),
        "alpha=": (lambda: e(text, a, b, alpha=2.0), lambda: 2.0 * np.matmul(a, b)),
        "accumulate": (
            lambda: e(text, a, b, out=out, accumulate=True),
            lambda: np.add(other, np.matmul(a, b), out=other),
        ),
        "semiring": (
            lambda: e(text, a, b, semiring="min_plus"),
            lambda: (a[:, :, None] + b).min(1),
        ),
        "one operand": (lambda: e("ij->i", a), lambda: a.sum(1)),
        "sum of all": (lambda: e("ij->", a), lambda: n("ij->", a)),
        "view": (lambda: e("ij->ji", a), lambda: n("ij->ji", a)),
        "dot": (lambda: e("i,i->", x, y), lambda: np.dot(x, y)),
        "three operands": (
            lambda: e("ij,jk,kl->il", a, b, c),
            lambda: np.linalg.multi_dot((a, b, c)),
        ),
        "four operands": (
            lambda: e("ij,jk,kl,lm->im", a, b, c, d),
            lambda: n("ij,jk,kl,lm->im", a, b, c, d),
        ),
        "jit, a number and arrays": (lambda: _add_scaled(2.0, x, z), lambda: np.add(y, 2.0 * x, z)),
        "jit, a product": (lambda: _product(out, a, b), lambda: np.add(other, a @ b, out=other)),
        "jit, whole, in place": (lambda: _whole(2.0, x, z), lambda: _whole.py_func(2.0, x, z)),
        "jit, whole, a new array": (lambda: _fresh(x, y, z), lambda: _fresh.py_func(x, y, z)),
        "jit, whole, a tuple": (lambda: _three(x, y, z), lambda: _three.py_func(x, y, z)),
        "jit, whole, a loop, checks": (
            lambda: _counted(x, z, places),
            lambda: _counted.py_func(x, z, places),
        ),
    }
