"""Check runs on several processes on this machine: results, a rank that is killed, memory, model.

    python scripts/mpi_check.py equal --ranks 1,4,6,9,16    results on all grids, every semiring and
                                                            element type
    python scripts/mpi_check.py kill                        a killed rank, and the run that goes on
    python scripts/mpi_check.py memory --n 8192             peak memory of 4 ranks over their share
    python scripts/mpi_check.py model --n 4096 --ranks 4    the model against measured times

`--mpirun "mpirun --oversubscribe"` names the command that starts ranks.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

MODULE = ["-m", "loopwright.integrations.mpi"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    ranks = {"equal-rank": equal_of_rank, "memory-rank": memory_of_rank}
    checks = {"equal": equal, "kill": kill, "memory": memory, "model": model}
    parser.add_argument("check", choices=[*checks, *ranks])
    parser.add_argument("--ranks", default="4")
    parser.add_argument("--n", type=int, default=0)
    parser.add_argument("--block", type=int, default=0)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--dtypes", default="", help="of equal: some of them; all")
    parser.add_argument("--mpirun", default="mpirun")
    args = parser.parse_args()
    if args.check in ranks:
        return ranks[args.check](args)
    with tempfile.TemporaryDirectory() as folder:
        return checks[args.check](args, Path(folder))


def started(args: argparse.Namespace, ranks: int, words: list[str]) -> list[str]:
    return [*args.mpirun.split(), "-n", str(ranks), sys.executable, *words]


def run(args: argparse.Namespace, ranks: int, words: list[str]) -> str:
    done = subprocess.run(started(args, ranks, words), capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, done.stderr[-3000:])
        raise SystemExit(f"{ranks} ranks: {words} failed")
    return done.stdout.strip()


def graph(n: int, dtype: str, seed: int = 1) -> np.ndarray:
    random = np.random.default_rng(seed)
    weights = random.random((n, n)) * 100 + 1
    made = weights.astype(dtype)
    absent = np.inf if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max
    made[random.random((n, n)) < 0.8] = absent
    return made


def equal(args: argparse.Namespace, folder: Path) -> int:
    """Closures and products on all grids against one machine."""
    for ranks in map(int, args.ranks.split(",")):
        words = [__file__, "equal-rank", "--n", str(args.n or 200), "--block", str(args.block)]
        print(run(args, ranks, [*words, "--dtypes", args.dtypes]), flush=True)
    return 0


def equal_of_rank(args: argparse.Namespace) -> int:
    """Every semiring and element type: bit by bit where plus is exact, else up to rounding."""
    # lazy: the checks that only start processes need none of it
    import loopwright as lw
    from loopwright.integrations import mpi
    from loopwright.ir.dtypes import DTYPES
    from loopwright.paths.elimination import add_one, eliminate
    from loopwright.semirings import SEMIRINGS

    world, n, block = mpi.world(), args.n, args.block or 32
    options, wrong, checked = mpi.GridOptions(block=block), [], 0
    chosen = args.dtypes.split(",") if args.dtypes else []
    for name, ring in SEMIRINGS.items():
        for dtype in DTYPES.values():
            if dtype.kind not in ring.kinds or (chosen and dtype.name not in chosen):
                continue
            is_exact = ring.idempotent or dtype.kind in "biu"
            a = drawn_matrix(ring, dtype, n)
            expected = a.copy()
            if world.rank == 0:
                eliminate(expected, ring, 1, block)
                if ring.idempotent:
                    np.fill_diagonal(expected, ring.one(dtype))
                else:
                    add_one(expected, ring)
            source = mpi.ArraySource(a)
            parts = {"closure": mpi.closure(source, ring, world, options)}
            parts["product"] = mpi.einsum("ik,kj->ij", source, source, ring, world, options)
            for what, part in parts.items():
                found = mpi.gather(part, world)
                if found is None:
                    continue
                if what == "product":
                    expected = np.asarray(lw.einsum("ik,kj->ij", a, a, semiring=ring))
                checked += 1
                if not is_same(found, expected, is_exact):
                    wrong.append(f"{what} over {name} of {dtype}")
    if world.rank == 0:
        told = f"DIFFERENT: {', '.join(wrong)}" if wrong else "equal"
        print(f"{world.size} ranks, n={n} block={block}, {checked} results: {told}")
    return int(world.share(bool(wrong)))


def drawn_matrix(ring: Any, dtype: Any, n: int) -> np.ndarray:
    """Small weights on a fifth of the places; acyclic where a cycle could improve on no edge."""
    random = np.random.default_rng(n)
    # Products of n factors stay finite, for which alone the laws hold.
    factors = {"max_times": (0.5, 1.0), "min_times": (1.0, 1.25)}.get(ring.name, (1, 2, 3))
    if dtype.kind != "f" and ring.name in ("max_times", "min_times"):
        factors = (1,)
    made = random.choice(factors, (n, n)).astype(dtype.numpy)
    absent = random.random((n, n)) < 0.8
    if ring.name not in ("min_plus", "min_max", "max_min", "or_and"):
        # The edges go within groups of six: sums stay within the smallest types.
        group = np.arange(n) // 6
        absent |= np.tri(n, dtype=bool) | (group[:, None] != group)
    made[absent] = ring.absent(dtype)
    return made


def is_same(found: np.ndarray, expected: np.ndarray, is_exact: bool) -> bool:
    if is_exact:
        return bool(np.array_equal(found, expected))
    return bool(np.allclose(found, expected, rtol=1e-2 if found.dtype == np.float16 else 1e-5))


def kill(args: argparse.Namespace, folder: Path) -> int:
    """Kill rank 2 after some steps were saved, start again, and compare with a run in one go."""
    n, block, ranks = args.n or 1536, args.block or 32, int(args.ranks)
    np.save(folder / "a.npy", graph(n, args.dtype))
    words = [*MODULE, "shortest", "--input", str(folder / "a.npy"), "--block", str(block)]
    words += ["--threads", "1", "--quiet"]
    run(args, ranks, [*words, "--output", str(folder / "whole.npy")])
    saved = folder / "saved"
    again = [*words, "--checkpoint", str(saved), "--output", str(folder / "restarted.npy")]
    process = subprocess.Popen(
        started(args, ranks, again), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    deadline = time.monotonic() + 120
    while len(list(saved.glob("step-*.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    victim = json.loads((saved / "rank-00002.alive").read_text(encoding="utf-8"))["pid"]
    os.kill(victim, signal.SIGKILL)
    output = process.communicate(timeout=120)[0]
    print(f"killed rank 2; the run ended with status {process.returncode} and told:")
    told = [line for line in output.splitlines() if line.startswith(("error:", "note:", "try:"))]
    print("\n".join(f"  {line.replace(str(folder), 'FOLDER')}" for line in told), flush=True)
    steps = sorted(int(path.stem[5:]) for path in saved.glob("step-*.json"))
    print(f"saved steps: {steps}; {run(args, ranks, again).replace(str(folder), 'FOLDER')}")
    same = np.array_equal(np.load(folder / "whole.npy"), np.load(folder / "restarted.npy"))
    print(f"the answer is {'the same' if same else 'DIFFERENT'}")
    return int(not (same and told and process.returncode))


def memory(args: argparse.Namespace, folder: Path) -> int:
    """The peak of each rank's memory over what it had before, against its share of the matrix."""
    words = [__file__, "memory-rank", "--n", str(args.n or 8192), "--dtype", args.dtype]
    words += ["--block", str(args.block)]
    print(run(args, int(args.ranks), words), flush=True)
    return 0


