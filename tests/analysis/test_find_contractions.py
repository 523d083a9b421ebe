"""Contractions: every spelling of a kernel is found, and what is none is refused with a reason."""

import pytest

from loopwright.analysis.find_contractions import explain, find_contractions, whole_contraction
from loopwright.ir.contraction import Contraction
from loopwright.ir.program import Program
from loopwright.ir.text import contraction_text, expr_text
from programs import (
    MATMUL,
    ORDERS,
    Do,
    For,
    batched,
    dot,
    gemv,
    kernel,
    matmul,
    matmul_apart,
    matmul_in_nest,
    min_plus,
    nest,
    outer,
    over,
    program,
    rank5,
    trace,
)


def only(known: Program) -> Contraction:
    (found,) = find_contractions(known)
    return found


def bundles(found: Contraction) -> str:
    """`batch|i|j|p`, the names of their loops."""
    loops = (found.batch, found.i, found.j, found.p)
    return "|".join("".join(x.name for x in bundle) for bundle in loops)


@pytest.mark.parametrize("order", ORDERS)
def test_matmul_in_any_order(order: str) -> None:
    found = only(matmul(order))
    assert bundles(found) == "|i|j|k"
    assert contraction_text(found) == (
        "contraction S0 in float64:\n"
        "    i: i in range(n)\n"
        "    j: j in range(m)\n"
        "    p: k in range(q)\n"
        "    accumulator = C[i, j]\n"
        "    accumulator = accumulator + A[i, k] * B[k, j] over p in this order\n"
        "    C[i, j] = accumulator"
    )


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (gemv(), "|i||k"),
        (dot(), "|||k"),
        (outer(), "|i|j|"),
        (batched(), "t|i|j|k"),
        (rank5(), "|abde|c|f"),
        (trace(), "|||k"),
        (min_plus(), "|i|j|k"),
    ],
    ids=lambda x: getattr(x, "name", None),
)
def test_bundles(known: Program, expected: str) -> None:
    assert bundles(only(known)) == expected


@pytest.mark.parametrize(
    ("value", "plus", "times", "left", "right"),
    [
        ("C[i, j] + A[i, k] * B[k, j]", "add", "mul", "A[i, k]", "B[k, j]"),
        ("B[k, j] * A[i, k] + C[i, j]", "add", "mul", "B[k, j]", "A[i, k]"),
        ("C[i, j] - A[i, k] * B[k, j]", "add", "mul", "-A[i, k]", "B[k, j]"),
        ("C[i, j] + -(A[i, k] / B[k, j])", "add", "div", "-A[i, k]", "B[k, j]"),
        ("fma(A[i, k], B[k, j], C[i, j])", "add", "mul", "A[i, k]", "B[k, j]"),
        ("min(C[i, j], A[i, k] + B[k, j])", "min", "add", "A[i, k]", "B[k, j]"),
        ("max(A[i, k] - B[k, j], C[i, j])", "max", "sub", "A[i, k]", "B[k, j]"),
        ("max(C[i, j], min(A[i, k], B[k, j]))", "max", "min", "A[i, k]", "B[k, j]"),
        ("C[i, j] * (A[i, k] - B[k, j])", "mul", "sub", "A[i, k]", "B[k, j]"),
        ("C[i, j] + alpha * A[i, k] * B[k, j]", "add", "mul", "alpha[] * A[i, k]", "B[k, j]"),
        ("C[i, j] + A[i, k] * alpha * B[k, j]", "add", "mul", "A[i, k] * alpha[]", "B[k, j]"),
        ("C[i, j] + A[i, k] * (B[k, j] * 2)", "add", "mul", "A[i, k]", "B[k, j] * 2.0"),
        ("C[i, j] + exp(A[i, k]) * B[k, j]", "add", "mul", "exp(A[i, k])", "B[k, j]"),
        ("C[i, j] + abs(A[i, k]) * B[k, j]", "add", "mul", "abs(A[i, k])", "B[k, j]"),
        ("C[i, j] + A[i, k] * A[i, k] * B[k, j]", "add", "mul", "A[i, k] * A[i, k]", "B[k, j]"),
        ("C[i, j] + A[i, k] * D[0, 0] * B[k, j]", "add", "mul", "A[i, k] * D[0, 0]", "B[k, j]"),
        ("C[i, j] + A[2 * i + 1, n - 1 - k]", "add", "mul", "A[2 * i + 1, n - 1 - k]", None),
        ("C[i, j] - A[i, k]", "add", "mul", "-A[i, k]", None),
        ("C[i, j] + 2 * (A[i, k] * A[i, k])", "add", "mul", "2.0 * (A[i, k] * A[i, k])", None),
    ],
)  # fmt: skip
def test_products(value: str, plus: str, times: str, left: str, right: str | None) -> None:
    found = only(kernel(over("ikj", Do("C[i, j]", value))))
    assert (found.plus, found.times) == (plus, times)
    assert expr_text(found.left.value) == left
    assert (expr_text(found.right.value) if found.right else None) == right


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("C[i, j] + alpha * (A[i, k] * B[k, j])", "alpha[] * A[i, k]"),
        ("C[i, j] + A[i, k] * B[k, j] * alpha", "alpha[] * A[i, k]"),
        ("C[i, j] - A[i, k] * B[k, j] * alpha", "-(alpha[] * A[i, k])"),
        ("C[i, j] + -(A[i, k] * B[k, j]) * alpha", "alpha[] * -A[i, k]"),
        ("C[i, j] + A[i, k] * B[k, j] * A[i, k]", "A[i, k] * A[i, k]"),
    ],
)
def test_scalars_outside_of_a_product_need_leave(value: str, left: str) -> None:
    body = over("ijk", Do("C[i, j]", value))
    assert find_contractions(kernel(body)) == ()
    for free in (kernel(body, reassoc=True), kernel(body, dtype="int32")):
        found = only(free)
        assert found.reassoc
        assert expr_text(found.left.value) == left


