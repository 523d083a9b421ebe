"""Variables that loops step by what the loops themselves change have no known values."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from loopwright.diagnostics import SourceError
from loopwright.runtime.toolchain import build_library, load_library

BODIES = {
    "stepped too": "int a = 1, b = 0; for (int i = 0; i < n; i++) { a += 2; b += a; y[i] = b; }",
    "by data": """int a = 1, b = 0;
        for (int i = 0; i < n; i++) { b = b + a; a += x[i] % 3; y[i] = b; }""",
    "under a condition": """int h = 1, b = 0;
        for (int i = 0; i < n; i++) { if (x[i] > 3) h = 5; b += h; y[i] = b; }""",
    "by each other": "int a = 1, b = 1; for (int i = 0; i < n; i++) { a += b; b += 1; y[i] = a; }",
    "set behind": "int h = 1, b = 0; for (int i = 0; i < n; i++) { b += h; y[i] = b; h = 2; }",
    "in a loop inside": """int h = 1, b = 0;
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < 3; j++) { b += h; y[i] += b; }
            h = 2;
        }""",
    "not changed": "int k = 2, b = 1; for (int i = 0; i < n; i++) { b += k; y[i] = b; }",
    "changed between": """int k = 2, b = 1;
        for (int i = 0; i < n; i++) b += k;
        k = 7;
        for (int i = 0; i < n; i++) { b += k; y[i] = b; }""",
}


def text(body: str) -> str:
    return f"void f(int n, int x[n], int y[n]) {{\n#pragma scop\n{body}\n#pragma endscop\n}}\n"


@needs_cc
@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", BODIES)
def test_values(name: str) -> None:
    source = text(BODIES[name])
    compiled = lw.compile(source)
    expected = load_library(build_library(source, ("-O1",)))["f"]
    for n in (0, 1, 2, 7, 20):
        x = (np.arange(n) * 7 % 11).astype(np.int32)
        found, wanted = np.zeros(n, np.int32), np.zeros(n, np.int32)
        compiled(n, x, found)
        expected(n, *(ctypes.c_void_p(array.ctypes.data) for array in (x, wanted)))
        assert np.array_equal(found, wanted), n


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("int h = 1; for (int i = 0; i < n; i += h) { y[i] = h; h = 2; }", "LW105"),
        ("int k = 1, p = 0; for (int i = 0; 2 * i < n; i++) { y[p] = i; p += k; k = 2; }", "LW110"),
    ],
    ids=["step of the loop", "subscript"],
)
def test_what_is_refused(body: str, told: str) -> None:
    with pytest.raises(SourceError, match=told):
        lw.parse_c(text(body))
