"""What is no contraction, or only a part of the program that looks like one, and the reasons."""

from dataclasses import replace

import islpy as isl
import pytest

from loopwright.analysis.find_contractions import explain, find_contractions
from loopwright.ir.islkit import context
from programs import (
    MATMUL,
    Do,
    For,
    kernel,
    nest,
    over,
    program,
)


def test_statement_between_forbids_a_unit() -> None:
    read = Do("D[i, 0]", "C[i, 0]")
    known = kernel(over("k", over("ij", MATMUL), over("i", read)))
    assert explain(known) == (
        "S0: no contraction: S1 reads the value before the reduction is complete",
        "S1: no contraction: not of the form x = x op e with an associative operator",
    )


def test_factor_that_changes_between_forbids_a_unit() -> None:
    change = Do("A[i, q - 1]", "2 * A[i, q - 1]")
    inner = over("ij", MATMUL)
    known = kernel(over("k", inner, over("i", change)))
    assert explain(known)[0] == "S0: no contraction: S1 must run between its instances"


@pytest.mark.parametrize(
    ("target", "value", "reason"),
    [
        ("C[i, j]", "C[i, j] + C[k, j] * B[k, i]", "it reads elements of 'C' that it also writes"),
        ("C[i + j, 0]", "C[i + j, 0] + A[i, k] * B[k, j]",
         "the element written varies with the reduction loop 'i'"),
        ("C[i, j]", "C[i, j] + A[i, k] * B[k, j] * D[k, k]",
         "3 array elements are combined, more than two"),
        ("C[i, j]", "C[i, j] + exp(A[i, k] - B[k, j])",
         "'A' and 'B' are not combined by one operator as two factors"),
        ("C[i, j]", "C[i, j] + alpha", "what is accumulated does not vary with the loops"),
        ("C[i, j]", "C[i, j] + A[i, k] * float64(k)", "loop variable 'k' is used as a value"),
        ("C[i, j]", "A[i, k] * B[k, j]",
         "not of the form x = x op e with an associative operator"),
        ("C[i, j]", "C[i, j] / A[i, k]",
         "not of the form x = x op e with an associative operator"),
    ],
)  # fmt: skip
def test_reasons(target: str, value: str, reason: str) -> None:
    known = kernel(over("ijk", Do(target, value)))
    assert explain(known) == (f"S0: no contraction: {reason}",)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (over("ij", For("k", 0, "q", MATMUL, step=2)), "a loop has a step other than 1"),
        (over("ijk", Do(MATMUL.target, MATMUL.value, where="k != 3")),
         "the domain is a union of several parts"),
        (over("ijk", Do(MATMUL.target, MATMUL.value, where="n > 3")),
         "the statement runs only where a condition on the parameters holds"),
        (over("ijk", Do(MATMUL.target, MATMUL.value, where="k < i")),
         "the range of loop 'k' depends on loop 'i'"),
    ],
)  # fmt: skip
def test_domains_that_are_no_boxes(body: For, reason: str) -> None:
    assert explain(kernel(body)) == (f"S0: no contraction: {reason}",)


def test_value_set_anew_inside_the_reduction() -> None:
    reset = Do("C[i, j]", "0", where="k = 3")
    known = kernel(over("ijk", reset, MATMUL))
    reason = "the value is set anew inside the reduction over (k)"
    assert explain(known)[1] == f"S1: no contraction: {reason}"


def test_results_on_one_element() -> None:
    inner = For("k", 0, "q", Do("s", "s + A[i, k] * B[k, j]"))
    known = kernel(over("ij", Do("s", "0"), inner, Do("D[i, 0]", "s")))
    reason = "several results are stored to one element of 'D'"
    assert explain(known)[1] == f"S1: no contraction: {reason}"


def test_skewed_reduction_needs_leave() -> None:
    arrays = {"A": "in float64 [n, n]", "s": "inout float64 []"}
    for reassoc, count in ((False, 0), (True, 1)):
        body = nest((("i", "n"), ("j", "n")), Do("s", "s + A[i, j]"))
        known = program("skewed", arrays, body, reassoc=reassoc)
        tree = isl.Schedule.from_domain(known.schedule.get_domain())
        for text in ("[n] -> b[{ S0[i, j] -> [(j)] }]", "[n] -> a[{ S0[i, j] -> [(i + j)] }]"):
            tree = tree.insert_partial_schedule(isl.MultiUnionPwAff.read_from_str(context(), text))
        known = replace(known, schedule=tree)
        assert len(find_contractions(known)) == count
        if not reassoc:
            reason = "the reduction runs in an order that is not one of its loops"
            assert explain(known) == (f"S0: no contraction: {reason}",)


def test_name_of_the_accumulator_is_taken() -> None:
    arrays = {"x": "in float64 [n]", "s": "inout float64 []"}
    body = For("accumulator", 0, "n", Do("s", "s + x[accumulator]"))
    known = program("taken", arrays, body)
    assert explain(known) == ("S0: no contraction: the name 'accumulator' is taken",)
