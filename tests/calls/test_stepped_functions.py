"""Functions that Python drives in steps compute what Python computes."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from frontends.kernels import define
from procedure_oracle import compare, outcome

RANDOM = np.random.default_rng(5)
A = RANDOM.normal(size=(4, 4)) + 4 * np.eye(4)
V = RANDOM.normal(size=9)
SLACK = 1e-12  # of sums and products around calls, whose order is ours


def same(function: Callable[..., Any], *args: Any, slack: float = 0.0, **options: Any) -> Any:
    """Both give the same result or exception, and leave the same in arrays and generators."""
    given, expected = copy.deepcopy(args), copy.deepcopy(args)
    with np.errstate(all="ignore"):
        wanted = outcome(lambda: function(*expected))
        compiled = lw.jit(**options)(function)
        compare(outcome(lambda: compiled(*given)), wanted, slack)
    for one, other in zip(given, expected, strict=True):
        if isinstance(one, np.random.Generator):
            assert one.bit_generator.state == other.bit_generator.state
        else:
            compare(one, other, slack)
    return compiled


def decompositions(a: Any) -> Any:
    s = np.dot(a, a.T) + 1.0
    lower = np.linalg.cholesky(s)
    values, vectors = np.linalg.eigh(s)
    u, d, vt = np.linalg.svd(a)
    q, r = np.linalg.qr(a)
    a[0] *= np.linalg.det(a)
    x = np.linalg.solve(a, s[0] * 2) + np.linalg.inv(a)[1:3, 0].sum()
    return lower + q, values * 2, abs(vectors) @ abs(u), d.sum(), abs(vt), r.shape, x


def sorted_things(v: Any) -> Any:
    w = v * 2
    w.sort()
    order = np.argsort(v)
    values, counts = np.unique(np.round(v), return_counts=True)
    low, high = np.percentile(v, [25, 75])
    h, edges = np.histogram(v, bins=4)
    p = np.polyfit(v, w, 2)
    share = np.interp(np.median(v), w, v) + np.cov(v, w)[0, 1] + np.corrcoef(v, w)[1, 0]
    clipped = np.minimum(v[order], high) - low
    return w[order], values + counts, h / h.sum(), edges[1:] - edges[:-1], p, share, clipped


def spectrum(v: Any, n: int) -> Any:
    f = np.fft.fft(v * np.hanning(n))
    f[abs(f) < 0.5] = 0
    return np.fft.ifft(f).real, np.fft.fftfreq(n, 0.5) * 2


def walk(n: int, rng: Any) -> Any:
    x, path = np.zeros(3), np.zeros((n, 3))
    for i in range(n):
        step = rng.normal(size=3)
        if rng.random() < 0.25:
            continue
        x = x + 0.5 * step / np.sqrt((step**2).sum())
        path[i] = x
        if rng.integers(0, 20) == 7:
            break
    return path, rng.permutation(n) * 2


def spread(v: Any) -> Any:
    if v.shape[0] == 0:
        return 0.0
    return np.median(np.abs(v - np.median(v)))


def by_helpers(a: Any) -> Any:
    total = 0.0
    for row in a:
        total += spread(row) if row[0] > 0 else 1.0
    return total, spread(a[0] * 2) > 1.0 and np.linalg.det(a) > 0.0


def shrinking(v: Any, limit: float) -> Any:
    found = np.zeros(v.shape[0])
    at = np.arange(v.shape[0])
    steps = 0
    while len(v):
        v = v * 2
        far = abs(v) > limit
        found[at[far]] = steps
        v, at = v[~far], at[~far]
        steps += 1
        if steps == 30:
            break
    return found, at, steps


def masked(v: Any, a: Any) -> Any:
    chosen = v[v > 0] * 2
    return chosen, chosen[1:], a[a > 3.9], (v[v < 0] + 1).sum()


def flattened(a: Any) -> Any:
    x, y = a * 2, a + 1
    x.shape = y.shape = a.shape[0] * a.shape[1]
    x[1:] = y[:-1]
    return x, np.reshape(a, a.shape[0] * a.shape[1])


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (flattened, (A,)),
        (decompositions, (A,)),
        (sorted_things, (V,)),
        (spectrum, (V, 9)),
        (walk, (12, np.random.default_rng(3))),
        (by_helpers, (A,)),
        (shrinking, (V, 3.0)),
        (masked, (V, A)),
    ],
)
def test_steps_mean_what_python_computes(function: Any, args: tuple[Any, ...]) -> None:
    same(function, *args, slack=SLACK)


def test_the_state_of_numpys_generator_goes_on() -> None:
    def drawn(n: int) -> Any:
        np.random.seed(n)
        x = np.random.rand(n) * 2
        return x + np.random.normal(), np.random.randint(0, 9, 3)

    same(drawn, 4)


TRACE: list[float] = []


def noted(x: Any, change: float = 0.0) -> Any:
    """A function of the user, which writes what it is given."""
    TRACE.append(float(np.sum(x)))
    if change:
        x[0] += change
    return x[-1] * 2


ORDERS = [
    "return x[0] + noted(x, 1.0) * x[0]",
    "return x * 2 + noted(x, 1.0) + x * 2",
    "return x[0], noted(x, 1.0), x[0] + noted(x, 2.0), x.sum()",
    "return noted(x + noted(x, 1.0)) if noted(x) > 1 else noted(x * 3)",
    "return (noted(x) > 1 and noted(x, 1.0) > 2 or noted(x, 3.0) > 0), x * 1",
    "x[0] += noted(x, 1.0)\n    x += noted(x, 1.0)\n    return x * 2",
    "x[int(noted(x, 1.0) > 0)] = x[0]\n    return x * 2",
    "for v in (x * noted(x)):\n        noted(x, v)\n    return x * 2",
    "y = x[1:]\n    y += noted(x, 1.0)\n    noted(y, 1.0)\n    return x * 2, y",
    "while noted(x, 1.0) + x[0] < 9:\n        x *= 1.5\n    return x",
    "assert noted(x, 1.0) > 100\n    return x",
    "if noted(x * 2) > 100:\n        y = x\n    x *= 2\n    return y",
    "np.linalg.cholesky(np.zeros((2, 2)) - 1 + 0 * noted(x, 1.0))\n    return x",
    "return np.sort(x) < noted(x, 1.0), sorted([noted(x), 0.0])",
]


@pytest.mark.parametrize("body", ORDERS)
def test_everything_is_evaluated_in_pythons_order(body: str) -> None:
    function = define(f"def f(x):\n    {body}\n", noted=noted)
    for x in (np.array([1.0, 2.0]), np.array([-3.0, 0.5])):
        TRACE.clear()
        given, expected = x.copy(), x.copy()
        wanted = outcome(lambda: function(expected))  # noqa: B023
        trace = list(TRACE)
        TRACE.clear()
        found = outcome(lambda: lw.jit(calls=[noted])(function)(given))  # noqa: B023
        assert trace == TRACE
        compare(found, wanted, SLACK)
        compare(given, expected)


FACTOR = 2.0


def doubled() -> float:
    global FACTOR
    FACTOR *= 2.0
    return 1.0


def of_a_global(x: Any) -> Any:
    x = x * FACTOR
    doubled()
    x = x + FACTOR
    doubled()
    return x * FACTOR


def test_called_functions_may_change_outer_numbers() -> None:
    global FACTOR
    compiled, results = lw.jit(calls=[doubled])(of_a_global), []
    for function in (compiled, of_a_global, compiled):
        FACTOR = 2.0
        results.append(function(V).copy())
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


def test_what_is_left_to_python_is_not_started_again() -> None:
    def function(x: Any) -> Any:
        noted(x, 1.0)
        y = x * 2
        z = {1, 2}
        noted(x, 1.0)
        return y + len(z)

    same(function, np.array([1.0, 2.0]), calls=[noted], on_unsupported="python")
    with pytest.raises(lw.SourceError, match="a set cannot be compiled"):
        lw.jit(calls=[noted])(function)(np.array([1.0, 2.0]))


def test_reports_name_the_calls() -> None:
    compiled = same(spread, V)
    report = compiled.explain(V)
    assert report.startswith(
        "a whole function in 1 compiled segments, driven by Python, which makes 2 calls\n"
        f"  line {spread.__code__.co_firstlineno + 3}: np.median(np.abs(v - np.median(v)))\n"
        f"  line {spread.__code__.co_firstlineno + 3}: np.median(v)\n"
        "def spread(v):\n"
    )


def test_arguments_may_be_generators() -> None:
    given = 5, np.random.default_rng(1)
    assert "which makes 4 calls" in same(walk, *given, slack=SLACK).explain(*given)


def test_a_call_inside_of_a_comprehension_is_refused() -> None:
    function = define("def f(x):\n    return [np.sort(v) for v in x]\n", file="f.py")
    with pytest.raises(lw.SourceError) as caught:
        lw.jit(function)(A)
    assert str(caught.value) == (
        "f.py:2:12: error: a comprehension or lambda calls what Python runs [LW197]\n"
        "    return [np.sort(v) for v in x]\n"
        "           ^^^^^^^^^^^^^^^^^^^^^^^\n"
        "try: a loop that calls it"
    )