class PeakSampler:
    """Samples the memory of this process: the highest of each kind of page, in bytes.

    Pages of files are left apart: they are the code of libraries, which all ranks of a node share
    and the system drops when it needs room.
    """

    def __init__(self) -> None:
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.own = self.shared = 0

    def __enter__(self) -> PeakSampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._is_over.wait(0.002):
            self.own = max(self.own, resident("RssAnon"))
            self.shared = max(self.shared, resident("RssShmem"))


def memory_of_rank(args: argparse.Namespace) -> int:
    """Memory of a closure, above that of a rank that has closed a small graph of other shapes."""
    # lazy: for this check only
    from loopwright.integrations import mpi
    from loopwright.integrations.mpi.block_layout import grid_for
    from loopwright.integrations.mpi.dealt_calls import dealt_block

    world, dtype, n = mpi.world(), np.dtype(args.dtype), args.n
    block = args.block or dealt_block(n, grid_for(world.size))

    def solved(n: int) -> mpi.BlockCyclic:
        def box(slices: tuple[slice, ...]) -> np.ndarray:
            random = np.random.default_rng([s.start for s in slices])
            shape = tuple(s.stop - s.start for s in slices)
            return (random.random(shape, np.float32) * 100 + 1).astype(dtype)

        source = mpi.CallbackSource((n, n), dtype, box)
        return mpi.paths("shortest", source, world, mpi.GridOptions(block=block))

    solved(8 * block)
    before = {kind: resident(kind) for kind in ("VmRSS", "RssAnon", "RssFile", "RssShmem")}
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forgets the peak so far
    start = time.perf_counter()
    with PeakSampler() as peak:
        result = solved(n)
    seconds = time.perf_counter() - start
    share = result.local.nbytes
    pages = {
        "in all": resident("VmHWM") - before["VmRSS"],
        "own": peak.own - before["RssAnon"],
        "shared with other ranks": peak.shared - before["RssShmem"],
        "code of libraries": resident("RssFile") - before["RssFile"],
    }
    told = world.collect({kind: size / share for kind, size in pages.items()})
    if world.rank == 0:
        print(
            f"memory: n={n} {dtype} block={block}, {world.size} ranks, share {share / 2**20:.0f} "
            f"MiB, {before['VmRSS'] / 2**20:.0f} MiB before; {seconds:.1f} s; peak over the share:"
        )
        for kind in pages:
            print(f"  {kind}: {', '.join(f'{ratios[kind]:.3f}' for ratios in told)}")
    return 0


def resident(field: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"this system does not tell {field}")


def model(args: argparse.Namespace, folder: Path) -> int:
    """What the model fitted on 1 and 2 ranks says of others."""
    for ranks in map(int, args.ranks.split(",")):
        words = ["--n", str(args.n or 2048), "--dtype", args.dtype, "--block", str(args.block)]
        print(run(args, ranks, [*MODULE, "model", *words]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
