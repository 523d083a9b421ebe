"""Semirings: identities and laws per type, semirings of one's own, and what is refused."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loopwright.diagnostics import DtypeError, UsageError
from loopwright.ir.dtypes import DTYPES, FLOAT32, FLOAT64, DType
from loopwright.ir.expr import Binary, Const, Load, Unary, Var
from loopwright.ir.interpret import evaluate
from loopwright.ir.visit import walk
from loopwright.semirings import (
    SEMIRINGS,
    Semiring,
    make_semiring,
    maximum,
    minimum,
    semiring,
)

X, Y = Var("x", FLOAT64), Var("y", FLOAT64)


def calls(ring: Semiring, dtype: DType) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """plus and times as functions of NumPy scalars."""
    x, y = Var("x", dtype), Var("y", dtype)
    plus, times = ring.plus_expr(dtype, x, y), ring.times_expr(dtype, x, y)
    return (
        lambda a, b: evaluate(plus, {"x": a, "y": b}),
        lambda a, b: evaluate(times, {"x": a, "y": b}),
    )


def elements(ring: Semiring, dtype: DType) -> list[np.generic]:
    """Elements the semiring is meant for, small enough for exact arithmetic."""
    is_positive = ring.name in ("max_times", "min_times")
    numbers: list[complex] = [1, 2, 3] if is_positive or dtype.kind == "u" else [-2, 0, 1, 3]
    if dtype.kind == "b":
        numbers = [False, True]
    return [dtype.numpy.type(x) for x in numbers]


PAIRS = [
    pytest.param(ring, dtype, id=f"{ring.name}-{dtype}")
    for ring in SEMIRINGS.values()
    for dtype in DTYPES.values()
    if dtype.kind in ring.kinds
]


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("ring", "dtype"), PAIRS)
def test_laws(ring: Semiring, dtype: DType) -> None:
    plus, times = calls(ring, dtype)
    zero, one = (dtype.numpy.type(v) for v in (ring.zero(dtype), ring.one(dtype)))
    values = elements(ring, dtype)
    for a in values:
        assert plus(a, zero) == plus(zero, a) == a
        assert times(a, one) == times(one, a) == a
        if ring.annihilates(dtype):
            assert times(a, zero) == times(zero, a) == zero
        if ring.idempotent:
            assert plus(a, a) == a
    for a, b, c in itertools.product(values, repeat=3):
        assert plus(a, b) == plus(b, a)
        assert plus(plus(a, b), c) == plus(a, plus(b, c))
        assert times(times(a, b), c) == times(a, times(b, c))
        assert times(a, plus(b, c)) == plus(times(a, b), times(a, c))
        assert times(a, b) == times(b, a)


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("ring", "dtype"), PAIRS)
def test_zero_leaves_even_the_extremes(ring: Semiring, dtype: DType) -> None:
    """Reductions start at zero: no element of the type may be changed by that."""
    plus, _ = calls(ring, dtype)
    zero = dtype.numpy.type(ring.zero(dtype))
    extremes: list[Any] = [False, True]
    if dtype.is_integer:
        extremes = [np.iinfo(dtype.name).min, np.iinfo(dtype.name).max]
    elif dtype.is_float:
        extremes = [-math.inf, math.inf, -0.0, math.nan]
    for value in map(dtype.numpy.type, extremes):
        result = plus(zero, value)
        assert result == value or (np.isnan(result) and np.isnan(value))


@pytest.mark.parametrize(
    ("name", "dtype", "zero", "one", "absent"),
    [
        ("plus_times", "int32", 0, 1, 0),
        ("plus_times", "complex64", 0, 1, 0),
        ("plus_times", "bool", False, True, False),
        ("min_plus", "float32", math.inf, 0.0, math.inf),
        ("min_plus", "int32", 2**31 - 1, 0, 2**31 - 1),
        ("min_plus", "uint8", 255, 0, 255),
        ("max_plus", "float64", -math.inf, 0.0, -math.inf),
        ("max_plus", "int8", -128, 0, -128),
        ("max_times", "float32", -math.inf, 1.0, 0.0),
        ("max_times", "uint16", 0, 1, 0),
        ("max_times", "int16", -(2**15), 1, 0),
        ("min_times", "float64", math.inf, 1.0, math.inf),
        ("min_max", "float16", math.inf, -math.inf, math.inf),
        ("min_max", "int64", 2**63 - 1, -(2**63), 2**63 - 1),
        ("max_min", "float64", -math.inf, math.inf, -math.inf),
        ("max_min", "uint64", 0, 2**64 - 1, 0),
        ("max_min", "bool", False, True, False),
        ("or_and", "bool", False, True, False),
        ("or_and", "int8", 0, -1, 0),
        ("or_and", "uint32", 0, 2**32 - 1, 0),
        ("xor_and", "uint8", 0, 255, 0),
    ],
)
def test_identities(name: str, dtype: str, zero: object, one: object, absent: object) -> None:
    ring, of = semiring(name), DTYPES[dtype]
    assert (ring.zero(of), ring.one(of), ring.absent(of)) == (zero, one, absent)
    python = {"b": bool, "i": int, "u": int, "f": float, "c": complex}[of.kind]
    assert type(ring.zero(of)) is type(ring.one(of)) is type(ring.absent(of)) is python


def message(error: pytest.ExceptionInfo[UsageError]) -> str:
    return str(error.value)


def test_unknown_names() -> None:
    accepted = ", ".join(SEMIRINGS)
    with pytest.raises(UsageError) as caught:
        semiring("min_pls")
    assert message(caught) == (
        f"no semiring is named 'min_pls'\ntry: did you mean 'min_plus'? accepted: {accepted}"
    )
    with pytest.raises(UsageError) as caught:
        semiring("quux")
    assert message(caught) == f"no semiring is named 'quux'\ntry: accepted: {accepted}"
    with pytest.raises(UsageError) as caught:
        semiring(3)  # type: ignore[arg-type]
    assert message(caught) == "a semiring is named by a string\nnote: found 3"


@pytest.mark.parametrize("method", ["zero", "one", "absent", "check_dtype"])
def test_foreign_dtypes(method: str) -> None:
    with pytest.raises(DtypeError) as caught:
        getattr(semiring("xor_and"), method)(FLOAT32)
    assert message(caught) == (
        "semiring 'xor_and' does not take float32\n"
        "try: accepted: bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64"
    )


def test_unsigned_max_plus_is_refused_with_its_reason() -> None:
    with pytest.raises(DtypeError) as caught:
        semiring("max_plus").check_dtype(DTYPES["uint16"])
    assert message(caught) == (
        "semiring 'max_plus' does not take uint16: 0 is the identity of max and of +, so nothing "
        "means 'no connection'\n"
        "try: accepted: int8, int16, int32, int64, float16, float32, float64"
    )


def test_own_semiring_of_integers() -> None:
    """A sum that wraps has no element that absorbs; operators that saturate are there by name."""
    most = 2**63 - 1
    with pytest.raises(UsageError, match="zero does not annihilate"):
        make_semiring("paths", minimum, lambda x, y: x + y, most, 0, samples=(0, 1, 3))
    ring = make_semiring("paths", minimum, "add_top", most, 0, samples=(0, 1, 3))
    assert (ring.times, ring.kinds, ring.commutative) == ("add_top", "i", True)


def test_own_semiring_with_functions() -> None:
    ring = make_semiring(
        "lukasiewicz",
        np.maximum,
        lambda x, y: maximum(x + y - 1, 0),
        0,
        1,
        samples=(0, 0.25, 0.5, 0.75, 1),
    )
    element = Load("A", (Var("i"),), FLOAT32)
    other = Var("y", FLOAT32)
    one, zero = Const(1.0, FLOAT32), Const(0.0, FLOAT32)
    total = Binary("sub", Binary("add", element, other), one)
    assert ring.times_expr(FLOAT32, element, other) == Binary("max", total, zero)
    assert ring.plus == "max"
    assert ring.kinds == "f"


def test_every_operator_of_a_stand_in() -> None:
    made = make_semiring(
        "all",
        lambda x, y: -abs(1 - x) * 2 / (3 + y) - 2 * x + 1 / y,
        lambda x, y: np.subtract(x, y) + np.float64(2) * x - np.absolute(y),
        0,
        1,
        check=False,
    )
    inner = Unary("abs", Binary("sub", Const(1.0, FLOAT64), X))
    found = made.plus_expr(FLOAT64, X, Y)
    assert evaluate(found, {"x": np.float64(3), "y": np.float64(2)}) == -4 / 5 - 6 + 0.5
    assert isinstance(found, Binary)
    assert inner in walk(found)
    product = made.times_expr(FLOAT64, X, Y)
    assert evaluate(product, {"x": np.float64(3), "y": np.float64(-2)}) == 5 + 6 - 2
    bits = make_semiring(
        "b", lambda x, y: ~(x ^ 1) | (2 & y) ^ (4 | x) & (8 ^ y), "and", 0, 1, check=False
    )
    uint8 = DTYPES["uint8"]
    value = bits.plus_expr(uint8, Var("x", uint8), Var("y", uint8))
    assert evaluate(value, {"x": np.uint8(5), "y": np.uint8(6)}) == 255 - 4 | 2 ^ 5 & 14


HINT = (
    "\ntry: give samples= when the laws hold for some elements only; with check=False "
    "results depend on the schedule"
)


@pytest.mark.parametrize(
    ("plus", "times", "zero", "one", "told"),
    [
        ("sub", "mul", 0, 1, "plus is not commutative\nnote: found plus(x, y) = -1.0"),
        ("add", "mul", 1, 1, "zero is not the identity of plus\nnote: found plus(x, zero) = 2.0"),
        ("add", "mul", 0, 2, "one is not the identity of times\nnote: found times(x, one) = 4.0"),
        ("min", "max", math.inf, 0, "one is not the identity of times\nnote: found times(x, one)"),
        ("add", "min", 0, math.inf, "times does not distribute over plus\nnote: found "),
        ("max", "mul", -math.inf, 1, "times does not distribute over plus\nnote: found "),
        ("max", "add", 0, 0, "zero is not the identity of plus\nnote: found plus(x, zero) = 0.0"),
        (
            "add",
            lambda x, y: x - y + 2 * y * 0 + y + y,
            0,
            0,
            "times does not distribute over plus",
        ),
        (
            lambda x, y: x + y + x * y * (x + y),
            "mul",
            0,
            1,
            "plus is not associative\nnote: found plus(plus(x, y), z) = ",
        ),
    ],
)
def test_broken_laws(plus: Any, times: Any, zero: float, one: float, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_semiring("mine", plus, times, zero, one)
    assert message(caught).startswith(f"semiring 'mine': {told}")
    assert message(caught).endswith(HINT)


def test_counter_example_in_full() -> None:
    with pytest.raises(UsageError) as caught:
        make_semiring("noisy", lambda x, y: x + y - x * y, "mul", 0, 1)
    assert message(caught) == (
        "semiring 'noisy': times does not distribute over plus\n"
        "note: found times(x, plus(y, z)) = -2.0 but plus(times(x, y), times(x, z)) = -8.0 "
        "for x = -2.0, y = 1.0, z = 1.0 in float64" + HINT
    )


@pytest.mark.parametrize(
    ("plus", "times", "told"),
    [
        (
            min,
            "add",
            "a semiring operator cannot compare or branch on its arguments\ntry: write "
            "minimum(x, y), maximum(x, y) of loopwright.semirings, or x & y, x | y",
        ),
        (
            lambda x, y: x or y,
            "and",
            "a semiring operator cannot compare or branch on its arguments\ntry: write "
            "minimum(x, y), maximum(x, y) of loopwright.semirings, or x & y, x | y",
        ),
        (
            lambda x, y: np.hypot(x, y),
            "mul",
            "np.hypot cannot be part of a semiring operator\n"
            "try: accepted: + - * / & | ^ ~ abs minimum maximum",
        ),
        (
            lambda x, y: math.sqrt(x) + y,
            "mul",
            "the function of a semiring cannot be followed: must be real number, not Traced",
        ),
        (lambda x, y: x + "a", "mul", "a semiring operator mixes numbers only\nnote: found 'a'"),
        (
            "plus",
            "mul",
            "no operator is named 'plus'\ntry: accepted: add, sub, mul, div, floordiv, mod, min, "
            "max, and, or, xor, pow, shl, shr, add_top, add_bottom, mul_sat",
        ),
        (
            lambda x, y: x & y,
            "div",
            "semiring 'mine' takes no element type: 'and' does not take float64",
        ),
        (
            "or",
            lambda x, y: x * 0.5,
            "semiring 'mine' takes no element type: 'or' does not take float64",
        ),
    ],
)
def test_functions_that_cannot_be_followed(plus: Any, times: Any, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_semiring("mine", plus, times, 0, 1)
    assert message(caught) == told


def test_names_and_samples_that_do_not_fit() -> None:
    with pytest.raises(UsageError) as caught:
        make_semiring("min_plus", "min", "add", math.inf, 0)
    assert message(caught) == "semiring 'min_plus' exists already\ntry: choose another name"
    with pytest.raises(UsageError) as caught:
        make_semiring("mine", "or", "and", 0.5, 1)
    assert message(caught).startswith("semiring 'mine': its laws cannot be tried: ")
    with pytest.raises(DtypeError) as caught:
        make_semiring("mine", "add", "mul", 0, 1e300, check=False).one(FLOAT32)
    assert message(caught) == "1e+300 is not a value of float32"
