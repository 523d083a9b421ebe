"""`loopwright tune`: search plans for a C file or an einsum; list, export and import records."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from loopwright.calls.einsum import einsum_task
from loopwright.calls.tune import tune_tasks
from loopwright.calls.tune_c import region_tasks, tune_regions
from loopwright.cli.cc_command import cpp_arguments
from loopwright.cli.cc_tune import progress_reports, read_sizes, sentence
from loopwright.cli.output_files import write_file
from loopwright.cli.progress import StatusLine
from loopwright.cli.train_policy import add_training_arguments, run_training
from loopwright.diagnostics import UsageError
from loopwright.frontends.c import read_c
from loopwright.frontends.einsum_syntax import parse_subscripts
from loopwright.ir.dtypes import DTYPES
from loopwright.machines.host import host
from loopwright.runtime.thread_pool import checked_threads
from loopwright.tuning.actions import ACTIONS
from loopwright.tuning.loop_tree_text import tree_text
from loopwright.tuning.recall import origin_line
from loopwright.tuning.records import Log, log_of_user
from loopwright.tuning.searches import Budget
from loopwright.tuning.tensor_nests import contraction_tree_of
from loopwright.tuning.tree_evaluator import TreeClock
from loopwright.tuning.tree_search import SEARCHES, search_trees

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("what", nargs="?", help="a C file with regions, or an einsum: 'ik,kj->ij'")
    parser.add_argument("--seconds", type=float, default=10.0, help="the budget, 10 by default")
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=N",
        help="an integer parameter of C, or an index of an einsum; N alone for all others (200)",
    )
    parser.add_argument("--dtype", default="float64", help="of an einsum's operands")
    parser.add_argument("--threads", type=int, help="threads of the runs")
    parser.add_argument("--cold", action="store_true", help="flush the caches before every run")
    parser.add_argument("--reassoc", action="store_true", help="as for 'cc'")
    for flag in ("-D", "-U", "-I", "-include"):
        parser.add_argument(flag, action="append", default=[], metavar="X", help="as for 'cc'")
    parser.add_argument("-std", default="", metavar="X", help="as for 'cc'")
    parser.add_argument(
        "--tree",
        choices=SEARCHES,
        help="search loop trees of an einsum by quick code and print the best; nothing is recorded",
    )
    parser.add_argument("--records", action="store_true", help="list what was recorded")
    parser.add_argument("--export", metavar="FILE", help="write all records; - for stdout")
    parser.add_argument(
        "--import", dest="taken", metavar="FILE", help="take the records of a file, checked"
    )
    add_training_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Tune, or look after the records."""
    if args.train:
        return run_training(args)
    log = log_of_user()
    if args.what is None and not (args.records or args.export or args.taken):
        hint = "loopwright tune FILE.c, loopwright tune 'ik,kj->ij', or --records"
        raise UsageError("what is to be tuned?", hint=hint)
    if args.taken is not None:
        taken, refused = log.take(_read(args.taken))
        print(f"{_counted(taken, 'record')} taken, {_counted(refused, 'line')} refused")
    if args.export is not None:
        write_file(args.export, log.export().encode())
    if args.what is not None:
        _tune(args)
    if args.records:
        print("\n".join(_listing(log)))
    return 0


def _tune(args: argparse.Namespace) -> None:
    if not (math.isfinite(args.seconds) and args.seconds > 0):
        raise UsageError("--seconds takes a number above 0", found=repr(args.seconds))
    if args.threads is not None:
        checked_threads(args.threads)
    sizes, default = read_sizes(args.size)
    if Path(args.what).suffix == ".c":
        return _tune_file(args, sizes, default)
    terms = args.what.partition("->")[0].split(",")
    names = parse_subscripts(args.what, tuple(len(term.strip()) for term in terms))
    try:
        dtype = np.dtype(args.dtype)
    except TypeError:
        raise UsageError("--dtype is no dtype", found=repr(args.dtype)[:60]) from None
    if args.tree:
        extents = {x: sizes.get(x, default) for term in names.operands for x in term}
        return _search_trees(args, names.text, extents, dtype)
    operands = [
        np.ones([sizes.get(letter, default) for letter in term], dtype) for term in names.operands
    ]
    task = einsum_task(args.what, *operands, threads=args.threads)
    with StatusLine(sys.stderr) as line:
        reports = progress_reports(line, 1)
        (found,) = tune_tasks([task], args.seconds, report=reports, cold=args.cold)
    print(f"{args.what}: {sentence(found)}")
    print(found.plan.dumps())
    return None


def _search_trees(
    args: argparse.Namespace, subscripts: str, extents: dict[str, int], dtype: np.dtype[Any]
) -> None:
    """Print the fastest loop tree that a search finds, and how it compares with its start."""
    if dtype.name not in DTYPES:
        raise UsageError("--dtype has no loop trees", found=dtype.name)
    start = contraction_tree_of(subscripts, extents, DTYPES[dtype.name])
    clock = TreeClock(host(), threads=args.threads or 1)
    found = search_trees(args.tree, start, clock, Budget(args.seconds), actions=ACTIONS)
    speed = start.operations / found.seconds / 1e9
    print(tree_text(found.tree))
    gain = found.start_seconds / found.seconds
    print(
        f"{speed:.2f} GFLOPS, {gain:.2f} times its start; {found.measurements} trees measured, "
        f"{found.failures} without a time, ended by {found.ended_by}: {' '.join(found.path)}"
    )


def _tune_file(args: argparse.Namespace, sizes: dict[str, int], default: int) -> None:
    words = cpp_arguments(args)
    path = Path(args.what)
    file = read_c(path, cpp_args=words)
    given = {"default": default, "reassoc": args.reassoc, "threads": args.threads}
    tasks = region_tasks(file, path, sizes, cpp_args=words, **given)
    with StatusLine(sys.stderr) as line:
        reports = progress_reports(line, len(tasks))
        found = tune_regions(tasks, args.seconds, reports, cold=args.cold)
    for place, region in enumerate(file.regions):
        told = "not measured: its function is more than regions"
        if place in found:
            told = sentence(found[place])
        print(f"{region.span.file}:{region.span.line}: {told}")


def _listing(log: Log) -> list[str]:
    """One line per key: what, where, how often measured, the best."""
    counts: dict[object, int] = {}
    for record in log:
        counts[record.key] = counts.get(record.key, 0) + 1
    records = _counted(sum(counts.values()), "record")
    lines = [f"{log.path}: {records}, {_counted(log.damaged, 'damaged line')}"]
    for key in dict.fromkeys(record.key for record in log):
        best = log.best(key)
        told = "the construction stays" if best is None else origin_line(best)
        threads = _counted(key.threads, "thread")
        what = key.program.partition(":")[0][:40]
        sizes = ",".join(map(str, key.sizes))[:40]
        plans = _counted(counts[key], "plan")
        lines.append(f"{what} {key.dtype} [{sizes}] {threads}: {plans}; {told}")
    return lines


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"cannot read '{path}': {error.strerror}") from None
