"""`loopwright cc` and `loopwright explain` as a user meets them: files, exit codes, refusals."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.c_compiled import needs_cc
from calls.c_sources import GEMM, SAXPY, SERIAL, TWO
from loopwright import cli
from loopwright.calls.splice import Optimised
from loopwright.cli import cc_command
from loopwright.frontends.c import CFile, CRegion

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "saxpy.c"
    path.write_text(SAXPY)
    return path


def files(path: Path) -> list[str]:
    return sorted(p.name for p in path.parent.iterdir())


def test_the_result_stands_beside_the_source(source: Path, capsys: Capture) -> None:
    assert cli.main(["cc", str(source)]) == 0
    assert files(source) == ["saxpy.c", "saxpy.opt.c"]
    assert source.read_text() == SAXPY
    text = source.with_suffix(".opt.c").read_text()
    assert text.startswith(
        "void saxpy(int n, float a, float x[n], float y[n])\n{\n/* #pragma scop:"
    )
    assert "#pragma omp" in text
    assert capsys.readouterr() == ("", "")


def test_plain_c_to_stdout(source: Path, capsys: Capture) -> None:
    assert cli.main(["cc", str(source), "--target", "c", "-o", "-"]) == 0
    out = capsys.readouterr().out
    assert "target c */" in out
    assert "#pragma omp" not in out
    assert files(source) == ["saxpy.c"]


def test_macros_and_folders_reach_the_preprocessor(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "size.h").write_text("#define SIZE 20\n")
    path = tmp_path / "f.c"
    path.write_text(
        '#include "size.h"\nTYPE a[SIZE];\nvoid f(void)\n{\n#pragma scop\n'
        "    for (int i = 0; i < SIZE; i++)\n        a[i] = FACTOR * a[i];\n#pragma endscop\n}\n"
    )
    words = ["-DTYPE=double", "-D", "FACTOR=3", f"-I{tmp_path / 'inner'}", "-std=c99"]
    assert cli.main(["cc", str(path), *words, "-o", "-"]) == 0
    out = capsys.readouterr().out
    assert "3.0 * a[" in out
    assert '#include "size.h"\nTYPE a[SIZE];' in out


def test_a_region_that_is_left_alone_is_told(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "serial.c"
    path.write_text(SERIAL)
    assert cli.main(["cc", str(path)]) == 0
    assert path.with_suffix(".opt.c").read_text() == SERIAL
    told = "note: the region is left as it is: no step that pays was proven legal"
    assert capsys.readouterr().err == f"{path}:4: {told}\n"


# -- refusals: exit code 2, and no file is written or replaced -------------------------------------

BAD = SAXPY.replace("y[i] = a", "y[i * i] = a")


@pytest.mark.parametrize(
    ("text", "words", "told"),
    [
        (BAD, [], "error: the subscript is not affine in the loop variables and sizes"),
        ("int x;\n", [], "error: the file has no region"),
        (SAXPY, ["--tile", "8,x"], "--tile takes sizes"),
        (SAXPY, ["--tile", "0"], "--tile takes sizes"),
        (SERIAL, ["--tile", "8,8"], "no loops of 'serial' can be tiled"),
        (SAXPY, ["--load-schedule", "no-such-file"], "cannot read 'no-such-file': No such file"),
        (SAXPY, ["--tile", "8", "--load-schedule", "x"], "exclude each other"),
        (
            SAXPY.replace("y[i] = a", "y[lw_min] = a"),
            ["-Dlw_min=i", "--tile", "8"],
            "file uses names of ours",
        ),
    ],
    ids=["affine", "none", "words", "zero", "untiled", "missing", "both", "names"],
)
def test_refusals(text: str, words: list[str], told: str, source: Path, capsys: Capture) -> None:
    source.write_text(text)
    result = source.with_suffix(".opt.c")
    result.write_text("what was there before")
    assert cli.main(["cc", str(source), *words]) == 2
    captured = capsys.readouterr()
    assert told in captured.err
    assert captured.out == ""
    assert result.read_text() == "what was there before"
    assert files(source) == ["saxpy.c", "saxpy.opt.c"]


def test_the_source_is_never_replaced(source: Path, capsys: Capture) -> None:
    assert cli.main(["cc", str(source), "-o", str(source)]) == 2
    assert capsys.readouterr().err == (
        f"loopwright: error: the output would replace the source\nnote: found {source}\n"
        "try: -o saxpy.opt.c\n"
    )
    assert source.read_text() == SAXPY


def test_a_missing_file(capsys: Capture) -> None:
    assert cli.main(["cc", "no-such-file.c"]) == 2
    assert "cannot read 'no-such-file.c': No such file" in capsys.readouterr().err


def test_a_folder_that_is_not_there(source: Path, capsys: Capture) -> None:
    assert cli.main(["cc", str(source), "-o", str(source.parent / "no" / "x.c")]) == 2
    assert "cannot write" in capsys.readouterr().err
    assert files(source) == ["saxpy.c"]


@needs_cc
def test_code_that_the_compiler_refuses_is_not_written(
    source: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were we to print nonsense, the user's file would not get it."""
    monkeypatch.setattr(cc_command, "spliced", lambda file, results: file.source + b"oops oops;\n")
    assert cli.main(["cc", str(source)]) == 2
    assert "the C compiler does not take the new code" in capsys.readouterr().err
    assert files(source) == ["saxpy.c"]


