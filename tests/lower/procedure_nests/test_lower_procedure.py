"""Procedures as loop nests: the same bits as NumPy calls, interpreted and compiled."""

import numpy as np
import pytest
from tests.run_procedures import check_ways, memory_of

from loopwright.diagnostics import Span
from loopwright.ir.dtypes import BOOL, DTYPES, FLOAT64, INT64, DType
from loopwright.ir.expr import Binary, Cast, Const, Expr, Load, Unary, Var
from loopwright.ir.loops import Alloc, LabelledBlock, Space
from loopwright.ir.procedure import (
    AllocateArray,
    ArrayRole,
    ArrayView,
    BindView,
    CheckThat,
    Choose,
    ComputeArray,
    DefineName,
    EndlessLoop,
    LeaveLoop,
    MultiplyMatrices,
    NextIteration,
    Parameter,
    Procedure,
    ProcedureArray,
    ProcedureStmt,
    RangeLoop,
    ReduceArray,
    ReturnedArray,
    ReturnNow,
    SetElement,
    ViewAxis,
    position,
)
from loopwright.ir.visit import statements
from loopwright.lower.procedure_nests import contract_matrices
from loopwright.lower.procedure_nests.lower_procedure import lower_procedure

N, M, K = Var("n"), Var("m"), Var("k")
ZERO, ONE = Const(0), Const(1)
HERE = Span("f.py", 1, 1, 1, 2)
SIZES = (0, 1, 2, 7, 13)


def array(name: str, *shape: Expr, dtype: DType = FLOAT64, out: bool = False) -> ProcedureArray:
    role = ArrayRole.RESULT if out else ArrayRole.ARGUMENT
    return ProcedureArray(name, dtype, shape, role)


def whole(name: str, dtype: DType = FLOAT64) -> Load:
    return Load(name, (), dtype)


def procedure(
    arrays: tuple[ProcedureArray, ...], *body: ProcedureStmt, integers: tuple[str, ...] = ("n", "m")
) -> Procedure:
    parameters = tuple(Parameter(a.name, "array") for a in arrays if a.role is ArrayRole.ARGUMENT)
    return Procedure("f", parameters, integers, arrays, (), body, ReturnedArray(arrays[-1].name))


def numbers(*shape: int, dtype: str = "float64", seed: int = 3) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (random.normal(size=shape) * 9).astype(dtype)


# -- array statements -----------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("m", [1, 5])
def test_operands_broadcast_by_trailing_axes(n: int, m: int) -> None:
    value = whole("a") * Const(2.0, FLOAT64) + whole("b") * Cast(position(2), FLOAT64)
    f = procedure(
        (array("a", N, M), array("b", M), array("r", N, M, out=True)), ComputeArray("r", value)
    )
    found = check_ways(f, {"a": numbers(n, m), "b": numbers(m)}, {"n": n, "m": m})
    a, b = numbers(n, m), numbers(m)
    np.testing.assert_array_equal(found["r"], a * 2.0 + b * np.arange(n)[:, None])


def test_an_axis_of_extent_one_is_repeated() -> None:
    f = procedure(
        (array("a", N, ONE), array("b", ONE, M), array("r", N, M, out=True)),
        ComputeArray("r", whole("a") + whole("b")),
    )
    found = check_ways(f, {"a": numbers(3, 1), "b": numbers(1, 4)}, {"n": 3, "m": 4})
    np.testing.assert_array_equal(found["r"], numbers(3, 1) + numbers(1, 4))


def row(name: str, start: Expr, extent: Expr, step: int = 1, base: str = "a") -> BindView:
    axis = ViewAxis(extent, ((0, Const(step)),))
    return BindView(ArrayView(name, base, FLOAT64, (start,), (axis,)))


