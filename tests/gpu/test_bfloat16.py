"""Einsums of bfloat16 on a fake driver with the shim's kernels: sums are of float32."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from gpu.fake_cuda import CupyArray, FakeApi, FakeArray
from gpu.test_values import bits
from gpu.ways import needs_compiler
from loopwright.diagnostics import DtypeError, UsageError


class Type:
    """The type of another library's elements."""

    def __str__(self) -> str:
        return "bfloat16"


def values(stored: np.ndarray) -> np.ndarray:
    return (stored.astype(np.uint32) << 16).view(np.float32)


def drawn(*shape: int) -> np.ndarray:
    return bits(np.random.default_rng(shape).integers(-4, 5, shape) / 4)


def on_device(stored: np.ndarray) -> CupyArray:
    return CupyArray(stored, Type())


@pytest.mark.drawn(2)
@needs_compiler
@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("ij,jk->ik", ((17, 12), (12, 20))),
        ("ij,kj->ik", ((16, 8), (24, 8))),
        ("bij,bjk->ibk", ((3, 9, 8), (3, 8, 12))),
        ("ij,j->i", ((30, 40), (40,))),
        ("ij->j", ((8, 16),)),
        ("ij,jk,kl->il", ((5, 6), (6, 7), (7, 8))),
    ],
)
def test_sums_are_of_float32_and_results_of_bfloat16(
    api: FakeApi, text: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    hosts = [drawn(*shape) for shape in shapes]
    found = lw.einsum(text, *map(on_device, hosts))
    # Sums of few multiples of 1/64 are exact in float32, so that there is one rounding.
    wanted = bits(np.einsum(text, *map(values, hosts)))
    assert isinstance(found.dtype, Type)
    assert np.array_equal(found.host, wanted)


@needs_compiler
def test_results_that_are_given(api: FakeApi) -> None:
    stored = drawn(8, 8)
    exact = values(stored) @ values(stored)
    wide, narrow = np.zeros((8, 8), np.float32), np.zeros((8, 8), np.uint16)
    lw.einsum("ij,jk->ik", on_device(stored), on_device(stored), out=CupyArray(wide))
    assert np.array_equal(wide, exact)
    lw.einsum("ij,jk->ik", CupyArray(values(stored)), on_device(stored), out=on_device(narrow))
    assert np.array_equal(narrow, bits(exact))
    old = narrow.copy()
    lw.einsum("ij,jk->ik", on_device(stored), on_device(stored), out=on_device(narrow), beta=2)
    assert np.array_equal(narrow, bits(2 * values(old) + exact))
    lw.einsum("ij,jk->ki", on_device(narrow), on_device(stored), out=on_device(narrow))
    assert np.array_equal(narrow, bits((values(bits(2 * values(old) + exact)) @ values(stored)).T))


def test_refusals(api: FakeApi) -> None:
    a, other = on_device(drawn(4, 4)), FakeArray(np.zeros((4, 4), np.int32), api)
    with pytest.raises(DtypeError, match="out has dtype int32"):
        lw.einsum("ij,jk->ik", a, a, out=other)
    with pytest.raises(DtypeError, match="operand 1 has dtype bfloat16, which dtype float16"):
        lw.einsum("ij,jk->ik", a, a, dtype=np.float16)
    with pytest.raises(UsageError, match="results cannot be made as arrays of this library"):
        lw.einsum("ij,jk->ik", FakeArray(np.zeros((4, 4), np.int32), api), a)
    with pytest.raises(DtypeError, match="'bfloat16' is no dtype"):
        scaled(a)


@lw.jit
def scaled(a):
    for i in range(a.shape[0]):
        a[i, 0] = 2 * a[i, 0]
