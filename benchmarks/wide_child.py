"""One program of the wide corpus in a process of its own, which may end as it likes.

Prints one line of JSON: seconds of all contestants, and what is wrong with those that have none.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import loopwright as lw
from benchmarks.corpus_contestants import (
    Contestant,
    blas_product,
    blas_rate,
    compile_ours,
    compile_text,
    installed_peers,
)
from benchmarks.corpus_kernels import WIDE, Inputs, Kernel, fresh, wide_inputs, write_source
from benchmarks.corpus_race import Effort, race_in_place
from benchmarks.environment import processors
from benchmarks.measure import seconds_by_name
from loopwright import options

__all__ = ["CODE", "PEERS", "SAME_FLAGS", "TEXT", "main", "measured", "on_two"]

TEXT, CODE = "cc", "jit"
PEERS = ("gcc", "clang")
SAME_FLAGS = "gcc, our flags"  # our texts are built without errno and traps of mathematics
QUIET_MATHEMATICS = ("-fno-math-errno", "-fno-trapping-math")
EFFORT, QUICK_EFFORT = Effort(rounds=7, seconds=4.0, least=1), Effort(rounds=2, seconds=1.0)


def on_two(name: str) -> str:
    """One of ours on two threads."""
    return f"{name}, 2 threads"


def main() -> None:
    """Measure the program named and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wide_child")
    parser.add_argument("name", choices=list(WIDE))
    parser.add_argument("--size", default="LARGE")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--reassoc", action="store_true")
    parser.add_argument("--blas", action="store_true", help="NumPy's product beside it")
    args = parser.parse_args()
    effort = QUICK_EFFORT if args.quick else EFFORT
    program = WIDE[args.name]
    inputs = wide_inputs(program, args.size, args.seed)
    with tempfile.TemporaryDirectory() as folder:
        source = write_source(program, Path(folder), extents=program.at(args.size))
        found = measured(program, source, inputs, effort, reassoc=args.reassoc, blas=args.blas)
    print(json.dumps(found))


def measured(
    program: Kernel, source: Path, inputs: Inputs, effort: Effort, *, reassoc: bool, blas: bool
) -> dict[str, Any]:
    """Seconds by contestant, seconds to compile, and remarks, as plain data.

    With `reassoc` everybody may regroup sums: peers have -ffast-math, and bits may differ.
    """
    extra = ("-ffast-math",) if reassoc else ()
    peers = [peer.with_flags(*extra) for peer in installed_peers() if peer.name in PEERS]
    peers += [
        replace(peer.with_flags(*QUIET_MATHEMATICS), name=SAME_FLAGS)
        for peer in peers
        if peer.name == PEERS[0]
    ]
    contestants = [peer.compile(source, program) for peer in peers]
    remarks: list[str] = []
    compile_seconds: dict[str, float] = {}

    def enter(
        name: str, make: Callable[[], tuple[Callable[..., Any], Callable[[int], Any]]]
    ) -> None:
        start = time.perf_counter()
        try:
            call, set_threads = make()
            # Each number of threads has code of its own, which is not compiled inside the clock.
            set_threads(1)
            call(*fresh(inputs).values())
        except Exception as error:  # noqa: BLE001, whatever it is, it is a row of the table
            told = str(error).strip().splitlines() or [""]
            remarks.append(f"{name}: {type(error).__name__}: {told[0]}")
            return
        compile_seconds[name] = time.perf_counter() - start
        contestants.append(Contestant(name, call, 1, set_threads))
        if processors() > 1:
            set_threads(2)
            call(*fresh(inputs).values())
            contestants.append(Contestant(on_two(name), call, 2, set_threads))

    with options.override(cache=False):
        enter(TEXT, lambda: compile_text(source, program, reassoc=reassoc))
        enter(CODE, lambda: (compile_ours(source, reassoc=reassoc), lw.set_num_threads))
    if blas:
        contestants.append(blas_product(inputs))
    checked = replace(program, bits="close") if reassoc else program
    times, wrong = race_in_place(checked, contestants, inputs, effort)
    best = {name: found.best for name, found in times.items()}
    return {
        "best": best,
        "seconds": seconds_by_name(times),
        # From the file to the end of the first call, less a call; of a text also its compiler's.
        "compile_seconds": {
            name: max(0.0, seconds - best[name])
            for name, seconds in compile_seconds.items()
            if name in best
        },
        "blas_gflops": blas_rate(best),
        "remarks": remarks + wrong,
    }


if __name__ == "__main__":
    main()
