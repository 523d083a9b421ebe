"""The host's part of a device program as Python; code called with arrays by position."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright import options
from loopwright.diagnostics import BoundsError, InternalError
from loopwright.ir.device import (
    Bind,
    DeviceKernel,
    DeviceMemory,
    DeviceProgram,
    HostStep,
    LaunchKernel,
    Repeat,
    When,
)
from loopwright.ir.dtypes import BOOL, FLOAT32, FLOAT64, INT32, INT64
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.loops import Block, Buffer
from loopwright.ir.program import Role
from loopwright.runtime.host_steps import compile_host
from loopwright.sparse.spf.compile_computation import CompiledComputation
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt

n, m, t, one = Var("n"), Var("m"), Var("t"), Const(1)


def buffer(name: str) -> Buffer:
    return Buffer(name, FLOAT32, (one,), writable=True)


def kernel(
    name: str, buffers: str, scalars: tuple[str, ...], x: Expr = one, y: Expr = one
) -> DeviceKernel:
    arguments = tuple(map(buffer, buffers))
    return DeviceKernel(name, arguments, scalars, (x, y, one), (32, 1, 1), Block(()))


def program(*host: HostStep, kernels: tuple[DeviceKernel, ...]) -> DeviceProgram:
    return DeviceProgram("p", (buffer("A"), buffer("C")), ("n", "m"), kernels, host)


def record(device: DeviceProgram, *scalars: int) -> list[tuple[Any, ...]]:
    """What a run does: launches, allocations and releases, in order."""
    told: list[tuple[Any, ...]] = []

    def launcher(name: str) -> Any:
        return lambda stream, *values: told.append((name, stream, *values))

    def allocate(stream: int, size: int) -> str:
        told.append(("allocate", stream, size))
        return f"memory{len(told)}"

    bound = compile_host(device)(
        [launcher(k.name) for k in device.kernels],
        allocate,
        lambda stream, memory: told.append(("release", stream, memory)),
    )
    bound(7, "a", "c", *scalars)
    return told


def test_launches_repeat_and_depend_on_conditions() -> None:
    f = kernel("f", "CA", ("t", "n"), (n + 31) // 32)
    g = kernel("g", "A", ("s",), Var("s"))
    steps = Repeat(
        "t",
        Const(0),
        m,
        Const(2),
        (
            When(
                Binary("eq", t, Const(2)),
                (LaunchKernel("f"),),
                (Bind("s", t * 10, (LaunchKernel("g"),)),),
            ),
        ),
        until=Binary("gt", t, Const(5)),
    )
    # g has no block for t = 0, and nothing runs from t = 6 on.
    assert record(program(steps, kernels=(f, g)), 100, 9) == [
        ("f", 7, 4, 1, 1, "c", "a", 2, 100),
        ("g", 7, 40, 1, 1, "a", 40),
    ]


def test_memory_is_released_where_a_launch_fails() -> None:
    f = kernel("f", "AT", ())
    released = []

    def fails(*_: object) -> None:
        raise RuntimeError("no")

    device = program(DeviceMemory(buffer("T"), (n,), (LaunchKernel("f"),)), kernels=(f,))
    bound = compile_host(device)([fails], lambda *_: 5, lambda _, memory: released.append(memory))
    with pytest.raises(RuntimeError, match=r"^no$"):
        bound(0, 1, 2, 3, 4)
    assert released == [5]


LEAVES = st.one_of(st.integers(-20, 20).map(Const), st.sampled_from([Var("n"), Var("m")]))


def grow(parts: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    pairs = st.tuples(parts, parts)
    operators = ("add", "sub", "mul", "floordiv", "mod", "min", "max", "and", "or", "xor")
    conditions = st.builds(
        lambda op, p: Binary(op, *p), st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]), pairs
    )
    return st.one_of(
        st.builds(lambda op, p: Binary(op, *p), st.sampled_from(operators), pairs),
        st.builds(Unary, st.sampled_from(["neg", "abs", "not"]), parts),
        st.builds(lambda c, p: Select(c, *p), conditions, pairs),
        st.builds(lambda c: Cast(Unary("not", c), INT64), conditions),
    )


@given(st.recursive(LEAVES, grow, max_leaves=8), st.integers(-9, 9), st.integers(0, 9))
def test_expressions_have_the_values_of_the_interpreter(value: Expr, n: int, m: int) -> None:
    f = kernel("f", "A", ("s",))
    device = program(Bind("s", value, (LaunchKernel("f"),)), kernels=(f,))
    ((*_, found),) = record(device, n, m)
    # Beyond int64 the interpreter wraps and this does not: sizes stay inside.
    if abs(found) < 2**31:
        assert found == int(evaluate(value, {"n": n, "m": m}))


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ((LaunchKernel("g"),), "'p' launches 'g', which it does not have"),
        ((Bind("s", Var("q"), ()),), "no variable or buffer of a host's part: 'q'"),
        ((LaunchKernel("f"),), "no variable or buffer of a host's part: 'T'"),
        ((Bind("s", Load("A", (one,), INT64), ()),), "no expression of a host's part: Load("),
        ((Bind("s", Const(0.5, FLOAT64), ()),), "no expression of a host's part: Const("),
        ((Repeat("t", one, n, one, (), until=Var("u", BOOL)),), "no variable or buffer of"),
        (("import os",), "no step of a host's part: 'import os'"),
    ],
)
def test_steps_that_do_not_fit(steps: Any, told: str) -> None:
    with pytest.raises(InternalError) as raised:
        compile_host(program(*steps, kernels=(kernel("f", "AT", ()),)))
    assert raised.value.message.startswith(told)


def test_two_of_one_name() -> None:
    f = kernel("f", "A", ())
    with pytest.raises(InternalError, match=r"two kernels of 'p' have the same name"):
        compile_host(program(kernels=(f, f)))


def computation(local: Role = Role.INOUT) -> Computation:
    """t[e] = x[e] + M and y[e] = t[e], for e below N; t is an array, or memory of the code."""
    spaces = (
        DataSpace.of("x", INT32, ("N",), Role.IN),
        DataSpace.of("t", INT64, ("N",), local),
        DataSpace.of("y", INT64, ("N",), Role.INOUT),
    )
    value = Cast(Load("x", (Var("e"),), INT32), INT64) + Var("M")
    domain = "{[e] : 0 <= e < N}"
    first = Stmt.of("first", domain, (0, "e"), "t(e)", value)
    second = Stmt.of("second", domain, (1, "e"), "y(e)", Load("t", (Var("e"),), INT64))
    return Computation("alone", spaces, (first, second), ("N", "M"))


def test_code_with_memory_of_its_own_is_bound() -> None:
    code = CompiledComputation(computation(Role.LOCAL))
    x, y = np.arange(4, dtype=np.int32), np.zeros(4, np.int64)
    code.alone(x, y, 4, 3)
    assert y.tolist() == [3, 4, 5, 6]
    assert code.kernel.alone(["x", "y", "N", "M"]) is None
    assert code._bound


def test_checked_code_takes_limits_from_the_arrays() -> None:
    with options.override(boundscheck=True):
        code = CompiledComputation(computation())
        x, y = np.arange(4, dtype=np.int32), np.zeros(4, np.int64)
        code.alone(x, y.copy(), y, 4, 3)
        assert y.tolist() == [3, 4, 5, 6]
        assert code.kernel.alone(["x", "t", "y", "N", "M"]) is None
        with pytest.raises(BoundsError):
            code.alone(x, y.copy(), y, 5, 3)
