"""Check runs on several processes on this machine: results, a rank that is killed, memory, model.

    python scripts/mpi_check.py equal --ranks 1,4,6,9,16    bit-equal results on all grids
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
import time
from pathlib import Path

import numpy as np

MODULE = ["-m", "loopwright.integrations.mpi"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("check", choices=["equal", "kill", "memory", "model", "memory-rank"])
    parser.add_argument("--ranks", default="4")
    parser.add_argument("--n", type=int, default=0)
    parser.add_argument("--block", type=int, default=0)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--mpirun", default="mpirun")
    args = parser.parse_args()
    if args.check == "memory-rank":
        return memory_of_rank(args)
    checks = {"equal": equal, "kill": kill, "memory": memory, "model": model}
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
    """Closures and products on all grids against one machine, bit by bit where plus is exact."""
    # lazy: the checks that only start processes need none of it
    import loopwright as lw
    from loopwright.paths.elimination import eliminate

    n, block = args.n or 600, args.block or 64
    wrong = 0
    for name, dtype in (
        ("min_plus", "float64"),
        ("min_plus", "float32"),
        ("min_plus", "int32"),
        ("max_min", "float32"),
    ):
        ring = lw.semirings.semiring(name)
        a = graph(n, dtype)
        if name == "max_min":
            a[np.isinf(a)] = -np.inf
        np.save(folder / "a.npy", a)
        expected = a.copy()
        eliminate(expected, ring, 1, block)
        np.fill_diagonal(expected, np.inf if name == "max_min" else 0)
        product = np.asarray(lw.einsum("ik,kj->ij", a, a, semiring=ring))
        told = []
        for ranks in map(int, args.ranks.split(",")):
            out = str(folder / "out.npy")
            words = ["--semiring", name, "--block", str(block), "--threads", "1", "--quiet"]
            source = str(folder / "a.npy")
            run(args, ranks, [*MODULE, "closure", "--input", source, "--output", out, *words])
            is_closed = np.array_equal(np.load(out), expected)
            both = ["--left", source, "--right", source]
            run(args, ranks, [*MODULE, "product", *both, "--output", out, *words])
            is_product = np.array_equal(np.load(out), product)
            wrong += (not is_closed) + (not is_product)
            told.append(f"{ranks}: {'equal' if is_closed and is_product else 'DIFFERENT'}")
        print(f"{name} {dtype} n={n} block={block}: {', '.join(told)}", flush=True)
    return int(wrong > 0)


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


def memory_of_rank(args: argparse.Namespace) -> int:
    # lazy: for this check only
    import loopwright as lw
    from loopwright.integrations import mpi
    from loopwright.integrations.mpi.block_cyclic import filled
    from loopwright.integrations.mpi.block_layout import grid_for
    from loopwright.integrations.mpi.closure_steps import close_blocks
    from loopwright.integrations.mpi.communicator import on_grid
    from loopwright.integrations.mpi.dealt_calls import dealt_block
    from loopwright.semirings import semiring

    world, dtype, n = mpi.world(), np.dtype(args.dtype), args.n
    block = args.block or dealt_block(n, grid_for(world.size))

    def solved(n: int) -> mpi.BlockCyclic:
        def box(slices: tuple[slice, ...]) -> np.ndarray:
            random = np.random.default_rng([s.start for s in slices])
            shape = tuple(s.stop - s.start for s in slices)
            return (random.random(shape, np.float32) * 100 + 1).astype(dtype)

        source = mpi.CallbackSource((n, n), dtype, box)
        return mpi.paths("shortest", source, world, mpi.GridOptions(block=block))

    # The last steps on parts of the same shapes: kernels are compiled, and MPI has its buffers.
    grid = grid_for(world.size)
    layout = mpi.BlockLayout.matrix(grid, (n, n), block)
    ring, last = semiring("min_plus"), -(-n // block) - 3
    matrix = filled(layout, world.rank, dtype, 1)
    close_blocks(matrix, ring, on_grid(world, grid), threads=1, first=max(last, 0))
    del matrix
    lw.release_scratch()
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forgets the peak so far
    start = time.perf_counter()
    result = solved(n)
    seconds = time.perf_counter() - start
    ratio = (resident("VmHWM") - before) / result.local.nbytes
    told = world.collect((result.local.nbytes, ratio))
    if world.rank == 0:
        shares = ", ".join(f"{ratio:.3f}" for _, ratio in told)
        print(
            f"memory: n={n} {dtype} block={block}, {world.size} ranks, share "
            f"{told[0][0] / 2**20:.0f} MiB; peak over it: {shares}; {seconds:.1f} s"
        )
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