def test_converted_factors() -> None:
    arrays = {"A": "in int8 [n, q]", "B": "in int8 [q, m]", "C": "inout int32 [n, m]"}
    update = Do("C[i, j]", "C[i, j] + int32(A[i, k]) * int32(B[k, j])")
    found = only(program("wide", arrays, over("ijk", update), params="n m q"))
    assert expr_text(found.left.value) == "int32(A[i, k])"
    assert found.dtype.name == "int32"
    assert found.left.access.dtype.name == "int8"
    update = Do("C[i, j]", "C[i, j] + int32(A[i, k] * B[k, j])")
    assert explain(program("late", arrays, over("ijk", update), params="n m q")) == (
        "S0: no contraction: the product is formed in int8 and only then converted to int32;"
        " convert the factors instead",
    )


@pytest.mark.parametrize(
    ("element", "left", "right", "expected"),
    [
        ("C[i, j]", "A[i, k]", "B[k, k]", "|ij||k"),  # j in no factor: a row of i with stride 0
        ("C[i, j]", "A[k, k]", "B[k, k]", "|ij||k"),
        ("C[i, j]", "A[i, j]", "B[k, j]", "j|i||k"),  # k in one factor only
        ("C[i, j]", "A[i, j]", "B[i, j]", "ij|||k"),  # k in no factor: summed up all the same
        ("C[i, j]", "A[i + k, 0]", "B[2 * k - j, 0]", "|i|j|k"),
        ("C[j + 3, n - 1 - i]", "A[i, k]", "B[k, j]", "|i|j|k"),
        ("C[i, i + j]", "A[i, k]", "B[k, j]", "|i|j|k"),
    ],
)
def test_affine_accesses(element: str, left: str, right: str, expected: str) -> None:
    found = only(kernel(over("ijk", Do(element, f"{element} + {left} * {right}"))))
    assert bundles(found) == expected


START = [
    ("0", "0.0"),
    ("beta * C[{i}, {j}]", "beta[] * C[i, j]"),
    ("C[{i}, {j}] * beta", "C[i, j] * beta[]"),
    ("D[{i}, {j}]", "D[i, j]"),
    ("b[{j}] + 1", "b[j] + 1.0"),
]


@pytest.mark.parametrize(("value", "initial"), START)
@pytest.mark.parametrize("order", ["ijk", "kji"])
def test_first_values_in_a_nest_apart(value: str, initial: str, order: str) -> None:
    start = Do("C[x, y]", value.format(i="x", j="y"))
    apart = nest((("y", "m"), ("x", "n")), start)
    found = only(kernel(apart, over(order, MATMUL)))
    assert (expr_text(found.initial), found.covers) == (initial, ("S0", "S1"))


def test_last_changes() -> None:
    known = kernel(
        over("ij", Do("C[i, j]", "0")),
        over("kij", MATMUL),
        over("ij", Do("C[i, j]", "C[i, j] + b[j]")),
        over("ji", Do("C[i, j]", "max(C[i, j], 0)")),
    )
    found = only(known)
    assert expr_text(found.final) == "max(accumulator + b[j], 0.0)"
    assert found.covers == ("S0", "S1", "S2", "S3")


