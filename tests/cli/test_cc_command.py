"""`loopwright cc` as a user meets it: files, exit codes, refusals, orders of one's own."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.c_compiled import needs_cc
from calls.c_sources import GEMM, SAXPY, SERIAL, TWO
from drawn import HUNTS, in_all
from loopwright import cli
from loopwright.calls.splice import Optimised
from loopwright.cli import cc_command, main
from loopwright.frontends.c import CFile, CRegion
from loopwright.planner import generic

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "saxpy.c"
    path.write_text(SAXPY)
    return path


def files(path: Path) -> list[str]:
    return sorted(p.name for p in path.parent.iterdir())


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


SCALE = """\
void scale(int n, int m, double A[n][m], double c)
{
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            A[i][j] = c * A[i][j];
#pragma endscop
}
"""


def cc(folder: Path, *options: str, source: str = SCALE) -> int:
    file = folder / "scale.c"
    file.write_text(source)
    return main(["cc", str(file), "--target", "athread", "-o", str(folder / "made"), *options])


def test_threads_beside_a_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(tmp_path / "plan.json")
    assert cc(tmp_path, "--dump-plan", plan) == 0
    assert cc(tmp_path, "--plan", plan, "--threads", "8x8") == 0
    capsys.readouterr()
    assert cc(tmp_path, "--plan", plan, "--threads", "1x64") == 2
    assert capsys.readouterr().err == (
        "loopwright: error: the plan of 'scale' is for 8x8 cores\n"
        "note: found --threads 1x64\n"
        "try: --threads 8x8, or a plan that was made with --threads 1x64\n"
    )


LINES = 100_000 if in_all() else 10_000  # of a hundred bytes
DEPTH = 40 if in_all() else 17  # of loops: more than LLVM optimises


def region(body: str, before: str = "") -> str:
    return (
        "double g(double);\n"
        f"void f(int n, int k[100], double a[100], double *p)\n{{\n    int i, j;\n{before}"
        f"#pragma scop\n{body}\n#pragma endscop\n}}\n"
    )


def in_loop(body: str) -> str:
    return region(f"    for (i = 0; i < n; i++)\n        {body}")


REFUSED = {
    "goto": (in_loop("{ a[i] = 1; goto out; }") + "/* out: */\n", "a goto cannot be compiled"),
    "while": (region("    while (n > 0) a[0] = 1;"), "a while loop cannot be compiled"),
    "pointer": (in_loop("*p = a[i];"), "a pointer is followed"),
    "address": (in_loop("*(&a[i] + 1) = 2;"), "a pointer is followed"),
    "data-dependent subscript": (in_loop("a[k[i]] = 1;"), "the subscript"),
    "data-dependent bound": (region("    for (i = 0; i < k[0]; i++) a[i] = 1;"), "the"),
    "call with effects": (in_loop("a[i] = g(a[i]);"), "the function 'g' is not known to be pure"),
    "effects in an expression": (
        in_loop("a[i] = a[j++];"),
        "a variable is changed inside an expression",
    ),
    "bound that is not affine": (region("    for (i = 0; i < n * n; i++) a[i] = 1;"), "affine"),
    "subscript that is not affine": (in_loop("a[i * i] = 1;"), "the subscript is not affine"),
    "region of 4 MB": (region("    a[0] = 1;\n" * 280_000), "the region has more than"),
}


@pytest.fixture
def both_files(tmp_path: Path) -> tuple[Path, Path]:
    """A source, and a file in the place of its result."""
    source, result = tmp_path / "kernel.c", tmp_path / "kernel.opt.c"
    result.write_text("what was there before")
    return source, result


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str, both_files: tuple[Path, Path], capsys: Capture) -> None:
    source, result = both_files
    text, message = REFUSED[what]
    source.write_text(text)
    assert cli.main(["cc", str(source)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(
        rf"^{re.escape(str(source))}:\d+:\d+: error: .*{re.escape(message)}", err, re.M
    )
    assert re.search(r"^ +\^+$", err, re.M), "carets below the place"
    assert "Traceback" not in err
    assert result.read_text() == "what was there before"
    assert sorted(p.name for p in source.parent.iterdir()) == ["kernel.c", "kernel.opt.c"]


FINISHED = {
    "long file": "".join(
        f"static const int number_{k} = {k}; /* {'x' * 60} */\n" for k in range(LINES)
    )
    + in_loop("a[i] = 1;"),
    "deep nest": region(
        "".join(f"    for (v{d} = 0; v{d} < n; v{d}++)\n" for d in range(DEPTH))
        + f"    a[v{DEPTH - 1}] += 1;",
        f"    int {', '.join(f'v{d}' for d in range(DEPTH))};\n",
    ),
    "identifier that is not ASCII": in_loop("a[i] = 2 * größe[i];").replace("k[100]", "größe[100]"),
    "isl blow-up": region(
        "    for (i = 0; i < n; i++) for (j = 0; j < n; j++)\n        if ("
        + " && ".join(f"(i != {3 * d} || j != {5 * d})" for d in range(12))
        + ")\n            a[i] += a[j];"
    ),
}


@pytest.mark.parametrize("what", FINISHED)
def test_finished(
    what: str,
    both_files: tuple[Path, Path],
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within the quotas: what is too hard is left as it is written."""
    if not HUNTS:  # a quota that is smaller is met sooner
        monkeypatch.setattr(generic, "_QUOTA", 200_000)
        monkeypatch.setattr(generic, "_QUOTAS", {})
    source, result = both_files
    source.write_text(FINISHED[what])
    assert cli.main(["cc", str(source)]) == 0
    assert "Traceback" not in capsys.readouterr().err
    assert "#pragma scop" in result.read_text()


def steps(folder: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads((folder / "plan.json").read_text())["steps"]
    return found


@pytest.mark.parametrize(
    ("threads", "mapped"),
    [
        ((), [("i_t", "row", 8, 8), ("j_t", "column", 8, 8)]),
        (("--threads", "1x64"), [("i_t", "mesh", 1, 64)]),
    ],
)
def test_cores_take_the_given_tiles(
    tmp_path: Path, threads: tuple[str, ...], mapped: list[tuple[object, ...]]
) -> None:
    dumped = str(tmp_path / "plan.json")
    assert cc(tmp_path, "--tile", "4,4", "--dump-plan", dumped, "--check", *threads) == 0
    found = steps(tmp_path)
    assert [step["sizes"] for step in found if step["kind"] == "tile"] == [[4, 4]]
    assert [
        tuple(step[key] for key in ("loop", "axis", "rows", "columns"))
        for step in found
        if step["kind"] == "map_to_mesh"
    ] == mapped
    assert [step["loop"] for step in found if step["kind"] == "stage_box"] == ["j_t"]
