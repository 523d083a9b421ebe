"""`loopwright demo`: four jobs beside what people use today, a refused reordering, what to try."""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from loopwright import options
from loopwright.cli.demo_jobs import Call, Comparison, DemoJob, Sizes, demo_jobs
from loopwright.cli.demo_refusal import REORDERED, refusal_paragraphs
from loopwright.diagnostics import InternalError
from loopwright.machines.machine_argument import target_machine
from loopwright.runtime.array_arguments import Array
from loopwright.runtime.thread_pool import num_threads
from loopwright.tables import table_lines

__all__ = ["add_arguments", "run"]

SIZES = Sizes()
WIDTH = 80
ROUNDS = 7
TURN_SECONDS = 0.02  # of calls in a round, where that is not more than MOST_CALLS
MOST_CALLS = 20
PAUSE = 0.02  # seconds: workers of BLAS spin for a while after a call
ROUNDING = 1e-12  # of the greatest number of a result
ABOUT = "Loopwright: a compiler for loops over arrays that proves every reordering."
TRY = "Your own files; in C, #pragma scop and #pragma endscop enclose the loops:"
COMMANDS = (
    "cc YOUR.c -o YOUR.opt.c",
    "explain YOUR.c --run",
    "convert YOUR.mtx --to csr -o YOUR.npz",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command: none."""


def run(args: argparse.Namespace) -> int:
    """Show the jobs one by one with their times, then the proof and the commands."""
    jobs = demo_jobs(SIZES)
    print(ABOUT)
    _show(_machine())
    # A race would compile other plans beside what is measured.
    with options.override(race=False):
        for number, job in enumerate(jobs, 1):
            _show_job(number, job)
    print(f"\n{len(jobs) + 1}. A reordering that is refused\n")
    _show_text(REORDERED)
    for paragraph in refusal_paragraphs():
        _show(paragraph)
    program = _program()
    print(f"\n{TRY}")
    for command in COMMANDS:
        print(f"  {program} {command}")
    return 0


def _machine() -> str:
    """The machine, the threads in use, and whether others use them too."""
    threads, cores = num_threads(), os.cpu_count() or 1
    team = "one thread" if threads == 1 else f"{threads} threads for Loopwright and BLAS, else one"
    load = os.getloadavg()[0]
    # What has installed the packages counts for less than one core.
    others = (
        f" Other programs run here (load {load:.0f}): times are rough." if load > cores + 1 else ""
    )
    return f"{target_machine().description}; {team}.{others}"


def _show(text: str) -> None:
    """Print a paragraph in lines that fit a terminal, all indented like the first."""
    indent = text[: len(text) - len(text.lstrip())]
    print(textwrap.fill(text, WIDTH, subsequent_indent=indent), flush=True)


def _show_text(text: str) -> None:
    print(textwrap.indent(text.rstrip("\n"), "  "), end="\n\n", flush=True)


def _show_job(number: int, job: DemoJob) -> None:
    print(f"\n{number}. {job.title}\n")
    _show_text(job.text)
    scene = job.prepare()
    for comparison in scene.comparisons:
        _show_comparison(comparison)
    if scene.note:
        _show(scene.note)


def _show_comparison(comparison: Comparison) -> None:
    """Check the results, then print the times and why Loopwright's is longer where it is."""
    start = time.perf_counter()
    result = comparison.ours()
    first = time.perf_counter() - start
    numbers = comparison.arrays(result)
    peers = comparison.peers
    differences = [_difference(numbers, comparison.arrays(peer.run())) for peer in peers]
    ours, *theirs = _best_times([comparison.ours, *(peer.run for peer in peers)])
    rows = [(comparison.title, _milliseconds(ours), "")]
    for peer, seconds, difference in zip(peers, theirs, differences, strict=True):
        if not difference <= ROUNDING:
            what = f"{comparison.title}, beside {peer.name}"
            raise InternalError(f"{what}: the result is wrong by {difference:g}")
        rows.append((peer.name, _milliseconds(seconds), f"{_short(seconds / ours)} times as long"))
    print("\n".join(table_lines(rows)))
    for peer, seconds in zip(peers, theirs, strict=True):
        if seconds < ours:
            _show(f"{peer.name} is faster here: {peer.where_faster}.")
    equal = (
        "All bits of the results are equal"
        if not any(differences)
        else (f"Results differ by rounding ({max(differences):.0e})")
    )
    _show(f"{equal}. The first call, which compiles, took {first:.1f} s.")


def _difference(ours: Sequence[Array], theirs: Sequence[Array]) -> float:
    """The greatest difference of two results, relative to their greatest number (or to 1)."""
    if [x.shape for x in ours] != [x.shape for x in theirs]:
        return math.inf
    return max(
        float(np.abs(x - y).max(initial=0.0)) / max(float(np.abs(y).max(initial=0.0)), 1.0)
        for x, y in zip(ours, theirs, strict=True)
    )


def _best_times(calls: Sequence[Call]) -> list[float]:
    """Seconds of the best call of each contestant; they take turns, a number of calls each."""
    best = [_seconds(call) for call in calls]  # the first compiles or warms up
    counts = [min(MOST_CALLS, math.ceil(TURN_SECONDS / max(s, 1e-9))) for s in best]
    for _ in range(ROUNDS):
        for at, call in enumerate(calls):
            time.sleep(PAUSE)
            best[at] = min(best[at], *(_seconds(call) for _ in range(counts[at])))
    return best


def _seconds(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _milliseconds(seconds: float) -> str:
    return f"{_short(1e3 * seconds)} ms"


def _short(number: float) -> str:
    """A number in three digits or a few more, without an exponent."""
    return (
        f"{number:.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"
    )


def _program() -> str:
    """How the shell calls the command from here."""
    script = Path(sys.executable).with_name("loopwright")
    if shutil.which("loopwright") is not None or not script.is_file():
        return "loopwright"
    here = Path.cwd()
    return str(script.relative_to(here) if script.is_relative_to(here) else script)