@needs_cc
def test_a_file_that_never_compiled_is_not_blamed_on_us(source: Path, capsys: Capture) -> None:
    source.write_text(SAXPY + "oops oops;\n")
    assert cli.main(["cc", str(source)]) == 0
    assert "warning: the C compiler does not take this file" in capsys.readouterr().err
    assert files(source) == ["saxpy.c", "saxpy.opt.c"]


def test_no_compiler_is_needed(
    source: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "")
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert cli.main(["cc", str(source), "-o", "-"]) == 0
    assert "#pragma omp" in capsys.readouterr().out


# -- checks, schedules, reports -------------------------------------------------------------------


def test_check_runs_both(source: Path, capsys: Capture) -> None:
    assert cli.main(["cc", str(source), "--check"]) == 0
    assert f"{source}:3: checked: " in capsys.readouterr().err
    assert files(source) == ["saxpy.c", "saxpy.opt.c"]


LITERAL = """
double A[3000][3000], B[3000][3000];
void f(void) {
#pragma scop
  for (int t = 0; t < 500; t++)
    for (int i = 1; i < 2999; i++)
      for (int j = 1; j < 2999; j++)
        A[i][j] = A[i][j] + B[i][j - 1] * B[i][j + 1];
#pragma endscop
}
"""


@needs_cc
def test_large_literal_sizes_are_checked_as_a_smaller_problem(
    tmp_path: Path, capsys: Capture
) -> None:
    """Four and a half milliard instances, several times over, would take minutes."""
    path = tmp_path / "literal.c"
    path.write_text(LITERAL)
    assert cli.main(["cc", str(path), "--check"]) == 0
    told = capsys.readouterr().err
    assert told.replace("the same steps", "its own steps").startswith(
        f"{path}:4: note: too large to be run; checked as a smaller problem by its own steps, "
        "with 375 for 3000, 63 for 500\n"
        f"{path}:4: checked: c, jit, jit, 2 threads against the source order at the only size\n"
    )


def test_what_cannot_be_made_smaller_is_told(tmp_path: Path, capsys: Capture) -> None:
    """Many small loops: no single size is large."""
    path = tmp_path / "literal.c"
    path.write_text(
        """
double A[40][40][40], B[40][40][40];
void f(void) {
#pragma scop
  for (int t = 0; t < 40; t++)
    for (int u = 0; u < 40; u++)
      for (int i = 0; i < 40; i++)
        for (int j = 0; j < 40; j++)
          for (int k = 0; k < 40; k++)
            A[i][j][k] = A[i][j][k] * 0.5 + B[i][j][k];
#pragma endscop
}
"""
    )
    assert cli.main(["cc", str(path), "--check"]) == 0
    assert capsys.readouterr().err == (
        f"{path}:4: not checked: the code at its literal sizes, which ask for more work than a "
        "check may take\n"
        "not checked: smaller problems: none keeps inside its arrays; define the sizes smaller "
        "with -D to check\n"
    )


