"""Rewrites of source trees: literal sizes made smaller, what branches set."""

from __future__ import annotations

from dataclasses import replace

from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.frontends.tree_rewrites import set_before_read, shrink_sizes
from loopwright.ir.program import Program

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
