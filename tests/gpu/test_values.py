"""Values that devices have no types for, operation by operation, beside the interpreter's.

bfloat16 is stored only, complex numbers are pairs, saturating sums have functions of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from gpu.device_einsums import numbers
from gpu.shim.cuda_shim import run_program
from gpu.ways import WAYS, needs_compiler, runners_of
from loopwright.backends.c_text.c_dialect import CUDA
from loopwright.backends.device_text.device_module import emit_kernels
from loopwright.diagnostics import UsageError
from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import BFLOAT16, BOOL, DTYPES, FLOAT32, FLOAT64, INT32, DType
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.grid_kernel import GridKernel, GridVariant
from loopwright.ir.interpret_nest import interpret_nest
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.ir.loops import Axis, Buffer, For, LoopNest, Mark, Store
from loopwright.lower.grid_nests.grid_product import lower_grid_product
from loopwright.lower.grid_nests.split_kernels import split_kernels

COMPLEX = [DTYPES["complex64"], DTYPES["complex128"]]


@dataclass(frozen=True)
class Operation:
    """An expression of operands, and numbers for them."""

    name: str
    operands: tuple[DType, ...]
    make: Callable[..., Expr]
    data: tuple[np.ndarray, ...]

    @property
    def value(self) -> Expr:
        return self.make(*(Var(x, t) for x, t in zip("abc", self.operands, strict=False)))

    def nest(self, at: int) -> LoopNest:
        """out[i] = the expression of element i of each operand."""
        n, i = Var("n"), Var("block.x")
        value = self.make(*(Load(x, (i,), t) for x, t in zip("abc", self.operands, strict=False)))
        store = Store("out", (i,), value)
        body = For("block.x", Const(0), n, store, Const(1), Mark.BLOCK, axis=Axis.X)
        given = [Buffer(x, t, (Const(1),)) for x, t in zip("abc", self.operands, strict=False)]
        out = Buffer("out", value.dtype, (Const(1),), writable=True)
        return LoopNest(f"f{at}", (*given, out), ("n",), body)


def bits(values: Any) -> np.ndarray:
    """Finite numbers as bfloat16: rounded to the nearest, ties to even."""
    raw = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((raw + 0x7FFF + (raw >> 16 & 1)) >> 16).astype(np.uint16)


SPECIAL = np.array(
    [0.0, -0.0, 1.0, 1.00390625, 1.01171875, 3.4e38, np.inf, -np.inf, 1e-40, -1e-45, 1.5e-39],
    np.float32,
)
MOST, LEAST = 2**31 - 1, -(2**31)
ENDS = (LEAST, LEAST + 1, LEAST + 7, -(2**30), -5, -1, 0, 1, 5, 2**30, MOST - 7, MOST - 1, MOST)


def conversions() -> list[Operation]:
    rng = np.random.default_rng(3)
    drawn = rng.integers(0, 2**32, 500, dtype=np.uint32).view(np.float32)
    drawn = drawn[drawn == drawn]  # NaNs that signal warn where NumPy converts them
    floats = np.concatenate([SPECIAL, np.array([np.nan], np.float32), drawn])
    every = np.arange(0, 2**16, 7, dtype=np.uint16)
    whole = np.array([0, 1, -1, 255, 257, 258, 259, 2**31 - 1], np.int32)
    cases = [
        (FLOAT32, floats, BFLOAT16),
        (FLOAT64, floats.astype(np.float64), BFLOAT16),
        (INT32, whole, BFLOAT16),
        (BFLOAT16, every, FLOAT32),
        (BFLOAT16, every, FLOAT64),
    ]
    return [
        Operation(f"{source} to {to}", (source,), lambda x, to=to: Cast(x, to), (data,))
        for source, data, to in cases
    ]


def of_complex(dtype: DType) -> list[Operation]:
    other, real = COMPLEX[1 - COMPLEX.index(dtype)], dtype.real
    makes: dict[str, Callable[[Expr, Expr], Expr]] = {
        "add": lambda x, y: Binary("add", x, y),
        "sub": lambda x, y: Binary("sub", x, y),
        "mul": lambda x, y: Binary("mul", x, y),
        "div": lambda x, y: Binary("div", x, y),
        "fma": lambda x, y: Call("fma", (x, y, Const(1 - 2j, dtype))),
        "neg": lambda x, y: Unary("neg", Binary("add", x, y)),
        "conj": lambda x, y: Call("conj", (x,)),
        "real": lambda x, y: Call("real", (Binary("mul", x, y),)),
        "imag": lambda x, y: Call("imag", (x,)),
        "abs": lambda x, y: Unary("abs", x),
        "choice": lambda x, y: Select(Binary("eq", x, y), x, Const(7, dtype)),
        "differ": lambda x, y: Binary("ne", x, y),
        "is there": lambda x, y: Cast(Binary("sub", x, y), BOOL),
        "widened": lambda x, y: Cast(x, other),
        "to real": lambda x, y: Cast(x, real),
        "to float64": lambda x, y: Cast(x, FLOAT64),
        "to int": lambda x, y: Cast(x, INT32),
        "of real": lambda x, y: Cast(Call("real", (x,)), dtype),
        "of int": lambda x, y: Cast(Cast(x, INT32), dtype),
        "of float": lambda x, y: Cast(Cast(x, FLOAT32), dtype),
    }
    a, b = (numbers((200,), dtype.name, seed) for seed in (1, 2))
    b[b == 0] = 1
    b[::9] = a[::9]
    b[b == 0] = 2j
    return [Operation(name, (dtype, dtype), make, (a, b)) for name, make in makes.items()]


def saturating() -> list[Operation]:
    given = np.array(list(product(ENDS, repeat=3)), np.int32)
    columns = tuple(np.ascontiguousarray(given[:, k]) for k in range(3))
    return [
        Operation(
            f"{plus} {times}",
            (INT32,) * 3,
            lambda x, y, z, p=plus, t=times: Binary(p, x, Binary(t, y, z)),
            columns,
        )
        for plus, times in (("min", "add_top"), ("max", "add_bottom"))
    ]


@cache
def operations(kind: str) -> list[Operation]:
    if kind in ("bfloat16", "saturating"):
        return conversions() if kind == "bfloat16" else saturating()
    return of_complex(DTYPES[kind])


def require_values(found: np.ndarray, operation: Operation) -> None:
    """Equal bit by bit, but for quotients and absolute values of complex numbers, and NaNs."""
    names = "abc"[: len(operation.operands)]
    rows = zip(*operation.data, strict=True)
    dtype = operation.value.dtype
    wanted = np.array(
        [evaluate(operation.value, dict(zip(names, row, strict=True))) for row in rows],
        dtype.numpy,
    )
    if operation.name in ("div", "abs"):
        slack = 1e-6 if operation.operands[0].bits == 64 else 1e-15
        np.testing.assert_allclose(found, wanted, slack)
        return
    if dtype == BFLOAT16:
        found, wanted = ((x.astype(np.uint32) << 16).view(np.float32) for x in (found, wanted))
    np.testing.assert_array_equal(found, wanted, operation.name)
    if dtype.kind == "f":
        finite = wanted == wanted
        assert np.array_equal(np.signbit(found[finite]), np.signbit(wanted[finite]))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["bfloat16", "saturating", "complex64", "complex128"])
def test_operations(kind: str, way: str) -> None:
    nests = [each.nest(at) for at, each in enumerate(operations(kind))]
    for each, nest, run in zip(operations(kind), nests, runners_of(nests, way), strict=True):
        check_nest(nest)
        given = dict(zip("abc", each.data, strict=False))
        if way == "opencl" and each.operands == (FLOAT32,):
            given["a"] = np.where(np.abs(given["a"]) < 1e-37, 1, given["a"])  # may be flushed
        out = np.zeros(len(given["a"]), each.value.dtype.numpy)
        run({**given, "out": out}, {"n": len(out)})
        require_values(out, Operation(each.name, each.operands, each.make, tuple(given.values())))


def test_rounding_of_the_interpreter() -> None:
    x = Cast(Var("x", FLOAT32), BFLOAT16)
    found = np.array([evaluate(x, {"x": each}) for each in SPECIAL], np.uint16)
    finite = np.isfinite(SPECIAL)
    assert np.array_equal(found[finite], bits(SPECIAL[finite]))
    assert [int(each) for each in found[3:8]] == [0x3F80, 0x3F82, 0x7F80, 0x7F80, 0xFF80]
    for at, each in enumerate(conversions()):
        (given,) = each.data
        out = np.zeros(len(given), each.value.dtype.numpy)
        interpret_nest(each.nest(at), {"a": given, "out": out}, {"n": len(given)})
        require_values(out, each)


def test_what_is_not_there() -> None:
    value = Call("exp", (Load("a", (Const(0),), COMPLEX[0]),))
    buffers = (Buffer("a", COMPLEX[0], (Const(1),), writable=True),)
    body = For("block.x", Const(0), Const(1), Store("a", (Const(0),), value), Const(1), Mark.BLOCK)
    program = split_kernels(LoopNest("f", buffers, (), body))
    with pytest.raises(UsageError) as raised:
        emit_kernels([program], CUDA)
    assert str(raised.value) == (
        "'exp' of complex numbers is not there for GPUs\n"
        "try: sums, products, quotients, absolute values and parts; or target='host'"
    )


# -- products -------------------------------------------------------------------------------------

VARIANTS = [
    GridVariant(8, 8, 4, 2, 2, True, False, 1, 1, piece=2, warp_rows=2),
    GridVariant(8, 8, 4, 2, 2, False, True, 1, 1, piece=1, stages=3, swapped=True),
]


@needs_compiler
@pytest.mark.drawn(4)
@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_products_of_complex_numbers(dtype: DType, variant: GridVariant) -> None:
    """beta * out + alpha * left @ right, interpreted and as CUDA text."""
    algebra = Algebra("add", "mul", 0, *(dtype,) * 4, Initial.SCALED, scaled=True)
    nest = lower_grid_product(GridKernel(algebra, variant), "product")
    check_nest(nest)
    rows, steps, columns = 9, 11, 10
    left, right = numbers((rows, steps), dtype.name, 1), numbers((steps, columns), dtype.name, 2)
    out, alpha, beta = numbers((rows, columns), dtype.name, 3), 1 - 2j, 3j
    wanted = (beta * out + alpha * (left @ right)).ravel()
    given = {
        "left": (left if variant.left_along_p else left.T).ravel(),
        "right": (right.T if variant.right_along_p else right).ravel(),
        "alpha": np.array(alpha, dtype.numpy),
        "beta": np.array(beta, dtype.numpy),
    }
    along = {
        "left_i": steps if variant.left_along_p else 1,
        "left_p": 1 if variant.left_along_p else rows,
        "right_j": steps if variant.right_along_p else 1,
        "right_p": 1 if variant.right_along_p else columns,
        "out_i": columns,
        "out_j": 1,
    }
    apart = dict.fromkeys(("left_g", "right_g", "out_g"), 0)
    sizes = {"G": 1, "M": rows, "N": columns, "K": steps, **along, **apart}
    program = split_kernels(nest)
    text = emit_kernels([program], CUDA)
    for run in (
        lambda arrays: interpret_nest(nest, arrays, sizes),
        lambda arrays: run_program(program, text, arrays, sizes),
    ):
        arrays = {name: data.copy() for name, data in given.items()} | {"out": out.ravel().copy()}
        run(arrays)  # type: ignore[no-untyped-call]
        assert np.array_equal(arrays["out"], wanted)