def test_a_failed_check_writes_nothing(
    source: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nest that differs from its program: here the program of another file."""
    other = SAXPY.replace("a * x[i] + y[i]", "a * x[i] - y[i]")
    nest = cc_command.read_c(other)
    real = cc_command.optimise_region

    def wrong(file: CFile, region: CRegion, *args: Any, **keywords: Any) -> Optimised:
        found = real(file, region, *args, **keywords)
        bad = real(nest, nest.regions[0], *args, **keywords)
        return replace(found, nest=bad.nest)

    monkeypatch.setattr(cc_command, "optimise_region", wrong)
    assert cli.main(["cc", str(source), "--check"]) == 2
    assert "the new code differs from the old" in capsys.readouterr().err
    assert files(source) == ["saxpy.c"]


def test_schedules_go_out_and_come_in(tmp_path: Path, capsys: Capture) -> None:
    path, tree = tmp_path / "two.c", tmp_path / "two.yaml"
    path.write_text(TWO)
    assert cli.main(["cc", str(path), "--target", "c", "--dump-schedule", str(tree)]) == 0
    text = tree.read_text()
    assert text.count("domain:") == 2
    words = ["--target", "c", "--load-schedule", str(tree), "-o", "-"]
    assert cli.main(["cc", str(path), *words]) == 0
    capsys.readouterr()
    tree.write_text("nonsense\n---\nmore nonsense\n")
    before = files(path)
    assert cli.main(["cc", str(path), *words[:-2]]) == 2
    assert "reschedule" in capsys.readouterr().err
    assert files(path) == before


WAVES = """#include <math.h>
void f(int n, double a[n], double b[n]) {
#pragma scop
  for (int i = 0; i < n; i++)
    b[i] = exp(a[i]);
#pragma endscop
}
"""


@pytest.mark.parametrize("target", ["c", "openmp"])
def test_functions_of_the_library_may_be_kept(tmp_path: Path, capsys: Capture, target: str) -> None:
    """Otherwise loops of vectors have lines of ours where the machine has fused products."""
    path = tmp_path / "waves.c"
    path.write_text(WAVES)
    words = ["cc", str(path), "--target", target, "--machine", "neoverse-n1", "-o", "-"]
    assert cli.main([*words, "--explain"]) == 0
    told = capsys.readouterr()
    assert "lw_exp_float64(a[i])" in told.out
    assert "exp of float64, within 1.2 units of the last place" in told.out
    assert "functions in vectors, as lines of the text: exp of float64" in told.err
    assert cli.main([*words, "--explain", "--functions", "library"]) == 0
    told = capsys.readouterr()
    assert "lw_exp" not in told.out
    assert "functions in vectors" not in told.err


def test_tiles(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "gemm.c"
    path.write_text(GEMM.replace("C[i][j] = 0;", ""))
    assert cli.main(["cc", str(path), "--tile", "4,8,16", "--target=c", "-o", "-"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"for \(long i_t = 0; i_t < ni; i_t \+= 4\)", out)
    assert "k_t += 16" in out


def test_explanations(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "gemm.c"
    path.write_text(GEMM)
    assert cli.main(["explain", str(path)]) == 0
    report = capsys.readouterr().out
    assert report.startswith(
        f"{path}:7: region of gemm\n  statements\n    S0  line 10  C[i][j] = 0;"
    )
    assert "    i (line 8): its iterations are independent\n" in report
    carries = "carries flow S1[0, 0, 0] -> S1[0, 0, 1] (line 12 -> line 12)\n"
    assert f"    k (line 11): {carries}" in report
    assert "only the order of the sum in S1 binds it: --reassoc would free it" in report
    assert "  steps\n" in report
    assert "  predicted: " in report
    assert cli.main(["cc", str(path), "--explain"]) == 0
    assert capsys.readouterr().out == report


def test_reassociation_needs_no_hint(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "gemm.c"
    path.write_text(GEMM)
    assert cli.main(["explain", str(path), "--reassoc"]) == 0
    assert "--reassoc would free it" not in capsys.readouterr().out


def test_measured(source: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopwright.calls.measure_c._SECONDS", 0.0)
    assert cli.main(["explain", str(source), "--run", "--size", "n=50", "--threads", "1"]) == 0
    out = capsys.readouterr().out
    assert "saxpy:\n  measured at n = 50: " in out
    assert "inf" not in out
    assert cli.main(["explain", str(source), "--run", "--size", "m=5"]) == 2
    assert "saxpy has no parameter 'm'" in capsys.readouterr().err
    assert cli.main(["explain", str(source), "--run", "--size", "n=x"]) == 2
    assert "--size takes NAME=N or N" in capsys.readouterr().err
