"""`loopwright cc --tune SECONDS`: measured plans of the regions in the place of the model's."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from loopwright.calls.tune_c import region_tasks, tune_regions
from loopwright.cli.progress import StatusLine
from loopwright.diagnostics import UsageError
from loopwright.frontends.c import CFile
from loopwright.planner.planners import Planner, given_planner
from loopwright.targets import TARGETS
from loopwright.tuning.search import Progress, Report, Tuned

__all__ = [
    "progress_reports",
    "read_sizes",
    "require_tune",
    "sentence",
    "tuned_planners",
]

_SIZE = 200
_MOST_SIZE = 1 << 31
_CELLS = 20


def require_tune(args: argparse.Namespace, *, is_planned: bool) -> None:
    """Refuse what cannot be tuned."""
    if args.tune is None:
        if (args.size or args.cold) and not args.measure:
            what = "--size" if args.size else "--cold"
            raise UsageError(f"{what} is for --tune and --measure", hint="--tune 10 --size N=1000")
        return
    if not (math.isfinite(args.tune) and args.tune > 0):
        raise UsageError("--tune takes seconds", found=repr(args.tune), hint="--tune 10")
    if is_planned or args.machine is not None or not TARGETS[args.target].is_c:
        what = "--tune measures C on this machine, in the place of the model's plans"
        hint = "leave out --tile, --plan, --load-schedule and --machine; --target openmp or c"
        raise UsageError(what, hint=hint)


def tuned_planners(
    args: argparse.Namespace, file: CFile, cpp_args: Sequence[str], planners: Sequence[Planner]
) -> list[Planner]:
    """The planners of the regions, measured plans in the place of the model's."""
    sizes, default = read_sizes(args.size)
    tasks = region_tasks(
        file,
        Path(args.file),
        sizes,
        default=default,
        reassoc=args.reassoc,
        threads=None if args.target == "openmp" else 1,
        cpp_args=cpp_args,
        as_loops=True,
    )
    with StatusLine(sys.stderr) as line:
        reports = progress_reports(line, len(tasks))
        found = tune_regions(tasks, args.tune, reports, cold=args.cold)
    chosen = list(planners)
    for place, region in enumerate(file.regions):
        told = "not measured: its function is more than regions"
        if place in found:
            told = sentence(found[place])
            if found[place].plan != found[place].construction:
                chosen[place] = given_planner(found[place].plan)
        print(f"{region.span.file}:{region.span.line}: {told}", file=sys.stderr)
    return chosen


def progress_reports(line: StatusLine, count: int) -> Callable[[int], Report]:
    """What draws the progress of each of `count` searches on a line."""

    def of(number: int) -> Report:
        def show(progress: Progress) -> None:
            share = min(1.0, progress.spent / progress.budget) if progress.budget else 1.0
            bar = f"[{'#' * int(share * _CELLS):<{_CELLS}}] {share:4.0%}"
            best = f"best {progress.gain:.2f} times the construction"
            line.show(f"{number + 1}/{count} {bar} {progress.tried} plans, {best}")

        return show

    return of


def sentence(found: Tuned) -> str:
    """What came of a search, for people."""
    states = dict(found.states)
    ends = ", ".join(f"{count} {state}" for state, count in states.items())
    plans = "1 plan" if found.tried == 1 else f"{found.tried} plans"
    tried = f"{plans} tried{f' ({ends})' if ends else ''}"
    if "lost" in states:
        tried += "; child processes ended before they had run, LOOPWRIGHT_LOG=tune tells why"
    if found.is_interrupted:
        tried += ", interrupted"
    if not found.is_recorded:
        tried += "; the records could not be written"
    if found.plan == found.construction:
        is_measured = "measured" in states
        why = "none was faster beyond the noise" if is_measured else "no plan was measured"
        return f"the construction stays: {why}; {tried}"
    if found.verdict is None:
        return f"the plan of an earlier record stays; {tried}"
    noise = f"noise {min(found.verdict.noise, 9.99):.1%}"
    return f"{found.gain:.2f} times as fast as the construction ({noise}); {tried}"


def read_sizes(words: Sequence[str]) -> tuple[dict[str, int], int]:
    """Sizes by parameter name, and the size of all other parameters."""
    sizes: dict[str, int] = {}
    default = _SIZE
    for word in (part for text in words for part in text.split(",")):
        name, _, value = word.rpartition("=")
        is_number = value.isascii() and value.isdigit() and len(value) < 11
        if not is_number or int(value) > _MOST_SIZE or (name and not name.isidentifier()):
            raise UsageError("--size takes NAME=N or N", found=repr(word[:60]), hint="--size n=500")
        if name:
            sizes[name] = int(value)
        else:
            default = int(value)
    return sizes, default
