"""The evaluation of tuning, in parts that can be broken off, resumed, and added to.

    python -m benchmarks.tuning.evaluation run FILE.jsonl --set looptune --count 40 --seconds 60
    python -m benchmarks.tuning.evaluation judge FILE.jsonl --peers numpy,torch
    python -m benchmarks.tuning.evaluation report FILE.jsonl --pictures DIRECTORY
    python -m benchmarks.tuning.evaluation merge FILE.jsonl OTHER.jsonl...

`run` lets contestants tune; with `--jobs N`, N processes do, each on a core of its own. `judge`
measures on a quiet machine, in one process, what they came to: all contestants of a shape in turns.
Both pass over what is in the file. A shape that has a new contestant since is judged again with
all of them. With `--count`, shapes are drawn from the set by a seed; `--minutes` begins nothing
that would not be over by then.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from random import Random

from benchmarks.environment import child_environment
from benchmarks.tuning.contestants import (
    PROCESSOR_TIME,
    Contestant,
    budget_of,
    clocks_of,
    contestants,
)
from benchmarks.tuning.judge import PeakRates, judged_row, row_text
from benchmarks.tuning.peers import PEERS, installed_peers
from benchmarks.tuning.pinning import one_processor_a_core, pin_alone, pin_next
from benchmarks.tuning.report import report
from benchmarks.tuning.results import (
    Row,
    append_row,
    attempts_of,
    judged_of,
    label_of,
    merge_files,
    read_rows,
)
from benchmarks.tuning.shapes import SETS, SPLIT, AnyShape, shapes_of, split_hash
from loopwright.machines.host import host
from loopwright.tuning.loop_tree_text import tree_text

__all__ = ["Todo", "drawn_shapes", "judge_part", "main", "missing_attempts", "run_part"]

_SEED = 0
_SPARE = 1.1  # what an attempt may take beside its budget, as a factor
_THREADS = "TUNING_JUDGE_THREADS"  # set in a process that judges
_START = 8.0  # seconds in which a process is ready

# Set, shape, contestant, budget in seconds (0: it has none).
Todo = tuple[str, AnyShape, str, float]


def main(words: list[str] | None = None) -> int:
    """Run a part of the evaluation, or tell what was measured."""
    args = _parser().parse_args(words)
    if args.what == "report":
        print(report(read_rows(args.file), args.pictures))
        return 0
    if args.what == "merge":
        print(f"{merge_files(args.file, args.files)} lines added")
        return 0
    assert split_hash() == SPLIT, "the split is not the one that was committed"
    end = time.monotonic() + 60 * args.minutes
    if args.what == "judge":
        names = args.peers.split(",") if args.peers else []
        unknown = [name for name in names if name not in PEERS]
        if unknown:
            print(f"no such peer: {', '.join(unknown)}; there are {', '.join(PEERS)}")
            return 2
        failed = 0
        for name in args.set:
            threads = shapes_of(name)[0].threads
            if os.environ.get(_THREADS) != str(threads):
                failed += _judge_in_child(args, name, threads, end) != 0
            else:
                pin_alone(threads)
                judge_part(args.file, name, names, end, args.rounds, again=args.again)
        return 1 if failed else 0
    if args.processor_time:
        os.environ[PROCESSOR_TIME] = "1"
    racing = contestants(args.policy)
    names = args.contestants.split(",") if args.contestants else list(racing)
    unknown = [name for name in names if name not in racing]
    if unknown:
        print(f"no such contestant: {', '.join(unknown)}; there are {', '.join(racing)}")
        return 2
    todo = [
        one
        for name in args.set
        for one in missing_attempts(
            args.file, name, drawn_shapes(name, args.count), names, args.seconds
        )
    ]
    if args.jobs > 1 and any(shape.threads > 1 for _, shape, _, _ in todo):
        print("a process on one core cannot tune for several threads: run that set with --jobs 1")
        return 2
    run_part(args.file, todo[: args.most or None], args.policy, args.jobs, end)
    return 0


def drawn_shapes(name: str, count: int) -> list[AnyShape]:
    """Shapes of a set: all, or so many drawn by a seed."""
    shapes = list(shapes_of(name))
    if 0 < count < len(shapes):
        shapes = Random(_SEED).sample(shapes, count)
    return shapes


def missing_attempts(
    file: Path,
    name: str,
    shapes: Sequence[AnyShape],
    names: Sequence[str],
    budgets: Sequence[float],
) -> list[Todo]:
    """What is not in the file, shape by shape: what there is of a broken-off run is whole."""
    known = attempts_of(read_rows(file), name)
    found: dict[tuple[str, str], Todo] = {}
    for shape in shapes:
        for seconds in sorted(budgets, reverse=True):
            for who in names:
                budget = budget_of(who, seconds)
                key = shape.name, label_of(who, budget)
                if key not in known:
                    found[key] = name, shape, who, budget
    return list(found.values())


def run_part(
    file: Path,
    todo: Sequence[Todo],
    policies: Sequence[Path] = (),
    jobs: int = 1,
    end: float = float("inf"),
) -> None:
    """Let contestants tune until all is done or `end` would pass; a line for each."""
    waiting = list(todo)
    total, done = len(waiting), 0
    if not waiting:
        return
    context = get_context("spawn")
    numbers = context.Value("i", 0)
    cores = one_processor_a_core()[:jobs] if jobs > 1 else []
    with ProcessPoolExecutor(
        jobs, context, initializer=pin_next, initargs=(numbers, cores)
    ) as pool:
        running: set[Future[Row]] = set()
        while True:
            while waiting and len(running) < jobs:
                fits = [t for t in waiting if time.monotonic() + _SPARE * t[3] + _START < end]
                if not fits:
                    waiting.clear()
                    break
                waiting.remove(fits[0])
                running.add(pool.submit(attempt_row, *fits[0], tuple(policies)))
            if not running:
                return
            ready, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ready:
                row = future.result()
                append_row(file, row)
                done += 1
                told = f"{done} of {total}  {row['shape']:24s} {row['who']:12s}"
                print(f"{told} {row['spent']:6.2f} s, {row['measurements']} trees", flush=True)


_racing: dict[tuple[Path, ...], dict[str, Contestant]] = {}  # policies are read once a process


def attempt_row(
    name: str, shape: AnyShape, who: str, budget: float, policies: tuple[Path, ...]
) -> Row:
    """One attempt as a line."""
    if policies not in _racing:
        _racing[policies] = contestants(policies)
    attempt = _racing[policies][who](shape, budget)
    return {
        "kind": "attempt",
        "set": name,
        "shape": shape.name,
        "who": who,
        "budget": budget,
        "spent": round(attempt.spent, 6),
        "measurements": attempt.measurements,
        "failures": attempt.failures,
        "ended_by": attempt.ended_by,
        "path": " ".join(attempt.path),
        "tree": tree_text(attempt.tree.at(0)),
        "trace": [[round(at, 4), float(f"{best:.5g}")] for at, best in attempt.trace],
        "depths": [[d, float(f"{best:.5g}"), round(at, 4)] for d, best, at in attempt.depths],
        "clock": clocks_of(shape)[0].__name__,
        "machine": host().name,
        "when": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()),
    }


def judge_part(
    file: Path,
    name: str,
    peer_names: Sequence[str],
    end: float = float("inf"),
    rounds: int = 6,
    *,
    again: bool = False,
) -> None:
    """Judge the shapes of a set that have contestants without a time, or all `again`."""
    rows = read_rows(file)
    attempts, judged = attempts_of(rows, name), judged_of(rows, name)
    by_name = {shape.name: shape for shape in shapes_of(name)}
    peers = installed_peers(list(peer_names))
    rates = PeakRates()
    names = [n for n in dict.fromkeys(shape for shape, _ in attempts) if n in by_name]
    for number, one in enumerate(names, 1):
        own = {label: row["tree"] for (shape, label), row in attempts.items() if shape == one}
        trees = {label: text for label, text in own.items() if text is not None}
        wanted = {*trees, *peers, "construction"}
        tuned = {label for label, text in own.items() if text is None} & set(peers)
        line = judged.get(one, {"times": {}})
        is_whole = wanted <= {*line["times"], *line.get("refused", ())}
        # A library that was refused may have been tuned since.
        if is_whole and tuned <= set(line["times"]) and not again:
            continue
        if time.monotonic() > end:
            return
        shape = by_name[one]
        # Peers of before take part again: times are compared within one line only.
        before = [p for p in line["times"] if p in PEERS]
        racing = {**peers, **installed_peers(before)}
        row = judged_row(name, shape, trees, racing, rates[shape.dtype, shape.threads], rounds)
        append_row(file, row)
        print(f"{number} of {len(names)}  {name} {one}: {row_text(row)}", flush=True)


def _judge_in_child(args: argparse.Namespace, name: str, threads: int, end: float) -> int:
    """Judge a set in a new process, in which every library has the threads of the set.

    Its exit status is given: what fails in one set leaves the others.
    """
    if name not in {row["set"] for row in read_rows(args.file)}:
        return 0
    minutes = (end - time.monotonic()) / 60
    words = ["judge", "--set", name, "--peers", args.peers, "--rounds", str(args.rounds)]
    words += ["--minutes", f"{minutes:.2f}", *(["--again"] if args.again else [])]
    words.append(str(args.file))
    environ = child_environment(threads) | {_THREADS: str(threads)}
    command = [sys.executable, "-m", "benchmarks.tuning.evaluation", *words]
    return subprocess.run(command, env=environ, check=False).returncode


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchmarks.tuning.evaluation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_subparsers(dest="what", required=True)
    run = what.add_parser("run", help="let contestants tune what is missing in FILE")
    run.add_argument("--set", type=_sets, default=("looptune",), help="names of sets")
    run.add_argument("--count", type=int, default=0, help="shapes, drawn by a seed; 0: all")
    run.add_argument("--seconds", type=_budgets, default=(1.0,), help="budgets, as in 1,60")
    run.add_argument("--contestants", default="", help="names with commas between them")
    run.add_argument("--policy", type=Path, action="append", default=[], help="a file of weights")
    run.add_argument("--jobs", type=int, default=1, help="processes, each on a core of its own")
    run.add_argument("--most", type=int, default=0, help="attempts of this run at most; 0: all")
    run.add_argument(
        "--processor-time",
        action="store_true",
        help="budgets and trees by processor time, for a machine that others use",
    )
    judge = what.add_parser("judge", help="measure what contestants came to")
    judge.add_argument("--set", type=_sets, default=tuple(SETS), help="names of sets; else all")
    judge.add_argument("--peers", default="numpy", help="libraries, with commas between them")
    judge.add_argument("--rounds", type=int, default=6)
    judge.add_argument("--again", action="store_true", help="also shapes that were judged before")
    told = what.add_parser("report", help="tables, and pictures")
    told.add_argument("--pictures", type=Path, help="directory for SVG files")
    merge = what.add_parser("merge", help="add the lines of other files")
    for part in (run, judge, told, merge):
        part.add_argument("file", type=Path)
    merge.add_argument("files", type=Path, nargs="+")
    for part in (run, judge):
        part.add_argument("--minutes", type=float, default=float("inf"))
    return parser


def _sets(text: str) -> tuple[str, ...]:
    found = tuple(text.split(","))
    unknown = [name for name in found if name not in SETS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no set {unknown}; there are {', '.join(SETS)}")
    return found


def _budgets(text: str) -> tuple[float, ...]:
    found = tuple(float(word) for word in text.split(","))
    if not all(0 < seconds < float("inf") for seconds in found):
        raise argparse.ArgumentTypeError(f"budgets are positive seconds, got {text!r}")
    return found


if __name__ == "__main__":
    sys.exit(main())
