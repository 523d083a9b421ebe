"""Functions as lines of C text: the bits of machine code, by vectors, and where they are left."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from backends.test_elementary import KINDS, SUM_OF_WAVES, ULPS, arguments, source
from kernels.rewrite import rewrite
from loopwright.backends.elementary.elementary_functions import elementary_functions
from loopwright.ir.dtypes import DTYPES
from loopwright.machines.host import host
from loopwright.machines.load import load_machine
from loopwright.pipeline import compile_program
from loopwright.runtime.toolchain import (
    Compiler,
    build_library,
    find_compiler,
    load_library,
    tuning_flags,
)
from loopwright.targets import told_to_c

COMPILERS = [name for name in ("gcc", "clang", "clang-14", "clang-16") if shutil.which(name)]
WITHOUT_FUSED = ("-U__FP_FAST_FMA", "-U__FMA__", "-U__ARM_FEATURE_FMA")
IN_SUMS = """
void f(int n, TYPE a[n], TYPE b[n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    b[i] = a[i] + FUNCTION(a[i]);
  for (int i = 0; i < n; i++)
    b[i] = b[i] - FUNCTION(b[i]);
#pragma endscop
}
"""


WAVES = SUM_OF_WAVES.replace("angle > 0.0 ? sin(angle) : 0.0", "sin(angle)")


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


@pytest.mark.drawn(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", ULPS)
def test_without_fused_products_the_library_is_called(function: str, kind: str) -> None:
    a, code = arguments(function, kind), source(function, kind)
    text = text_of(code)
    (program,) = lw.parse_c(code)
    nest = compile_program(program, host(), 1, target="c").nest
    assert not told_to_c(program, nest, host(), library=True).functions
    plain = "#include <math.h>\n" + code.replace("int n", "long n")
    wanted = run_text(plain, a, find_compiler())
    assert_same_bits(run_text(text, a, find_compiler(), WITHOUT_FUSED), wanted)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", ["exp", "sin", "tanh"])
def test_their_products_are_not_fused_with_sums_around(function: str, kind: str) -> None:
    """Sums of the text itself may be: these are exact here, or have no product but one of ours."""
    a = arguments(function, kind)
    name, kind_of = function + ("f" if kind == "float" else ""), kind
    code = IN_SUMS.replace("TYPE", kind_of).replace("FUNCTION", name)
    wanted = np.zeros_like(a)
    lw.compile(code)(len(a), a, wanted)
    assert_same_bits(run_text(text_of(code), a, find_compiler(), ("-ffp-contract=fast",)), wanted)


@pytest.mark.drawn(8)
@pytest.mark.parametrize("target", ["c", "openmp"])
@pytest.mark.parametrize("far", [1.0, 2.0**50])
@pytest.mark.parametrize("n", [1, 63, 64, 200])
def test_regions_with_numbers_that_are_far(tmp_path: Path, n: int, far: float, target: str) -> None:
    """Sums in order go by strips; those that have far numbers run again with the branch."""
    path = tmp_path / "waves.c"
    path.write_text("#include <math.h>\n" + WAVES)
    text = rewrite(path, target=target).read_text()
    assert "lw_cos_near_float64" in text
    assert "if (lw_far)" in text
    random = np.random.default_rng(n)
    x, q = random.uniform(-9, 9, n), far * random.uniform(0.1, 1, 5)
    x[n // 2] *= 8
    s, wanted = np.zeros((5, 2)), np.zeros((5, 2))
    lw.compile(WAVES)(n, 5, x, q, wanted)
    compiler = find_compiler()
    flags = (*tuning_flags(compiler, openmp=target == "openmp"), "-lm")
    function = load_library(build_library(text, flags, compiler))["f"]
    function(n, 5, *(ctypes.c_void_p(v.ctypes.data) for v in (x, q, s)))
    assert_same_bits(s, wanted)


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


@pytest.mark.drawn(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", ULPS)
def test_gcc_takes_them_in_vectors(tmp_path: Path, function: str, kind: str) -> None:
    gcc = shutil.which("gcc")
    if gcc is None or not is_own(function, kind):
        pytest.skip("no gcc here, or the library's function is taken")
    path = tmp_path / "f.c"
    path.write_text(text_of(source(function, kind)))
    words = [gcc, "-O3", "-march=native", "-fopenmp-simd", "-fopt-info-vec-optimized"]
    done = subprocess.run(
        [*words, "-S", "-o", str(tmp_path / "f.s"), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "loop vectorized" in done.stderr


def test_older_machines_have_the_library() -> None:
    (program,) = lw.parse_c(source("exp", "double"))
    machine = load_machine("core-e5450")
    made = compile_program(program, machine, 1, target="c").module
    assert made is not None
    assert "__builtin_exp(" in made.text
    assert "lw_exp" not in made.text
