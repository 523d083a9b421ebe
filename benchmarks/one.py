"""Run one benchmark in this process, whose thread variables are already set by its parent."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.environment import load_average, machine_record
from benchmarks.measure import Outcome, Setting

__all__ = ["main"]


def main() -> int:
    """Print the tables and bars of one benchmark and write its record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.one")
    parser.add_argument("name")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--record", type=Path, required=True)
    args = parser.parse_args()
    module = importlib.import_module(f"benchmarks.{args.name}")
    before, start = load_average(), time.perf_counter()
    facts = machine_record()
    print(_head(args.name, args.threads, facts, before), flush=True)
    print((module.__doc__ or "").partition("\n")[0], flush=True)
    outcome: Outcome = module.run(Setting(args.quick, args.threads, args.seed))
    seconds = time.perf_counter() - start
    print("\n".join(map(str, outcome.bars)))
    print(f"took {seconds:.0f} s, load average at the end {load_average()}", flush=True)
    record = {
        "name": args.name,
        "threads": args.threads,
        "quick": args.quick,
        "seed": args.seed,
        "machine": facts,
        "load_before": before,
        "load_after": load_average(),
        "seconds": seconds,
        "bars": [bar.record() for bar in outcome.bars],
        "rows": list(outcome.rows),
    }
    args.record.write_text(json.dumps(record, indent=1), encoding="utf-8")
    return 0


def _head(name: str, threads: int, facts: dict[str, Any], load: float | None) -> str:
    count = f"{threads} thread{'s' if threads > 1 else ''}"
    return f"== {name}, {count} on {facts['machine']} ({facts['blas']}), load average {load}"


if __name__ == "__main__":
    sys.exit(main())
