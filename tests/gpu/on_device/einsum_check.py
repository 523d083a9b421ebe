"""Checks `lw.einsum` on arrays of a real device, and times it beside PyTorch.

    PYTHONPATH=src:DIRECTORY_OF_ISLPY python3 tests/gpu/on_device/einsum_check.py [seconds]

A plain script: it needs CuPy, PyTorch, cuda-bindings, NVRTC and NumPy. Streams, graphs and sums of
many blocks are checked (`soak_check.py` compares random einsums); then products and the 48
contractions of the TCCG suite are timed. It ends after 240 seconds, or those given, whatever is
left. The exit status is the number of checks that failed.
"""

from __future__ import annotations

import json
import math
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "src"))

import cupy
import torch

import loopwright as lw

ROOT = Path(__file__).resolve().parents[3]
START = time.monotonic()
LIMIT = float(sys.argv[1]) if len(sys.argv) > 1 else 240.0
failures: list[str] = []


def say(*words: Any) -> None:
    print(*words, flush=True)


def is_over(share: float = 1.0) -> bool:
    return time.monotonic() - START > share * LIMIT


def check(name: str, what: Callable[[], str | None]) -> None:
    """Run a check that gives the text of its fault, or None."""
    try:
        fault = what()
    except Exception as error:  # noqa: BLE001, the other cases go on
        fault = f"{type(error).__name__}: {str(error)[:400]}"
        traceback.print_exc(limit=-3)
    if fault:
        failures.append(name)
    say("FAIL" if fault else "ok  ", name, fault or "")


def special_checks() -> None:
    def in_stream() -> str | None:
        a, b = torch.rand(512, 256, device="cuda"), torch.rand(256, 512, device="cuda")
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            out = lw.einsum("ij,jk->ik", a, b)
        torch.cuda.current_stream().wait_stream(stream)
        return None if torch.allclose(out, a @ b, rtol=1e-3) else "differs"

    def captured() -> str | None:
        a = torch.rand(32, 16, 24, device="cuda")
        b = torch.rand(40, 24, 16, device="cuda")
        out = torch.zeros(40, 32, device="cuda")
        lw.einsum("abc,dcb->da", a, b, out=out)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            lw.einsum("abc,dcb->da", a, b, out=out)
        a.copy_(torch.rand_like(a))
        out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        return None if torch.allclose(out, torch.einsum("abc,dcb->da", a, b), rtol=1e-3) else "bad"

    def split() -> str | None:
        a, b = cupy.random.random((40, 100_000)), cupy.random.random((100_000, 24))
        first, second = (lw.einsum("ij,jk->ik", a, b) for _ in range(2))
        if not cupy.array_equal(first, second):
            return "two runs differ"
        return None if cupy.allclose(first, a @ b) else "differs"

    for name, what in list(locals().items()):
        check(name, what)


# -- times ----------------------------------------------------------------------------------------


