"""The evaluation of tuning, in parts that can be broken off and resumed.

    python -m benchmarks.tuning.evaluation run FILE.jsonl --set looptune --count 40 --seconds 1
    python -m benchmarks.tuning.evaluation report FILE.jsonl --pictures DIRECTORY

Every attempt of a contestant on a shape is a line of JSON. `run` passes over lines that are there;
a damaged last line is what breaking off leaves, and is measured again. With `--count`, shapes are
drawn from the set by a seed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.tuning.construction import peak_rate
from benchmarks.tuning.contestants import Contestant, contestants, final_seconds
from benchmarks.tuning.report import report
from benchmarks.tuning.shapes import SETS, SPLIT, Shape, shapes_of, split_hash

__all__ = ["drawn_shapes", "main", "read_rows", "run_part"]

_SEED = 0


def main(words: list[str] | None = None) -> int:
    """Run a part of the evaluation, or tell what was measured."""
    args = _parser().parse_args(words)
    if args.what == "report":
        print(report(read_rows(args.file), args.pictures))
        return 0
    chosen = contestants(args.policy)
    names = args.contestants.split(",") if args.contestants else list(chosen)
    unknown = [name for name in names if name not in chosen]
    if unknown:
        print(f"no such contestant: {', '.join(unknown)}; there are {', '.join(chosen)}")
        return 2
    shapes = drawn_shapes(args.set, args.count)
    racing = {name: chosen[name] for name in names}
    run_part(args.file, args.set, shapes, racing, args.seconds)
    return 0


def run_part(
    file: Path, name: str, shapes: list[Shape], racing: dict[str, Contestant], seconds: float
) -> None:
    """Measure what is missing in a file, shape by shape, contestants in turn."""
    assert split_hash() == SPLIT, "the split is not the one that was committed"
    known = {_key(row) for row in read_rows(file)} if file.exists() else set()
    wanted = [(shape, who) for shape in shapes for who in racing]
    todo = [
        (s, who) for s, who in wanted if (name, s.name, who, _budget(who, seconds)) not in known
    ]
    peaks: dict[str, float] = {}
    with file.open("a", encoding="utf-8") as out:
        for number, (shape, who) in enumerate(todo, 1):
            if shape.dtype not in peaks:
                peaks[shape.dtype] = peak_rate(shape.dtype)
            row = _measured(name, shape, who, racing[who], seconds)
            row["peak"] = peaks[shape.dtype]
            out.write(json.dumps(row) + "\n")
            out.flush()
            share = shape.operations / row["seconds"] / peaks[shape.dtype]
            told = f"{number} of {len(todo)}  {shape.name:24s} {who:12s} {share:6.3f} of peak"
            print(f"{told}, tuned for {row['spent']:.2f} s", flush=True)


def _measured(
    name: str, shape: Shape, who: str, contestant: Contestant, seconds: float
) -> dict[str, Any]:
    attempt = contestant(shape, seconds)
    taken = attempt.seconds
    if attempt.tree is not None:
        taken = final_seconds(attempt.tree, shape)
    return {
        "set": name,
        "shape": shape.name,
        "operations": shape.operations,
        "who": who,
        "budget": _budget(who, seconds),
        "seconds": taken,
        "spent": attempt.spent,
        "measurements": attempt.measurements,
        "failures": attempt.failures,
        "path": list(attempt.path),
        "trace": [list(point) for point in attempt.trace],
        "load": os.getloadavg()[0],
        "when": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()),
    }


def _budget(who: str, seconds: float) -> float:
    """Contestants that do not search have no budget: one attempt serves all."""
    return 0.0 if who in ("naive", "construction", "numpy", "policy") else seconds


def _key(row: dict[str, Any]) -> tuple[str, str, str, float]:
    return row["set"], row["shape"], row["who"], row["budget"]


def read_rows(file: Path) -> list[dict[str, Any]]:
    """The lines of a file; those that are no row are left out."""
    return list(_rows(file.read_text(encoding="utf-8")))


def _rows(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            print("a damaged line is passed over", file=sys.stderr)
            continue
        if isinstance(row, dict) and {"set", "shape", "who", "budget", "seconds"} <= set(row):
            yield row


def drawn_shapes(name: str, count: int) -> list[Shape]:
    """Shapes of a set: all, or so many drawn by a seed."""
    shapes = list(shapes_of(name))
    if 0 < count < len(shapes):
        shapes = Random(_SEED).sample(shapes, count)
    return shapes


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.tuning.evaluation", description=__doc__)
    what = parser.add_subparsers(dest="what", required=True)
    run = what.add_parser("run", help="measure what is missing in FILE")
    run.add_argument("--set", choices=list(SETS), default="looptune")
    run.add_argument("--count", type=int, default=0, help="shapes, drawn by a seed; 0: all")
    run.add_argument("--seconds", type=float, default=1.0, help="the budget of a search")
    run.add_argument("--contestants", default="", help="names with commas between them")
    run.add_argument("--policy", type=Path, help="weights of a policy, which takes part then")
    told = what.add_parser("report", help="tables, and pictures")
    told.add_argument("--pictures", type=Path, help="directory for SVG files")
    for part in (run, told):
        part.add_argument("file", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())
