"""Functions as lines of C text: the bits of machine code, by vectors, and where they are left."""

from __future__ import annotations

import ctypes
import shutil

import numpy as np
import pytest

import loopwright as lw
from backends.test_elementary import KINDS, ULPS, arguments, source
from loopwright.backends.elementary.elementary_functions import elementary_functions
from loopwright.ir.dtypes import DTYPES
from loopwright.machines.host import host
from loopwright.pipeline import compile_program
from loopwright.runtime.toolchain import (
    Compiler,
    build_library,
    find_compiler,
    load_library,
    tuning_flags,
)

COMPILERS = [name for name in ("gcc", "clang", "clang-14", "clang-16") if shutil.which(name)]


def compiler_of(name: str) -> Compiler:
    return find_compiler(shutil.which(name))


def text_of(code: str, target: str = "c") -> str:
    """The text of a program as a file of functions."""
    (program,) = lw.parse_c(code)
    made = compile_program(program, host(), 1, target=target).module
    assert made is not None
    return made.text


def run_text(
    text: str, a: np.ndarray, compiler: Compiler, extra: tuple[str, ...] = ()
) -> np.ndarray:
    flags = (*tuning_flags(compiler, openmp=False), *extra, "-lm")
    function = load_library(build_library(text, flags, compiler))["f"]
    b = np.zeros_like(a)
    places = (ctypes.c_void_p(x.ctypes.data) for x in (a, b))
    function(ctypes.c_long(len(a)), *places)
    return b


def assert_same_bits(x: np.ndarray, y: np.ndarray) -> None:
    """Any NaN is as good as another."""
    both = np.isnan(x) & np.isnan(y)
    whole = f"i{x.dtype.itemsize}"
    wrong = np.flatnonzero((x.view(whole) != y.view(whole)) & ~both)
    assert wrong.size == 0, f"{x[wrong[:3]]} for {y[wrong[:3]]}"


def is_own(function: str, kind: str) -> bool:
    dtype = DTYPES["float32" if kind == "float" else "float64"]
    return (function, dtype) in elementary_functions(host().features)


@pytest.mark.drawn(8)
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", ULPS)
def test_text_has_the_bits_of_machine_code(function: str, kind: str, compiler: str) -> None:
    a, code = arguments(function, kind), source(function, kind)
    wanted = np.zeros_like(a)
    lw.compile(code)(len(a), a, wanted)
    text = text_of(code)
    assert (f"lw_{function}_" in text) is is_own(function, kind)
    assert_same_bits(run_text(text, a, compiler_of(compiler)), wanted)
    # Compilers that may fuse what they like, or nothing, and vectors or none.
    for extra in (("-ffp-contract=fast",), ("-ffp-contract=off", "-O1")):
        assert_same_bits(run_text(text, a, compiler_of(compiler), extra), wanted)


IN_PLACE = """
void f(int n, double a[n], double b[n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    b[i] = b[i] + sin(b[i] + a[i]);
#pragma endscop
}
"""


def test_loops_that_read_what_they_write_do_not_run_twice() -> None:
    text = text_of(IN_PLACE)
    assert "if (lw_far)" in text
    a = np.random.default_rng(1).uniform(-1, 1, 300) * 2.0**48
    wanted = np.zeros_like(a)
    lw.compile(IN_PLACE)(len(a), a, wanted)
    assert_same_bits(run_text(text, a, find_compiler()), wanted)