def timed(*runs: Callable[[], Any], count: int = 7) -> list[float]:
    """Seconds of each of the runs: medians of batches of 2 ms or so, which take turns.

    A batch is long enough for the host's work on the first call not to count.
    """
    calls, found = [], [[] for _ in runs]
    for run in runs:
        run()
        calls.append(max(2, min(64, int(2e-3 / _batch(run, 2)))))
    for _ in range(count):
        for run, number, times in zip(runs, calls, found, strict=True):
            times.append(_batch(run, number))
    return [sorted(times)[count // 2] for times in found]


def _batch(run: Callable[[], Any], number: int) -> float:
    """Seconds of one of `number` calls behind each other."""
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(number):
        run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1e-3 / number


def host_time(run: Callable[[], Any]) -> float:
    """Seconds that a call keeps the host busy."""
    run()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(50):
        run()
    spent = (time.perf_counter() - start) / 50
    torch.cuda.synchronize()
    return spent


def race(name: str, text: str, shapes: list[tuple[int, ...]], dtype: Any, ring: str) -> float:
    operands = [torch.rand(*shape, device="cuda", dtype=dtype) for shape in shapes]
    letters = dict(zip(text.split("->")[0].replace(",", ""), sum(shapes, ()), strict=True))
    work = 2 * math.prod(letters.values())
    runs = [lambda: lw.einsum(text, *operands, semiring=ring)]
    if ring == "plus_times":
        runs.append(lambda: torch.einsum(text, *operands))
    ours, theirs = (*timed(*runs), math.nan)[:2]
    if ring == "plus_times":
        want, got = torch.einsum(text, *operands), lw.einsum(text, *operands)
        if not torch.allclose(got, want, rtol=1e-3):
            failures.append(name)
            say("FAIL", name, float((got - want).abs().max()))
    speed = work / ours / 1e12
    say(f"{name:44s} {ours * 1e6:9.1f} us {speed:7.2f} T  torch {theirs * 1e6:9.1f} us"
        f"  {theirs / ours:6.2f} x")  # fmt: skip
    return theirs / ours


def attempt(name: str, *given: Any) -> float:
    try:
        return race(name, *given)
    except Exception as error:  # noqa: BLE001, the other cases go on
        failures.append(name)
        say("FAIL", name, type(error).__name__, str(error)[:300])
        return math.nan


def tccg(dtype: Any) -> None:
    rows = json.loads((ROOT / "benchmarks" / "data" / "tccg48.json").read_text())["contractions"]
    found: dict[str, float] = {}
    for row in rows:
        if is_over(0.7 if dtype == torch.float32 else 1.0):
            say("time is over:", len(found), "of", len(rows))
            break
        text, dims = row["einsum"], row["dims"]
        shapes = [tuple(dims[c] for c in term) for term in text.split("->")[0].split(",")]
        found[text] = attempt(text, text, shapes, dtype, "plus_times")
    good = {text: x for text, x in found.items() if x > 0}
    if good:
        mean = math.exp(sum(map(math.log, good.values())) / len(good))
        worst = min(good, key=lambda text: good[text])
        say(f"TCCG {dtype}: {mean:.3f} x torch.einsum, worst {good[worst]:.3f} ({worst})")


def main() -> int:
    torch.backends.cuda.matmul.allow_tf32 = False
    special_checks()
    square = "ij,jk->ik"
    for n, dtype, ring in (
        (4096, torch.float32, "plus_times"),
        (8192, torch.float32, "plus_times"),
        (1024, torch.float32, "plus_times"),
        (256, torch.float32, "plus_times"),
        (4096, torch.float64, "plus_times"),
        (4096, torch.float32, "min_plus"),
        (4096, torch.int32, "min_plus"),
    ):
        if dtype == torch.int32:
            a = torch.randint(0, 99, (n, n), device="cuda", dtype=dtype)
            try:
                (t,) = timed(lambda a=a: lw.einsum(square, a, a, semiring="min_plus"))
                say(f"{square} {n} int32 min_plus: {t * 1e6:.1f} us, {2 * n**3 / t / 1e12:.2f} T")
            except Exception as error:  # noqa: BLE001, likewise
                failures.append("int32 min_plus")
                say("FAIL int32 min_plus", str(error)[:300])
            continue
        attempt(f"{square} {n} {dtype} {ring}", square, [(n, n), (n, n)], dtype, ring)
    for text, shapes in (
        ("ij,j->i", [(8192, 8192), (8192,)]),
        ("ij,i->j", [(8192, 8192), (8192,)]),
        ("ij->ji", [(8192, 8192)]),
        ("ij->j", [(8192, 8192)]),
        ("i,i->", [(1 << 24,), (1 << 24,)]),
        ("bij,bjk->bik", [(4096, 32, 32), (4096, 32, 32)]),
        ("ij,jk->ik", [(32, 1 << 18), (1 << 18, 32)]),
        ("ij,jk->ik", [(1 << 18, 64), (64, 16)]),
    ):
        attempt(f"{text} {shapes}", text, shapes, torch.float32, "plus_times")
    small = [torch.rand(64, 64, device="cuda") for _ in range(2)]
    for name, run in (
        ("lw.einsum", lambda: lw.einsum(square, *small)),
        ("torch.einsum", lambda: torch.einsum(square, *small)),
    ):
        say(f"host's time of a call of {name}: {host_time(run) * 1e6:.1f} us")
    for dtype in (torch.float32, torch.float64):
        tccg(dtype)
    say(f"{len(failures)} failures:", *failures, f"in {time.monotonic() - START:.0f} s")
    return len(failures)


sys.exit(min(main(), 125))
