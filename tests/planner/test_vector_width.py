"""The width of the vectors that LLVM makes of loops."""

from __future__ import annotations

import pytest

import loopwright as lw
from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.machines.load import load_machine
from loopwright.pipeline import compile_program


def attribute(extent: int, machine: str) -> str:
    (program,) = lw.parse_c(f"""
void f(double a[{extent}], double b[{extent}]) {{
#pragma scop
  for (int i = 0; i < {extent}; i++)
    a[i] = a[i] * 0.5 + b[i];
#pragma endscop
}}
""")
    found = load_machine(machine)
    text = emit_module(compile_program(program, found, 1, unit={}).nest, found.features).text
    head = next(line for line in text.splitlines() if line.startswith("define internal void"))
    return head.partition("prefer-vector-width")[2]


@pytest.mark.parametrize(
    ("extent", "machine", "is_wide"),
    [
        (1000, "sapphirerapids", True),
        (50_000_000, "sapphirerapids", False),  # beyond the last cache
        (1000, "zen3", False),
        (1000, "neoverse-n1", False),
    ],
)
def test_whole_vectors_where_caches_hold_the_arrays(
    extent: int, machine: str, is_wide: bool
) -> None:
    assert attribute(extent, machine).startswith('"="512"') is is_wide


@pytest.mark.parametrize(("extent", "is_one"), [(16, True), (31, True), (32, False)])
def test_loops_of_one_vector_are_not_interleaved(extent: int, is_one: bool) -> None:
    (program,) = lw.parse_c(f"""
void f(int n, int m, unsigned char a[100][{extent}], unsigned char b[100][{extent}]) {{
#pragma scop
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++)
      a[i][j] |= b[i][j];
#pragma endscop
}}
""")
    machine = load_machine("neoverse-n1")
    nest = compile_program(program, machine, 1, unit={}).nest
    assert nest.of_one_vector == (frozenset({"j"}) if is_one else frozenset())
    text = emit_module(nest, machine.features).text
    assert ('"llvm.loop.interleave.count", i32 1}' in text) is is_one


def test_arrays_of_the_second_cache() -> None:
    (program,) = lw.parse_c("""
void f(double a[200][200], double b[2000][2000], double y[2000]) {
#pragma scop
  for (int i = 0; i < 200; i++)
    for (int j = 0; j < 200; j++)
      y[i] += a[i][j] * b[i][j];
#pragma endscop
}
""")
    found = compile_program(program, load_machine("sapphirerapids"), 1).nest
    assert found.near == {"a", "y"}
