"""The command line: path problems, closures, products and einsums of files on several processes."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any, TextIO

import numpy as np

from loopwright.diagnostics import LoopwrightError, UsageError
from loopwright.integrations.mpi.block_cyclic import BlockCyclic, write_npy
from loopwright.integrations.mpi.block_layout import grid_for
from loopwright.integrations.mpi.block_sources import open_source
from loopwright.integrations.mpi.calibrate_ranks import model_report
from loopwright.integrations.mpi.communicator import Communicator
from loopwright.integrations.mpi.dealt_calls import GridOptions, closure, einsum, paths
from loopwright.integrations.mpi.mpi_communicator import MpiCommunicator, world
from loopwright.integrations.mpi.mpi_launcher import add_launch_arguments, launch
from loopwright.integrations.mpi.watchdog import Watchdog, how_to_restart
from loopwright.paths.problems import PROBLEMS
from loopwright.semirings.named import SEMIRINGS, semiring

__all__ = ["StepProgress", "main", "parser"]

_PATIENCE = 10.0  # seconds that ranks wait for each other after an error before all are aborted
_CELLS = 24


def parser() -> argparse.ArgumentParser:
    """The arguments of the command."""
    made = argparse.ArgumentParser(
        prog="python -m loopwright.integrations.mpi", description=__doc__, allow_abbrev=False
    )
    kinds = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, problem in PROBLEMS.items():
        one = kinds.add_parser(name, help=f"paths over {problem.ring} between all pairs")
        _add_graph(one)
    one = kinds.add_parser("closure", help="the closure of a matrix over a semiring")
    _add_graph(one)
    _add_semiring(one, "min_plus")
    one = kinds.add_parser("product", help="the product of two matrices over a semiring")
    _add_operands(one)
    one = kinds.add_parser("einsum", help="an einsum of two arrays over a semiring")
    one.add_argument("subscripts", help="such as bik,bkj->bij")
    _add_operands(one)
    one = kinds.add_parser("model", help="measure 1 and 2 ranks, and predict others")
    _add_semiring(one, "min_plus")
    one.add_argument("--n", type=int, default=2048, help="vertices of the closure that is checked")
    one.add_argument("--block", type=int, default=0, metavar="B", help="side of its blocks")
    one.add_argument("--dtype", default="float32")
    one.add_argument("--nodes", type=int, default=1000, help="nodes to predict up to; 1000")
    one.add_argument("--latency", type=float, default=2.0, help="of the network, in us; 2")
    one.add_argument("--bandwidth", type=float, default=10.0, help="in GB/s; 10")
    add_launch_arguments(kinds.add_parser("launch", help="start mpirun, and again if a rank dies"))
    return made


def _add_graph(one: argparse.ArgumentParser) -> None:
    one.add_argument("--input", required=True, metavar="FILE", help="*.npy, *.mtx or *.mtx.gz")
    one.add_argument("--absent", type=float, help="the value that means no edge")
    _add_run(one)


def _add_operands(one: argparse.ArgumentParser) -> None:
    one.add_argument("--left", required=True, metavar="FILE", help="*.npy, *.mtx or *.mtx.gz")
    one.add_argument("--right", required=True, metavar="FILE")
    _add_semiring(one, "plus_times")
    _add_run(one)


def _add_semiring(one: argparse.ArgumentParser, default: str) -> None:
    names = ", ".join(SEMIRINGS)
    one.add_argument("--semiring", default=default, help=f"{default}; one of {names}")


def _add_run(one: argparse.ArgumentParser) -> None:
    one.add_argument("--output", metavar="FILE.npy", help="where the result is written")
    one.add_argument("--grid", default="", metavar="PxQ", help="the process grid; near a square")
    one.add_argument("--block", type=int, default=0, metavar="B", help="side of the blocks")
    one.add_argument("--threads", type=int, default=0, metavar="N", help="of each rank")
    one.add_argument("--dtype", help="the type to compute in; that of the file")
    one.add_argument("--checkpoint", metavar="FOLDER", help="save each step, go on from the last")
    one.add_argument("--every", type=int, default=1, metavar="N", help="save each N-th step only")
    one.add_argument("--fresh", action="store_true", help="begin anew whatever was saved")
    one.add_argument("--no-lookahead", action="store_true", help="send panels when needed only")
    one.add_argument("--limit", type=float, default=60.0, metavar="S", help="seconds of silence")
    one.add_argument("--quiet", action="store_true", help="show no progress")


def main(words: Sequence[str] | None = None) -> int:
    """Run a command on this rank; 0 where it went well."""
    args = parser().parse_args(words)
    if args.command == "launch":
        return launch(args)
    try:
        ranks = world()
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    folder = getattr(args, "checkpoint", None)
    try:
        with Watchdog(ranks.rank, ranks.size, folder, limit=getattr(args, "limit", 60.0)):
            _run(args, ranks)
    except LoopwrightError as error:
        return _fail(ranks, f"error: {error}", folder, is_told_by_all=True)
    except (OSError, MemoryError) as error:
        return _fail(ranks, f"error: {type(error).__name__}: {error}", folder, is_told_by_all=False)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        ranks.abort(1)
        raise
    return 0


def _fail(ranks: MpiCommunicator, text: str, folder: str | None, *, is_told_by_all: bool) -> int:
    """Tell an error, once where all ranks have it; abort the others where they have not."""
    if ranks.rank == 0 or not is_told_by_all:
        place = "" if ranks.rank == 0 else f"rank {ranks.rank}: "
        saved = "" if folder is None else f"\n{how_to_restart(folder)}"
        print(f"{place}{text}{'' if is_told_by_all else saved}", file=sys.stderr, flush=True)
    if not ranks.meets_within(_PATIENCE):
        if is_told_by_all and ranks.rank:
            print(f"rank {ranks.rank}: {text}", file=sys.stderr, flush=True)
        ranks.abort(1)
    return 1


def _run(args: argparse.Namespace, ranks: MpiCommunicator) -> None:
    if args.command == "model":
        text = model_report(
            ranks,
            semiring(args.semiring),
            np.dtype(args.dtype),
            args.n,
            args.block,
            nodes=args.nodes,
            network=(args.latency * 1e-6, 1e-9 / args.bandwidth),
        )
        if ranks.rank == 0:
            print(text, flush=True)
        return
    threads = args.threads or default_threads(ranks)
    progress = None
    if ranks.rank == 0 and not args.quiet:
        progress = StepProgress(args.command)
    options = GridOptions(
        grid=args.grid,
        block=args.block,
        threads=threads,
        checkpoint=args.checkpoint,
        every=max(args.every, 1),
        fresh=args.fresh,
        lookahead=not args.no_lookahead,
        progress=progress,
    )
    start = time.perf_counter()
    result = _computed(args, ranks, options)
    if args.output is not None:
        write_npy(result, ranks, args.output)
    ranks.barrier()
    if ranks.rank == 0:
        seconds = time.perf_counter() - start
        shape = " x ".join(map(str, result.shape)) or "one number"
        where = "" if args.output is None else f", written to {args.output}"
        grid = grid_for(ranks.size, args.grid)
        print(
            f"{args.command}: {shape} of {result.dtype} in {seconds:.2f} s on a grid of {grid}, "
            f"{threads} thread{'s' if threads > 1 else ''} each{where}",
            flush=True,
        )


def _computed(args: argparse.Namespace, ranks: Communicator, options: GridOptions) -> BlockCyclic:
    dtype: Any = None if args.dtype is None else np.dtype(args.dtype)
    if args.command in ("product", "einsum"):
        ring = semiring(args.semiring)
        text = "ik,kj->ij" if args.command == "product" else args.subscripts
        left, right = (open_source(path, ring, dtype) for path in (args.left, args.right))
        return einsum(text, left, right, ring, ranks, options)
    if args.command == "closure":
        ring = semiring(args.semiring)
        source = open_source(args.input, ring, dtype, args.absent)
        return closure(source, ring, ranks, options)
    ring = semiring(PROBLEMS[args.command].ring)
    return paths(args.command, open_source(args.input, ring, dtype, args.absent), ranks, options)


def default_threads(ranks: MpiCommunicator) -> int:
    """The cores of this machine shared by its ranks, as far as this process may use them."""
    cores = os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    return max(1, min(allowed, cores // ranks.on_this_node().size))


class StepProgress:
    """Shows steps that are done and the time that is left: a bar, or a line for each tenth."""

    def __init__(self, label: str, stream: TextIO | None = None) -> None:
        self._label = label
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._first: tuple[int, float] | None = None
        self._shown = -1

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = done, now
        tenth = done * 10 // max(total, 1)
        if not self._is_terminal and tenth == self._shown and done < total:
            return
        self._shown = tenth
        first, since = self._first
        left = ""
        if first < done < total:
            left = f", {(now - since) / (done - first) * (total - done):.0f} s left"
        text = f"step {done} of {total}{left}"
        if self._is_terminal:
            bar = "#" * (done * _CELLS // max(total, 1))
            end = "\n" if done == total else ""
            self._stream.write(f"\r{self._label} [{bar:<{_CELLS}}] {text}\033[K{end}")
        else:
            self._stream.write(f"{self._label}: {text}\n")
        self._stream.flush()
