"""`loopwright cc --measure`: each region as planned against its text, the faster kept."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from loopwright.calls.race_c import race_regions
from loopwright.cli.cc_tune import read_sizes
from loopwright.cli.progress import StatusLine
from loopwright.diagnostics import UsageError
from loopwright.frontends.c import CFile
from loopwright.ir.machine import Machine
from loopwright.planner.planners import Planner
from loopwright.targets import TARGETS
from loopwright.tuning.candidate_worker import Limits

__all__ = ["keeps_library", "measured_planners", "require_measure"]


def keeps_library(args: argparse.Namespace) -> bool:
    """Whether functions of real numbers are calls of the library in C text."""
    return bool(args.functions == "library")


def require_measure(args: argparse.Namespace, *, is_planned: bool) -> None:
    """Refuse what cannot be measured."""
    if not args.measure:
        return
    if args.tune is not None:
        hint = "--tune measures many plans, --measure few against the text"
        raise UsageError("--tune and --measure exclude each other", hint=hint)
    if is_planned or args.machine is not None or not TARGETS[args.target].is_c:
        what = "--measure runs C on this machine, by the model's plans"
        hint = "leave out --tile, --plan, --load-schedule and --machine; --target openmp or c"
        raise UsageError(what, hint=hint)


def measured_planners(
    args: argparse.Namespace,
    file: CFile,
    machine: Machine,
    cpp_args: Sequence[str],
    planners: Sequence[Planner],
) -> list[Planner]:
    """The planners of the regions, by what was fastest here."""
    sizes, default = read_sizes(args.size)
    with StatusLine(sys.stderr) as line:
        found = race_regions(
            file,
            Path(args.file),
            planners,
            machine,
            sizes,
            default=default,
            target=args.target,
            reassoc=args.reassoc,
            cpp_args=cpp_args,
            library=keeps_library(args),
            assume_disjoint=args.assume_disjoint,
            limits=Limits(is_cold=args.cold),
            report=lambda k: line.show(f"{k + 1}/{len(planners)} plans against the text"),
        )
    for race in found:
        span = race.region.span
        print(f"{span.file}:{span.line}: {race.told}", file=sys.stderr)
    return [race.planner for race in found]
