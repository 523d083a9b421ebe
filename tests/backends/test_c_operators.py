"""Every operator on every dtype in C, as function and as macro, equals `ir/evaluate`."""

from __future__ import annotations

import numpy as np

from backends.c_compiled import Compiled, compile_c, compile_regions, needs_cc
from backends.compiled import assert_same_bits
from backends.test_operators import (
    EXACT_FUNCTIONS,
    Make,
    binary,
    call,
    operands,
)
from loopwright.backends.c_text.c_syntax import constant
from loopwright.ir.check_expr import BINARY_KINDS, FUNCTION_KINDS, UNARY_KINDS
from loopwright.ir.dtypes import BOOL, DTYPES, DType
from loopwright.ir.expr import FUNCTIONS, Binary, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import Block, Buffer, For, LoopNest, Mark, Store

pytestmark = needs_cc

Outputs = dict[str, tuple[DType, Make]]
FAR = [1e10, -1e10, 1e20, -1e20, 127.5, 128.0, 255.9, 65504.0, 65520.0, 2.0**63, 2049.0, 1e-6]


def nest_of(outputs: Outputs, dtype: DType) -> LoopNest:
    """A vector loop, whose lanes the compiler chooses, that stores every expression of x and y."""
    at = Var("i")
    x, y = (Load(name, (at,), dtype) for name in ("x", "y"))
    stores = tuple(Store(name, (at,), make(x, y)) for name, (_, make) in outputs.items())
    loop = For("i", Const(0), Var("n"), Block(stores), Const(1), Mark.SIMD)
    buffers = [Buffer("x", dtype, (Const(1),)), Buffer("y", dtype, (Const(1),))]
    buffers += [Buffer(name, d, (Const(1),), writable=True) for name, (d, _) in outputs.items()]
    return LoopNest("f", tuple(buffers), ("n",), loop)


def typed(makes: dict[str, Make], dtype: DType) -> Outputs:
    x, y = (Load(name, (Var("i"),), dtype) for name in ("x", "y"))
    return {name: (make(x, y).dtype, make) for name, make in makes.items()}


def division_of_c(op: str) -> Make:
    """`x / y` and `x % y` as the C front end writes them: towards zero."""

    def make(x: Expr, y: Expr) -> Expr:
        zero = Const(0, x.dtype)
        down, rest = Binary("floordiv", x, y), Binary("mod", x, y)
        mixed = Binary("xor", Binary("lt", x, zero), Binary("lt", y, zero))
        is_off = Binary("and", mixed, Binary("ne", rest, zero))
        if op == "/":
            return Select(is_off, Binary("add", down, Const(1, x.dtype)), down)
        return Select(is_off, Binary("sub", rest, y), rest)

    return make


def by_constant(op: str, number: int) -> Make:
    return lambda x, y: Binary(op, x, Const(number, x.dtype))


def operators_of(dtype: DType) -> Outputs:
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
        makes |= {f"{op}_by_5": by_constant(op, 5) for op in ("floordiv", "mod", "add", "mul")}
        makes["chain"] = lambda x, y: Binary("sub", Binary("mul", Binary("add", x, y), x), y)
        makes["of_sum"] = lambda x, y: Binary("lt", Binary("add", x, y), Unary("neg", y))
    if dtype.kind == "i":
        makes |= {"towards_zero": division_of_c("/"), "rest": division_of_c("%")}
        makes |= {f"minus_3_{op}": by_constant(op, -3) for op in ("add", "sub", "mul")}
    makes["select"] = lambda x, y: Select(Binary("le", x, y), x, y)
    makes["nested"] = lambda x, y: Binary("max", Binary("min", x, y), Binary("add", x, x))
    makes["either"] = lambda x, y: Binary("or", Binary("lt", x, y), Binary("eq", y, x))
    makes["none"] = lambda x, y: Unary("not", Binary("and", Binary("lt", x, y), Cast(x, BOOL)))
    return typed(makes, dtype)


def conversions_of(dtype: DType) -> Outputs:
    makes: dict[str, Make] = {
        f"to_{to}": lambda x, y, to=to: Cast(x, to) for to in DTYPES.values() if to != dtype
    }
    return typed(makes, dtype)


