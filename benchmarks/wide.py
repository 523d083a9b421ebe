"""Programs of many families, written as people write them: ours beside gcc and clang alone.

`cc` is the C text that `loopwright cc` writes (--target c; openmp for two threads), compiled by the
system's compiler; `jit` is `lw.compile`. Sums keep their order unless --reassoc allows everybody
(-ffast-math) to regroup them. The best peer is the fastest of gcc, clang, and gcc with the flags
that our texts are built with. Every program has a process of its own: refusals, exceptions and
crashes are rows. Programs set aside by the draw of tests/wide/draw.py are raced with --aside only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpus_kernels import FAMILIES, WIDE, Kernel, is_set_aside
from benchmarks.environment import bytecode_variables
from benchmarks.measure import Bar, Outcome, Setting, Table, geometric_mean, summary, values_of
from benchmarks.wide_child import CODE, PEERS, SAME_FLAGS, TEXT, by_net, on_two

__all__ = ["Row", "bars", "chosen", "facts", "measured", "raced", "run"]

LIMIT_SECONDS = 60.0  # of one program; none takes a fifth of it unless something is wrong
NET_SECONDS = 180.0  # more of these by the net: plans, texts and rivals are measured as well
# Programs that are products of matrices, whose speed is that of the equal products.
PRODUCTS = ("four-index-seq", "attention")
# Families that have a bar of their own: the geometric mean of speed over gcc.
FAMILY_BARS = {"imaging": 2.0, "nbody": 2.0, "dynamic": 2.0}
BEYOND_CACHES = ("maxwell-3d",)
COLUMNS = (
    ("program", "22s"),
    ("family", "10s"),
    ("gcc ms", "8.2f"),
    ("clang ms", "8.2f"),
    ("cc ms", "8.2f"),
    ("jit ms", "8.2f"),
    ("cc x gcc", "6.2f"),
    ("cc x best", "6.2f"),
    ("jit x gcc", "6.2f"),
    ("jit x best", "6.2f"),
    ("cc 2", "6.2f"),
    ("jit 2", "6.2f"),
    ("compile s", "7.2f"),
)
RATIOS = ("cc_times_gcc", "cc_times_best", "jit_times_gcc", "jit_times_best", "cc_two", "jit_two")
FAMILY_COLUMNS = (
    ("family", "12s"),
    ("programs", "3d"),
    ("without a time", "3d"),
    ("cc x gcc, mean", "6.2f"),
    ("worst", "6.2f"),
    ("", "22s"),
    ("cc x best, mean", "6.2f"),
    ("worst", "6.2f"),
    ("jit x best, mean", "6.2f"),
    ("worst", "6.2f"),
    ("cc 2, mean", "6.2f"),
    ("compile s", "6.2f"),
)
Row = dict[str, Any]


def run(setting: Setting) -> Outcome:
    """Race the programs asked for; those that are not set aside by default."""
    rows = raced(chosen(setting), setting.size or "LARGE", setting)
    _print_families(rows)
    return Outcome(tuple(rows), bars(rows))


def raced(programs: Iterable[Kernel], size: str, setting: Setting) -> list[Row]:
    """Race programs one after the other and print what was found; known rows are not repeated."""
    rules = "reassociated" if setting.reassoc else "strict"
    known = _known_rows(setting.rows, size, rules)
    table = Table(COLUMNS)
    print(f"{rules}\n{table.head()}", flush=True)
    rows = []
    for program in programs:
        row = known.get(program.name)
        if row is None:
            row = facts(program, size, rules, measured(program, size, setting))
            if setting.rows:
                with Path(setting.rows).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
        rows.append(row)
        print(table.row(*_cells(row)), flush=True)
        for remark in row["remarks"]:
            print(f"  {remark}", flush=True)
    return rows


def chosen(setting: Setting) -> list[Kernel]:
    """The programs to race, by name, or those of the families that are set aside or not."""
    for given, known, what in (
        (setting.kernels, WIDE, "program"),
        (setting.families, FAMILIES, "family"),
    ):
        unknown = [name for name in given if name not in known]
        if unknown:
            sys.exit(f"no {what} is named {', '.join(unknown)}; known: {', '.join(known)}")
    if setting.kernels:
        return [WIDE[name] for name in setting.kernels]
    return [
        program
        for name, program in WIDE.items()
        if program.kind in (setting.families or FAMILIES) and is_set_aside(name) == setting.aside
    ]


def facts(program: Kernel, size: str, rules: str, found: Row) -> Row:
    """What was found about one program, as plain data."""
    best = found["best"]
    peers = [best[name] for name in (*PEERS, SAME_FLAGS) if name in best]
    row: Row = {
        "kernel": program.name,
        "family": program.kind,
        "aside": program.name in WIDE and is_set_aside(program.name),
        "rules": rules,
        "size": size,
        "sizes": program.at(size),
        "parallel": program.parallel,
        "bytes": program.count_bytes(program.at(size)),
        **found,
    }
    for ours in (TEXT, CODE, *(by_net(name) for name in (TEXT, CODE) if by_net(name) in best)):
        row[f"{ours}_times_best"] = _ratio(min(peers, default=None), best.get(ours))
        row[f"{ours}_two"] = _ratio(best.get(ours), best.get(on_two(ours)))
        for peer in PEERS:
            row[f"{ours}_times_{peer}"] = _ratio(best.get(peer), best.get(ours))
    rate = _ratio(1e-9 * program.count_flops(program.at(size)), best.get(TEXT))
    row["cc_gflops"] = rate
    row["cc_of_product"] = _ratio(rate, found["blas_gflops"])
    row["jit_compile_seconds"] = found["compile_seconds"].get(CODE)
    row["cc_compile_seconds"] = found["compile_seconds"].get(TEXT)
    return row


def bars(rows: Iterable[Row]) -> tuple[Bar, ...]:
    """What we hold ourselves to, as far as these rows can tell."""
    every = list(rows)
    parallel = [row for row in every if row["parallel"]]
    by_clang = [row for row in every if "clang" in row["best"]]
    wanted: list[tuple[str, list[Row], str, Callable[[list[float]], Any], float, bool]] = []
    nets = [by_net(name) for name in (TEXT, CODE)]
    for ours in (TEXT, CODE, *(name for name in nets if any(name in r["best"] for r in every))):
        wanted += [
            (f"{ours}, speed of gcc, mean", every, f"{ours}_times_gcc", geometric_mean, 2.0, False),
            (f"{ours}, speed of gcc, worst", every, f"{ours}_times_gcc", min, 0.95, False),
            (f"{ours}, speed of clang, worst", by_clang, f"{ours}_times_clang", min, 0.95, False),
        ]
        if ours not in nets:
            bar = (f"{ours}, two threads, worst", parallel, f"{ours}_two", min, 1.6, False)
            wanted.append(bar)
    for family, bar in FAMILY_BARS.items():
        among = [row for row in every if row["family"] == family]
        what = f"{family}, speed of gcc, mean"
        wanted.append((what, among, "cc_times_gcc", geometric_mean, bar, False))
    products = [row for row in every if row["kernel"] in PRODUCTS]
    beyond = [row for row in every if row["kernel"] in BEYOND_CACHES]
    wanted += [
        ("3-D FDTD beyond the caches, speed of gcc", beyond, "cc_times_gcc", min, 1.5, False),
        ("share of the equal products, worst", products, "cc_of_product", min, 0.7, False),
        ("time to compile, mean", every, "jit_compile_seconds", np.mean, 0.8, True),
    ]
    found = [
        Bar(what, summary(among, key, pick), bar, at_most)
        for what, among, key, pick, bar, at_most in wanted
        if among
    ]
    failed = sum(bool(row["remarks"]) for row in every)
    return (*found, Bar("programs refused, failed or wrong", failed, 0, at_most=True))


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or below is None else above / below


def _known_rows(file: str, size: str, rules: str) -> dict[str, Row]:
    """Rows of an earlier run, by program; a line that was broken off counts as none."""
    found = {}
    for line in Path(file).read_text(encoding="utf-8").splitlines() if _exists(file) else []:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if (row["size"], row["rules"]) == (size, rules):
            found[row["kernel"]] = row
    return found


def _exists(file: str) -> bool:
    return bool(file) and Path(file).exists()


def measured(
    program: Kernel, size: str, setting: Setting, *flags: str, limit: float = LIMIT_SECONDS
) -> Row:
    """What a process of its own finds about a program; nothing but a remark when it fails."""
    command = [sys.executable, "-m", "benchmarks.wide_child", program.name, "--size", size]
    command += ["--seed", str(setting.seed), *flags]
    command += ["--quick"] * setting.quick + ["--reassoc"] * setting.reassoc
    command += ["--net"] * setting.net
    command += ["--blas"] * (program.name in PRODUCTS)
    limit += NET_SECONDS * setting.net
    start = time.perf_counter()
    try:
        environ = os.environ | bytecode_variables()
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=limit, env=environ
        )
    except subprocess.TimeoutExpired:
        return _nothing(f"did not end within {limit:.0f} s")
    if done.returncode != 0:
        told = done.stderr.strip().splitlines() or [""]
        return _nothing(f"ended with status {done.returncode}: {told[-1]}")
    found: Row = json.loads(done.stdout.splitlines()[-1])
    return found | {"all_seconds": time.perf_counter() - start}


def _nothing(remark: str) -> Row:
    return {
        "best": {},
        "seconds": {},
        "compile_seconds": {},
        "blas_gflops": None,
        "remarks": [remark],
        "all_seconds": None,
    }


def _cells(row: Row) -> list[Any]:
    """The line of the table for one program."""
    seconds = [row["best"].get(name) for name in (*PEERS, TEXT, CODE)]
    milliseconds = [None if s is None else 1000 * s for s in seconds]
    ratios = [row[key] for key in RATIOS]
    return [row["kernel"], row["family"], *milliseconds, *ratios, row["jit_compile_seconds"]]


def _print_families(rows: Sequence[Row]) -> None:
    """The mean and the worst of every family, and of all."""
    table = Table(FAMILY_COLUMNS)
    print(f"\n{table.head()}")
    families = dict.fromkeys(row["family"] for row in rows)
    for name in (*families, "all") if len(families) > 1 else families:
        print(table.row(*_family_cells(name, [r for r in rows if name in (r["family"], "all")])))


def _family_cells(name: str, rows: Sequence[Row]) -> list[Any]:
    timed = [row for row in rows if row["cc_times_gcc"] is not None]
    slowest = min(timed, key=lambda row: row["cc_times_gcc"], default=None)
    cells: list[Any] = [name, len(rows), len(rows) - len(timed)]
    cells += [
        *_mean_and_worst(rows, "cc_times_gcc"),
        None if slowest is None else slowest["kernel"],
    ]
    cells += [*_mean_and_worst(rows, "cc_times_best"), *_mean_and_worst(rows, "jit_times_best")]
    two = _mean_and_worst([row for row in rows if row["parallel"]], "cc_two")[0]
    compiled = values_of(rows, "jit_compile_seconds")
    return [*cells, two, float(np.mean(compiled)) if compiled else None]


def _mean_and_worst(rows: Iterable[Row], key: str) -> tuple[float | None, float | None]:
    found = values_of(rows, key)
    return (geometric_mean(found), min(found)) if found else (None, None)
