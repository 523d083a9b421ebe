"""Source trees to programs: domains, schedule trees, roles, names, sizes that are made smaller."""

from __future__ import annotations

import textwrap
from dataclasses import replace

import islpy as isl
import numpy as np
import pytest

from frontends.kernels import assert_same, compiled, define
from loopwright.diagnostics import DtypeError
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.frontends.python import argument_types
from loopwright.frontends.tree_rewrites import set_before_read, shrink_sizes
from loopwright.frontends.tree_text import tree_text
from loopwright.ir.expr import Var
from loopwright.ir.program import Program, Role

A = np.zeros(4)
B = np.zeros((4, 4))


def program_for(text: str, *args: object) -> Program:
    return compiled(define(text), *args)[1]


def loop(header: str, args: str = "A, n, m") -> str:
    return f"def f({args}):\n    {header}\n        A[0] = i\n"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("for i in range(n):", "0 <= i < n"),
        ("for i in range(m, n):", "m <= i < n"),
        ("for i in range(m - 1, 2 * n + 3):", "m - 1 <= i < 2n + 3"),
        ("for i in range(m, n, 3):", "m <= i < n and (i - m) mod 3 = 0"),
        ("for i in range(n - 1, -1, -1):", "0 <= i < n"),
        ("for i in range(n, m, -2):", "m < i <= n and (n - i) mod 2 = 0"),
        ("for i in range(min(n, m)):", "0 <= i < n and i < m"),
        ("for i in range(max(n, m), 9):", "n <= i < 9 and m <= i"),
        ("for i in range(n // 2, n):", "2i >= n - 1 and i < n"),
        ("for i in range(n % 4):", "0 <= i < n mod 4"),
        ("for i in range(-n, abs(m)):", "-n <= i and (i < m or i < -m)"),
        ("for i in range(A.shape[0] - 1):", "0 <= i < A_0 - 1"),
    ],
)
def test_domain_of_a_loop(header: str, expected: str) -> None:
    (statement,) = program_for(loop(header), A, 1, 1).statements
    wanted = isl.Set(f"[A_0, n, m] -> {{ S0[i] : {expected} }}")
    assert statement.domain.is_equal(wanted)
    assert statement.iterators == ("i",)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("i < n", "i < n"),
        ("0 < i <= n < 9", "0 < i <= n < 9"),
        ("i == 3 or i != n", "i != n or i = 3"),
        ("not (i < n and i > 2)", "i >= n or i <= 2"),
        ("i % 3 == 1", "i mod 3 = 1"),
        ("i", "i != 0"),
        ("not i", "i = 0"),
        ("abs(i - n) <= 2", "n - 2 <= i <= n + 2"),
        ("i > 2 and True", "i > 2"),
    ],
)
def test_domain_of_a_branch(condition: str, expected: str) -> None:
    text = f"""
    def f(A, n):
        for i in range(10):
            if {condition}:
                A[0] = 1
            else:
                A[0] = 2
    """
    then, other = program_for(text, A, 1).statements
    inside = isl.Set(f"[A_0, n] -> {{ S0[i] : 0 <= i < 10 and ({expected}) }}")
    outside = isl.Set("[A_0, n] -> { S0[i] : 0 <= i < 10 }").subtract(inside)
    assert then.domain.is_equal(inside)
    assert other.domain.is_equal(outside.set_tuple_name("S1"))


def test_schedule_tree() -> None:
    text = """
    def f(A, B):
        for i in range(len(A)):
            A[i] = 0
            for j in range(i, -1, -1):
                B[i, j] = A[j]
            A[i] = 1
        for i in range(4):
            A[i] = 2
    """
    program = program_for(text, A, B)
    domain = isl.UnionSet.empty(program.context.get_space())
    for statement in program.statements:
        domain = domain.union(isl.UnionSet.from_set(statement.domain))
    assert program.schedule.get_domain().is_equal(domain)
    order = isl.UnionMap(
        "{ S0[i] -> [0, i, 0, 0]; S1[i, j] -> [0, i, 1, -j]; S2[i] -> [0, i, 2, 0];"
        " S3[i_1] -> [1, i_1, 0, 0] }"
    )
    assert before(program.schedule.get_map(), domain).is_equal(before(order, domain))
    assert band_names(program) == ["i", "j", "i_1"]
    assert program.statement("S3").iterators == ("i_1",)


def before(order: isl.UnionMap, domain: isl.UnionSet) -> isl.UnionMap:
    """Which instances run before which."""
    restricted = order.intersect_domain(domain)
    return restricted.lex_lt_union_map(restricted)


def band_names(program: Program) -> list[str]:
    names: list[str] = []

    def visit(node: isl.ScheduleNode) -> bool:
        if node.get_type() == isl.schedule_node_type.band:
            band = node.band_get_partial_schedule()
            names.append(band.get_tuple_name(isl.dim_type.set))
            assert band.dim(isl.dim_type.set) == 1
        return True

    program.schedule.get_root().foreach_descendant_top_down(visit)
    return names


def test_parameters_context_and_roles() -> None:
    text = """
    def f(A, x, B, n, p):
        s = 0.0
        for i in range(n):
            s += A[i] * x
            t = A[i]
            B[i, p] = t
        return s
    """
    program = program_for(text, A, 0.5, B, 3, 1)
    assert program.name == "f"
    assert program.params == ("A_0", "B_0", "B_1", "n", "p")
    known = isl.Set("[A_0, B_0, B_1, n, p] -> { : A_0 >= 0 and B_0 >= 0 and B_1 >= 0 }")
    assert program.context.is_equal(known)
    roles = {array.name: (array.role, array.rank) for array in program.arrays}
    assert roles == {
        "A": (Role.IN, 1),
        "x": (Role.IN, 0),
        "B": (Role.INOUT, 2),
        "s": (Role.OUT, 0),
        "t": (Role.LOCAL, 0),
    }
    assert program.array("B").shape == (Var("B_0"), Var("B_1"))


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
