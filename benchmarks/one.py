"""Run one benchmark in this process, whose thread variables are already set by its parent."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.environment import (
    DISTURBING,
    activity,
    load_average,
    machine_record,
    others_between,
)
from benchmarks.measure import Outcome, Setting

__all__ = ["main"]


def main() -> int:
    """Print the tables and bars of one benchmark and write its record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.one")
    parser.add_argument("name")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--kernels", default="")
    parser.add_argument("--size", default="")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--families", default="")
    parser.add_argument("--aside", action="store_true")
    parser.add_argument("--reassoc", action="store_true")
    parser.add_argument("--net", action="store_true")
    parser.add_argument("--rows", default="")
    parser.add_argument("--dir", default="")
    parser.add_argument("--preset", default="")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--record", type=Path, required=True)
    args = parser.parse_args()
    module = importlib.import_module(f"benchmarks.{args.name}")
    before, start = load_average(), activity()
    facts = machine_record()
    print(_head(args.name, args.threads, facts, before), flush=True)
    print((module.__doc__ or "").partition("\n")[0], flush=True)
    outcome: Outcome = module.run(_setting(args))
    end = activity()
    others = others_between(start, end)
    disturbed = others is not None and others > DISTURBING
    print("\n".join(map(str, outcome.bars)))
    print(_tail(end.wall - start.wall, others), flush=True)
    if disturbed:
        print("disturbed: other processes computed meanwhile, these numbers decide nothing")
    record = {
        "name": args.name,
        "threads": args.threads,
        "quick": args.quick,
        "seed": args.seed,
        "machine": facts,
        "load_before": before,
        "load_after": load_average(),
        "seconds": end.wall - start.wall,
        "processors_used_by_others": others,
        "disturbed": disturbed,
        "bars": [bar.record() for bar in outcome.bars],
        "rows": list(outcome.rows),
    }
    args.record.write_text(json.dumps(record, indent=1), encoding="utf-8")
    return 0


def _setting(args: argparse.Namespace) -> Setting:
    """The arguments as benchmarks read them."""
    kernels, families, presets = (
        tuple(name for name in given.split(",") if name)
        for given in (args.kernels, args.families, args.preset)
    )
    return Setting(
        quick=args.quick,
        threads=args.threads,
        seed=args.seed,
        kernels=kernels,
        size=args.size,
        count=args.count,
        families=families,
        aside=args.aside,
        reassoc=args.reassoc,
        net=args.net,
        rows=args.rows,
        folder=args.dir,
        presets=presets,
        check=args.check,
        jobs=args.jobs,
        minutes=args.minutes,
    )


def _head(name: str, threads: int, facts: dict[str, Any], load: float | None) -> str:
    count = f"{threads} thread{'s' if threads > 1 else ''}"
    return f"== {name}, {count} on {facts['machine']} ({facts['blas']}), load average {load}"


def _tail(seconds: float, others: float | None) -> str:
    used = "unknown" if others is None else f"{others:.2f}"
    load = load_average()
    return f"took {seconds:.0f} s, load average {load}, processors used by others: {used}"


if __name__ == "__main__":
    sys.exit(main())
