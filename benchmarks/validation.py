"""Every kernel of the corpus, in every mode and option set, against its own meaning: differences.

Modes: symbolic extents, constant extents, literal bounds. Option sets: sums as declared or
reassociated; one thread or several. Checked are the order of computation and the numbers of LLVM's
code and of C, at small sizes against the interpreter, at large ones against the source order.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.corpus_kernels import KERNELS, MODES, Kernel, Mode, write_source
from benchmarks.measure import Bar, Outcome, Setting
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import program_of
from loopwright.ir.program import Program
from loopwright.lower.passes import lower_schedule
from loopwright.machines.host import host
from loopwright.planner.planners import model_planner
from loopwright.validate import Report
from loopwright.validate.translation import validate_with_c

__all__ = ["run"]

FLAGS = ("-O2", "-fopenmp")
EXTENT = 45  # of arrays in the modes whose extents are constant


def run(setting: Setting) -> Outcome:
    """Validate all regions; a quick run takes one option set of each kernel, another each time."""
    rows: list[dict[str, Any]] = []
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(setting.kernels or KERNELS):
            for what, report in _reports(KERNELS[name], Path(folder), number, setting):
                count += not report.is_clean
                verdict = "clean" if report.is_clean else f"differs\n{report}"
                print(f"{name}, {what}: {verdict}", flush=True)
                rows.append({"kernel": name, "what": what, "report": str(report)})
    return Outcome(tuple(rows), (Bar("kernels that differ", count, 0, at_most=True),))


def _reports(
    kernel: Kernel, folder: Path, number: int, setting: Setting
) -> Iterator[tuple[str, Report]]:
    sets = list(product(MODES, kernel.dtypes, (False, True), (False, True)))
    if setting.quick:
        sets = [sets[7 * number % len(sets)]]
    for mode, dtype, reassoc, parallel in sets:
        for function, program in _programs(kernel, folder, mode, dtype, reassoc):
            words = [function, mode.name, dtype]
            words += ["reassociated"] * reassoc + ["parallel"] * parallel
            nest = lower_schedule(model_planner(program, host(), 2 if parallel else 1)[1])
            report = validate_with_c(program, nest, flags=FLAGS, seed=setting.seed)
            yield ", ".join(words), report


def _programs(
    kernel: Kernel, folder: Path, mode: Mode, dtype: str, reassoc: bool
) -> Iterator[tuple[str, Program]]:
    extents = dict.fromkeys(kernel.sizes, EXTENT)
    source = write_source(kernel, folder, dtype=dtype, mode=mode, extents=extents)
    for region in read_c(source).regions:
        yield region.function, program_of(region.tree, reassoc=reassoc)
