"""Arrays of PyTorch, CuPy, Numba and DLPack as views: fakes that have what the real ones have."""

import ctypes
import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpu.fake_cuda import FakeApi, FakeArray
from loopwright.diagnostics import DtypeError, UsageError
from loopwright.ir.dtypes import BFLOAT16, FLOAT32, FLOAT64, INT64
from loopwright.runtime.device_arrays import (
    current_stream,
    device_array,
    empty_like_arguments,
    is_device_array,
)


def module(name: str, **contents: Any) -> Any:
    made = ModuleType(name)
    vars(made).update(contents)
    return made


class Tensor:
    """PyTorch's tensor, as far as it is read."""

    requires_grad = False
    is_cuda = True
    layout = "strided"
    conjugated = negated = False

    def __init__(self, data: np.ndarray, device: int = 0) -> None:
        self.data = data
        self.shape = data.shape
        self.dtype = f"torch.{data.dtype}"
        self.device = SimpleNamespace(index=device)

    def data_ptr(self) -> int:
        return self.data.ctypes.data

    def stride(self) -> tuple[int, ...]:
        return tuple(s // self.data.itemsize for s in self.data.strides)

    def is_conj(self) -> bool:
        return self.conjugated

    def is_neg(self) -> bool:
        return self.negated


Tensor.__module__ = "torch"


class CupyArray:
    """CuPy's array, as far as it is read."""

    def __init__(self, data: np.ndarray, device: int = 0) -> None:
        self.data = SimpleNamespace(ptr=data.ctypes.data)
        self.shape, self.strides, self.dtype = data.shape, data.strides, data.dtype
        self.device = SimpleNamespace(id=device)
        self.__cuda_array_interface__: dict[str, Any] = {}


CupyArray.__module__ = "cupy"


class Deviating:
    """Has DLPack only: a capsule that the test fills in."""

    def __init__(self, kind: int, capsule: Any) -> None:
        self._kind, self._capsule = kind, capsule
        self.asked: list[int] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._kind, 1

    def __dlpack__(self, stream: int) -> Any:
        self.asked.append(stream)
        return self._capsule


@pytest.fixture
def api(driver: FakeApi) -> FakeApi:
    """Two fake devices, and no library of arrays."""
    return driver


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = SimpleNamespace(cuda_stream=77)
    cuda = SimpleNamespace(current_stream=lambda device: stream)
    torch = module("torch", cuda=cuda, strided="strided", float32="f32")
    torch.empty = lambda shape, dtype, device: ("torch", shape, dtype, device)
    cupy = module("cupy", empty=lambda shape, dtype: ("cupy", shape, dtype))
    cupy.cuda = SimpleNamespace(
        get_current_stream=lambda: SimpleNamespace(ptr=88), Device=lambda n: nullcontext()
    )
    numba_cuda = module("numba.cuda", gpus=[nullcontext(), nullcontext()])
    numba_cuda.device_array = lambda shape, dtype: ("numba", shape, dtype)
    numba = module("numba", cuda=numba_cuda)
    for made in (torch, cupy, numba, numba_cuda):
        monkeypatch.setitem(sys.modules, made.__name__, made)


@pytest.mark.usefixtures("libraries")
def test_tensors_of_torch() -> None:
    data = np.zeros((4, 6), np.float32)[:, ::2]
    view = device_array(Tensor(data, 1), "x")
    assert view[:8] == (data.ctypes.data, (4, 3), (6, 2), FLOAT32, 1, True, None, "torch")
    assert view.reach == 3 * 6 + 2 * 2
    assert current_stream(view.library, 1) == 77
    assert empty_like_arguments([view], (2, 3), FLOAT32) == ("torch", (2, 3), "f32", "cuda:1")


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"requires_grad": True}, "x requires a gradient, which kernels do not have"),
        ({"layout": "sparse_coo"}, "x is no dense tensor"),
        ({"conjugated": True}, "x is conjugated or negated in its flags only"),
        ({"dtype": "torch.float8_e5m2"}, "x: 'float8_e5m2' is no dtype"),
        ({"is_cuda": False}, "x is no array of a CUDA device"),
    ],
)
def test_tensors_that_kernels_cannot_read(change: dict[str, Any], told: str) -> None:
    tensor = Tensor(np.zeros(3, np.float32))
    vars(tensor).update(change)
    with pytest.raises(UsageError) as raised:
        device_array(tensor, "x")
    assert raised.value.message.startswith(told)


