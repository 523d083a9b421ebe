"""Mathematical functions, fused multiply-adds and complex arithmetic, to within their rounding."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from backends.compiled import assert_compiled
from backends.test_operators import Make, Results, assert_exact, both, call
from loopwright.ir.dtypes import DTYPES, INT32, DType
from loopwright.ir.expr import FUNCTIONS, Binary, Call, Const, Load, Unary, Var
from loopwright.ir.loops import Alloc, Block, Buffer, For, LoopNest, Mark, Space, Stmt, Store
from loopwright.machines.host import host

FLOATS = [DTYPES[f"float{bits}"] for bits in (16, 32, 64)]
COMPLEX = [DTYPES["complex64"], DTYPES["complex128"]]
TRANSCENDENTAL = ("exp", "exp2", "log", "log2", "log10", "sin", "cos", "tan", "tanh", "pow")
ULPS = 4  # NumPy's own vector loops claim no more than this


def assert_near(
    results: list[tuple[int, Results, Results]],
    scale: dict[str, np.ndarray] | None = None,
    ulps: int = ULPS,
) -> None:
    """Each part differs by at most `ulps` units of the result, or of its `scale`."""
    for lanes, found, expected in results:
        for name, x in found.items():
            y = expected[name]
            size = np.abs(y) if scale is None else scale[name]
            unit = np.finfo(x.real.dtype).eps
            with np.errstate(invalid="ignore", over="ignore"):
                off = np.maximum(np.abs(x.real - y.real), np.abs(x.imag - y.imag))
                least = np.finfo(x.real.dtype).smallest_subnormal
                near = off <= ulps * np.maximum(unit * size, least)
            same = (x == y) | (np.isnan(x) & np.isnan(y)) | near
            wrong = np.flatnonzero(~same)
            assert wrong.size == 0, f"{name}, {lanes} lanes: {x[wrong[:3]]} for {y[wrong[:3]]}"


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_functions_of_real_numbers(dtype: DType) -> None:
    limits = np.finfo(dtype.name)
    plain = [0.0, -0.0, 0.25, 1.0, -1.0, 1.5, -2.5, 3.0, 7.125, 88.0, -88.0, 1000.5]
    edge = [float(limits.max), float(limits.smallest_normal), np.inf, -np.inf, np.nan]
    pairs = list(itertools.product([*plain, *edge], repeat=2))
    x, y = (np.array([p[k] for p in pairs], dtype.name) for k in (0, 1))
    outputs: dict[str, tuple[DType, Make]] = {f: (dtype, call(f)) for f in TRANSCENDENTAL}
    outputs["operator_pow"] = dtype, lambda x, y: Binary("pow", x, y)
    assert_near(both(outputs, dtype, x, y))


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX], ids=str)
def test_multiply_add_rounds_once_or_twice(dtype: DType) -> None:
    random = np.random.default_rng(1)
    x, y = (random.uniform(-8, 8, (2, 200)).astype(dtype.real.name) for _ in range(2))
    x, y = (v[0] + 1j * v[1] if dtype.is_complex else v[0] for v in (x, y))
    x, y = (v.astype(dtype.name) for v in (x, y))
    size = np.abs(x) * np.abs(y) + np.abs(x)
    assert_near(both({"fma": (dtype, call("fma"))}, dtype, x, y), {"fma": size})


def complex_pairs(dtype: DType, parts: list[float]) -> tuple[np.ndarray, np.ndarray]:
    numbers = [complex(re, im) for re, im in itertools.product(parts, repeat=2)]
    pairs = list(itertools.product(numbers, repeat=2))
    x, y = (np.array([p[k] for p in pairs], dtype.name) for k in (0, 1))
    return x, y


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_exact_complex_operators(dtype: DType) -> None:
    x, y = complex_pairs(dtype, [0.0, -0.0, 1.5, -3.0, np.inf, np.nan])
    outputs: dict[str, tuple[DType, Make]] = {
        op: (Binary(op, Load("x", (), dtype), Load("y", (), dtype)).dtype, binary)
        for op, binary in (
            (op, lambda x, y, op=op: Binary(op, x, y)) for op in ("add", "sub", "eq", "ne")
        )
    }
    outputs["neg"] = dtype, lambda x, y: Unary("neg", x)
    outputs["conj"] = dtype, call("conj")
    outputs["real"] = dtype.real, call("real")
    outputs["imag"] = dtype.real, call("imag")
    outputs["abs"] = dtype.real, lambda x, y: Unary("abs", x)
    assert_exact(outputs, dtype, x, y)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_complex_arithmetic(dtype: DType) -> None:
    """Quotients and distances do not overflow on the way, as far as the numbers themselves fit."""
    large = float(np.sqrt(np.finfo(dtype.real.name).max)) * 8
    x, y = complex_pairs(dtype, [0.0, 1.0, -2.5, 3e-3, large, 1 / large])
    outputs: dict[str, tuple[DType, Make]] = {
        op: (dtype, lambda x, y, op=op: Binary(op, x, y)) for op in ("mul", "div")
    }
    outputs["abs"] = dtype.real, lambda x, y: Unary("abs", x)
    assert_near(both(outputs, dtype, x, y))


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_functions_of_complex_numbers(dtype: DType) -> None:
    x, y = complex_pairs(dtype, [0.0, 1.0, -0.75, 2.5])
    names = [f for f in FUNCTIONS if f in (*TRANSCENDENTAL, "sqrt")]
    outputs: dict[str, tuple[DType, Make]] = {f: (dtype, call(f)) for f in names}
    outputs["operator_pow"] = dtype, lambda x, y: Binary("pow", x, y)
    # NumPy's complex64 functions round on the way, ours only at the end.
    assert_near(both(outputs, dtype, x, y), ulps=16)


@pytest.mark.parametrize("narrow", ["int8", "uint8"])
@pytest.mark.parametrize("spread", ["x", "y", ""])
@pytest.mark.parametrize("features", [frozenset(), host().features], ids=["portable", "host"])
def test_dot_adds_four_products(narrow: str, spread: str, features: frozenset[str]) -> None:
    """Groups of one operand meet groups of the other, or all meet the group at one lane."""
    dtype, one, lane = DTYPES[narrow], Const(1), Var("lane")
    parts: list[Stmt] = []
    for name in "xy":
        store = Store(f"{name}_row", (Const(0), lane), Load(name, (lane,), dtype))
        parts.append(For("lane", Const(0), Const(16), store, one, Mark.VECTOR))
    x, y = (
        Load(f"{name}_row", (Const(0), Const(8) if name == spread else lane * 4), dtype)
        for name in "xy"
    )
    value = Call("dot", (x, y, Load("z", (lane,), INT32)))
    parts.append(For("lane", Const(0), Const(4), Store("z", (lane,), value), one, Mark.VECTOR))
    body: Stmt = Block(tuple(parts))
    for name in "xy":
        row = Buffer(f"{name}_row", dtype, (Const(16), one), Space.REGISTER)
        body = Alloc(row, (one, Const(16)), body)
    buffers = [Buffer(name, dtype, (one,)) for name in "xy"]
    nest = LoopNest("f", (*buffers, Buffer("z", INT32, (one,), writable=True)), (), body)
    random = np.random.default_rng(7)
    limits = np.iinfo(narrow)
    x_data, y_data = random.integers(limits.min, limits.max, (2, 16), endpoint=True).astype(narrow)
    arrays = {"x": x_data, "y": y_data, "z": np.arange(4, dtype=np.int32)}
    result = assert_compiled(nest, arrays, features=features)
    groups = {"x": x_data.reshape(4, 4), "y": y_data.reshape(4, 4)}
    if spread:
        groups[spread] = np.tile(groups[spread][2], (4, 1))
    products = groups["x"].astype(np.int32) * groups["y"].astype(np.int32)
    assert result["z"].tolist() == (np.arange(4) + products.sum(axis=1)).tolist()
