"""Array statements that share loops have the results that each has by itself."""

import random

import numpy as np
import pytest
from tests.run_procedures import check_ways, memory_of

from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import Alloc, For, Let
from loopwright.ir.procedure import (
    AllocateArray,
    ArrayRole,
    ArrayView,
    BindView,
    ComputeArray,
    DefineName,
    Parameter,
    Procedure,
    ProcedureArray,
    ProcedureStmt,
    RangeLoop,
    ReturnedArray,
    SetElement,
    ViewAxis,
)
from loopwright.ir.visit import statements
from loopwright.lower.procedure_nests.lower_procedure import lower_procedure

N = Var("n")
ZERO, ONE = Const(0), Const(1)
SQUARE = (N, N)
ARGUMENTS, LOCALS = ("a", "b"), ("t", "u")


def view(name: str, base: str, start: Expr, *axes: tuple[int, Expr, int]) -> ArrayView:
    """A view whose axes are (dimension, extent, step); `start` is the first row."""
    found = (ViewAxis(extent, ((d, Const(step)),)) for d, extent, step in axes)
    return ArrayView(name, base, FLOAT64, (start, ZERO), tuple(found))


def views_of(base: str) -> dict[str, ArrayView]:
    """By name: all but the first row, all but the last, turned upside down, transposed."""
    made = (
        view(f"{base}_lower", base, ONE, (0, N - 1, 1), (1, N, 1)),
        view(f"{base}_upper", base, ZERO, (0, N - 1, 1), (1, N, 1)),
        view(f"{base}_turned", base, N - 1, (0, N, -1), (1, N, 1)),
        view(f"{base}_crossed", base, ZERO, (1, N, 1), (0, N, 1)),
    )
    return {found.name: found for found in made}


def procedure(*body: ProcedureStmt) -> Procedure:
    arrays = (
        *(ProcedureArray(name, FLOAT64, SQUARE, ArrayRole.ARGUMENT) for name in ARGUMENTS),
        ProcedureArray("r", FLOAT64, SQUARE, ArrayRole.RESULT),
    )
    parameters = tuple(Parameter(name, "array") for name in ARGUMENTS)
    return Procedure("f", parameters, ("n",), arrays, (), body, ReturnedArray("r"))


def whole(name: str) -> Load:
    return Load(name, (), FLOAT64)


def local(name: str) -> AllocateArray:
    return AllocateArray(ProcedureArray(name, FLOAT64, SQUARE), SQUARE)


def drawn(seed: int) -> Procedure:
    """Random statements over arrays and views, some in a loop."""
    draw = random.Random(seed)
    bases = (*ARGUMENTS, *LOCALS, "r")
    views = {name: found for base in bases for name, found in views_of(base).items()}
    square = [*bases, *(name for name in views if name.endswith(("turned", "crossed")))]
    flat = [name for name in views if name not in square]
    plain = draw.random() < 0.5  # without views: more statements share their loops

    def value(names: list[str], scalars: list[str]) -> Expr:
        found: Expr = whole(draw.choice(names))
        for _ in range(draw.randint(1, 2)):
            found = found * Const(0.5, FLOAT64) + whole(draw.choice(names))
        return found + Var(draw.choice(scalars), FLOAT64) if scalars else found

    def some(count: int, scalars: list[str], number: int) -> list[ProcedureStmt]:
        made: list[ProcedureStmt] = []
        for step in range(count):
            corner = Load(draw.choice(bases), (ZERO, ZERO), FLOAT64)
            kind = draw.random()
            if kind < 0.1:
                scalars = [*scalars, f"s{number}_{step}"]
                made.append(DefineName(scalars[-1], corner))
            elif kind < 0.15:
                made.append(SetElement(draw.choice(bases), (ONE, ONE), corner))
            else:
                names = list(bases) if plain else draw.choice([square, square, flat])
                made.append(ComputeArray(draw.choice(names), value(names, scalars)))
        return made

    start: list[ProcedureStmt] = [local(name) for name in LOCALS]
    start += [ComputeArray(name, Const(1.0, FLOAT64)) for name in (*LOCALS, "r")]
    start += [BindView(found) for found in views.values()]
    loop = RangeLoop("k", ZERO, Const(2), ONE, tuple(some(4, [], 1)))
    return procedure(*start, *some(5, [], 0), loop, *some(2, [], 2))


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_statements_interpreted(first: int) -> None:
    given = {name: np.arange(k, k + 9.0).reshape(3, 3) for k, name in enumerate(ARGUMENTS)}
    for seed in range(first, first + 10):
        f = drawn(seed)
        calls, nest = (memory_of(f, given, {"n": 3}, way) for way in ("calls", "nest"))
        assert isinstance(calls, dict)
        assert isinstance(nest, dict)
        for name, array in calls.items():
            np.testing.assert_array_equal(array, nest[name], err_msg=f"{seed}: {name}")


@pytest.mark.parametrize("seed", [100])
def test_random_statements_compiled(seed: int) -> None:
    given = {name: np.arange(k, k + 25.0).reshape(5, 5) for k, name in enumerate(ARGUMENTS)}
    check_ways(drawn(seed), given, {"n": 5})


def test_a_temporary_is_a_scalar() -> None:
    f = procedure(
        local("t"),
        ComputeArray("t", whole("a") * whole("b")),
        DefineName("first", Load("b", (ZERO, ZERO), FLOAT64)),
        ComputeArray("r", whole("t") + Var("first", FLOAT64)),
    )
    body = list(statements(lower_procedure(f).body))
    assert sum(isinstance(x, For) for x in body) == 2
    assert sum(isinstance(x, Let) for x in body) == 2
    assert not any(isinstance(x, Alloc) for x in body)


def test_a_temporary_that_is_used_elsewhere_stays() -> None:
    f = procedure(
        local("t"),
        ComputeArray("t", whole("a") * whole("b")),
        ComputeArray("r", whole("t") + whole("a")),
        SetElement("r", (ZERO, ZERO), Load("t", (ONE, ONE), FLOAT64)),
    )
    body = list(statements(lower_procedure(f).body))
    assert sum(isinstance(x, For) for x in body) == 2
    assert sum(isinstance(x, Alloc) for x in body) == 1
