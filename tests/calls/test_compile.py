"""`lw.compile` and `lw.parse_c`: functions of C and programs as callables, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from calls.c_sources import GEMM, SAXPY, TWO
from loopwright.calls.compile import CompiledFile
from loopwright.diagnostics import SourceError, UsageError

TARGETS = ["host", pytest.param("openmp", marks=needs_cc), pytest.param("c", marks=needs_cc)]
A, B = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("threads", [1, 2])
def test_gemm(target: str, threads: int) -> None:
    gemm = lw.compile(GEMM, target=target, threads=threads)
    c = np.ones((2, 4))
    gemm(2, 4, 3, 0.5, c, A, B)
    np.testing.assert_array_equal(c, 0.5 * (A @ B))
    c[:] = 7
    gemm["gemm"](ni=2, nj=4, nk=3, alpha=2, C=c, A=A, B=B)
    np.testing.assert_array_equal(c, 2 * (A @ B))


@pytest.mark.parametrize("target", TARGETS)
def test_regions_run_in_order_on_variables_of_the_file(target: str) -> None:
    two = lw.compile(TWO, target=target)
    x, y = np.arange(1.0, 7), np.zeros(6)
    for count in (1, 2):
        two(6, x, y)
        scale = count * 3 * x[:4]
        np.testing.assert_array_equal(two.globals["scale"], scale)
        np.testing.assert_array_equal(y, 0.5 + 2 * x.sum() + scale[[0, 1, 2, 3, 0, 1]])
    two.globals["calls"][...] = 0
    two(6, x, y)
    np.testing.assert_array_equal(two.globals["scale"], scale)


def test_several_functions() -> None:
    both = lw.compile(GEMM + SAXPY)
    assert list(both) == ["gemm", "saxpy"]
    with pytest.raises(UsageError) as told:
        both(1)
    assert str(told.value) == (
        "<c> has 2 functions with regions\n"
        "note: found gemm, saxpy\n"
        "try: compiled['gemm'](...), or compile(..., function='gemm')"
    )
    one = lw.compile(GEMM + SAXPY, function="saxpy")
    y = floats(1)
    one(1, 2, floats(3), y)
    assert y == 7


# -- what is refused, with nothing touched --------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ((3, 1, floats(1, 2, 3)), "saxpy: missing y\ntry: n, a, x, y"),
        ((3, 1, 2, 3, 4), "saxpy takes 4 arguments\nnote: found 5\ntry: n, a, x, y"),
        (
            (3, 1, np.ones(3), floats(1, 2, 3)),
            "argument 'x' is of float32\nnote: found float64\ntry: x.astype('float32')",
        ),
        (
            (3, 1, floats(1, 2), floats(1, 2, 3)),
            "argument 'x' has other extents\nnote: found [2]\ntry: float32[3]",
        ),
        (
            (3, 1, floats(1, 2, 3, 4, 5, 6)[::2], floats(1, 2, 3)),
            "argument 'x' is not laid out as in C\n"
            "note: found strides (8,)\ntry: np.ascontiguousarray(x)",
        ),
        (([3], 1, 2, 3), "argument 'n' is an integer\nnote: found [3]"),
        ((2**31, 1, 2, 3), "argument 'n' does not fit int32\nnote: found 2147483648"),
        ((3, "a", 2, 3), "argument 'a' is a number of float32\nnote: found 'a'"),
        ((3, 1, [1, 2, 3], 3), "argument 'x' is a NumPy array\nnote: found list"),
    ],
    ids=["few", "many", "dtype", "shape", "layout", "integer", "range", "number", "list"],
)
@pytest.mark.parametrize("target", ["host", pytest.param("openmp", marks=needs_cc)])
def test_wrong_calls(args: tuple[object, ...], told: str, target: str) -> None:
    before = [np.array(x, copy=True) for x in args if isinstance(x, np.ndarray)]
    with pytest.raises(UsageError) as error:
        lw.compile(SAXPY, target=target)(*args)
    assert str(error.value) == told
    after = [x for x in args if isinstance(x, np.ndarray)]
    for x, y in zip(before, after, strict=True):
        np.testing.assert_array_equal(x, y)


OTHER_CODE = SAXPY.replace("#pragma endscop\n", "#pragma endscop\n    y[0] = 0;\n")


def test_code_outside_regions_is_not_ours() -> None:
    with pytest.raises(SourceError) as told:
        lw.compile(OTHER_CODE)
    assert str(told.value) == (
        "<c>:7:5: error: 'saxpy' is more than its regions [LW150]\n"
        "    y[0] = 0;\n"
        "    ^^^^^^^^^\n"
        "try: put it into a region or another function; 'loopwright cc' leaves it where it is"
    )


def test_values_that_nobody_knows() -> None:
    source = TWO.replace("double sum = 0.5", "double sum = x[0]")
    with pytest.raises(SourceError) as told:
        lw.compile(source)
    assert str(told.value) == (
        "<c>:5:12: error: the value that 'sum' begins with is not known to a call [LW151]\n"
        "    double sum = x[0], part[4];\n"
        "           ^^^\n"
        "note: found x[0]\n"
        "try: C's operators and functions of <math.h> on numbers, parameters, constants of the file"
        " and earlier variables that nothing has changed; or assign it in the region"
    )


@pytest.mark.parametrize(
    ("keywords", "told"),
    [
        (
            {"target": "fpga"},
            "unknown target\nnote: found 'fpga'\ntry: host, openmp, c, cuda, opencl",
        ),
        (
            {"target": "athread"},
            "target 'athread' writes the files of a program\n"
            "try: loopwright cc FILE --target athread -o FOLDER",
        ),
        (
            {"plan": "best"},
            "unknown plan\nnote: found 'best'\n"
            "try: 'model', 'source', a Plan, or a plan for each region",
        ),
        ({"threads": 0}, "threads must be a whole number\nnote: found 0\ntry: 1 to 256"),
        ({"function": "f"}, "no function 'f' with a region\ntry: saxpy"),
    ],
)
def test_wrong_options(keywords: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError) as error:
        lw.compile(SAXPY, **keywords)  # type: ignore[call-overload]
    assert str(error.value) == told


# -- plans, programs, reports ---------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_a_program_is_called_with_parameters_then_arrays(target: str) -> None:
    (program,) = lw.parse_c(GEMM)
    gemm = lw.compile(program, target=target, threads=2)
    calls: list[Callable[[np.ndarray], None]] = [
        lambda c: gemm(2, 4, 3, 0.5, c, A, B),
        lambda c: gemm(0.5, c, A, B),
        lambda c: gemm(C=c, A=A, B=B, alpha=0.5),
    ]
    for run in calls:
        c = np.ones((2, 4))
        run(c)
        np.testing.assert_array_equal(c, 0.5 * (A @ B))
    with pytest.raises(UsageError, match="'B' is missing"):
        gemm(2, 4, 3, 0.5, np.ones((2, 4)), A)
    with pytest.raises(UsageError, match="argument 'A' has other extents"):
        gemm(ni=2, nj=4, nk=5, alpha=1, C=np.ones((2, 4)), A=A, B=B)


def test_reports() -> None:
    saxpy: CompiledFile = lw.compile(SAXPY, threads=1)
    args = (3, 1, floats(1, 2, 3), floats(4, 5, 6))
    text = saxpy.inspect_c(*args)  # on AVX-512 the loop runs from and to lines of the caches
    assert "for (long i = 0;" in text or "for (long i = i_from; i < i_to;" in text
    assert "define internal void @kernel" in saxpy.inspect_llvm(*args)
    assert saxpy.inspect_asm(*args)
    assert "nest kernel(" in saxpy.inspect_loops(*args)
    assert "y[i] = a[] * x[i] + y[i]" in saxpy.inspect_schedule()
    assert "saxpy:\nS0: " in saxpy.explain()
    assert "vectorize" in saxpy.explain(*args) or "loops" in saxpy.explain(*args)
    assert repr(saxpy) == "<loopwright file <c>: saxpy>"
    assert repr(saxpy["saxpy"]) == "<loopwright function saxpy(n, a, x, y)>"


@pytest.mark.parametrize("is_other_thread", [False, True])
def test_a_program_that_leaves_its_arrays_is_refused_in_any_thread(is_other_thread: bool) -> None:
    """isl objects belong to the thread that compiled: another one makes its own."""
    text = (
        b"void f(int n, double x[n]) {\n#pragma scop\nfor (int i = 0; i < n; i++) x[i + 1] = 0;\n"
    )
    (program,) = lw.parse_c(text + b"#pragma endscop\n}\n")
    compiled = lw.compile(program, threads=1)

    def call() -> None:
        with pytest.raises(SourceError, match="subscript 1 of 'x' is outside the array"):
            compiled(3, np.zeros(3))

    if not is_other_thread:
        call()
        return
    with ThreadPoolExecutor(1) as pool:
        pool.submit(call).result()
