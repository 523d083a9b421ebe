"""What every operator does to NumPy scalars, the corners above all."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ir.examples import load
from loopwright.diagnostics import InternalError
from loopwright.ir.check_expr import BINARY_KINDS, FUNCTION_KINDS, UNARY_KINDS
from loopwright.ir.dtypes import DTYPES, FLOAT32, FLOAT64, DType
from loopwright.ir.evaluate import Rules, compiled, evaluate
from loopwright.ir.expr import (
    BINARY_OPS,
    FUNCTIONS,
    UNARY_OPS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
)

INTEGERS = [d for d in DTYPES.values() if d.is_integer]
REALS = [d for d in DTYPES.values() if d.is_float]


def binary(op: str, x: complex, y: complex, dtype: DType) -> np.generic:
    return evaluate(Binary(op, Const(x, dtype), Const(y, dtype)))


def corners(dtype: DType) -> list[complex]:
    """Values at which machines disagree."""
    if dtype.kind == "b":
        return [False, True]
    if dtype.is_integer:
        limits = np.iinfo(dtype.name)
        values = {int(limits.min), int(limits.max), 0, 1, 2, 3, 7, limits.max // 2}
        return sorted(values | ({-1, -2, -7} if dtype.kind == "i" else set()))
    real = [0.0, -0.0, 1.0, -1.5, 3.0, math.inf, -math.inf, math.nan, 60000.0, 1e-7]
    return [*real] if dtype.is_float else [0j, 1 + 2j, -3.5j, complex(math.inf, 1)]


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_every_operator_is_total_and_keeps_its_dtype(dtype: DType) -> None:
    for op, (x, y) in itertools.product(BINARY_OPS, itertools.product(corners(dtype), repeat=2)):
        if dtype.kind in BINARY_KINDS[op]:
            expr = Binary(op, Const(x, dtype), Const(y, dtype))
            assert evaluate(expr).dtype == expr.dtype.numpy, (op, x, y)
    for op, x in itertools.product(UNARY_OPS, corners(dtype)):
        if dtype.kind in UNARY_KINDS[op]:
            unary = Unary(op, Const(x, dtype))
            assert evaluate(unary).dtype == unary.dtype.numpy, (op, x)
    for name, x in itertools.product(FUNCTIONS, corners(dtype)):
        # dot takes loads, not values: it has a test of its own.
        if dtype.kind in FUNCTION_KINDS[name] and name != "dot":
            call = Call(name, (Const(x, dtype),) * FUNCTIONS[name])
            assert evaluate(call).dtype == call.dtype.numpy, (name, x)


def test_tables_of_kinds_name_every_operator() -> None:
    assert BINARY_KINDS.keys() == BINARY_OPS.keys()
    assert UNARY_KINDS.keys() == UNARY_OPS.keys()
    assert FUNCTION_KINDS.keys() == FUNCTIONS.keys()


def wrapped(value: int, dtype: DType) -> int:
    low = int(np.iinfo(dtype.name).min)
    return (value - low) % 2**dtype.bits + low


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_wrap(dtype: DType) -> None:
    for x, y in itertools.product(map(int, map(abs, corners(dtype))), repeat=2):
        x, y = wrapped(x, dtype), wrapped(y, dtype)
        assert binary("add", x, y, dtype) == wrapped(x + y, dtype)
        assert binary("sub", x, y, dtype) == wrapped(x - y, dtype)
        assert binary("mul", x, y, dtype) == wrapped(x * y, dtype)
        assert binary("min", x, y, dtype) == min(x, y)
        if y:
            assert binary("floordiv", x, y, dtype) == wrapped(x // y, dtype)
            assert binary("mod", x, y, dtype) == wrapped(x % y, dtype)


@pytest.mark.parametrize("dtype", [d for d in INTEGERS if d.kind == "i"], ids=str)
def test_least_integer(dtype: DType) -> None:
    least = int(np.iinfo(dtype.name).min)
    assert binary("floordiv", least, -1, dtype) == least
    assert binary("mod", least, -1, dtype) == 0
    assert evaluate(Unary("neg", Const(least, dtype))) == least
    assert evaluate(Unary("abs", Const(least, dtype))) == least


@pytest.mark.parametrize(
    ("base", "exponent", "power"),
    [
        (3, 4, 81),
        (2, 7, -128),
        (2, 8, 0),
        (0, 0, 1),
        (-3, 3, -27),
        (1, -5, 1),
        (-1, -3, -1),
        (-1, -4, 1),
        (2, -1, 0),
        (0, -1, 0),
    ],
)
def test_integer_powers(base: int, exponent: int, power: int) -> None:
    assert binary("pow", base, exponent, DTYPES["int8"]) == power


def bits(value: np.generic) -> bytes:
    return value.tobytes()


@pytest.mark.parametrize("dtype", REALS, ids=str)
def test_min_and_max_order_zeros_and_pass_nan_on(dtype: DType) -> None:
    minus, plus = dtype.numpy.type(-0.0), dtype.numpy.type(0.0)
    for x, y in ((-0.0, 0.0), (0.0, -0.0)):
        assert bits(binary("min", x, y, dtype)) == bits(minus)
        assert bits(binary("max", x, y, dtype)) == bits(plus)
    for x, y in ((math.nan, 1.0), (1.0, math.nan), (math.nan, math.nan)):
        assert np.isnan(binary("min", x, y, dtype))
        assert np.isnan(binary("max", x, y, dtype))


@given(st.lists(st.floats(width=32), min_size=3, max_size=3), st.sampled_from(["min", "max"]))
def test_min_and_max_associate_bit_by_bit(values: list[float], op: str) -> None:
    x, y, z = (Const(v, FLOAT32) for v in values)
    left, right = (
        evaluate(Binary(op, Binary(op, x, y), z)),
        evaluate(Binary(op, x, Binary(op, y, z))),
    )
    assert bits(left) == bits(right) or (np.isnan(left) and np.isnan(right))


def test_floats_round_in_their_own_type() -> None:
    half = DTYPES["float16"]
    assert binary("add", 2048.0, 1.0, half) == 2048
    assert binary("mul", 300.0, 300.0, half) == math.inf
    assert binary("div", 1.0, 3.0, FLOAT32) == np.float32(1) / np.float32(3)
    assert evaluate(Call("fma", (Const(3.0, half), Const(700.0, half), Const(1.0, half)))) == 2100


@pytest.mark.parametrize(
    ("value", "source", "target", "result"),
    [
        (300, "int64", "int8", 44),
        (-1, "int8", "uint32", 2**32 - 1),
        (2.9, "float64", "int32", 2),
        (-2.9, "float64", "int32", -2),
        (1e10, "float64", "int32", 2**31 - 1),
        (-1e10, "float32", "int32", -(2**31)),
        (-1.0, "float64", "uint8", 0),
        (256.0, "float64", "uint8", 255),
        (math.inf, "float16", "int64", 2**63 - 1),
        (2.0**63, "float64", "int64", 2**63 - 1),
        (2.0**62, "float32", "int64", 2**62),
        (2.0**64, "float64", "uint64", 2**64 - 1),
        (math.nan, "float32", "int16", 0),
        (math.nan, "float32", "bool", True),
        (0.0, "float32", "bool", False),
        (70000.0, "float64", "float16", math.inf),
        (2**53 + 1, "int64", "float64", 2.0**53),
        (2, "int64", "complex64", 2 + 0j),
        (True, "bool", "float32", 1.0),
    ],
)
def test_conversions(value: complex, source: str, target: str, result: complex) -> None:
    converted = evaluate(Cast(Const(value, DTYPES[source]), DTYPES[target]))
    assert converted.dtype == np.dtype(target)
    assert converted == result


def test_dot_adds_four_widened_products() -> None:
    x, y = (Load(name, (Const(1),), DTYPES["int8"]) for name in "xy")
    arrays = {
        "x": np.array([9, 100, 1, 2, -3], np.int8),
        "y": np.array([9, -100, 5, 6, 7], np.int8),
    }
    total = Call("dot", (x, y, Const(7, DTYPES["int32"])))
    assert evaluate(total, arrays=arrays) == 7 - 10000 + 5 + 12 - 21


@pytest.mark.parametrize(
    ("expr", "told"),
    [
        (Var("i"), "variable i has no value here"),
        (load("z", 0), "array z is not given"),
        (load("x", -1), "x[-1] is outside, shape [3]"),
        (load("x", 3), "x[3] is outside, shape [3]"),
        (load("x", 0, 0), "x[0, 0]: x has 1 dimensions"),
        (Binary("add", Const(1), Const(1.0, FLOAT64)), "operands of 'add' are int64 and float64"),
    ],
)
def test_faults_are_told(expr: Expr, told: str) -> None:
    with pytest.raises(InternalError) as caught:
        evaluate(expr, {}, {"x": np.zeros(3)})
    assert caught.value.message == told


def test_both_branches_of_a_select_need_valid_addresses() -> None:
    expr = Select(Const(0) < Const(1), Const(1.0, FLOAT64), load("x", 5))
    with pytest.raises(InternalError, match="outside"):
        evaluate(expr, {}, {"x": np.zeros(3)})
    inside = Select(Var("i") < 2, load("x", Var("i")), load("x", 0))
    assert evaluate(inside, {"i": 1}, {"x": np.arange(3.0)}) == 1


def test_what_was_compiled_is_used_again() -> None:
    """For the rules of numbers; others keep what they see of a run."""
    expr = load("x", 1) + Const(1.0, FLOAT64)
    assert compiled(expr) is compiled(expr)
    rules = Rules()
    assert compiled(expr, rules) is not compiled(expr, rules)


def test_round_goes_away_from_zero_at_halves() -> None:
    """As in C; the value next below a half stays."""
    below = float(np.nextafter(0.5, 0))
    values = (0.5, 1.5, -2.5, below, -below, 2.4, -2.6, -0.0)
    found = [evaluate(Call("round", (Const(x, FLOAT64),))) for x in values]
    wanted = [1.0, 2.0, -3.0, 0.0, -0.0, 2.0, -3.0, -0.0]
    assert [(x, math.copysign(1, x)) for x in found] == [(x, math.copysign(1, x)) for x in wanted]
