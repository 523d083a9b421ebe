"""`jit` functions called with arrays of a device: on a fake driver whose kernels the shim runs."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from gpu.fake_cuda import CupyArray, FakeApi, FakeArray
from gpu.ways import needs_compiler
from loopwright.diagnostics import SourceError, UsageError

pytestmark = needs_compiler


@lw.jit
def rotated(a, c):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] = c * a[i, j] + abs(a[i, j])


@lw.jit
def scaled(a, c):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] = c * a[i, j] + i


@lw.jit
def product(a, b):
    c = np.zeros((a.shape[0], b.shape[1]))
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]
    return c


@lw.jit
def shifted(a, b):
    for i in range(a.shape[0] - 1):
        a[i] = b[i + 1]


def matrix(rows: int, columns: int) -> np.ndarray:
    return np.arange(float(rows * columns)).reshape(rows, columns)


def test_arrays_change_where_they_lie(api: FakeApi) -> None:
    a = matrix(5, 40)
    wanted = 3.0 * a + np.arange(5.0)[:, None]
    assert scaled(CupyArray(a), 3.0) is None
    assert np.array_equal(a, wanted)
    launch = next(call for call in api.calls if call[0] == "cuLaunchKernel")
    assert launch[9] == 5  # the current stream of the library
    assert "cuCtxSynchronize" not in api.names()


def test_complex_numbers(api: FakeApi) -> None:
    a = (3 + 4j) * np.arange(20.0).reshape(4, 5)
    wanted = 2j * a + np.abs(a)
    rotated(CupyArray(a), 2j)
    np.testing.assert_allclose(a, wanted, 1e-14)


def test_results_are_arrays_of_the_library(api: FakeApi) -> None:
    a, b = matrix(6, 7), matrix(7, 9)
    found = product(CupyArray(a), CupyArray(b))
    assert type(found) is CupyArray
    assert np.array_equal(found.host, a @ b)
    api.calls.clear()
    product(CupyArray(b), CupyArray(matrix(9, 3)))
    assert "cuModuleLoadData" not in api.names()  # the code serves all sizes


def test_reports(api: FakeApi) -> None:
    a = CupyArray(matrix(4, 4))
    assert "kernels:" in scaled.explain(a, 2.0)
    assert "__global__" in scaled.inspect_c(a, 2.0)
    assert "block" in scaled.inspect_schedule(a, 2.0)
    assert [step.kind for step in scaled.plan(a, 2.0)][-1] == "map_to_threads"


def test_refusals(api: FakeApi) -> None:
    a, b = np.arange(8.0), np.arange(8.0)
    on_device = CupyArray(a)
    cases = [
        (lambda: shifted(on_device, b), "argument 2 lies in the host's memory"),
        (lambda: shifted(b, on_device), "argument 1 lies in the host's memory"),
        (
            lambda: shifted(FakeArray(a, api), FakeArray(b, api, device=1)),
            "arrays lie on different devices\nnote: found 'a' on 0, 'b' on 1",
        ),
        (
            lambda: shifted(on_device, CupyArray(a[::-1])),
            "arguments 'a' and 'b' share memory, and 'a' is written",
        ),
        (lambda: shifted(CupyArray(a[::2]), CupyArray(b[:4])), "'a' is not laid out as in C"),
        (lambda: shifted(on_device, object()), "argument 2 is no array of a CUDA device"),
    ]
    for call, told in cases:
        with pytest.raises(UsageError) as raised:
            call()
        assert str(raised.value).startswith(told)
    with pytest.raises(SourceError, match="is outside"):
        shifted(on_device, CupyArray(b[:4]))
    with pytest.raises(UsageError, match="argument 1 has a type that cannot be compiled"):
        scaled(object(), 1.0)
    assert "cuLaunchKernel" not in api.names()
