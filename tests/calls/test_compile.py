"""`lw.compile` and `lw.parse_c`: functions of C and programs as callables, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from backends.c_compiled import needs_cc
from calls.c_sources import GEMM, SAXPY, SERIAL, TWO
from loopwright import options
from loopwright.calls.compile import CompiledFile
from loopwright.diagnostics import DtypeError, LoopwrightError, SourceError, UsageError
from loopwright.transform.loop_marks import Vectorize
from loopwright.transform.plan import Plan

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


def test_a_path(tmp_path: Path) -> None:
    path = tmp_path / "saxpy.c"
    path.write_text(SAXPY.replace("a *", "FACTOR *"))
    x, y = floats(1, 2, 3), floats(1, 1, 1)
    lw.compile(path, defines={"FACTOR": 3})(3, 0, x, y)
    np.testing.assert_array_equal(y, [4, 7, 10])


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


def test_the_interpreter_on_request() -> None:
    saxpy = lw.compile(SAXPY)
    y = floats(1, 1)
    with options.override(interpret=True):
        saxpy(2, 2, floats(3, 4), y)
    np.testing.assert_array_equal(y, [7, 9])


def test_characters_of_either_sign() -> None:
    source = """\
void shift(int n, char s[n])
{
#pragma scop
    for (int i = 0; i < n; i++)
        s[i] = s[i] + 1;
#pragma endscop
}
"""
    shift = lw.compile(source)
    for dtype in (np.int8, np.uint8):
        text = np.array([65, 66], dtype)
        shift(2, text)
        np.testing.assert_array_equal(text, [66, 67])


def test_arrays_of_open_extent() -> None:
    source = SAXPY.replace("float x[n], float y[n]", "float *x, float y[]")
    saxpy = lw.compile(source)
    y = floats(1, 1, 1)
    saxpy(2, 2, floats(3, 4, 5, 6), y)
    np.testing.assert_array_equal(y, [7, 9, 1])
    with pytest.raises(SourceError, match="outside"):
        saxpy(4, 2, floats(1, 2, 3, 4), y)


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


def test_a_type_error_is_a_type_error() -> None:
    with pytest.raises(DtypeError):
        lw.compile(SAXPY)(1, 1, np.ones(1), floats(1))
    with pytest.raises(TypeError):
        lw.compile(SAXPY)(1, 1, np.ones(1), floats(1))


def test_shared_memory_is_refused() -> None:
    x = floats(1, 2, 3)
    with pytest.raises(UsageError, match="'y' and 'x' share memory"):
        lw.compile(SAXPY)(3, 1, x, x)
    np.testing.assert_array_equal(x, [1, 2, 3])


def test_sizes_that_leave_an_array() -> None:
    source = SAXPY.replace("float y[n]", "float y[3]")
    saxpy = lw.compile(source)
    y = floats(1, 2, 3)
    with pytest.raises(SourceError) as told:
        saxpy(4, 1, floats(1, 2, 3, 4), y)
    assert "<c>:5:" in str(told.value)
    np.testing.assert_array_equal(y, [1, 2, 3])


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


@pytest.mark.parametrize(
    "between",
    ["f(n);", "if (n) return;", "n++;", "for (;;) {}", "{ int k; }", "goto end; end:;", "x = y;"],
)
def test_other_code_of_all_kinds(between: str) -> None:
    source = SAXPY.replace("#pragma scop\n", f"    {between}\n#pragma scop\n")
    with pytest.raises(LoopwrightError):
        lw.compile(source)


@pytest.mark.parametrize(
    "between",
    [
        "int k, m = 3;",
        "const unsigned long k[3];",
        "float part[n][4], *p;",
        "static double s = 1e-3;",
        "/* y[0] = 0; */",
        "struct point *p;",
    ],
)
def test_declarations_are_no_code(between: str) -> None:
    source = SAXPY.replace("#pragma scop\n", f"    {between}\n#pragma scop\n")
    y = floats(1)
    lw.compile(source)(1, 2, floats(3), y)
    assert y == 7


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


@pytest.mark.drawn(2)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("plan", ["source", Plan((Vectorize("i", 4),))], ids=["source", "plan"])
def test_a_plan_of_ones_own(target: str, plan: str | Plan) -> None:
    saxpy = lw.compile(SAXPY, target=target, plan=plan)
    x, y = np.arange(11, dtype=np.float32), np.ones(11, np.float32)
    saxpy(11, 2, x, y)
    np.testing.assert_array_equal(y, 2 * x + 1)


def test_programs() -> None:
    first, second = lw.parse_c(TWO)
    assert [s.name for s in first.statements] == ["S0", "S1"]
    assert second.params == ("n",)
    (program,) = lw.parse_c(SAXPY, reassoc=True)
    assert program.reassoc


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


def test_c_of_the_openmp_target_reads_like_the_source() -> None:
    serial = lw.compile(SERIAL, target="c", plan="source")
    assert serial.inspect_c(3, np.ones(3)) == (
        "void serial(long n, double a[restrict n])\n"
        "{\n"
        "    for (long i = 1; i < n; i++) {\n"
        "        a[i] = a[i - 1] / (1.0 + a[i]); /* <c>:6 */\n"
        "    }\n"
        "}\n"
    )


def test_jit_shows_c_too() -> None:
    @lw.jit
    def double(x, y):
        for i in range(x.shape[0]):
            y[i] = x[i] + x[i]

    text = double.inspect_c(np.ones(5), np.ones(5))
    assert "void kernel(" in text
    assert "= x[" in text


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