@pytest.mark.parametrize("n", [2, 3, 8, 13])
@pytest.mark.parametrize(
    ("target", "source", "needs_memory"),
    [
        ((ONE, N - 1, 1), (ZERO, N - 1, 1), True),  # a[1:] = a[:-1]
        ((ZERO, N - 1, 1), (ONE, N - 1, 1), True),
        ((ZERO, N, 1), (N - 1, N, -1), True),  # a[:] = a[::-1]
        ((ZERO, N // 2, 2), (ONE, N // 2, 2), False),  # a[::2] = a[1::2]
        ((ZERO, N, 1), (ZERO, N, 1), False),
    ],
)
def test_a_value_is_computed_whole_before_it_is_written(
    n: int, target: tuple[Expr, Expr, int], source: tuple[Expr, Expr, int], needs_memory: bool
) -> None:
    value = whole("s") + Const(1.0, FLOAT64)
    f = procedure((array("a", N),), row("t", *target), row("s", *source), ComputeArray("t", value))
    check_ways(f, {"a": numbers(n)}, {"n": n, "m": 0})
    spaces = [s.buffer.space for s in statements(lower_procedure(f).body) if isinstance(s, Alloc)]
    assert spaces == [Space.SCRATCH] * needs_memory


def test_a_transposed_view_of_the_target_is_read_first() -> None:
    axes = (ViewAxis(N, ((1, ONE),)), ViewAxis(N, ((0, ONE),)))
    turned = BindView(ArrayView("t", "a", FLOAT64, (ZERO, ZERO), axes))
    f = procedure((array("a", N, N),), turned, ComputeArray("a", whole("a") + whole("t")))
    found = check_ways(f, {"a": numbers(5, 5)}, {"n": 5, "m": 0})
    np.testing.assert_array_equal(found["a"], numbers(5, 5) + numbers(5, 5).T)


def test_products_and_sums_round_each() -> None:
    value = whole("a") * whole("b") + whole("c")
    arrays = tuple(array(x, N) for x in "abc")
    f = procedure((*arrays, array("r", N, out=True)), ComputeArray("r", value))
    given = {x: numbers(101, seed=k) for k, x in enumerate("abc")}
    found = check_ways(f, given, {"n": 101, "m": 0})
    np.testing.assert_array_equal(found["r"], given["a"] * given["b"] + given["c"])


def test_gathers_by_arrays_and_by_elements() -> None:
    index = array("x", N, dtype=INT64)
    gathered = Load("a", (whole("x", INT64),), FLOAT64)
    at = Load("x", (Var("i"),), INT64)
    count = Load("h", (at,), FLOAT64) + Const(1.0, FLOAT64)
    loop = RangeLoop("i", ZERO, N, ONE, (SetElement("h", (at,), count),))
    arrays = (array("a", M), index, array("h", M), array("r", N, out=True))
    f = procedure(arrays, ComputeArray("r", gathered), loop)
    x = np.array([2, 0, 2, 2, 1])
    found = check_ways(f, {"a": numbers(3), "x": x, "h": np.zeros(3)}, {"n": 5, "m": 3})
    np.testing.assert_array_equal(found["r"], numbers(3)[x])
    np.testing.assert_array_equal(found["h"], np.bincount(x))


def test_local_arrays_inside_of_loops() -> None:
    local = ProcedureArray("t", FLOAT64, (Var("i") + 1,))
    part = row("p", ZERO, Var("i") + 1)
    body = (
        AllocateArray(local, (N,)),
        part,
        ComputeArray("t", whole("p") * whole("p")),
        ComputeArray("p", whole("t") - Const(0.5, FLOAT64)),
    )
    f = procedure((array("a", N),), RangeLoop("i", ZERO, N, ONE, body))
    check_ways(f, {"a": numbers(7) / 9}, {"n": 7, "m": 0})


def test_local_memory_without_elements_has_any_other_extent() -> None:
    local = ProcedureArray("t", FLOAT64, (ZERO, N))
    body = (AllocateArray(local, (ZERO, N)), ComputeArray("t", Const(1.0, FLOAT64)))
    f = procedure((array("a", N),), *body, ComputeArray("a", Const(2.0, FLOAT64)))
    check_ways(f, {"a": numbers(3)}, {"n": 3, "m": 0})


# -- reductions and products ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "complex128", "int32"])
@pytest.mark.parametrize(
    ("shape", "axes", "runs"),
    [
        ((0,), (0,), ((0,),)),
        ((5,), (0,), ((0,),)),
        ((1009,), (0,), ((0,),)),
        ((5, 301), (0, 1), ((0, 1),)),
        ((5, 301), (1,), ((0, 1),)),
        ((5, 301), (0,), ((0, 1),)),
        ((301, 1), (0,), ((0, 1),)),
        ((1, 301), (0,), ((0, 1),)),
        ((3, 4, 50), (0, 2), ((0, 1, 2),)),
        ((0, 3), (1,), ((0, 1),)),
        ((3, 0), (1,), ((0, 1),)),
    ],
)
def test_sums_have_the_bits_of_numpy(
    dtype: str, shape: tuple[int, ...], axes: tuple[int, ...], runs: tuple[tuple[int, ...], ...]
) -> None:
    extents = tuple(Const(1) if n == 1 else Var(f"n{k}") for k, n in enumerate(shape))
    kept = (x for k, x in enumerate(extents) if k not in axes)
    kind = DTYPES[dtype]
    sizes = {x.name: n for x, n in zip(extents, shape, strict=True) if isinstance(x, Var)}
    f = procedure(
        (array("a", *extents, dtype=kind), array("r", *kept, dtype=kind, out=True)),
        ReduceArray("r", "add", whole("a", kind), extents, axes, runs),
        integers=tuple(sizes),
    )
    given = numbers(*shape, dtype="float64").astype(dtype)
    found = check_ways(f, {"a": given}, sizes)
    np.testing.assert_array_equal(found["r"], np.add.reduce(given, axis=axes, dtype=dtype))


@pytest.mark.parametrize("op", ["mul", "min", "max"])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_other_reductions(op: str, axes: tuple[int, ...]) -> None:
    kept = (x for k, x in enumerate((N, M)) if k not in axes)
    value = whole("a") - whole("b")
    f = procedure(
        (array("a", N, M), array("b", M), array("r", *kept, out=True)),
        ReduceArray("r", op, value, (N, M), axes, ((0, 1),)),
    )
    check_ways(f, {"a": numbers(4, 9), "b": numbers(9)}, {"n": 4, "m": 9})


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((K,), (K,)),
        ((N, K), (K,)),
        ((K,), (K, M)),
        ((N, K), (K, M)),
        ((Const(2), N, K), (K, M)),
        ((ONE, N, K), (Const(2), K, M)),
    ],
)
@pytest.mark.parametrize(("n", "m", "k"), [(3, 5, 0), (3, 5, 1), (13, 19, 19), (6, 8, 257)])
def test_products(left: tuple[Expr, ...], right: tuple[Expr, ...], n: int, m: int, k: int) -> None:
    integers = {"n": n, "m": m, "k": k}

    def given(shape: tuple[Expr, ...]) -> np.ndarray:
        extents = [integers[x.name] if isinstance(x, Var) else x.value for x in shape]
        return np.rint(numbers(*extents))  # so that sums are exact in any order

    a, b = given(left), given(right)
    shape = np.matmul(a, b).shape
    out = array("r", *map(Const, shape), out=True)
    f = procedure(
        (array("a", *left), array("b", *right), out),
        MultiplyMatrices("r", "a", "b"),
        integers=("n", "m", "k"),
    )
    check_ways(f, {"a": a, "b": b}, integers)