def data_of(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    x, y = operands(dtype)
    if dtype.kind not in "fc":
        return x, y
    with np.errstate(over="ignore"):
        far = np.array(FAR).astype(dtype.name)
    return np.concatenate([x, far]), np.concatenate([y, far])


Case = tuple[DType, Outputs, LoopNest]


def cases() -> list[Case]:
    found: list[Case] = []
    for dtype in DTYPES.values():
        kinds = [conversions_of(dtype)]
        if not dtype.is_complex:
            kinds.append(operators_of(dtype))
        found += [(dtype, outputs, nest_of(outputs, dtype)) for outputs in kinds]
    return found


def assert_equal_to_interpreter(case: Case, run: Compiled) -> None:
    dtype, outputs, nest = case
    x, y = data_of(dtype)
    expected = {name: np.zeros(x.size, d.name) for name, (d, _) in outputs.items()}
    found = {name: data.copy() for name, data in expected.items()}
    interpret_nest(nest, {"x": x, "y": y, **expected}, {"n": x.size})
    run({"x": x, "y": y, **found}, {"n": x.size})
    for name in outputs:
        assert_same_bits(found[name], expected[name], f"{name} of {dtype}")


def test_every_operator_and_conversion() -> None:
    found = cases()
    runs = compile_c([nest for *_, nest in found])
    for case, run in zip(found, runs, strict=True):
        assert_equal_to_interpreter(case, run)


def test_operators_as_macros() -> None:
    """Between a user's lines: no conversions from floats, which C leaves open there."""
    found = [
        (dtype, outputs, nest_of(outputs, dtype))
        for dtype in DTYPES.values()
        if not dtype.is_complex
        for outputs in [operators_of(dtype)]
    ]
    runs = compile_regions([nest for *_, nest in found])
    for case, run in zip(found, runs, strict=True):
        assert_equal_to_interpreter(case, run)


def test_functions_are_close_to_numpy() -> None:
    """Functions of the C library differ from NumPy's in the last bits."""
    names = [name for name in FUNCTIONS if name not in (*EXACT_FUNCTIONS, "dot", "fma")]
    found: list[tuple[DType, Outputs, LoopNest]] = []
    for dtype in DTYPES.values():
        if dtype.kind in "fc":
            makes = {
                f"call_{name}": call(name) for name in names if dtype.kind in FUNCTION_KINDS[name]
            }
            makes["abs_of"] = lambda x, y: Unary("abs", x)
            if dtype.is_complex:
                makes |= {f"op_{op}": binary(op) for op in ("mul", "div", "add", "sub")}
                makes["minus"] = lambda x, y: Unary("neg", x)
                makes |= {f"call_{name}": call(name) for name in ("conj", "real", "imag", "fma")}
            outputs = typed(makes, dtype)
            found.append((dtype, outputs, nest_of(outputs, dtype)))
    runs = compile_c([nest for *_, nest in found])
    for (dtype, outputs, nest), run in zip(found, runs, strict=True):
        numbers = np.array([0.5, 1.0, 1.5, 0.25, 1.25, 0.75, 1.75])
        x = (numbers + 0.5j * numbers[::-1]).astype(dtype.name) if dtype.is_complex else numbers
        x = x.astype(dtype.name)
        y = x[::-1].copy()
        expected = {name: np.zeros(x.size, d.name) for name, (d, _) in outputs.items()}
        result = {name: data.copy() for name, data in expected.items()}
        interpret_nest(nest, {"x": x, "y": y, **expected}, {"n": x.size})
        run({"x": x, "y": y, **result}, {"n": x.size})
        tolerance = {16: 2e-3, 32: 1e-5, 64: 1e-13}[dtype.real.bits]
        for name, right in expected.items():
            np.testing.assert_allclose(
                result[name], right, rtol=tolerance, err_msg=f"{name} {dtype}"
            )


def test_booleans_as_constants_of_integers() -> None:
    """Identities of or and and are booleans, whatever the type of the elements."""
    assert [constant(value, DTYPES["uint32"]).text for value in (False, True)] == ["0u", "1u"]
