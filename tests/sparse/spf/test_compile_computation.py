"""Computations as machine code and as C: the numbers of the interpreter, and faulty calls."""

import numpy as np
import pytest

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import INT32
from loopwright.ir.program import Role
from loopwright.sparse.spf.compile_computation import compile_computation
from loopwright.sparse.spf.computation import Computation, DataSpace
from loopwright.sparse.spf.rescheduling import fuse, parallelise
from spf_assembly import CLEAR, ROW_SUM, assembly, computation
from spf_instances import interpreted, traced

Arrays = dict[str, np.ndarray]


def example(rows: int, count: int, seed: int = 0) -> tuple[Arrays, dict[str, int]]:
    random = np.random.default_rng(seed)
    row = np.sort(random.integers(0, rows, count)).astype(np.int32)
    ptr = np.searchsorted(row, np.arange(rows + 1)).astype(np.int32)
    arrays = {
        "row": row,
        "ptr": ptr,
        "val": random.random(count),
        "start": np.zeros(rows + 1, np.int32),
        "out": np.zeros(count),
        "y": np.zeros(rows),
    }
    return arrays, {"N": rows, "M": 0, "K": count}


def of(made: Computation, arrays: Arrays) -> Arrays:
    names = {space.name for space in made.spaces}
    return {name: array.copy() for name, array in arrays.items() if name in names}


@pytest.mark.parametrize(("rows", "count"), [(5, 9), (40, 30), (1, 0)])
def test_assembly(rows: int, count: int) -> None:
    made = assembly()
    arrays, symbols = example(rows, count)
    given = of(made, arrays)
    compile_computation(made)(given, symbols)
    np.testing.assert_array_equal(given["start"], arrays["ptr"])
    np.testing.assert_array_equal(given["out"], arrays["val"])
    assert interpreted(made, of(made, arrays), symbols)["out"].tolist() == given["out"].tolist()


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_by_threads(threads: int) -> None:
    made = parallelise(fuse(computation(CLEAR, ROW_SUM), "clear", "row_sum", 1), "clear")
    arrays, symbols = example(200, 3000)
    given = of(made, arrays)
    compile_computation(made)(given, symbols, threads)
    expected = np.add.reduceat(np.append(arrays["val"], 0.0), arrays["ptr"][:-1])
    expected[np.diff(arrays["ptr"]) == 0] = 0.0
    np.testing.assert_allclose(given["y"], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("domains", "schedules"),
    [
        (["{[i,j] : 0 <= i < N && i <= j < 7}"], [(0, "floor(i/2)", "floor(j/3)", "i", "j")]),
        (["{[i] : 0 <= i < N or 2 <= i < 9}", "{[i] : 1 <= i < 5}"], [("i",), ("i+1",)]),
        (
            ["{[i,k] : 0 <= i < N && ptr(i) <= k < ptr(i+1)}", "{[i] : ptr(i) = 1 && 0 <= i < N}"],
            [("i", "k"), ("i", 1)],
        ),
    ],
    ids=["tiles", "union", "rows"],
)
def test_traces(domains: list[str], schedules: list[tuple[int | str, ...]]) -> None:
    spaces = (DataSpace.of("ptr", INT32, ["N+1"], Role.IN),)
    made = traced(domains, schedules, spaces, ("N",))
    given = {"ptr": np.array([0, 1, 1, 3, 4], np.int32), "trace": np.array(1)}
    expected = interpreted(made, given, {"N": 4})
    compile_computation(made)(given, {"N": 4})
    assert given["trace"] == expected["trace"]


def test_kernels_are_found_again() -> None:
    made = assembly()
    assert compile_computation(made) is compile_computation(assembly())
    assert compile_computation(made).kernel is compile_computation(made).kernel


def test_texts_of_stages() -> None:
    made = compile_computation(fuse(computation(CLEAR, ROW_SUM), "clear", "row_sum", 1))
    assert "for k in range(int64(ptr[i]), int64(ptr[i + 1])):" in made.inspect("loops")
    assert "for (" in made.inspect("c")
    assert "define" in made.inspect("llvm")


def test_faulty_calls_are_told() -> None:
    made = computation(CLEAR, ROW_SUM)
    code = compile_computation(made)
    arrays, symbols = example(4, 6)
    given = of(made, arrays)
    faults: list[tuple[Arrays, dict[str, int], str]] = [
        ({**given, "y": given["y"][:-1]}, symbols, r"it is y\[N\], so \(4,\)"),
        (
            {**given, "ptr": given["ptr"].astype(np.int64)},
            symbols,
            "'ptr' must be an array of int32",
        ),
        ({**given, "y": given["val"][:4]}, symbols, "'y' shares memory with 'val'"),
        ({**given, "val": np.zeros(12)[::2]}, symbols, "'val' is not laid out row by row"),
        (given, {"N": 4}, "takes the symbols K, M, N"),
        ({"y": given["y"]}, symbols, "takes the arrays ptr, val, y"),
    ]
    for wrong, values, told in faults:
        with pytest.raises(UsageError, match=told):
            code(wrong, values)
    given["y"].flags.writeable = False
    with pytest.raises(UsageError, match="'y' is read-only"):
        code(given, symbols)