def test_large_products_have_the_bits_of_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    integers = {"n": 18, "m": 21, "k": 37}
    given = {"a": numbers(18, 37), "b": numbers(37, 21)}
    arrays = (array("a", N, K), array("b", K, M), array("r", N, M, out=True))
    f = procedure(arrays, MultiplyMatrices("r", "a", "b"), integers=("n", "m", "k"))
    small = memory_of(f, given, integers, "code")
    monkeypatch.setattr(contract_matrices, "_LEAST_WORK", 1)
    large = memory_of(f, given, integers, "code")
    assert isinstance(small, dict)
    assert isinstance(large, dict)
    np.testing.assert_array_equal(large["r"].view(np.int64), small["r"].view(np.int64))


@pytest.mark.parametrize("turned", ["a", "b"])
@pytest.mark.parametrize("has_column", [True, False])
def test_products_of_transposed_matrices(turned: str, has_column: bool) -> None:
    integers = {"n": 13, "m": 19, "k": 11}
    shapes = {"a": (N, K), "b": (K, M) if has_column or turned == "b" else (K,)}
    if not has_column and turned == "b":
        shapes["a"] = (K,)
    given = {}
    body: list[ProcedureStmt] = []
    for name in "ab":
        shape = shapes[name]
        if name == turned:
            axes = (ViewAxis(shape[0], ((1, ONE),)), ViewAxis(shape[1], ((0, ONE),)))
            body.append(BindView(ArrayView("t", name, FLOAT64, (ZERO, ZERO), axes)))
            shapes[name] = shape[::-1]
        given[name] = np.rint(numbers(*(integers[x.name] for x in shapes[name])))
    factors = [given[x].T if x == turned else given[x] for x in "ab"]
    product = factors[0] @ factors[1]
    names = ["t" if x == turned else x for x in "ab"]
    f = procedure(
        (
            array("a", *shapes["a"]),
            array("b", *shapes["b"]),
            array("r", *map(Const, product.shape), out=True),
        ),
        *body,
        MultiplyMatrices("r", *names),
        integers=("n", "m", "k"),
    )
    np.testing.assert_array_equal(check_ways(f, given, integers)["r"], product)


# -- control --------------------------------------------------------------------------------------


