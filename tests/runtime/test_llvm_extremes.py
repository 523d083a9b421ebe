"""Calls of llvm.minimumnum and llvm.maximumnum, exchanged for VRANGE in optimised code."""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
import pytest

import loopwright as lw
from loopwright.runtime.llvm_extremes import has_extremes, with_range_instructions

CODE = """
define double @f(double %0, <8 x float> %1, <3 x double> %2) {
  %4 = tail call double @llvm.maximumnum.f64(double noundef %0, double 1.000000e+00)
  %5 = call nsz <8 x float> @llvm.minimumnum.v8f32(<8 x float> splat (float 2.0), <8 x float> %1)
  %6 = call <3 x double> @llvm.maximumnum.v3f64(<3 x double> %2, <3 x double> zeroinitializer)
  %7 = extractelement <8 x float> %5, i64 0
  %8 = call float @llvm.maximumnum.f32(float %7, float 0.000000e+00)
  %9 = fpext float %8 to double
  %10 = extractelement <3 x double> %6, i64 1
  %11 = fadd double %9, %10
  %12 = fadd double %11, %4
  ret double %12
}

declare double @llvm.maximumnum.f64(double, double)
declare float @llvm.maximumnum.f32(float, float)
declare <8 x float> @llvm.minimumnum.v8f32(<8 x float>, <8 x float>)
declare <3 x double> @llvm.maximumnum.v3f64(<3 x double>, <3 x double>)
"""


def test_numbers_and_whole_vectors_are_exchanged() -> None:
    assert has_extremes(CODE)
    text = with_range_instructions(CODE)
    body = text[: text.index("}")]
    assert body.count("range.pd.128") == 1
    assert body.count("range.ps.128") == 1
    assert body.count("range.ps.256") == 1
    assert body.count("imumnum") == 1, "three lanes are no whole vector"
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(text)
    module.verify()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    assembly = target.create_target_machine(cpu="skylake-avx512", opt=3).emit_assembly(module)
    assert assembly.count("vrangepd") == 1
    assert assembly.count("vrangeps") == 2


def test_other_code_stays() -> None:
    plain = "define void @f() {\n  ret void\n}\n"
    assert not has_extremes(plain)
    assert with_range_instructions(plain).strip() == plain.strip()


@pytest.mark.parametrize("dtype", ["float", "double"])
def test_nan_and_zeros_in_plain_loops(dtype: str) -> None:
    """A running maximum, which stays a number, and one element by element, which takes vectors."""
    suffix = "f" if dtype == "float" else ""
    f = lw.compile(f"""
    void extremes(int n, {dtype} a[n], {dtype} b[n], {dtype} low[n], {dtype} high[n]) {{
    #pragma scop
      for (int i = 0; i < n; i++)
        low[i] = fmin{suffix}(a[i], b[i]);
      high[0] = a[0];
      for (int i = 1; i < n; i++)
        high[i] = fmax{suffix}(high[i - 1], a[i]);
    #pragma endscop
    }}
    """)
    kind = np.float32 if dtype == "float" else np.float64
    random = np.random.default_rng(0)
    special = np.array([np.nan, -np.inf, np.inf, 0.0, -0.0, 1.5, -2.5], kind)
    a, b = (random.choice(special, 203) for _ in range(2))
    a[0] = -np.inf
    low, high = np.zeros(203, kind), np.zeros(203, kind)
    f(203, a, b, low, high)
    # Of zeros of both signs the negative one is the least.
    wanted = np.fmin(a, b)
    both_zero = (a == 0) & (b == 0)
    wanted[both_zero] = np.where(np.signbit(a) | np.signbit(b), -0.0, 0.0)[both_zero]
    np.testing.assert_array_equal(low, wanted)
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(low[known]), np.signbit(wanted[known]))
    np.testing.assert_array_equal(high, np.fmax.accumulate(a))