def test_last_change_of_a_local_array_goes_elsewhere() -> None:
    update = Do("t[i, j]", "t[i, j] + A[i, k] * B[k, j]")
    last = Do("D[i, j]", "alpha * t[i, j] + beta * D[i, j]")
    found = only(kernel(over("ij", Do("t[i, j]", "0")), over("ijk", update), over("ij", last)))
    assert found.out.array == "D"
    assert expr_text(found.final) == "alpha[] * accumulator + beta[] * D[i, j]"
    assert found.covers == ("S0", "S1", "S2")


@pytest.mark.parametrize(
    ("last", "final"),
    [
        ("s", "accumulator"),
        ("alpha * s", "alpha[] * accumulator"),
        ("C[i, j] + s", "C[i, j] + accumulator"),
        ("alpha * s + beta * C[i, j]", "alpha[] * accumulator + beta[] * C[i, j]"),
    ],
)
def test_accumulation_in_a_local_scalar(last: str, final: str) -> None:
    inner = For("k", 0, "q", Do("s", "s + A[i, k] * B[k, j]"))
    found = only(kernel(over("ji", Do("s", "0"), inner, Do("C[i, j]", last))))
    assert (found.out.array, bundles(found)) == ("C", "|i|j|k")
    assert (expr_text(found.initial), expr_text(found.final)) == ("0.0", final)
    assert found.covers == ("S0", "S1", "S2")


def test_scalar_that_holds_a_factor() -> None:
    update = over("j", Do("C[i, j]", "C[i, j] + r * B[k, j]"))
    found = only(kernel(over("ik", Do("r", "alpha * A[i, k]"), update)))
    assert expr_text(found.left.value) == "alpha[] * A[i, k]"
    assert found.covers == ("S0", "S1")


def test_decreasing_reduction_is_mirrored_where_its_order_counts() -> None:
    down = over("ij", For("k", "q - 1", -1, MATMUL, step=-1))
    found = only(kernel(down))
    assert expr_text(found.left.value) == "A[i, q - 1 - k]"
    assert expr_text(only(kernel(down, reassoc=True)).left.value) == "A[i, k]"


def test_two_products_in_a_row() -> None:
    known = kernel(
        over("ij", Do("t[i, j]", "0")),
        over("ijk", Do("t[i, j]", "t[i, j] + A[i, k] * B[k, j]")),
        over("ij", Do("D[i, j]", "beta * D[i, j]")),
        nest((("x", "n"), ("y", "n"), ("z", "m")), Do("D[x, y]", "D[x, y] + t[x, z] * C[z, y]")),
    )
    first, second = find_contractions(known)
    assert (first.out.array, first.covers) == ("t", ("S0", "S1"))
    assert (second.out.array, second.left.access.array) == ("D", "t")
    assert second.covers == ("S3",)  # D is scaled over other loops: n x m, not n x n


def test_whole_programs_that_are_contractions(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = matmul("kji")
    assert whole_contraction(whole) == only(whole)

    def asked(known: Program) -> None:
        raise AssertionError(f"dependences of '{known.name}' are not needed")

    monkeypatch.setattr("loopwright.analysis.find_contractions.dependences", asked)
    beside = kernel(over("ij", Do("D[i, j]", "b[j]"), For("k", 0, "q", MATMUL)))
    assert whole_contraction(beside) is None


def test_explanations_of_contractions() -> None:
    relu = Do("C[i, j]", "max(C[i, j], 0)")
    assert explain(matmul_in_nest(after=relu)) == (
        "S0: part of the contraction S1",
        "S1: contraction of A[i, k] * B[k, j] by add into C[i, j]: i = (i), j = (j), p = (k),"
        " in source order",
        "S2: part of the contraction S1",
    )
    assert explain(trace()) == (
        "S0: contraction of A[k, k] by add into s[]: p = (k), in source order",
    )
    assert explain(min_plus()) == (
        "S0: contraction of A[i, k] + B[k, j] by min into C[i, j]: i = (i), j = (j), p = (k),"
        " in any order",
    )
    assert explain(outer()) == (
        "S0: contraction of x[i] * y[j] by add into C[i, j]: i = (i), j = (j)",
    )
    apart = matmul_apart(Do("C[x, y]", "beta * C[x, y]"))
    assert explain(apart)[0] == "S0: part of the contraction S1"
