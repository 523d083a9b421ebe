"""`loopwright tune --train`: policies trained on this machine, with a bar and a plot meanwhile."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from loopwright.cli.progress import StatusLine
from loopwright.diagnostics import UsageError
from loopwright.ir.machine import Machine
from loopwright.machines import load_machine
from loopwright.machines.host import host
from loopwright.machines.identify import CpuIdentity, nearest_machine
from loopwright.tuning.learned_cost import LearnedCost
from loopwright.tuning.policy import dump_policy, read_policy
from loopwright.tuning.policy_files import user_policy_path
from loopwright.tuning.policy_space import SPACES, space_named
from loopwright.tuning.training import Training, TrainingProgress, TrainingSettings, write_whole
from loopwright.tuning.tree_evaluator import TreeClock

__all__ = ["add_training_arguments", "run_training", "text_plot"]

_CELLS = 20
_PLOTTED = 24
_BLOCKS = "▁▂▃▄▅▆▇█"


def add_training_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of a training."""
    parser.add_argument(
        "--train", action="store_true", help="train the policies on this machine, from the start"
    )
    parser.add_argument("--space", choices=sorted(SPACES), help="of --train: one of them alone")
    parser.add_argument(
        "--out", metavar="FILE", help="of --train: weights; else the user's own, used from then on"
    )
    parser.add_argument("--seed", type=int, default=0, help="of --train")
    parser.add_argument(
        "--machines",
        metavar="NAMES",
        default="",
        help="of --train: machine models to train for beside this machine, with commas between",
    )
    parser.add_argument(
        "--minutes", type=float, default=24.0, help="of --train, for all policies together (24)"
    )
    parser.add_argument(
        "--costs",
        metavar="FILE",
        action="append",
        default=[],
        help="of --train: weights trained elsewhere, whose learned costs count for --machines",
    )
    parser.add_argument("--resume", action="store_true", help="of --train: go on from where it was")


def run_training(args: argparse.Namespace) -> int:
    """Train each policy and write its weights, with a record of how they were made beside them."""
    if not (math.isfinite(args.minutes) and args.minutes > 0):
        raise UsageError("--minutes takes a number above 0", found=repr(args.minutes))
    spaces = [args.space] if args.space else list(SPACES)
    files = {name: _file(args, name) for name in spaces}
    machine = host()
    costs = [cost for file in args.costs for cost in read_policy(file).costs]
    names = [name for name in args.machines.split(",") if name and name != machine.name]
    others = [_processor(load_machine(name), costs) for name in names]
    actors = max(1, (os.cpu_count() or 2) - 1)  # the learner takes the other one
    settings = TrainingSettings(minutes=args.minutes / len(spaces), actors=max(2, actors))
    for name in spaces:
        file = files[name]
        part = file.with_name(f"{file.name}.checkpoint")
        if args.resume and not part.exists() and _is_trained(file, args.seed):
            print(f"{file}: trained already")
            continue
        with (
            StatusLine(sys.stderr) as line,
            ProcessPoolExecutor(actors, mp_context=get_context("spawn")) as pool,
        ):
            training = Training(
                space_named(name),
                machine,
                settings,
                others=others,
                costs=costs,
                seed=args.seed,
                executor=pool,
                # The processor's time of this thread: actors run meanwhile on the other core.
                measure=TreeClock(machine, seconds=0.003, clock=time.thread_time),
                report=partial(_show, line, name),
                checkpoint=part,
            )
            if args.resume and training.resume():
                line.show(f"{name}: goes on after {training.elapsed:.0f} s")
            policy = training.run()
        data = dump_policy(policy)
        write_whole(file, data)
        record = training.record() | {"sha256": hashlib.sha256(data).hexdigest()}
        text = json.dumps(record, indent=1)
        write_whole(file.with_suffix(".json"), text.encode())
        counts = f"{len(training.history)} rounds, {len(training.samples)} trees measured"
        best = f"{training.best_share:.1%} of the peak by the model on trees apart"
        print(f"{file}: {counts}, {best}")
        if training.is_interrupted:
            where = f"--resume goes on from {part}" if part.exists() else "there is no checkpoint"
            print(f"interrupted; {where}")
            return 130
        part.unlink(missing_ok=True)
    return 0


def _processor(machine: Machine, costs: Sequence[LearnedCost]) -> Machine:
    """The machine; where a cost is of another processor that its data describe, that one.

    Its clock is then not known, as where it was measured (`machines/host`).
    """
    named = [cost.machine for cost in costs]
    if machine.llvm_cpu in named:
        return machine
    for name in named:
        identity = CpuIdentity(machine.isa, name, machine.features)
        if nearest_machine(identity) == machine.name:
            return replace(machine, llvm_cpu=name, frequency_hz=None)
    return machine


def _file(args: argparse.Namespace, name: str) -> Path:
    """Where the weights of a space go: of several, each to a file of its own.

    That they can be written there is tried now and not after the training.
    """
    if args.out is None:
        found = user_policy_path(name)
    else:
        out = Path(args.out)
        if not out.parent.is_dir():
            raise UsageError(f"there is no folder '{out.parent}'")
        found = out if args.space else out.with_name(f"{out.stem}-{name}.npz")
    if found.is_dir():
        raise UsageError(f"cannot write '{found}': it is a folder")
    trial = found.with_name(f"{found.name}.{os.getpid()}.trial")
    try:
        found.parent.mkdir(parents=True, exist_ok=True)
        trial.touch()
        trial.unlink()
    except OSError as error:
        raise UsageError(f"cannot write '{found}': {error.strerror}") from None
    return found


def _is_trained(file: Path, seed: int) -> bool:
    """Whether a training of this seed has come to its end: its record says so."""
    try:
        record = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
        data = file.read_bytes()
        return (
            record["seed"] == seed
            and not record["is_interrupted"]
            and record["sha256"] == hashlib.sha256(data).hexdigest()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _show(line: StatusLine, name: str, told: TrainingProgress) -> None:
    line.show(status(name, told))


def status(name: str, told: TrainingProgress) -> str:
    """One line: bar, part, best so far, plot of returns."""
    bar = "#" * int(told.share * _CELLS)
    best = "" if math.isnan(told.best) else f", best {told.best:.1%} of the peak"
    plot = text_plot(told.history)
    where = f"{told.part}, {told.rounds} rounds, {told.measured} measured{best}"
    return f"{name} [{bar:<{_CELLS}}] {told.share:4.0%} {where} {plot}"


def text_plot(values: Sequence[float], cells: int = _PLOTTED) -> str:
    """Values as a row of blocks, means of neighbours where there are more of them than cells."""
    if not values:
        return ""
    size = max(1, math.ceil(len(values) / cells))
    means = [
        sum(values[k : k + size]) / len(values[k : k + size]) for k in range(0, len(values), size)
    ]
    low, high = min(means), max(means)
    spread = (high - low) or 1.0
    blocks = "".join(_BLOCKS[int((x - low) / spread * (len(_BLOCKS) - 1))] for x in means)
    return f"{low:+.2f} {blocks} {high:+.2f}"
