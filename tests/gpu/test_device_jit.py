"""`jit` functions called with arrays of a device: on a fake driver whose kernels the shim runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from gpu.fake_cuda import FakeApi, FakeArray, fake_driver
from gpu.shim.cuda_shim import has_compiler
from loopwright.diagnostics import SourceError, UsageError
from loopwright.runtime import cuda_executable

pytestmark = pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler")


class CupyArray:
    """CuPy's array, as far as it is read: NumPy's memory."""

    def __init__(self, host: np.ndarray) -> None:
        self.host = host
        self.data = SimpleNamespace(ptr=host.ctypes.data)
        self.shape, self.strides, self.dtype = host.shape, host.strides, host.dtype
        self.ndim = host.ndim
        self.device = SimpleNamespace(id=0)
        self.__cuda_array_interface__: dict[str, Any] = {}

    def __getitem__(self, at: Any) -> Any:
        return self.host[at]

    def __setitem__(self, at: Any, value: Any) -> None:
        self.host[at] = value


CupyArray.__module__ = "cupy"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    cupy = ModuleType("cupy")
    vars(cupy).update(
        empty=lambda shape, dtype: CupyArray(np.full(shape, 77, dtype)),
        cuda=SimpleNamespace(
            Device=lambda _: nullcontext(), get_current_stream=lambda: SimpleNamespace(ptr=5)
        ),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(cuda_executable, "compile_cuda", lambda text, *_: text.encode())
    with fake_driver(devices=2) as driver:
        yield driver


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
def total(a):
    s = 0.0
    for i in range(a.shape[0]):
        s += a[i]
    return s


@lw.jit
def shifted(a, b):
    for i in range(a.shape[0] - 1):
        a[i] = b[i + 1]


@lw.jit(on_unsupported="python")
def strange(a):
    k = 0
    while k < a.shape[0]:
        a[k] = 5
        k += 1


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


def test_results_are_arrays_of_the_library(api: FakeApi) -> None:
    a, b = matrix(6, 7), matrix(7, 9)
    found = product(CupyArray(a), CupyArray(b))
    assert type(found) is CupyArray
    assert np.array_equal(found.host, a @ b)
    api.calls.clear()
    product(CupyArray(b), CupyArray(matrix(9, 3)))
    assert "cuModuleLoadData" not in api.names()  # the code serves all sizes


def test_a_number_is_an_array_of_rank_0(api: FakeApi) -> None:
    found = total(CupyArray(np.arange(50.0)))
    assert type(found) is CupyArray
    assert (found.shape, found.host[()]) == ((), 1225.0)


def test_the_host_is_as_before(api: FakeApi) -> None:
    a = matrix(4, 4)
    api.calls.clear()
    scaled(a, 2.0)
    assert np.array_equal(a, 2.0 * matrix(4, 4) + np.arange(4.0)[:, None])
    assert not api.calls
    assert len(scaled.signatures) == 1


def test_reports(api: FakeApi) -> None:
    a = CupyArray(matrix(4, 4))
    assert "kernels:" in scaled.explain(a, 2.0)
    assert "__global__" in scaled.inspect_c(a, 2.0)
    assert "block" in scaled.inspect_schedule(a, 2.0)
    assert [step.kind for step in scaled.plan(a, 2.0)][-1] == "map_to_threads"


def test_outer_values_that_change(api: FakeApi) -> None:
    a = np.zeros(3)
    for value in (1.0, 2.0):
        globals()["OUTER"] = value
        outer(CupyArray(a))
        assert (a == value).all()


OUTER = 0.0


@lw.jit
def outer(a):
    for i in range(a.shape[0]):
        a[i] = OUTER


def test_what_python_runs_instead(api: FakeApi) -> None:
    a = np.zeros(3)
    strange(CupyArray(a))
    assert (a == 5).all()


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
