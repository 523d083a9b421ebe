"""Accesses with gaps between iterations start from the element of the first one."""

from __future__ import annotations

import re

import numpy as np
import pytest

import loopwright as lw
from loopwright import options

HEAD = "void f(int n, int m, double x[4 * n + m + 9], double y[4 * n + m + 9], int c[n + 1])"
BODIES = {
    "one": "for (int i = 0; i < n; i++) y[i] += x[2 * i + m];",
    "pair": "for (int i = 0; i < n; i++) y[i] += x[2 * i + m] * x[2 * i + m + 1];",
    "not from zero": "for (int i = m; i < n; i++) y[i] += x[3 * i - 2 * m + 1] - x[i];",
    "downwards": "for (int i = 0; i < n; i++) y[i] += x[2 * n - 2 * i + m];",
    "stored": "for (int i = 0; i < n; i++) { y[2 * i + m] = x[i]; y[2 * i + m + 1] = 2 * x[i]; }",
    "in one place": "for (int i = 0; i < n; i++) x[2 * i + m] = x[2 * i + m] + x[2 * i + m + 1];",
    "where data ask": "for (int i = 0; i < n; i++) if (c[i] > 0) y[i] = x[2 * i + m];",
    "inside rows": """for (int t = n - 1; t >= 0; t--)
        for (int i = 0; i <= t; i++) y[i] = 0.5 * y[i + 1] + x[2 * i - t + n];""",
    "far": "for (int i = 0; i < n / 5; i++) y[i] += x[9 * i + m];",
}
# Accesses that data decide on may not be told to lie where the first iteration would look, those
# that lie further apart than LLVM's vectors with gaps need not.
REBASED = set(BODIES) - {"where data ask", "far"}


def text(name: str) -> str:
    return f"{HEAD} {{\n#pragma scop\n{BODIES[name]}\n#pragma endscop\n}}\n"


def arrays(n: int, m: int) -> tuple[np.ndarray, ...]:
    draws = np.random.default_rng(n + m)
    x, y = (draws.integers(-99, 99, 4 * n + m + 9) / 4.0 for _ in range(2))
    return x, y, draws.integers(-1, 2, n + 1).astype(np.int32)


@pytest.mark.drawn(8)
@pytest.mark.parametrize(("n", "m"), [(0, 0), (1, 0), (2, 1), (7, 5), (33, 2), (130, 17)])
@pytest.mark.parametrize("name", BODIES)
def test_meaning(name: str, n: int, m: int) -> None:
    function = lw.compile(text(name))
    wanted, found = arrays(n, m), arrays(n, m)
    with options.override(interpret=True):
        function(n, m, *wanted)
    function(n, m, *found)
    for right, one in zip(wanted, found, strict=True):
        assert np.array_equal(right, one)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", BODIES)
def test_addresses(name: str) -> None:
    """Two steps, both inside of the array."""
    function = lw.compile(text(name), race=False)
    given = 33, 2, *arrays(33, 2)
    with options.override(num_threads=1):
        function(*given)
        code = function.inspect_llvm(*given)
    bases = set(re.findall(r"(%\w+) = getelementptr inbounds double, ptr %b", code))
    steps = re.findall(r"getelementptr inbounds double, ptr (%t\w+),", code)
    assert bool(bases & set(steps)) == (name in REBASED)


@pytest.mark.parametrize("m", [0, 3])
def test_values_that_vary_in_the_loop_are_no_part_of_the_first_address(m: int) -> None:
    """A scalar of the iteration, set from the iterator, in a subscript beside a gap."""
    body = "for (int i = 0; i < n; i++) { int k = i / 2 + m; y[i] = x[2 * i + k]; }"
    function = lw.compile(f"{HEAD} {{\n#pragma scop\n{body}\n#pragma endscop\n}}\n")
    x, y, c = arrays(40, m)
    function(40, m, x, y, c)
    i = np.arange(40)
    assert np.array_equal(y[:40], x[2 * i + i // 2 + m])
