"""One program of the corpora in a process of its own, which may end as it likes.

Prints one line of JSON: seconds of all contestants, and what is wrong with those that have none.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
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
    compile_written,
    installed_peers,
)
from benchmarks.corpus_kernels import (
    CONSTANT,
    KERNELS,
    WIDE,
    Inputs,
    Kernel,
    fresh,
    make_inputs,
    wide_inputs,
    write_source,
)
from benchmarks.corpus_race import Effort, race_in_place
from benchmarks.drawn_loops import drawn_program, seed_of
from benchmarks.environment import processors
from benchmarks.measure import seconds_by_name
from loopwright import options

__all__ = ["CODE", "PEERS", "POLLY", "SAME_FLAGS", "TEXT", "by_net", "main", "measured", "on_two"]

Made = tuple[Callable[..., Any], Callable[[int], Any]]  # a function, and what sets its threads
Maker = Callable[[], Made]
TEXT, CODE = "cc", "jit"
PEERS, POLLY = ("gcc", "clang"), "polly"
SAME_FLAGS = "gcc, our flags"  # our texts are built without errno and traps of mathematics
QUIET_MATHEMATICS = ("-fno-math-errno", "-fno-trapping-math")
RACED_CALLS, RACED_SECONDS = 80, 8.0  # before a race of calls counts as decided
EFFORT, QUICK_EFFORT = Effort(rounds=7, seconds=4.0, least=1), Effort(rounds=2, seconds=1.0)


def by_net(name: str) -> str:
    """One of ours after it was measured."""
    return f"{name}, measured"


def on_two(name: str) -> str:
    """One of ours on two threads."""
    return f"{name}, 2 threads"


def main() -> None:
    """Measure the program named and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wide_child")
    parser.add_argument("name", type=_known_name)
    parser.add_argument("--size", default="LARGE")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--reassoc", action="store_true")
    parser.add_argument("--net", action="store_true", help="cc --measure and raced calls as well")
    parser.add_argument("--polly", action="store_true", help="among the peers")
    parser.add_argument("--blas", action="store_true", help="NumPy's product beside it")
    args = parser.parse_args()
    effort = QUICK_EFFORT if args.quick else EFFORT
    with tempfile.TemporaryDirectory() as folder:
        program, source, inputs = _entry(args.name, args.size, args.seed, Path(folder))
        peers = (*PEERS, POLLY) if args.polly else PEERS
        rules = {"reassoc": args.reassoc, "blas": args.blas, "net": args.net}
        found = measured(program, source, inputs, effort, peers, **rules)
    print(json.dumps(found))


def _known_name(name: str) -> str:
    """A name of the corpora, or that of a drawn program."""
    if name in WIDE or name in KERNELS or seed_of(name) is not None:
        return name
    raise argparse.ArgumentTypeError(f"no program is named {name}")


def _folder_in(folder: Path) -> Path:
    """A folder for the drawn text: a build writes its own beside its header."""
    (made := folder / "drawn").mkdir(exist_ok=True)
    return made


def _entry(name: str, size: str, seed: int, folder: Path) -> tuple[Kernel, Path, Inputs]:
    """A program, its file and the arguments of a call; PolyBench's have `restrict`."""
    drawn = seed_of(name)
    if name in WIDE or drawn is not None:
        program = WIDE[name] if drawn is None else drawn_program(drawn, _folder_in(folder))
        mode = CONSTANT
        inputs = wide_inputs(program, size, seed)
    else:
        program, mode = KERNELS[name], CONSTANT.with_restrict()
        inputs = make_inputs(program, program.at(size), seed=seed)
    return program, write_source(program, folder, mode=mode, extents=program.at(size)), inputs


def measured(
    program: Kernel,
    source: Path,
    inputs: Inputs,
    effort: Effort,
    asked: tuple[str, ...],
    *,
    reassoc: bool,
    blas: bool,
    net: bool = False,
) -> dict[str, Any]:
    """Seconds by contestant, the peers that are `asked` for and ours; seconds to compile; remarks.

    With `reassoc` everybody may regroup sums: peers have -ffast-math, and bits may differ.
    """
    extra = ("-ffast-math",) if reassoc else ()
    peers = [peer.with_flags(*extra) for peer in installed_peers() if peer.name in asked]
    peers += [
        replace(peer.with_flags(*QUIET_MATHEMATICS), name=SAME_FLAGS)
        for peer in peers
        if peer.name == PEERS[0]
    ]
    contestants = [peer.compile(source, program) for peer in peers]
    remarks: list[str] = []
    compile_seconds: dict[str, float] = {}

    def enter(name: str, make: Maker, teams: tuple[int, ...]) -> None:
        start = time.perf_counter()
        try:
            call, set_threads = make()
            # Each number of threads has code of its own, which is not compiled inside the clock.
            set_threads(teams[0])
            call(*fresh(inputs).values())
        except Exception as error:  # noqa: BLE001, whatever it is, it is a row of the table
            told = str(error).strip().splitlines() or [""]
            remarks.append(f"{name}: {type(error).__name__}: {told[0]}")
            return
        compile_seconds.setdefault(name, time.perf_counter() - start)
        for count in (count for count in teams if count <= processors()):
            set_threads(count)
            call(*fresh(inputs).values())
            entered = name if count == 1 else on_two(name)
            contestants.append(Contestant(entered, call, count, set_threads))

    def text(target: str) -> Made:
        return compile_text(source, program, target=target, reassoc=reassoc)

    with options.override(cache=False):
        # One thread needs no OpenMP, and its plan is one for one thread.
        enter(TEXT, lambda: text("c"), (1,))
        enter(TEXT, lambda: text("openmp"), (2,))
        enter(CODE, lambda: (compile_ours(source, reassoc=reassoc), lw.set_num_threads), (1, 2))
        if net:
            contestants += _by_net(source, program, inputs, remarks, reassoc=reassoc)
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


def _by_net(
    source: Path, program: Kernel, inputs: Inputs, remarks: list[str], *, reassoc: bool
) -> list[Contestant]:
    """What is left when plans were measured: the text of `cc --measure`, and raced machine code.

    The first is measured on numbers that the command makes up, the second on the inputs.
    """
    found = []
    place = source.with_suffix(".measured.c")
    command = [sys.executable, "-m", "loopwright", "cc", str(source), "--measure", "--target", "c"]
    command += ["-o", str(place)]
    for name, value in inputs.items():
        command += ["--size", f"{name}={value}"] if isinstance(value, int) else []
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *(["--reassoc"] * reassoc)], capture_output=True, text=True, check=False,
        env=environment,
    )  # fmt: skip
    if done.returncode == 0:
        call, set_threads = compile_written(place, program)
        found.append(Contestant(by_net(TEXT), call, 1, set_threads))
    else:
        remarks.append(f"{by_net(TEXT)}: {done.stderr.strip().splitlines()[:1]}")
    lw.set_num_threads(1)
    code = compile_ours(source, reassoc=reassoc)
    arguments = fresh(inputs)
    start, calls = time.perf_counter(), 0
    with options.override(race=True, records=False):
        while calls < RACED_CALLS and time.perf_counter() - start < RACED_SECONDS:
            code(*arguments.values())
            calls += 1
    found.append(Contestant(by_net(CODE), code))
    return found


if __name__ == "__main__":
    main()
