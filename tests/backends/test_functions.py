"""Mathematical functions, fused multiply-adds and complex arithmetic, to within their rounding."""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext

import numpy as np
import pytest

from backends.compiled import compile_nest, run_kernel
from backends.test_operators import (
    Make,
    Results,
    assert_exact,
    both,
    call,
    lanes_of,
    nest_of,
)
from drawn import combined
from loopwright.backends.llvm.llvm_builder import FunctionBuilder, SSAValue
from loopwright.backends.llvm.llvm_functions import dot
from loopwright.ir.dtypes import DTYPES, INT32, DType
from loopwright.ir.expr import FUNCTIONS, Binary, Call, Const, Load, Unary
from loopwright.ir.interpret import interpret_nest
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
            (op, lambda x, y, op=op: Binary(op, x, y)) for op in ("add", "sub", "div", "eq", "ne")
        )
    }
    outputs["neg"] = dtype, lambda x, y: Unary("neg", x)
    outputs["conj"] = dtype, call("conj")
    outputs["real"] = dtype.real, call("real")
    outputs["imag"] = dtype.real, call("imag")
    outputs["abs"] = dtype.real, lambda x, y: Unary("abs", x)
    assert_exact(outputs, dtype, x, y)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_functions_of_complex_numbers(dtype: DType) -> None:
    x, y = complex_pairs(dtype, [0.0, 1.0, -0.75, 2.5])
    names = [f for f in FUNCTIONS if f in (*TRANSCENDENTAL, "sqrt")]
    outputs: dict[str, tuple[DType, Make]] = {f: (dtype, call(f)) for f in names}
    outputs["operator_pow"] = dtype, lambda x, y: Binary("pow", x, y)
    # NumPy's complex64 functions round on the way, ours only at the end.
    assert_near(both(outputs, dtype, x, y), ulps=16)


@pytest.mark.parametrize(
    ("features", "lanes", "types", "word"),
    [
        ({"avx512vnni"}, 16, ("int8", "uint8"), "vpdpbusd.512"),
        ({"avx512vnni", "avx512vl"}, 8, ("uint8", "int8"), "vpdpbusd.256"),
        ({"avxvnni"}, 8, ("uint8", "int8"), "vpdpbusd.256"),
        ({"avxvnni"}, 8, ("int16", "int16"), "vpdpwssd.256"),
        ({"avx512vnni"}, 16, ("int16", "int16"), "vpdpwssd.512"),
        ({"avx512bw"}, 16, ("int16", "int16"), "pmaddw.d.512"),
        ({"avx2"}, 8, ("int16", "int16"), "pmadd.wd"),
        ({"sse4.1"}, 4, ("int16", "int16"), "pmadd.wd"),
        ({"dotprod"}, 4, ("int8", "int8"), "sdot"),
        ({"dotprod"}, 4, ("uint8", "uint8"), "udot"),
        ({"dotprod"}, 4, ("uint8", "int8"), " mul "),
        ({"avx512vnni"}, 16, ("int8", "int8"), " mul "),
        ({"avx512vnni"}, 8, ("uint8", "int8"), " mul "),
        ({"avx2"}, 16, ("int16", "int16"), " mul "),
        ({"avx512vnni"}, 16, ("uint16", "uint16"), " mul "),
    ],
)
def test_instructions_of_dot(
    features: set[str], lanes: int, types: tuple[str, str], word: str
) -> None:
    code = FunctionBuilder()
    factors = [DTYPES[name] for name in types]
    width = lanes * 32 // factors[0].bits
    x, y = (SSAValue(f"%{name}", dtype, width) for name, dtype in zip("xy", factors, strict=True))
    total = dot(code, (x, None), (y, None), SSAValue("%z", INT32, lanes), frozenset(features))
    text = "\n".join(code.lines)
    assert (total.dtype, total.lanes) == (INT32, lanes)
    assert word in text
    assert "ds." not in text  # never the saturating forms
    if "vpdpbusd" in word:
        unsigned = "%x" if types[0] == "uint8" else "%y"
        assert f"%z, <{width} x i8> {unsigned}," in text
    assert bool(code.features) == (word != " mul ")


EXPONENTS = (-7.5, -3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.5, 1.5, 2.0, 2.5, 3.0, 7.5)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("dtype", "exponent"), combined(FLOATS[1:], EXPONENTS, one_in=2))
def test_powers_with_a_constant_exponent(dtype: DType, exponent: float) -> None:
    """The number next to the exact power, and pow's zeros, infinities and signs."""
    limits = np.finfo(dtype.name)
    drawn = np.exp(np.random.default_rng(2).uniform(-4, 4, 150))
    edge = [0.0, -0.0, 1.0, -1.0, -2.5, np.inf, -np.inf, np.nan, float(limits.max)]
    edge += [float(limits.smallest_normal), float(limits.smallest_subnormal), 1e30, 1e-30]
    x = np.concatenate([edge, drawn]).astype(dtype.name)
    outputs: dict[str, tuple[DType, Make]] = {
        "operator": (dtype, lambda x, y: Binary("pow", x, Const(exponent, dtype))),
        "function": (dtype, lambda x, y: Call("pow", (x, Const(exponent, dtype)))),
    }
    expected = {name: np.zeros_like(x) for name in outputs}
    interpret_nest(nest_of(outputs, dtype, 1), {"x": x, "y": x, **expected}, {"n": x.size})
    with localcontext(prec=50):
        exact = [Decimal(float(a)) ** Decimal(exponent) for a in x[len(edge) :]]
    # Without fma pow is called; a machine may have an instruction for inverse roots.
    machines = (frozenset(), frozenset({"fma"}), host().features | {"fma"})
    for lanes in lanes_of(dtype):
        for features in machines:
            nest = nest_of(outputs, dtype, lanes)
            found = {name: np.zeros_like(x) for name in outputs}
            kernel = compile_nest(nest, features)
            run_kernel(kernel, nest, {"x": x, "y": x, **found}, {"n": x.size})
            assert_near([(lanes, found, expected)], ulps=1)
            for name, values in found.items():
                is_number = ~np.isnan(expected[name])  # what is none has no sign either
                signs = (np.signbit(x[is_number]) for x in (values, expected[name]))
                np.testing.assert_array_equal(*signs)
                if features and exponent in (-7.5, -2.5, -1.5, -0.5):
                    for value, power in zip(values[len(edge) :], exact, strict=True):
                        unit = Decimal(float(np.spacing(dtype.numpy.type(float(power)))))
                        assert abs(Decimal(float(value)) - power) < Decimal("0.52") * unit
                elif features:
                    nearest = np.array([float(power) for power in exact], dtype.name)
                    np.testing.assert_array_equal(values[len(edge) :], nearest)
