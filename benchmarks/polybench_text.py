"""PolyBench's 30 shapes through `loopwright cc` and gcc, beside gcc, clang and Polly alone.

Twice: sums in the order of the source, and regrouped by everybody (-ffast-math, --reassoc). A peer
is best under the same rules; one thread. `polyhedral` races the machine code of `lw.compile`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.corpus_kernels import KERNELS, Kernel
from benchmarks.measure import Bar, Outcome, Setting, Table, geometric_mean, summary, values_of
from benchmarks.wide import measured
from benchmarks.wide_child import CODE, PEERS, POLLY, TEXT

__all__ = ["bars", "chosen", "run"]

LIMIT_SECONDS = 240.0  # of one kernel: Polly takes up to a minute to compile one
RULES = ("strict", "reassociated")
CONTESTANTS = (*PEERS, POLLY, TEXT, CODE)
COLUMNS = (
    ("kernel", "14s"),
    ("rules", "12s"),
    *((f"{name} ms", "8.2f") for name in CONTESTANTS),
    ("cc x gcc", "6.2f"),
    ("cc x best", "6.2f"),
    ("jit x best", "6.2f"),
    ("compile s", "7.2f"),
)
Row = dict[str, Any]


def run(setting: Setting) -> Outcome:
    """Race the kernels asked for under both rules, or with --reassoc under the second alone."""
    table = Table(COLUMNS)
    print(table.head(), flush=True)
    rows = []
    for rules in RULES[setting.reassoc :]:
        for kernel in chosen(setting):
            rows.append(_row(kernel, rules, setting))
            print(table.row(*_cells(rows[-1])), flush=True)
            for remark in rows[-1]["remarks"]:
                print(f"  {remark}", flush=True)
            if setting.rows:
                with Path(setting.rows).open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
        same = [row for row in rows if row["rules"] == rules]
        for key in ("cc_times_gcc", "cc_times_best", "jit_times_best"):
            found = values_of(same, key)
            if found:
                print(f"{rules}, {key}: mean {geometric_mean(found):.2f}, worst {min(found):.2f}")
    return Outcome(tuple(rows), bars(rows))


def chosen(setting: Setting) -> list[Kernel]:
    """The kernels to race, by name; all that have PolyBench's shapes by default."""
    unknown = [name for name in setting.kernels if name not in KERNELS]
    if unknown:
        sys.exit(f"no kernel is named {', '.join(unknown)}; known: {', '.join(KERNELS)}")
    kernels = [KERNELS[name] for name in setting.kernels]
    return kernels or [kernel for kernel in KERNELS.values() if kernel.kind != "nasty"]


def bars(rows: Iterable[Row]) -> tuple[Bar, ...]:
    """No kernel below the best peer under the same rules."""
    every = list(rows)
    found = [
        Bar(
            f"cc, {rules}, speed of the best peer, worst", summary(among, "cc_times_best", min), 1.0
        )
        for rules in RULES
        if (among := [row for row in every if row["rules"] == rules])
    ]
    failed = sum(bool(row["remarks"]) for row in every)
    return (*found, Bar("kernels refused, failed or wrong", failed, 0, at_most=True))


def _row(kernel: Kernel, rules: str, setting: Setting) -> Row:
    """What was found about one kernel, as plain data."""
    size = setting.size or ("SMALL" if setting.quick else "LARGE")
    found = measured(
        kernel, size, replace(setting, reassoc=rules == RULES[1]), "--polly", limit=LIMIT_SECONDS
    )
    best: dict[str, float] = found["best"]
    peers = [seconds for name, seconds in best.items() if not name.startswith((TEXT, CODE))]
    row = {"kernel": kernel.name, "rules": rules, "size": size, **found}
    for ours in (TEXT, CODE):
        row[f"{ours}_times_best"] = min(peers) / best[ours] if peers and ours in best else None
        is_known = "gcc" in best and ours in best
        row[f"{ours}_times_gcc"] = best["gcc"] / best[ours] if is_known else None
    row["cc_compile_seconds"] = found["compile_seconds"].get(TEXT)
    return row


def _cells(row: Row) -> list[Any]:
    """The line of the table for one kernel."""
    seconds = [row["best"].get(name) for name in CONTESTANTS]
    milliseconds = [None if s is None else 1000 * s for s in seconds]
    keys = ("cc_times_gcc", "cc_times_best", "jit_times_best", "cc_compile_seconds")
    return [row["kernel"], row["rules"], *milliseconds, *(row[key] for key in keys)]
