"""Source trees to programs: domains, schedule trees, roles, names, sizes that are made smaller."""

from __future__ import annotations

import textwrap
from dataclasses import replace

import numpy as np
import pytest

from frontends.kernels import assert_same, compiled, define
from loopwright.diagnostics import DtypeError
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.frontends.python import argument_types
from loopwright.frontends.tree_rewrites import set_before_read, shrink_sizes
from loopwright.frontends.tree_text import tree_text
from loopwright.ir.program import Program

A = np.zeros(4)
B = np.zeros((4, 4))


STENCIL = b"""
double A[2048][1024], B[2048][1024];
void f(void) {
#pragma scop
  for (int t = 0; t < 10; t++)
    for (int i = 1; i < 2047; i++)
      for (int j = 0; j <= 1023; j++)
        A[i][1023 - j] = 1000.0 * B[i - 1][j] + B[2047 - i][j];
#pragma endscop
}
"""


def made(source: bytes, factor: int) -> tuple[Program, dict[int, int]] | None:
    (region,) = read_c(source).regions
    found = shrink_sizes(region.tree, factor)
    return None if found is None else (program_of(found.tree, reassoc=False), found.sizes)


def test_sizes_and_their_neighbours() -> None:
    found = made(STENCIL, 8)
    assert found is not None
    program, sizes = found
    assert sizes == {2048: 256, 1024: 128}
    (expected,) = (
        program_of(region.tree, reassoc=False)
        for region in read_c(
            STENCIL.replace(b"2048", b"256")
            .replace(b"2047", b"255")
            .replace(b"1024", b"128")
            .replace(b"1023", b"127")
        ).regions
    )
    (found_one,), (expected_one,) = program.statements, expected.statements
    assert found_one.domain.is_equal(expected_one.domain)
    assert replace(found_one, domain=expected_one.domain, span=expected_one.span) == expected_one
    assert program.arrays == expected.arrays


def test_small_numbers_are_no_sizes() -> None:
    small = STENCIL.replace(b"2048", b"40").replace(b"2047", b"39")
    assert made(small.replace(b"1024", b"20").replace(b"1023", b"19"), 2) is None


def test_what_is_set_before_it_is_read() -> None:
    source = b"""
void f(int n, double A[n], double out[1]) {
  double a, b, c, d, e;
#pragma scop
  if (n > 3) { a = A[0]; b = A[1]; } else { a = A[2]; }
  c = c + 1; c = 2;
  for (int i = 0; i < n; i++) { d = A[i]; }
  e = a; a = e;
  out[0] = a + b + c + d + e;
#pragma endscop
}
"""
    (region,) = read_c(source).regions
    assert set_before_read(region.tree.body) == {"a", "e"}


def test_unsupported_dtypes() -> None:
    with pytest.raises(DtypeError, match="dtype 'object' is not supported"):
        argument_types([np.zeros(3, object)])
    with pytest.raises(DtypeError, match="byte order of dtype '>f8' is not the machine's"):
        argument_types([np.zeros(3, ">f8")])


def test_tree_text() -> None:
    text = """
    def f(A, B, n, x):
        s = 0
        for i in range(n - 1, -1, -2):
            if i > 2 and n != i:
                s += A[i] * x
            else:
                A[i] = B[i, 0] if A[i] > 0 else n
        for i in range(1, n):
            A[i] = A[i - 1] if i > 1 else 0
        return s,
    """
    args = (np.zeros(9, np.float32), np.zeros((9, 1)), 9, 0.5)
    tree, _ = compiled(define(text), *args)
    assert tree_text(tree) == textwrap.dedent("""\
        def f(A: float32[A_0], B: float64[B_0, B_1], n: int, x: float64):
            s: float32
            s[] = 0.0
            for i in range(n - 1, -1, -2):
                if (i > 2) & (n != i):
                    s[] = s[] + A[i] * float32(x[])
                else:
                    A[i] = float32(B[i, 0]) if A[i] > 0.0 else float32(n)
            for i_1 in range(1, n):
                if i_1 > 1:
                    A[i_1] = A[i_1 - 1]
                else:
                    A[i_1] = 0.0
            return s,""")


def test_whole_numbers_of_python_stay_as_they_are() -> None:
    """2**53 + 1, which float64 does not hold."""
    for name in ("floor", "ceil", "trunc"):
        text = f"def f(A, n):\n    for i in range(len(A)):\n        A[i] = math.{name}(n)\n"
        assert_same(define(text), np.zeros(2, np.int64), (1 << 53) + 1)
