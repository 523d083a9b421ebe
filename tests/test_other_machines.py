"""Plans and code for machines one does not own: emitted and inspected, not run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from drawn import combined
from loopwright.cli import main
from loopwright.diagnostics import UsageError
from loopwright.machines.host import host
from programs import matmul

SOURCE = b"""void f(int n, double C[n][n], double A[n][n], double B[n][n]) {
#pragma scop
for (int i = 0; i < n; i++)
  for (int j = 0; j < n; j++)
    for (int k = 0; k < n; k++)
      C[i][j] += A[i][k] * B[k][j];
#pragma endscop
}
"""
# Machines, and an instruction of fused products that their assembly has.
FUSED = {
    "zen4": "vfmadd",
    "sapphirerapids": "vfmadd",
    "neoverse-n1": "fmla",
    "power8": "xvmadd",
}


def arguments(n: int = 9) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    a = np.arange(n * n, dtype=float).reshape(n, n)
    return n, np.zeros((n, n)), a, a.T.copy()


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("name", "target"), combined(FUSED, ["host", "openmp"], one_in=2))
def test_assembly_of_other_machines(name: str, target: str) -> None:
    compiled = lw.compile(SOURCE, target, machine=name, threads=2)
    assert re.search(rf"\b{FUSED[name]}", compiled.inspect_asm(*arguments()))
    assert lw.compile(matmul(), machine=name).inspect_asm()


def test_machine_code_of_another_machine_does_not_run() -> None:
    other = next(name for name in FUSED if name != host().name)
    for plan in ("model", "source"):
        compiled = lw.compile(SOURCE, plan=plan, machine=other)
        with pytest.raises(UsageError, match=f"machine code for '{other}' cannot run here"):
            compiled(*arguments())


def test_unknown_machines_are_refused() -> None:
    with pytest.raises(UsageError, match="no machine is named"):
        lw.compile(SOURCE, machine="zen99")


def test_plain_char_has_the_sign_of_the_machine(tmp_path: Path) -> None:
    """C compilers for x86 take it for signed, those for ARM and POWER do not."""
    text = b"void f(int n, char x[n], int y[n]) {\n#pragma scop\nfor (int i = 0; i < n; i++)\n"
    text += b"  y[i] += x[i] < 0;\n#pragma endscop\n}\n"
    x = np.full(4, 200, np.uint8)
    for name, negative in (("zen4", 1), ("neoverse-n1", 0), ("power8", 0)):
        y = np.zeros(4, np.int32)
        lw.compile(text, "c", "source", machine=name)(4, x, y)
        assert y.tolist() == [negative] * 4, name
    source = tmp_path / "f.c"
    source.write_bytes(SOURCE)
    made = {}
    for name in ("zen4", "neoverse-n1"):
        target = tmp_path / f"{name}.c"
        assert main(["cc", str(source), "-o", str(target), "--machine", name]) == 0
        made[name] = target.read_bytes()
    assert made["zen4"] != made["neoverse-n1"]
    assert main(["explain", str(source), "--machine", "zen4"]) == 0