@pytest.mark.usefixtures("libraries")
def test_arrays_of_cupy() -> None:
    data = np.zeros((4, 6))[::-1]
    view = device_array(CupyArray(data, 1), "x")
    assert view[:8] == (data.ctypes.data, (4, 6), (-6, 1), FLOAT64, 1, True, None, "cupy")
    assert current_stream(view.library, 1) == 88
    assert empty_like_arguments([view], (2,), INT64) == ("cupy", (2,), np.dtype(np.int64))


@pytest.mark.usefixtures("libraries")
def test_arrays_with_the_interface(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeArray, "__module__", "numba.cuda.cudadrv")
    data = np.zeros((2, 5), np.int64)
    view = device_array(FakeArray(data, api, device=1, stream=9), "x")
    assert view[:8] == (data.ctypes.data, (2, 5), (5, 1), INT64, 1, True, 9, "numba")
    assert current_stream(view.library, 1) == 0
    assert empty_like_arguments([view], (2,), INT64) == ("numba", (2,), np.dtype(np.int64))


class Nonsense:
    __cuda_array_interface__ = {"shape": (3,)}  # noqa: RUF012, as a library would have it


def test_interface_without_sense() -> None:
    with pytest.raises(UsageError) as raised:
        device_array(Nonsense(), "x")
    assert str(raised.value) == (
        "the __cuda_array_interface__ of x has no sense\nnote: found KeyError('data')"
    )


def capsule(data: np.ndarray, code: int, keep: list[Any], strides: bool = True) -> Any:
    """A DLPack capsule of NumPy's memory that claims to lie on CUDA device 1."""
    steps = tuple(s // data.itemsize for s in data.strides)
    shape = (ctypes.c_int64 * max(1, data.ndim))(*data.shape)
    places = (ctypes.c_int64 * max(1, data.ndim))(*steps)
    words = np.zeros(8, np.uint64)
    words[0] = data.ctypes.data - 16
    words[1] = 2 | 1 << 32
    words[2] = data.ndim | code << 32 | (8 * data.itemsize) << 40 | 1 << 48
    words[3] = ctypes.addressof(shape)
    words[4] = ctypes.addressof(places) if strides else 0
    words[5] = 16
    keep += [shape, places, words]
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
    )
    return new(words.ctypes.data, b"dltensor", None)


@pytest.mark.parametrize("strides", [False, True])
def test_tensors_by_dlpack(strides: bool) -> None:
    keep: list[Any] = []
    data = np.zeros((3, 4), np.float32)
    given = Deviating(2, capsule(data, 2, keep, strides))
    assert is_device_array(given)
    view = device_array(given, "x")
    assert view[:7] == (data.ctypes.data, (3, 4), (4, 1), FLOAT32, 1, True, 1)
    assert given.asked == [1]


def test_dlpack_of_other_types_and_devices() -> None:
    keep: list[Any] = []
    data = np.zeros((3, 4), np.float16)
    assert device_array(Deviating(2, capsule(data, 4, keep)), "x").dtype == BFLOAT16
    with pytest.raises(DtypeError, match=r"x has elements that are not supported"):
        device_array(Deviating(2, capsule(data, 3, keep)), "x")  # of a user's kind
    assert not is_device_array(Deviating(10, None))
    with pytest.raises(UsageError, match=r"x lies in the host's memory"):
        device_array(Deviating(1, None), "x")
