"""From C text to machine code: the kernels of the corpus, and programs of many statements.

Stages: front end (C to a source tree), extraction (to sets), plan, lowering (to loops), code (LLVM,
loaded). Nothing is taken from a cache. Seconds are those of the processor, also of a C compiler
that expands macros; of constant extents the best of some rounds counts, symbolic extents and
literal bounds are taken once. Growth is measured on programs of 1 to 200 statements of
three shapes; the exponent e says that four times the statements take 4^e times as long.
"""

from __future__ import annotations

import math
import resource
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from benchmarks.corpus_kernels import CONSTANT, KERNELS, MODES, write_source
from benchmarks.measure import Bar, Outcome, Setting, Table
from loopwright.backends.llvm.llvm_emitter import emit_module
from loopwright.backends.llvm.llvm_entry import entry_symbols
from loopwright.frontends.c import CRegion, read_c
from loopwright.frontends.extract import program_of
from loopwright.lower.passes import lower_schedule
from loopwright.machines.host import host
from loopwright.planner.planners import model_planner
from loopwright.runtime.llvm_engine import compile_to_object, load_object

__all__ = ["run"]

STAGES = ("front end", "extraction", "plan", "lowering", "code")
COUNTS = (1, 10, 50, 200)
QUICK_COUNTS = (1, 10, 50)
ROUNDS = 3


def run(setting: Setting) -> Outcome:
    """Time the corpus, then the growth."""
    _compile(_chain(1))  # imports and the first use of libraries are not the program's
    corpus = _corpus(setting)
    growth = _growth(setting)
    totals = [row["seconds"] for row in corpus]
    worst = max(totals, default=math.nan)
    bars = (
        Bar("front end to code, mean of the corpus", _mean(totals), 0.7, at_most=True, unit=" s"),
        Bar("front end to code, worst", worst, 3.0, at_most=True, unit=" s"),
    )
    return Outcome((*corpus, *growth), bars)


def _corpus(setting: Setting) -> list[dict[str, Any]]:
    titles = (("kernel", "16s"), ("mode", "16s"))
    table = Table((*titles, *((stage, "10.3f") for stage in STAGES), ("s", "8.3f")))
    print(table.head())
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for mode, name in product(MODES, setting.kernels or KERNELS):
            source = write_source(KERNELS[name], Path(folder), mode=mode)
            rounds = ROUNDS if mode is CONSTANT and not setting.quick else 1
            stages = min((_compile(source) for _ in range(rounds)), key=sum)
            row = {"kernel": name, "mode": mode.name, "stages": stages, "seconds": sum(stages)}
            rows.append(row)
            print(table.row(name, mode.name, *stages, sum(stages)), flush=True)
    return rows


def _growth(setting: Setting) -> list[dict[str, Any]]:
    titles = (("shape", "10s"), ("statements", "10d"))
    table = Table((*titles, *((stage, "10.3f") for stage in STAGES), ("s", "8.3f"), ("e", "6.2f")))
    print(f"\ngrowth\n{table.head()}")
    rows: list[dict[str, Any]] = []
    for shape, make in SHAPES.items():
        before: tuple[int, float] | None = None
        for count in QUICK_COUNTS if setting.quick else COUNTS:
            stages = _compile(make(count))
            seconds = sum(stages)
            exponent = None
            if before is not None:
                exponent = math.log(seconds / before[1]) / math.log(count / before[0])
            before = count, seconds
            print(table.row(shape, count, *stages, seconds, exponent), flush=True)
            rows.append({"shape": shape, "statements": count, "stages": stages, "e": exponent})
    return rows


def _compile(source: str | Path) -> list[float]:
    """Seconds of each stage, all regions of a file together."""
    start = _clock()
    file = read_c(source)
    stages = [_clock() - start, 0.0, 0.0, 0.0, 0.0]
    for region in file.regions:
        for at, seconds in enumerate(_compile_region(region), 1):
            stages[at] += seconds
    return stages


def _compile_region(region: CRegion) -> list[float]:
    ends = [_clock()]
    program = program_of(region.tree, reassoc=True)
    ends.append(_clock())
    _, schedule = model_planner(program, host(), 2)
    ends.append(_clock())
    nest = lower_schedule(schedule)
    ends.append(_clock())
    module = emit_module(nest, host().features)
    code = compile_to_object(module.units)
    load_object(code, entry_symbols(nest.name))
    ends.append(_clock())
    return [after - before for before, after in pairwise(ends)]


def _clock() -> float:
    """Seconds of the processor that this process and those it waited for have taken."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


# -- programs of many statements -------------------------------------------------------------


def _chain(count: int) -> str:
    """Nests one after the other, each reading what the one before wrote."""
    return _function(
        count,
        "\n".join(
            f"for (i = 1; i < n - 1; i++)\n  for (j = 1; j < n - 1; j++)\n"
            f"    a{k + 1}[i][j] = a{k}[i][j - 1] + a{k}[i][j + 1] + {k}.0;"
            for k in range(count)
        ),
    )


def _block(count: int) -> str:
    """One nest with all statements in its body."""
    body = "\n".join(f"    a{k + 1}[i][j] = a{k}[i][j] * 0.5 + {k}.0;" for k in range(count))
    return _function(count, f"for (i = 0; i < n; i++)\n  for (j = 0; j < n; j++) {{\n{body}\n  }}")


def _scalars(count: int) -> str:
    """One nest whose statements hand values on in scalars."""
    sources = ["a0[i][j]", *(f"t{k}" for k in range(count - 1))]
    body = "\n".join(f"    t{k} = {source} + {k}.0;" for k, source in enumerate(sources))
    names = ", ".join(f"t{k}" for k in range(count))
    last = f"    a1[i][j] = t{count - 1};"
    return _function(
        1,
        f"for (i = 0; i < n; i++)\n  for (j = 0; j < n; j++) {{\n{body}\n{last}\n  }}",
        f"double {names};",
    )


def _function(arrays: int, body: str, declarations: str = "") -> str:
    names = ", ".join(f"double a{k}[n][n]" for k in range(arrays + 1))
    return (
        f"void many(int n, {names}) {{\nint i, j;\n{declarations}\n"
        f"#pragma scop\n{body}\n#pragma endscop\n}}\n"
    )


SHAPES: dict[str, Callable[[int], str]] = {"chain": _chain, "block": _block, "scalars": _scalars}
