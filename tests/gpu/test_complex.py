"""Complex numbers on devices: every operation of their text, einsums and jit on the shim."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from drawn import combined
from gpu.fake_cuda import FakeApi, fake_driver
from gpu.shim.cuda_shim import has_compiler, run_program
from gpu.test_device_einsum import SMALL, CupyArray, compare, compiled, forget
from gpu.test_opencl_executable import needs_opencl
from loopwright.backends.c_text.c_dialect import CUDA, OPENCL, Dialect
from loopwright.backends.device_text.device_module import emit_kernels
from loopwright.diagnostics import UsageError
from loopwright.ir.check import check_nest
from loopwright.ir.device import DeviceProgram
from loopwright.ir.dtypes import BOOL, DTYPES, FLOAT32, FLOAT64, INT32, DType
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.grid_kernel import GridKernel, GridVariant
from loopwright.ir.interpret_nest import interpret_nest
from loopwright.ir.kernel_variant import Algebra, Initial
from loopwright.ir.loops import Axis, Buffer, For, LoopNest, Mark, Store
from loopwright.lower.grid_nests.grid_product import lower_grid_product
from loopwright.lower.grid_nests.split_kernels import split_kernels
from loopwright.planner.grid_plans import grid_products
from loopwright.runtime import cuda_executable
from loopwright.runtime.opencl_executable import OpenclExecutable

needs_compiler = pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")
COMPLEX = [DTYPES["complex64"], DTYPES["complex128"]]


def drawn(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> np.ndarray:
    """Numbers whose sums and products are exact."""
    rng = np.random.default_rng([seed, *shape])
    return (rng.integers(-4, 5, shape) + 1j * rng.integers(-4, 5, shape)).astype(dtype.numpy)


# -- operations -----------------------------------------------------------------------------------


def operations(dtype: DType) -> dict[str, tuple[DType, Callable[[Expr, Expr], Expr]]]:
    """Name -> type of the result, expression of two complex numbers."""
    other = COMPLEX[1 - COMPLEX.index(dtype)]
    real = dtype.real
    return {
        "add": (dtype, lambda x, y: Binary("add", x, y)),
        "sub": (dtype, lambda x, y: Binary("sub", x, y)),
        "mul": (dtype, lambda x, y: Binary("mul", x, y)),
        "div": (dtype, lambda x, y: Binary("div", x, y)),
        "fma": (dtype, lambda x, y: Call("fma", (x, y, Const(1 - 2j, dtype)))),
        "neg": (dtype, lambda x, y: Unary("neg", Binary("add", x, y))),
        "conj": (dtype, lambda x, y: Call("conj", (x,))),
        "real": (real, lambda x, y: Call("real", (Binary("mul", x, y),))),
        "imag": (real, lambda x, y: Call("imag", (x,))),
        "abs": (real, lambda x, y: Unary("abs", x)),
        "choice": (dtype, lambda x, y: Select(Binary("eq", x, y), x, Const(7, dtype))),
        "differ": (BOOL, lambda x, y: Binary("ne", x, y)),
        "is there": (BOOL, lambda x, y: Cast(Binary("sub", x, y), BOOL)),
        "widened": (other, lambda x, y: Cast(x, other)),
        "to real": (real, lambda x, y: Cast(x, real)),
        "to float64": (FLOAT64, lambda x, y: Cast(x, FLOAT64)),
        "to int": (INT32, lambda x, y: Cast(x, INT32)),
        "of real": (dtype, lambda x, y: Cast(Call("real", (x,)), dtype)),
        "of int": (dtype, lambda x, y: Cast(Cast(x, INT32), dtype)),
        "of float": (dtype, lambda x, y: Cast(Cast(x, FLOAT32), dtype)),
    }


def programs_of(dtype: DType, dialect: Dialect) -> tuple[dict[str, DeviceProgram], str]:
    """The program of every operation, and one text of them all, which is compiled once."""
    found: dict[str, DeviceProgram] = {}
    for at, (name, (result, make)) in enumerate(operations(dtype).items()):
        n, i = Var("n"), Var("block.x")
        value = make(Load("a", (i,), dtype), Load("b", (i,), dtype))
        assert value.dtype == result
        store = Store("c", (i,), value)
        body = For("block.x", Const(0), n, store, Const(1), Mark.BLOCK, axis=Axis.X)
        buffers = [Buffer(x, dtype, (Const(1),)) for x in "ab"]
        buffers.append(Buffer("c", result, (Const(1),), writable=True))
        nest = LoopNest(f"f{at}", tuple(buffers), ("n",), body)
        check_nest(nest)
        found[name] = split_kernels(nest)
    return found, emit_kernels(list(found.values()), dialect)


def inputs(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    a, b = drawn((200,), dtype, 1), drawn((200,), dtype, 2)
    b[b == 0] = 1
    b[::9] = a[::9]
    b[b == 0] = 2j
    return a, b


def check(found: np.ndarray, dtype: DType, name: str) -> None:
    a, b = inputs(dtype)
    _, make = operations(dtype)[name]
    expr = make(Var("x", dtype), Var("y", dtype))
    wanted = [evaluate(expr, {"x": x, "y": y}) for x, y in zip(a, b, strict=True)]
    if name in ("div", "abs"):
        np.testing.assert_allclose(found, wanted, 1e-6 if dtype.bits == 64 else 1e-15)
    else:
        assert np.array_equal(found, wanted)


@needs_compiler
@pytest.mark.drawn(2)
@pytest.mark.parametrize("dtype", COMPLEX)
def test_operations_of_cuda(dtype: DType) -> None:
    a, b = inputs(dtype)
    programs, text = programs_of(dtype, CUDA)
    for name, (result, _) in operations(dtype).items():
        program = programs[name]
        found = np.zeros(len(a), result.numpy)
        run_program(program, text, {"a": a, "b": b, "c": found}, {"n": len(a)})
        check(found, dtype, name)


@needs_opencl
@pytest.mark.parametrize("dtype", COMPLEX)
def test_operations_of_opencl(dtype: DType) -> None:
    a, b = inputs(dtype)
    programs, text = programs_of(dtype, OPENCL)
    for name, (result, _) in operations(dtype).items():
        program = programs[name]
        found = np.zeros(len(a), result.numpy)
        size = (len(a),)
        OpenclExecutable(program, text).run_from_host((a, b, found), lambda _, n=size: n)
        check(found, dtype, name)


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


def product(dtype: DType, variant: GridVariant) -> tuple[LoopNest, dict[str, np.ndarray], Any]:
    """A nest, its arrays and what it leaves in out: beta * out + alpha * left @ right."""
    algebra = Algebra("add", "mul", 0, *(dtype,) * 4, Initial.SCALED, scaled=True)
    nest = lower_grid_product(GridKernel(algebra, variant), "product")
    rows, steps, columns = 9, 11, 10
    left, right = drawn((rows, steps), dtype, 1), drawn((steps, columns), dtype, 2)
    out, alpha, beta = drawn((rows, columns), dtype, 3), 1 - 2j, 3j
    arrays = {
        "out": out.copy().ravel(),
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
        "left_g": 0,
        "right_g": 0,
        "out_g": 0,
    }
    sizes = {"G": 1, "M": rows, "N": columns, "K": steps, **along}
    return nest, arrays, (sizes, (beta * out + alpha * (left @ right)).ravel())


@pytest.mark.drawn(4)
@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_products(dtype: DType, variant: GridVariant) -> None:
    nest, arrays, (sizes, wanted) = product(dtype, variant)
    check_nest(nest)
    here = {name: data.copy() for name, data in arrays.items()}
    interpret_nest(nest, here, sizes)
    assert np.array_equal(here["out"], wanted)
    if has_compiler():
        program = split_kernels(nest)
        run_program(program, emit_kernels([program], CUDA), arrays, sizes)
        assert np.array_equal(arrays["out"], wanted)


@needs_opencl
@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_products_of_opencl(dtype: DType, variant: GridVariant) -> None:
    nest, arrays, (sizes, wanted) = product(dtype, variant)
    program = split_kernels(nest)
    given = tuple(arrays[buffer.name] for buffer in program.buffers)
    scalars = tuple(sizes[name] for name in program.scalars)
    run = OpenclExecutable(program, emit_kernels([program], OPENCL))
    run.run_from_host(given, lambda _: scalars)
    assert np.array_equal(arrays["out"], wanted)


# -- calls ----------------------------------------------------------------------------------------


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    cupy = ModuleType("cupy")
    cuda = SimpleNamespace(
        Device=lambda _: nullcontext(), get_current_stream=lambda: SimpleNamespace(ptr=5)
    )
    vars(cupy).update(empty=lambda shape, dtype: CupyArray(np.full(shape, 77, dtype)), cuda=cuda)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(cuda_executable, "compile_cuda", compiled)
    for table in ("TILES_4", "TILES_8", "TILES_16"):
        monkeypatch.setattr(grid_products, table, SMALL)
    monkeypatch.setattr(grid_products, "_elements_seconds", lambda *_: 1.0)
    forget()
    with fake_driver() as driver:
        yield driver
        forget()


EINSUMS = (
    ("ij,jk->ik", ((17, 12), (12, 20))),
    ("ij,kj->ik", ((16, 8), (24, 8))),
    ("abc,dcb->da", ((9, 4, 8), (12, 8, 4))),
    ("ij,j->i", ((30, 40), (40,))),
    ("ij->j", ((8, 16),)),
    ("ii->", ((7, 7),)),
    ("ij,jk,kl->il", ((5, 6), (6, 7), (7, 8))),
)


@needs_compiler
@pytest.mark.drawn(3)
@pytest.mark.parametrize(("dtype", "einsum"), combined(COMPLEX, EINSUMS, one_in=4))
def test_einsum(
    api: FakeApi, dtype: DType, einsum: tuple[str, tuple[tuple[int, ...], ...]]
) -> None:
    text, shapes = einsum
    compare(text, [drawn(shape, dtype, at) for at, shape in enumerate(shapes)])


@needs_compiler
@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("call", ["types that meet", "factors", "in place"])
def test_other_calls(api: FakeApi, dtype: DType, call: str) -> None:
    a, b = drawn((12, 16), dtype), drawn((16, 8), dtype).real.copy()
    if call == "types that meet":
        compare("ij,jk->ik", [a, b])
        return
    if call == "factors":
        out, left, right = drawn((12, 8), dtype, 5), CupyArray(a), CupyArray(b)
        wanted = 2j * out + (1 + 1j) * (a @ b)
        lw.einsum("ij,jk->ik", left, right, out=CupyArray(out), alpha=1 + 1j, beta=2j)
        assert np.array_equal(out, wanted.astype(dtype.numpy))
        return
    square = drawn((9, 9), dtype, 6)
    wanted = square @ square
    lw.einsum("ij,jk->ik", CupyArray(square), CupyArray(square), out=CupyArray(square))
    assert np.array_equal(square, wanted)


@lw.jit
def rotated(a, c):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] = c * a[i, j] + abs(a[i, j])


@needs_compiler
def test_jit(api: FakeApi) -> None:
    a = (3 + 4j) * np.arange(20.0).reshape(4, 5)
    wanted = 2j * a + np.abs(a)
    rotated(CupyArray(a), 2j)
    np.testing.assert_allclose(a, wanted, 1e-14)
