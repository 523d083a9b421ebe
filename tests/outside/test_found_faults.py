"""Faults that were found from outside, by the examples they were told with."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import loopwright as lw
from loopwright.cli import main
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import extract
from loopwright.ir.expr import Const
from loopwright.sparse import computations as spf

TWICE = """void f(int n, double a[n][n], double b[n][n]) {
#pragma scop
for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) b[i][j] = a[i][j] * 2;
#pragma endscop
}
"""


@pytest.mark.parametrize(
    ("spaces", "text"),
    [
        ("in p[N]: int32, in x[N]: float64, out y[N]: float64", "y(p(i)) = x(i)"),
        ("in p[N]: int32, in x[N]: float64, out y[N]: float64", "y(i) = x(i+5)"),
    ],
)
def test_computations_stay_inside_their_arrays(spaces: str, text: str) -> None:
    made = spf.computation("made", spaces, f"s: {{[i] : 0<=i<N}} at (0,i): {text}")
    memory = np.full(200, 7.0)
    arrays = {"p": np.array([0, 50, 2], np.int32), "x": np.ones(3), "y": memory[50:53]}
    with pytest.raises(lw.UsageError, match="the subscript is 5"):
        spf.compile_computation(made)(arrays, {"N": 3})
    assert (memory == 7.0).all()


def test_diagonals_of_a_matrix_of_two_million_columns() -> None:
    n = 1 << 21
    places = ([0, 1, 2], [n - 1, 5, n // 2])
    found = lw.sparse.convert(scipy.sparse.coo_array((np.arange(1.0, 4), places), (3, n)), "dia")
    assert found.offsets.tolist() == [4, n // 2 - 2, n - 1]


def test_a_constant_beyond_all_numbers_is_infinity() -> None:
    text = "void f(int n, double a[n]) {\n#pragma scop\na[0] = 0x1p9999;\n#pragma endscop\n}\n"
    (region,) = read_c(text, compiler="").regions
    (statement,) = extract(region.tree).statements
    assert isinstance(statement.value, Const)
    assert statement.value.value == np.inf


def test_a_schedule_that_athread_dumped_is_served(tmp_path: Path) -> None:
    file, tree = tmp_path / "k.c", str(tmp_path / "k.sched")
    file.write_text(TWICE)
    words = ["cc", str(file), "--target", "athread", "-o"]
    for name, given in (("a", ["--dump-schedule", tree]), ("b", ["--load-schedule", tree])):
        assert main([*words, str(tmp_path / name), *given]) == 0
    one, other = (sorted(path.name for path in (tmp_path / x).iterdir()) for x in "ab")
    assert one == other
