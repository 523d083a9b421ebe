"""`python -m benchmarks [name ...] [--json FILE] [--quick]`: every benchmark in its own process.

Thread counts are read by numerical libraries when they are loaded, so this process loads none and
starts a child for each benchmark and number of threads, one after another.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.environment import child_environment, processors

ROOT = Path(__file__).parent.parent
SEED = 20_240

# Name, thread counts, one line of help.
BENCHMARKS: tuple[tuple[str, tuple[int, ...], str], ...] = (
    ("gemm", (1, 2), "matrix products against NumPy, torch and numba"),
    ("inner_loops", (1,), "instructions of the innermost loops of products, machine by machine"),
    ("jit_matmul", (1,), "the naive triple loop in six orders against lw.einsum"),
    ("tccg", (1,), "the 48 contractions of TCCG against equal matrix products"),
    ("random_contractions", (1,), "twenty random contractions of odd sizes"),
    ("semirings", (1,), "operator pairs against their own bound"),
    ("seed_tables", (1, 2), "the dissertation's tables of operator pairs, and its figure 4.15"),
    ("paths", (1, 2), "closures of dense matrices against their bounds and scipy"),
    ("networkx_backend", (2,), "functions of networkx by the backend and by networkx itself"),
    ("gemv", (1,), "matrix-vector products against NumPy and the read bandwidth"),
    ("conversions", (1, 2), "sparse formats against scipy, byte limits and comparison sorts"),
    ("twins", (1,), "formats declared by a user beside the table's with the same descriptor"),
    ("spmv", (1, 2), "sparse matrices times vectors against scipy"),
    ("polyhedral", (1,), "loops in C against gcc, clang and Polly"),
    ("polybench_text", (1,), "the same through `loopwright cc` and gcc, strict and regrouped"),
    ("wide", (1,), "programs of many families against gcc and clang: C text and machine code"),
    ("drawn", (1,), "loops drawn at random against gcc and clang: C text and machine code"),
    ("inner_products", (1,), "products inside programs against equal products of NumPy"),
    ("random_programs", (1,), "random affine programs under random plans: differences"),
    ("validation", (2,), "every kernel of the corpus in every mode: differences"),
    ("long_lived", (2,), "20,000 different calls in one process: results and memory"),
    ("compile_time", (1,), "from source to machine code, and its growth with statements"),
    ("growth", (1,), "`loopwright cc` on files of ten times the size: statements, arrays, depth"),
    ("npbench", (1,), "NPBench's functions from a checkout (--dir) beside NumPy and numba"),
    ("numpy_programs", (1,), "NumPy functions of other fields beside NumPy and numba"),
    ("ordinary_programs", (1,), "ten functions as people bring them to numba, beside numba"),
    ("tuning.quick_code", (1,), "code of loop trees: time to compile, and speed beside -O3"),
    ("tuning.cost_model", (1,), "cost models of trees and plans beside measured times"),
    (
        "tuning.construction",
        (1,),
        "plans of the model on LoopTune's 440 products: share of the peak",
    ),
    ("tuning.plan_ranking", (1,), "the price of every schedule beside the measured time of plans"),
    ("tuning.gains", (1,), "tuned plans against the construction, each measured again"),
    ("sunway", (1,), "code for SW26010 by the model of a core group: kernels against their bounds"),
    ("latency", (1,), "first calls, new processes, repeated calls, import"),
    ("call_overhead", (1,), "repeated calls on tiny arrays against NumPy's"),
    ("spelling", (1,), "names of indices, order and storage of operands"),
    ("threads", (2,), "the cost of opening a parallel region"),
    ("busy", (2,), "matrix products of a team while others use the processors, and with BLAS"),
)
# Those that show what users meet whose BLAS spins after its calls.
SPINNING = ("busy",)


def main() -> int:
    """Run the benchmarks asked for; status 1 when one of them could not finish."""
    args = _arguments()
    records, failed = [], []
    for name, counts, _ in BENCHMARKS:
        if args.names and name not in args.names:
            continue
        for threads in (args.threads,) if args.threads else counts:
            if threads > processors() and not args.threads:
                print(f"== {name}, {threads} threads: this process may use {processors()} only\n")
                continue
            record = _run(name, threads, args)
            records.append(record) if record is not None else failed.append(name)
            print(flush=True)
    print(_summary(records))
    for name in failed:
        print(f"{name}: did not finish, see above")
    if args.json is not None:
        args.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        epilog="\n".join(["benchmarks:", *(f"  {n:<20} {line}" for n, _, line in BENCHMARKS)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = [name for name, _, _ in BENCHMARKS]
    parser.add_argument("names", nargs="*", metavar="name", help="all of them when none is given")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw numbers")
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds")
    parser.add_argument("--seed", type=int, default=SEED, help="of everything drawn at random")
    parser.add_argument("--count", type=int, default=0, help="of random programs, or of calls")
    parser.add_argument(
        "--threads", type=int, default=0, metavar="T", help="in place of 1 and 2; may exceed cores"
    )
    corpus = parser.add_argument_group("benchmarks of the corpus of C kernels")
    corpus.add_argument(
        "--kernels", "--only", default="", metavar="A,B", help="these kernels or programs only"
    )
    corpus.add_argument("--size", default="", choices=("SMALL", "LARGE", "XL"), help="these sizes")
    wide = parser.add_argument_group("the wide corpus")
    wide.add_argument("--families", default="", metavar="A,B", help="these families only")
    wide.add_argument("--aside", action="store_true", help="the programs set aside, no others")
    wide.add_argument("--reassoc", action="store_true", help="sums may be regrouped by everybody")
    wide.add_argument(
        "--net", action="store_true", help="also by `cc --measure` and after the race of calls"
    )
    wide.add_argument(
        "--rows", default="", metavar="FILE", help="add rows as they come; do not repeat its rows"
    )
    functions = parser.add_argument_group("whole NumPy functions")
    functions.add_argument("--dir", default="", metavar="CHECKOUT", help="of NPBench")
    functions.add_argument("--preset", default="", metavar="S,M", help="these sizes")
    functions.add_argument("--check", action="store_true", help="right or not, without times")
    functions.add_argument("--jobs", type=int, default=1, help="programs prepared side by side")
    functions.add_argument(
        "--minutes", type=float, default=0, help="after which no further program begins"
    )
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in known]
    if unknown:
        parser.error(f"no benchmark is named {', '.join(unknown)}; known: {', '.join(known)}")
    return args


def _run(name: str, threads: int, args: argparse.Namespace) -> dict[str, Any] | None:
    """The record of one benchmark; None when its process failed."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "record.json"
        command = [sys.executable, "-m", "benchmarks.one", name, "--record", str(place)]
        command += ["--threads", str(threads), "--seed", str(args.seed)]
        command += ["--kernels", args.kernels, "--size", args.size, "--count", str(args.count)]
        command += ["--families", args.families]
        command += ["--rows", str(Path(args.rows).absolute())] if args.rows else []
        command += ["--dir", str(Path(args.dir).absolute())] if args.dir else []
        command += ["--preset", args.preset]
        command += ["--jobs", str(args.jobs), "--minutes", str(args.minutes)]
        flags = ("quick", "aside", "reassoc", "net", "check")
        command += [f"--{flag}" for flag in flags if getattr(args, flag)]
        environment = child_environment(threads, spinning=name in SPINNING)
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        if done.returncode != 0 or not place.exists():
            return None
        record: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
        return record


def _summary(records: list[dict[str, Any]]) -> str:
    """Every bar that does not hold, and how many do."""
    bars = [(record, bar) for record in records for bar in record["bars"]]
    holding = sum(bar["holds"] for _, bar in bars)
    lines = [f"bars: {holding} of {len(bars)} hold"]
    noisy = [f"{r['name']} ({r['threads']})" for r in records if r["disturbed"]]
    if noisy:
        lines.append(f"  disturbed by other processes, deciding nothing: {', '.join(noisy)}")
    for record, bar in bars:
        if not bar["holds"]:
            where = f"{record['name']}, {record['threads']} thread(s)"
            lines.append(f"  {where}: {bar['what']}: {bar['verdict']}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