def test_loops_are_left_and_continued() -> None:
    i, total = Var("i"), Load("r", (), FLOAT64)
    element = Load("a", (i,), FLOAT64)
    zero = Const(0.0, FLOAT64)
    body = (
        Choose(Binary("lt", element, zero), (NextIteration(),)),
        Choose(Binary("gt", total, Const(9.0, FLOAT64)), (LeaveLoop(),)),
        SetElement("r", (), total + element),
    )
    f = procedure(
        (array("a", N), array("r", out=True)),
        SetElement("r", (), zero),
        RangeLoop("i", ZERO, N, ONE, body),
    )
    for n in SIZES:
        found = check_ways(f, {"a": numbers(n)}, {"n": n, "m": 0})
        want = 0.0
        for x in numbers(n):
            if x < 0:
                continue
            if want > 9:
                break
            want += x
        assert found["r"] == want


@pytest.mark.parametrize("step", [-3, -1, 2])
def test_ranges_with_steps_of_either_sign(step: int) -> None:
    i = Var("i")
    body = SetElement("r", (), Load("r", (), INT64) * 3 + i)
    for by in (Const(step), M):
        f = procedure(
            (array("r", dtype=INT64, out=True),),
            SetElement("r", (), ZERO),
            RangeLoop("i", N, Const(4), by, (body,)),
        )
        for n in (-3, 0, 3, 4, 5, 11):
            found = check_ways(f, {}, {"n": n, "m": step})
            want = 0
            for at in range(n, 4, step):
                want = want * 3 + at
            assert found["r"] == want


def test_an_endless_loop_and_an_early_return() -> None:
    number, steps = Load("r", (), INT64), Load("s", (), INT64)
    odd = Binary("eq", number % 2, ONE)
    body = (
        Choose(Binary("eq", number, ONE), (LeaveLoop(),)),
        Choose(
            odd,
            (SetElement("r", (), number * 3 + 1),),
            (SetElement("r", (), number // 2),),
        ),
        SetElement("s", (), steps + 1),
        Choose(Binary("gt", steps, Const(50)), (ReturnNow(),)),
    )
    f = procedure(
        (array("s", dtype=INT64, out=True), array("r", dtype=INT64, out=True)),
        SetElement("s", (), ZERO),
        SetElement("r", (), N),
        EndlessLoop(body),
        SetElement("s", (), Unary("neg", steps)),
    )
    assert check_ways(f, {}, {"n": 6, "m": 0})["s"] == -8
    assert check_ways(f, {}, {"n": 27, "m": 0})["s"] == 51
    assert any(isinstance(x, LabelledBlock) for x in statements(lower_procedure(f).body))


def test_a_check_that_fails_ends_the_procedure_there() -> None:
    i = Var("i")
    inside = Binary("and", Load("x", (i,), INT64) >= 0, Load("x", (i,), INT64) < M)
    check = CheckThat(inside, "IndexError", "index {0} at {1}", (Load("x", (i,), INT64), i), HERE)
    write = SetElement("a", (Load("x", (i,), INT64),), Const(1.0, FLOAT64))
    f = procedure(
        (array("a", M), array("x", N, dtype=INT64)),
        RangeLoop("i", ZERO, N, ONE, (check, write)),
    )
    given = {"a": np.zeros(3), "x": np.array([0, 2])}
    found = check_ways(f, given, {"n": 2, "m": 3})
    np.testing.assert_array_equal(found["a"], [1, 0, 1])
    given["x"] = np.array([0, 2, 9, 1])
    assert check_ways(f, given, {"n": 4, "m": 3}) == {}


def test_names_are_computed_once() -> None:
    first = Load("a", (ZERO,), FLOAT64)
    f = procedure(
        (array("a", N), array("r", N, out=True)),
        DefineName("x", first),
        ComputeArray("a", whole("a") * Const(0.5, FLOAT64)),
        ComputeArray("r", whole("a") + Var("x", FLOAT64)),
    )
    found = check_ways(f, {"a": numbers(4)}, {"n": 4, "m": 0})
    np.testing.assert_array_equal(found["r"], numbers(4) * 0.5 + numbers(4)[0])


def test_conditions_of_numbers() -> None:
    flag = array("q", dtype=BOOL)
    chosen = Choose(whole("q", BOOL), (ReturnNow(),))
    f = procedure((flag, array("a", N)), chosen, ComputeArray("a", Const(2.0, FLOAT64)))
    for value in (True, False):
        found = check_ways(f, {"q": np.array(value), "a": numbers(3)}, {"n": 3, "m": 0})
        assert (found["a"] == 2).all() != value
