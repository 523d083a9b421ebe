"""Contractions: every spelling of a kernel is found, and what is none is refused with a reason."""

import pytest

from loopwright.analysis.find_contractions import explain, find_contractions, whole_contraction
from loopwright.ir.contraction import Contraction
from loopwright.ir.program import Program
from loopwright.ir.text import expr_text
from programs import (
    MATMUL,
    Do,
    For,
    kernel,
    matmul,
    matmul_apart,
    matmul_in_nest,
    min_plus,
    nest,
    outer,
    over,
    program,
    trace,
)


def only(known: Program) -> Contraction:
    (found,) = find_contractions(known)
    return found


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


def test_last_change_of_a_local_array_goes_elsewhere() -> None:
    update = Do("t[i, j]", "t[i, j] + A[i, k] * B[k, j]")
    last = Do("D[i, j]", "alpha * t[i, j] + beta * D[i, j]")
    found = only(kernel(over("ij", Do("t[i, j]", "0")), over("ijk", update), over("ij", last)))
    assert found.out.array == "D"
    assert expr_text(found.final) == "alpha[] * accumulator + beta[] * D[i, j]"
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
