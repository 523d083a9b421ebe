"""Every operator on every dtype, alone and in vectors, equals `ir/evaluate` bit for bit."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from backends.compiled import assert_same_bits, compile_nest, run_kernel
from loopwright.ir.check_expr import BINARY_KINDS, FUNCTION_KINDS, UNARY_KINDS
from loopwright.ir.dtypes import BOOL, DTYPES, DType
from loopwright.ir.expr import (
    FUNCTIONS,
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
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import Block, Buffer, For, LoopNest, Mark, Stmt, Store

ONE = Const(1)
COMMON_LANES = (2, 4, 8)
i, lane, n = Var("i"), Var("lane"), Var("n")
Make = Callable[[Expr, Expr], Expr]


def lanes_of(dtype: DType) -> tuple[int, ...]:
    """One lane, an odd number, sixteen, and one of the usual numbers, a different one per dtype."""
    return 1, 3, COMMON_LANES[list(DTYPES.values()).index(dtype) % 3], 16


def values_of(dtype: DType) -> list[complex]:
    """Elements at which operators differ: ends of the range, zeros, infinities, NaN."""
    if dtype == BOOL:
        return [False, True]
    if dtype.is_integer:
        limits = np.iinfo(dtype.name)
        small = [v for v in (-7, -3, -2, -1, 0, 1, 2, 3, 10) if v >= limits.min]
        return [limits.min, limits.min + 1, *small, limits.max // 2, limits.max - 1, limits.max]
    limits = np.finfo(dtype.real.name)
    real = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, -7.25, 1000.5]
    real += [float(limits.max), float(limits.smallest_normal), -float(limits.smallest_subnormal)]
    real += [float(limits.eps), np.inf, -np.inf, np.nan]
    if dtype.is_float:
        return real
    plain = [0.0, 1.0, -1.5, 3.0, -0.25]
    return [complex(x, y) for x, y in itertools.product(plain, plain)]


def operands(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of the dtype's values."""
    pairs = list(itertools.product(values_of(dtype), repeat=2))
    x, y = (np.array([p[k] for p in pairs], dtype.name) for k in (0, 1))
    return x, y


def nest_of(outputs: dict[str, tuple[DType, Make]], dtype: DType, lanes: int) -> LoopNest:
    """One loop that stores every expression of x and y; whole vectors, then single elements."""

    def stores(at: Expr) -> Stmt:
        x, y = Load("x", (at,), dtype), Load("y", (at,), dtype)
        return Block(tuple(Store(name, (at,), make(x, y)) for name, (_, make) in outputs.items()))

    whole = n // lanes * lanes
    wide = For("lane", Const(0), Const(lanes), stores(i + lane), ONE, Mark.VECTOR)
    body = Block(
        (
            For("i", Const(0), whole, wide, Const(lanes)),
            For("i", whole, n, stores(i), ONE),
        )
    )
    buffers = [Buffer("x", dtype, (ONE,)), Buffer("y", dtype, (ONE,))]
    buffers += [Buffer(name, d, (ONE,), writable=True) for name, (d, _) in outputs.items()]
    return LoopNest("f", tuple(buffers), ("n",), body)


Results = dict[str, np.ndarray]


def both(
    outputs: dict[str, tuple[DType, Make]], dtype: DType, x: np.ndarray, y: np.ndarray
) -> list[tuple[int, Results, Results]]:
    """Lanes, compiled results and the interpreter's."""
    empty = {name: np.zeros(x.size, d.name) for name, (d, _) in outputs.items()}
    expected = {name: data.copy() for name, data in empty.items()}
    interpret_nest(nest_of(outputs, dtype, 1), {"x": x, "y": y, **expected}, {"n": x.size})
    found = []
    for lanes in lanes_of(dtype):
        results = {name: data.copy() for name, data in empty.items()}
        nest = nest_of(outputs, dtype, lanes)
        run_kernel(compile_nest(nest), nest, {"x": x, "y": y, **results}, {"n": x.size})
        found.append((lanes, results, expected))
    return found


def assert_exact(
    outputs: dict[str, tuple[DType, Make]], dtype: DType, x: np.ndarray, y: np.ndarray
) -> None:
    for lanes, found, expected in both(outputs, dtype, x, y):
        for name in outputs:
            assert_same_bits(found[name], expected[name], f"{name} of {dtype}, {lanes} lanes")


def binary(op: str) -> Make:
    return lambda x, y: Binary(op, x, y)


def call(function: str) -> Make:
    arguments = FUNCTIONS[function]
    return lambda x, y: Call(function, (x, y, x)[:arguments])


EXACT_FUNCTIONS = (
    *("sqrt", "floor", "ceil", "conj", "real", "imag"),
    *("min_number", "max_number", "add_sat"),
    *("trunc", "round", "rint", "copysign", "fmod"),
)


@pytest.mark.drawn(1)
@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if not d.is_complex], ids=str)
def test_exact_operators(dtype: DType) -> None:
    makes: dict[str, Make] = {
        op: binary(op)
        for op, kinds in BINARY_KINDS.items()
        if dtype.kind in kinds and (op != "pow" or dtype.is_integer)
    }
    makes |= {
        f"{op}_x": lambda x, y, op=op: Unary(op, x)
        for op, kinds in UNARY_KINDS.items()
        if dtype.kind in kinds
    }
    makes |= {
        f"call_{name}": call(name) for name in EXACT_FUNCTIONS if dtype.kind in FUNCTION_KINDS[name]
    }
    if dtype.is_integer:
        makes |= {f"call_{name}": call(name) for name in ("pow", "fma")}
    makes["select"] = lambda x, y: Select(Binary("le", x, y), x, y)
    makes["nested"] = lambda x, y: Binary("max", Binary("min", x, y), Binary("add", x, x))
    x, y = operands(dtype)
    outputs = {
        name: (make(Load("x", (i,), dtype), Load("y", (i,), dtype)).dtype, make)
        for name, make in makes.items()
    }
    assert_exact(outputs, dtype, x, y)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_conversions(dtype: DType) -> None:
    x, _ = operands(dtype)
    far = [1e10, -1e10, 1e20, -1e20, 127.5, 128.0, 255.9, 65504.0, 65520.0, 2.0**63, 2049.0, 1e-6]
    if dtype.kind in "fc":
        with np.errstate(over="ignore"):
            x = np.concatenate([x, np.array(far).astype(dtype.name)])
    outputs = {
        f"to_{to}": (to, lambda x, y, to=to: Cast(x, to)) for to in DTYPES.values() if to != dtype
    }
    assert_exact(outputs, dtype, x, x)
