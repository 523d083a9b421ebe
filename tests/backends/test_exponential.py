"""exp in straight lines of arithmetic: its error, its ends, and where it is taken."""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
import pytest

import loopwright as lw
from loopwright.backends.llvm_emitter import emit_module
from loopwright.backends.llvm_exponential import exponentials
from loopwright.ir.dtypes import FLOAT32, FLOAT64
from loopwright.machines.load import load_machine
from loopwright.pipeline import compile_program

SOURCE = """
void f(int n, TYPE a[n], TYPE b[n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    b[i] = EXP(a[i]);
#pragma endscop
}
"""


def source(kind: str) -> str:
    return SOURCE.replace("TYPE", kind).replace("EXP", "expf" if kind == "float" else "exp")


@pytest.mark.parametrize("kind", ["float", "double"])
def test_error_and_ends(kind: str) -> None:
    dtype = np.dtype(np.float32 if kind == "float" else np.float64)
    far = 90.0 if kind == "float" else 711.0
    random = np.random.default_rng(0)
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, far, -1.2 * far, 0.99 * far, -0.985 * far]
    a = np.concatenate(
        [random.uniform(-1.05 * far, far, 20_000), random.uniform(-1, 1, 5000), ends]
    )
    a = a.astype(dtype)
    b = np.zeros_like(a)
    lw.compile(source(kind))(len(a), a, b)
    with np.errstate(all="ignore"):
        wanted = np.exp(a.astype(np.longdouble))
        rounded = wanted.astype(dtype)
        assert np.array_equal(np.isnan(b), np.isnan(rounded))
        known = np.isfinite(rounded)
        assert np.array_equal(b[~known], rounded[~known], equal_nan=True)
        ulps = np.abs(b[known] - wanted[known]) / np.spacing(rounded[known]).astype(np.longdouble)
    assert ulps.max() < 1.2
    assert b[25_000] == b[25_001] == 1.0


@pytest.mark.parametrize(
    ("name", "single", "double"),
    [
        ("neoverse-n1", True, True),
        ("zen3", True, True),
        ("sapphirerapids", True, True),
        ("core-e5450", False, False),
    ],
)
def test_where_it_is_taken(name: str, single: bool, double: bool) -> None:
    machine = load_machine(name)
    found = exponentials(machine.features)
    assert [x in found for x in (FLOAT32, FLOAT64)] == [single, double]
    (program,) = lw.parse_c(source("double"))
    text = emit_module(compile_program(program, machine, 1, unit={}).nest, machine.features).text
    assert ("llvm.exp.f64" in text) is not double
    llvm.parse_assembly(text).verify()
