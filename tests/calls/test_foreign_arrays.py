"""Arrays of other libraries in this process's memory: read in place, results of their kind."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright.diagnostics import UsageError


class Tensor:
    """An array that NumPy sees through DLPack only."""

    def __init__(self, elements: Any) -> None:
        self.elements = np.asarray(elements)
        self.shape, self.ndim = self.elements.shape, self.elements.ndim

    def __dlpack__(self, **asked: Any) -> Any:
        if self.elements.dtype == np.int8:
            raise BufferError("int8 stays here")
        return self.elements.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.elements.__dlpack_device__()

    def __array_namespace__(self) -> Any:
        return SimpleNamespace(from_dlpack=lambda array: Tensor(np.from_dlpack(array)))


class Exported:
    """An array by DLPack alone, of a library that makes none from it."""

    def __init__(self, elements: Any) -> None:
        self.elements = elements

    def __dlpack__(self, **asked: Any) -> Any:
        return self.elements.__dlpack__(**asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.elements.__dlpack_device__()


class Described:
    """An array by `__array_interface__` alone."""

    def __init__(self, elements: Any) -> None:
        self.elements = elements

    @property
    def __array_interface__(self) -> Any:
        return self.elements.__array_interface__


def numpy_of(value: Any) -> Any:
    return value.elements if isinstance(value, Tensor) else value.numpy()


def makers() -> list[Any]:
    """Tensors of this file, and those of PyTorch where it is installed."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return [pytest.param(Tensor, id="own")]
    return [pytest.param(Tensor, id="own"), pytest.param(torch.from_numpy, id="torch")]


each_library = pytest.mark.parametrize("make", makers())
A, B = np.arange(12.0).reshape(3, 4), np.arange(20.0).reshape(4, 5) - 7


@each_library
def test_einsum_gives_arrays_of_the_kind_it_takes(make: Any) -> None:
    a, b = make(A), make(B)
    kind = type(a)
    for _ in range(2):  # the second time by the quick path
        found = lw.einsum("ij,jk->ik", a, b)
        assert type(found) is kind
        assert np.array_equal(numpy_of(found), A @ B)
    assert type(lw.einsum("ij,jk->ik", A, b)) is kind
    assert type(lw.einsum(a, [0, 1], b, [1, 2])) is kind
    total = lw.einsum("ij->", a)
    assert type(total) is kind
    assert numpy_of(total) == A.sum()
    assert np.array_equal(numpy_of(lw.einsum("ji", make(A[::-1].copy()))), A[::-1].T)


@lw.jit
def doubled(x: Any, y: Any) -> Any:
    total = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        y[i] = x[i] * 2
        total[i] = x[i] + y[i]
    return total


@each_library
def test_jit_takes_and_gives_them(make: Any) -> None:
    x, y = make(np.arange(5.0)), make(np.zeros(5))
    found = doubled(x, y)
    assert type(found) is type(x)
    assert np.array_equal(numpy_of(y), np.arange(5.0) * 2)
    assert np.array_equal(numpy_of(found), np.arange(5.0) * 3)
    assert doubled.explain(x, y) == doubled.explain(np.arange(5.0), np.zeros(5))
    assert doubled.plan(x, y) == doubled.plan(np.arange(5.0), np.zeros(5))


LAYOUTS = {
    "by rows": np.copy,
    "by columns": np.asfortranarray,
    "turned around": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "every third": lambda a: np.repeat(a, 3, axis=1)[:, ::3],
}


@lw.jit
def product(a: Any, b: Any) -> Any:
    out = np.zeros((a.shape[0], b.shape[1]))
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                out[i, j] += a[i, k] * b[k, j]
    return out


@lw.jit
def halve(a: Any) -> Any:
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] = a[i, j] / 2


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("kind", [Exported, Described])
def test_what_only_describes_its_memory_is_read_and_written_there(kind: Any, layout: Any) -> None:
    a, b = layout(A), layout(B)
    for found in (lw.einsum("ij,jk->ik", kind(a), kind(b)), product(kind(a), kind(b))):
        assert type(found) is np.ndarray
        assert np.array_equal(found, A @ B)
    out = layout(np.zeros((3, 5)))
    given = kind(out)
    assert lw.einsum("ij,jk->ik", a, kind(b), out=given) is given
    assert np.array_equal(out, A @ B)
    halve(kind(a))
    assert np.array_equal(a, A / 2)


def test_a_sign_that_is_still_to_be_applied_is_refused() -> None:
    negative = Exported(A)
    negative.is_neg = lambda: True  # type: ignore[attr-defined]
    with pytest.raises(UsageError) as caught:
        lw.einsum("ij->", negative)
    assert str(caught.value) == (
        "operand 1 stands for the negative of its elements\n"
        "try: resolve_neg() makes a tensor of the negated numbers"
    )


def test_a_library_says_why_an_array_stays_with_it() -> None:
    small = Tensor(np.zeros(3, np.int8))
    with pytest.raises(UsageError, match=r"operand 1 is no array.*\n.*int8 stays here"):
        lw.einsum("i->", small)
    with pytest.raises(UsageError, match=r"argument 2 is no array.*\n.*int8 stays here"):
        doubled(np.zeros(3), small)
    with pytest.raises(UsageError, match="argument 1 has a type that cannot be compiled"):
        doubled(object(), np.zeros(3))
