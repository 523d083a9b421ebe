"""The text of every noun, as a reader of a dump meets it."""

import ast
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.examples import gemm, gemm_contraction, load
from loopwright.ir.dtypes import BOOL, DTYPES, FLOAT32, FLOAT64
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Select, Unary, Var
from loopwright.ir.interpret import evaluate
from loopwright.ir.kernel_variant import Algorithm, Broadcast, KernelVariant, Packing
from loopwright.ir.loops import (
    Mark,
)
from loopwright.ir.schedule import Schedule, ScheduledContraction
from loopwright.ir.text import expr_text, text

x, y, z = Var("x"), Var("y"), Var("z")
f = Const(-1.5, FLOAT64)


@pytest.mark.parametrize(
    ("expr", "shown"),
    [
        (x + y * z, "x + y * z"),
        ((x + y) * z, "(x + y) * z"),
        (x - (y - z), "x - (y - z)"),
        (x - y - z, "x - y - z"),
        (x + Const(-1), "x + -1"),
        (x * (y // 2) % 3, "x * (y // 2) % 3"),
        (Unary("neg", x + y), "-(x + y)"),
        (Unary("neg", Binary("pow", x, y)), "-x ** y"),
        (Binary("pow", Unary("neg", x), Unary("neg", y)), "(-x) ** -y"),
        (Binary("pow", Binary("pow", x, y), z), "(x ** y) ** z"),
        (Binary("pow", x, Binary("pow", y, z)), "x ** y ** z"),
        (Unary("not", x), "~x"),
        (Unary("abs", x - y), "abs(x - y)"),
        (x.min(y + 1).max(0), "max(min(x, y + 1), 0)"),
        (Binary("or", x, Binary("and", y, z)), "x | y & z"),
        (Binary("and", Binary("xor", x, y), z), "(x ^ y) & z"),
        (Binary("eq", x < y, y < z), "(x < y) == (y < z)"),
        (Select(x < y, x, Select(y < z, y, z)), "x if x < y else y if y < z else z"),
        (Select(x < y, x, y) + z, "(x if x < y else y) + z"),
        (Cast(x + y, FLOAT32), "float32(x + y)"),
        (Call("fma", (f, f, f)), "fma(-1.5, -1.5, -1.5)"),
        (load("A", x, y + 1), "A[x, y + 1]"),
        (load("s"), "s[]"),
        (Const(True, BOOL), "True"),
        (Const(2, FLOAT64), "2.0"),
        (Const(math.inf, FLOAT64), "inf"),
        (Const(1 - 2j, DTYPES["complex64"]), "(1-2j)"),
        (Binary("later", x, y), "later(x, y)"),
    ],
)
def test_expressions(expr: Expr, shown: str) -> None:
    assert text(expr) == shown


def integer_expressions() -> st.SearchStrategy[Expr]:
    leaves = st.sampled_from([x, y, z, Const(3), Const(-2)])
    binary = st.sampled_from(["add", "sub", "mul", "floordiv", "mod", "and", "or", "xor"])
    return st.recursive(
        leaves,
        lambda below: (
            st.builds(Binary, binary, below, below)
            | st.builds(Unary, st.sampled_from(["neg", "not", "abs"]), below)
            | st.builds(lambda c, d, a, b: Select(c < d, a, b), below, below, below, below)
        ),
        max_leaves=12,
    )


@given(integer_expressions(), st.tuples(*[st.integers(-9, 9)] * 3))
def test_text_means_the_same_to_python(expr: Expr, values: tuple[int, int, int]) -> None:
    """Parentheses left out never change the meaning, and no pair could be left out."""
    env = dict(zip("xyz", values, strict=True))
    shown = expr_text(expr)
    try:
        expected = eval(shown, {"abs": abs}, env)
    except ZeroDivisionError:
        return
    if abs(expected) < 2**62:
        assert evaluate(expr, env) == expected
    assert len(ast.unparse(ast.parse(shown))) == len(shown)


def test_program() -> None:
    assert text(gemm()) == (
        """\
program gemm(n):
    where n >= 0
    in A: float64[n, n]
    in B: float64[n, n]
    out C: float64[n, n]
    S[i, j] : 0 <= i < n and 0 <= j < n:
        C[i, j] = 0.0
    T[i, j, k] : 0 <= i < n and 0 <= j < n and 0 <= k < n:
        C[i, j] = C[i, j] + A[i, k] * B[k, j]
    order:
        for i: S[i, j] -> [(i)]; T[i, j, k] -> [(i)]
            for j: S[i, j] -> [(j)]; T[i, j, k] -> [(j)]
                in order:
                    S[i, j]
                    T[i, j, k]:
                        for k: T[i, j, k] -> [(k)]"""
    )


def test_contraction() -> None:
    assert text(gemm_contraction()) == (
        """\
contraction T in float64:
    i: i in range(n)
    j: j in range(n)
    p: k in range(n)
    accumulator = 0.0
    accumulator = accumulator + A[i, k] * B[k, j] over p in any order
    C[i, j] = accumulator
    replaces S, T"""
    )


def test_schedule() -> None:
    program = gemm()
    schedule = Schedule(
        program,
        program.schedule,
        marks=(("i", Mark.PARALLEL), ("j", Mark.VECTOR)),
        factors=(("j", 4),),
    )
    assert text(schedule) == (
        """\
schedule of gemm:
    parallel for i: S[i, j] -> [(i)]; T[i, j, k] -> [(i)]
        vector(4) for j: S[i, j] -> [(j)]; T[i, j, k] -> [(j)]
            in order:
                S[i, j]
                T[i, j, k]:
                    for k: T[i, j, k] -> [(k)]"""
    )


def test_schedule_of_a_contraction() -> None:
    """The loops that run are those of the kernel."""
    program = gemm()
    variant = KernelVariant(
        Algorithm.PRODUCT,
        *(4, 4, 2),
        *(Packing.ALONG_P, Packing.DIRECT),
        broadcast=Broadcast.LANE,
        unroll=4,
        parallel="j",
    )
    kernel = ScheduledContraction(gemm_contraction(), (variant,), (64, 96, 256))
    assert text(Schedule(program, program.schedule, contractions=(kernel,))) == (
        """\
schedule of gemm:
    kernel of S, T:
        for every element of the batch loops:
            parallel for j in blocks of 96:
                for p in blocks of 256:
                    for i in blocks of 64: pack left
                        for j in tiles of 8:
                            for i in tiles of 4:
                                for p by 4: 4 x 8 sums in registers
        product of 4 x 4 x 2; left along_p, right direct; elements of left by lane; \
4 steps at a time; parallel over j
        contraction T in float64:
            i: i in range(n)
            j: j in range(n)
            p: k in range(n)
            accumulator = 0.0
            accumulator = accumulator + A[i, k] * B[k, j] over p in any order
            C[i, j] = accumulator
            replaces S, T"""
    )
