"""The width of the vectors that LLVM makes of loops."""

from __future__ import annotations

import pytest

import loopwright as lw
from loopwright.backends.llvm_emitter import emit_module
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
