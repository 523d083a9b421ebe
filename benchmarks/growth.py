"""How `loopwright cc` grows with a file: statements, nests, depth, arrays, guards, calls.

For each shape a small file and a large one are optimised, in processes of their own that have
optimised an empty region before, so that start-up is left out. What the processor took, with the
programs that the command calls, is compared; of several runs the best one counts. A file that is
refused, or left as it is, because a quota is spent counts as what that took. Ten times more may
cost fifteen times more.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import Bar, Outcome, Setting, Table

__all__ = ["run"]

MOST = 15.0  # times the seconds for ten times the size
RUNS = 3


def run(setting: Setting) -> Outcome:
    """Optimise the files of each shape, small and large."""
    titles = (("shape", "12s"), ("size", "6d"), ("s", "8.2f"), ("times", "8.2f"), ("end", "50s"))
    table = Table(titles)
    print(table.head())
    rows: list[dict[str, Any]] = []
    worst = 0.0
    for shape, (small, target, make) in SHAPES.items():
        before: float | None = None
        for size in (small, 10 * small) if not setting.quick else (small,):
            runs = [_run(make(size), target) for _ in range(RUNS)]
            taken = min(seconds for seconds, _ in runs)
            times = None if before is None else taken / before
            worst = max(worst, times or 0.0)
            before = taken
            print(table.row(shape, size, taken, times, runs[0][1]), flush=True)
            rows.append({"shape": shape, "size": size, "seconds": taken, "times": times})
    bar = Bar("ten times the size, worst", worst, MOST, at_most=True, unit=" times")
    return Outcome(tuple(rows), (bar,))


def _run(text: str, target: str) -> tuple[float, str]:
    """The processor's seconds of one command beyond start-up, and what it said in the end."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "empty.c").write_text(_function("int n, double a[n]", "a[0] = 1;"))
        (Path(folder) / "k.c").write_text(text)
        command = [sys.executable, "-m", "benchmarks.growth_child", folder, target]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = [line.split(": ", 1)[-1] for line in done.stderr.splitlines() if "/k.c" in line]
    return float(done.stdout), said[-1][:50] if said else ""


def _function(parameters: str, body: str, before: str = "") -> str:
    return f"{before}void f({parameters}) {{\n#pragma scop\n{body}\n#pragma endscop\n}}\n"


def _statements(size: int) -> str:
    inside = "\n".join("    a[i] = a[i] * 2 + b[i];" for _ in range(size))
    loop = f"for (int i = 0; i < n; i++) {{\n{inside}\n}}"
    return _function("int n, double a[n], double b[n]", loop)


def _nests(size: int) -> str:
    nest = "for (int i = 0; i < n; i++)\n  for (int j = 0; j < n; j++)\n    a[i][j] += b[i][j];"
    return _function("int n, double a[n][n], double b[n][n]", "\n".join([nest] * size))


def _arrays(size: int) -> str:
    inside = "\n".join(f"    a{k}[i] = a{k}[i] * 2;" for k in range(size))
    loop = f"for (int i = 0; i < n; i++) {{\n{inside}\n}}"
    return _function(", ".join(["int n", *(f"double a{k}[n]" for k in range(size))]), loop)


def _depth(size: int) -> str:
    heads = "\n".join(f"for (int i{k} = 0; i{k} < n; i{k}++)" for k in range(size))
    return _function("int n, double a[n]", f"{heads}\n  a[i0] += 1;")


def _guards(size: int) -> str:
    tests = "\n".join(f"  if (i + {k} < m)" for k in range(size))
    loop = f"for (int i = 0; i < n; i++)\n{tests}\n    a[i] = a[i] * 2;"
    return _function("int n, int m, double a[n]", loop)


def _remainders(size: int) -> str:
    tests = "\n".join(f"  if (i % {2 * k + 3} != {k})" for k in range(size))
    loop = f"for (int i = 0; i < n; i++)\n{tests}\n    a[i] = a[i] * 2;"
    return _function("int n, double a[n]", loop)


def _functions(size: int) -> str:
    given = "static double g0(double x) { return x * 0.5; }\n" + "".join(
        f"static double g{k}(double x) {{ return g{k - 1}(x) + g{k - 1}(x); }}\n"
        for k in range(1, size)
    )
    loop = f"for (int i = 0; i < n; i++) a[i] = g{size - 1}(a[i]);"
    return _function("int n, double a[n]", loop, given)


# Shape -> the smaller size, the target, the text of a size.
SHAPES: dict[str, tuple[int, str, Callable[[int], str]]] = {
    "statements": (20, "openmp", _statements),
    "nests": (4, "openmp", _nests),
    "nests, cuda": (4, "cuda", _nests),
    "arrays": (20, "openmp", _arrays),
    "depth": (4, "openmp", _depth),
    "guards": (4, "openmp", _guards),
    "remainders": (2, "openmp", _remainders),
    "functions": (3, "openmp", _functions),
}
