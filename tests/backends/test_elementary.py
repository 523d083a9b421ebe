"""Functions in straight lines of arithmetic: their errors, their ends, and where they are taken."""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
import pytest

import loopwright as lw
from loopwright.backends.elementary.elementary_functions import elementary_functions
from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.ir.dtypes import FLOAT32, FLOAT64
from loopwright.machines.load import load_machine
from loopwright.pipeline import compile_program

SOURCE = """
void f(int n, TYPE a[n], TYPE b[n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    b[i] = FUNCTION(a[i]);
#pragma endscop
}
"""
ULPS = {"exp": 1.2, "log": 1.2, "sin": 1.2, "cos": 1.2, "tanh": 2.6}
KINDS = {"float": np.dtype(np.float32), "double": np.dtype(np.float64)}
ENDS = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0]


def source(function: str, kind: str) -> str:
    name = function + ("f" if kind == "float" else "")
    return SOURCE.replace("TYPE", kind).replace("FUNCTION", name)


def arguments(function: str, kind: str) -> np.ndarray:
    """Numbers of all sizes that a function tells apart, in no order, and the ends."""
    random = np.random.default_rng(0)
    near = random.uniform(-2, 2, 4000)
    match function:
        case "exp":
            far = 90.0 if kind == "float" else 711.0
            wide = random.uniform(-1.05 * far, far, 20_000)
            ends = [*ENDS, far, -1.2 * far, 0.99 * far, -0.985 * far]
        case "log":
            power = 120.0 if kind == "float" else 1020.0
            wide = 2.0 ** random.uniform(-power, power, 20_000)
            least = float(np.finfo(KINDS[kind]).tiny)
            below = least * random.random(1000)
            ends = [*ENDS, *below, least, 2.0**-0.5, 2.0**0.5]
        case "tanh":
            wide = random.uniform(-25, 25, 20_000)
            ends = [*ENDS, 1e-30, 19.9, 20.1, 1e30]
        case _:
            most = 20 if kind == "float" else 49
            wide = random.uniform(-1, 1, 20_000) * 2.0 ** random.uniform(0, most, 20_000)
            # Multiples of pi/2 are where nearly all bits of an argument cancel.
            multiples = np.arange(1, 5000) * np.pi / 2
            ends = [*ENDS, *multiples, 1e-30, 1e30, 2.0**18, 2.0**47]
    everything = np.concatenate([wide, near, np.array(ends)])
    return random.permutation(everything).astype(KINDS[kind])


@pytest.mark.drawn(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", ULPS)
def test_errors_and_ends(function: str, kind: str) -> None:
    a = arguments(function, kind)
    b = np.zeros_like(a)
    lw.compile(source(function, kind))(len(a), a, b)
    with np.errstate(all="ignore"):
        wanted = getattr(np, function)(a.astype(np.longdouble))
        rounded = wanted.astype(a.dtype)
        assert np.array_equal(np.isnan(b), np.isnan(rounded))
        known = np.isfinite(rounded)
        assert np.array_equal(b[~known], rounded[~known], equal_nan=True)
        spacing = np.spacing(np.abs(rounded[known])).astype(np.longdouble)
        ulps = np.abs(b[known] - wanted[known]) / spacing
    assert ulps.max() < ULPS[function]
    zero = a == 0.0
    assert np.array_equal(np.signbit(b[zero]), np.signbit(rounded[zero]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", ULPS)
def test_any_nan_stays_one(function: str, kind: str) -> None:
    whole, fraction = ("u4", 23) if kind == "float" else ("u8", 52)
    least = np.array(np.inf, KINDS[kind]).view(whole)
    quiet = least | np.array(1 << (fraction - 1), whole)
    a = (quiet | np.arange(64, dtype=whole)).view(KINDS[kind])
    b = np.zeros_like(a)
    lw.compile(source(function, kind))(len(a), a, b)
    assert np.isnan(b).all()


@pytest.mark.parametrize(
    ("name", "single", "double"),
    [
        ("neoverse-n1", {"log"}, set()),
        ("zen3", {"log"}, {"log"}),
        ("sapphirerapids", {"log"}, {"log"}),
    ],
)
def test_where_they_are_taken(name: str, single: set[str], double: set[str]) -> None:
    found = elementary_functions(load_machine(name).features)
    always = {"exp", "sin", "cos", "tanh"}
    assert {function for function, dtype in found if dtype == FLOAT32} == always | single
    assert {function for function, dtype in found if dtype == FLOAT64} == always | double


@pytest.mark.parametrize("function", ULPS)
@pytest.mark.parametrize("name", ["neoverse-n1", "zen3", "sapphirerapids", "core-e5450"])
def test_their_code(name: str, function: str) -> None:
    machine = load_machine(name)
    (program,) = lw.parse_c(source(function, "double"))
    text = emit_module(compile_program(program, machine, 1, unit={}).nest, machine.features).text
    is_ours = (function, FLOAT64) in elementary_functions(machine.features)
    assert (f"llvm.{function}.f64" in text) is not is_ours
    llvm.parse_assembly(text).verify()
