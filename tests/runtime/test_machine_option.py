"""LOOPWRIGHT_CPU: another machine of this kind, or a refusal; never code that computes nonsense."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import options
from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.kernel_variant import Algorithm, Broadcast, Packing
from loopwright.lower.contraction_nests.contraction_kernel import lower_contraction
from loopwright.machines.host import host
from loopwright.runtime.llvm_engine import compile_to_object
from lower.contractions import kernel_of, ring
from no_kernels import forget_kernels


def product(dtype: str) -> np.ndarray:
    """A product whose kernel is not in memory yet."""
    a = np.arange(99).reshape(9, 11).astype(dtype) % 7
    return lw.einsum("ij,kj->ik", a, a, semiring="plus_times")


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_kernels(monkeypatch)
    monkeypatch.setattr("loopwright.calls.einsum._ready", {})
    monkeypatch.setattr("loopwright.calls.einsum_contraction._launches", {})


def test_a_plain_machine_of_this_kind() -> None:
    name = {"aarch64": "aarch64", "x86_64": "core-e5450"}[host().isa]
    a = np.arange(99).reshape(9, 11) % 7
    with options.override(cpu=name, cache=False):
        np.testing.assert_array_equal(product("float64"), a @ a.T)


def test_a_machine_of_another_kind() -> None:
    other = {"aarch64": "zen3", "x86_64": "neoverse-n1"}[host().isa]
    isa = {"aarch64": "x86_64", "x86_64": "aarch64"}[host().isa]
    with options.override(cpu=other), pytest.raises(UsageError) as caught:
        product("int64")
    assert str(caught.value) == (
        f"code for '{other}' cannot run here\n"
        f"note: found {isa}, this is {host().isa}\n"
        f"try: LOOPWRIGHT_CPU names a machine of {host().isa}"
    )


def test_a_machine_of_nowhere() -> None:
    with options.override(cpu="no-such"), pytest.raises(UsageError, match="no machine is named"):
        product("int64")


def test_instructions_of_an_unknown_processor() -> None:
    """A processor LLVM does not know by name still gets the instructions it has."""
    types = ("int8", "int8", "int32", "int32")
    kernel = kernel_of(
        Algorithm.PRODUCT,
        ring("add", "mul", *types),
        (4, 1, 4),
        left_packing=Packing.ALONG_P,
        right_packing=Packing.ALONG_P,
        broadcast=Broadcast.LANE,
        group=4,
    )
    assert DTYPES["int8"] == kernel.left
    text = emit_module(lower_contraction(kernel, "f"), host().features).text
    assert compile_to_object(text, "generic" if host().isa == "aarch64" else "x86-64")
