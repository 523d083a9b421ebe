"""Products inside of other parallel loops: cores take one after another and share its panels.

Results are those of plain C bit by bit, on the emulator with all of its checks.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from drawn import combined
from kernels.build import system_compiler
from loopwright.cli import main

needs_compiler = pytest.mark.skipif(system_compiler() is None, reason="there is no C compiler")

# Types and extents of arrays, of which C is printed, and loops; sizes are no multiples of tiles.
PROGRAMS = {
    "of one loop": (
        "double A[2][70][41], B[2][41][67], C[2][70][67];",
        "for (int b = 0; b < 2; b++) for (int i = 0; i < 70; i++) for (int j = 0; j < 67; j++) {"
        " C[b][i][j] = 0; for (int k = 0; k < 41; k++) C[b][i][j] += A[b][i][k] * B[b][k][j]; }",
    ),
    "floats, scaled": (
        "float A[2][66][41], B[2][41][67], C[2][66][67];",
        "for (int b = 0; b < 2; b++) for (int i = 0; i < 66; i++) for (int j = 0; j < 67; j++) {"
        " C[b][i][j] *= 0.5f;"
        " for (int k = 0; k < 41; k++) C[b][i][j] += 2.0f * A[b][i][k] * B[b][k][j]; }",
    ),
    "of two loops, one matrix for all": (
        "double A[2][2][53][66], B[66][75], C[2][2][53][75];",
        "for (int a = 0; a < 2; a++) for (int b = 0; b < 2; b++) for (int i = 0; i < 53; i++)"
        " for (int j = 0; j < 75; j++) for (int k = 0; k < 66; k++)"
        " C[a][b][i][j] += A[a][b][i][k] * B[k][j];",
    ),
    "transposed": (
        "double A[2][41][70], B[2][67][41], C[2][70][67];",
        "for (int b = 0; b < 2; b++) for (int i = 0; i < 70; i++) for (int j = 0; j < 67; j++) {"
        " C[b][i][j] = 1; for (int k = 0; k < 41; k++) C[b][i][j] -= A[b][k][i] * B[b][j][k]; }",
    ),
    "in turn": (
        "double A[4][41][53], B[4][53][70], D[4][41][70], C[4][41][70];",
        "for (int b = 0; b < 4; b++) {"
        " for (int i = 0; i < 41; i++) for (int j = 0; j < 70; j++) { D[b][i][j] = 0;"
        " for (int k = 0; k < 53; k++) D[b][i][j] += A[b][i][k] * B[b][k][j]; }"
        " for (int i = 0; i < 41; i++) for (int j = 0; j < 70; j++) { C[b][i][j] = 0;"
        " for (int k = 0; k < 53; k++) C[b][i][j] += D[b][i][k] * B[b][k][j]; } }",
    ),
}


def written(arrays: str, loops: str) -> str:
    """A program that fills all arrays but the last one, C, and prints the sum of its bits."""
    kind, _, names = arrays.rstrip(";").partition(" ")
    filled = [name.strip().partition("[")[0] for name in names.split(", ")]
    fill = "\n".join(
        f"    for (unsigned n = 0; n < sizeof {name} / sizeof({kind}); n++)"
        f" (({kind} *){name})[n] = (int)((n * {7 + 2 * at}u) % 23u) - 11;"
        for at, name in enumerate(filled)
    )
    return f"""#include <stdio.h>
{arrays}
int main(void)
{{
{fill}
#pragma scop
    {loops}
#pragma endscop
    for (unsigned n = 0; n < sizeof C / sizeof({kind}); n++)
        printf("%a\\n", (double)(({kind} *)C)[n]);
    return 0;
}}
"""


@needs_compiler
@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("name", "machine"), combined(PROGRAMS, ("sw26010", "sw26010pro"), one_in=4)
)
def test_results_are_those_of_plain_c(
    name: str, machine: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "batched.c"
    source.write_text(written(*PROGRAMS[name]), encoding="utf-8")
    compiler = system_compiler()
    assert compiler is not None
    plain = tmp_path / "plain"
    subprocess.run(
        [str(compiler), "-O1", "-ffp-contract=off", str(source), "-o", str(plain)], check=True
    )
    wanted = subprocess.run([str(plain)], check=True, capture_output=True, text=True).stdout
    command = ["cc", str(source), "--target", "athread", "--machine", machine, "--run"]
    assert main([*command, "-DLW_LEAST_WORK=0", "-o", str(tmp_path / "out")]) == 0
    assert capfd.readouterr().out == wanted
