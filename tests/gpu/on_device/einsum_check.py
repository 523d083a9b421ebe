"""Checks `lw.einsum` on arrays of a real device, and times it beside PyTorch.

    PYTHONPATH=src:DIRECTORY_OF_ISLPY python3 tests/gpu/on_device/einsum_check.py [seconds]

A plain script: it needs CuPy, PyTorch, cuda-bindings, NVRTC and NumPy. Random einsums of several
types and semirings are compared with a plain computation on the host; then products and the 48
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
import numpy as np
import torch

import loopwright as lw

ROOT = Path(__file__).resolve().parents[3]
START = time.monotonic()
LIMIT = float(sys.argv[1]) if len(sys.argv) > 1 else 240.0
failures: list[str] = []
rng = np.random.default_rng(7)


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


# -- random einsums -------------------------------------------------------------------------------

CASES = (
    *("ij,jk->ik", "ij,kj->ik", "ji,jk->ik", "ji,kj->ki", "bij,bjk->bik", "bij,bkj->ibk"),
    *("abc,dcb->da", "acd,dbc->ab", "abcd,ecfb->aedf", "efbad,cf->abcde", "dega,gfbc->abcdef"),
    *("ij,j->i", "ij,i->j", "i,i->", "ij->", "ij->j", "ij->i", "ij->ji", "ij,ij->ij", "i,j->ij"),
    *("ii->i", "ii->", "iij->j", "ij,jk,kl->il", "abc,cd,de->abe", "ij,ij,ij->i", "abc,bd->abcd"),
)
RINGS = {"min_plus": (np.minimum, np.add), "max_plus": (np.maximum, np.add)}


def array(shape: tuple[int, ...], dtype: str, kind: int) -> np.ndarray[Any, Any]:
    """Small numbers; of `kind` 1 every second element along the last axis, of 2 reversed."""
    wide = (*shape[:-1], shape[-1] * 2) if kind == 1 and shape else shape
    if np.dtype(dtype).kind == "f":
        found = (rng.random(wide) - 0.3).astype(dtype)
    else:
        found = rng.integers(0, 5, wide).astype(dtype)
    if kind == 1 and shape:
        return found[..., ::2]
    return found[::-1] if kind == 2 and shape else found


def on_device(host: np.ndarray[Any, Any], kind: int) -> Any:
    """A CuPy array of the same strides as far as they matter."""
    if kind == 1 and host.ndim:
        wide = np.zeros((*host.shape[:-1], host.shape[-1] * 2), host.dtype)
        wide[..., ::2] = host
        return cupy.asarray(wide)[..., ::2]
    if kind == 2 and host.ndim:
        return cupy.asarray(np.ascontiguousarray(host[::-1]))[::-1]
    return cupy.asarray(np.ascontiguousarray(host))


def expected(text: str, arrays: list[Any], ring: str) -> np.ndarray[Any, Any]:
    if ring == "plus_times":
        wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays]
        return np.asarray(np.einsum(text, *wide))
    plus, times = RINGS[ring]
    ins, out = text.split("->")
    letters = sorted(set(ins) - {","})
    total = None
    for term, a in zip(ins.split(","), arrays, strict=True):
        spread = np.einsum(f"{term}->{''.join(sorted(term))}", a)
        spread = spread.reshape([spread.shape[sorted(term).index(c)] if c in term else 1
                                 for c in letters])  # fmt: skip
        total = spread if total is None else times(total, spread)
    axes = tuple(n for n, c in enumerate(letters) if c not in out)
    total = plus.reduce(total, axis=axes) if axes else total
    left = "".join(c for c in letters if c in out)
    return np.asarray(np.einsum(f"{left}->{out}", total))


def random_case(number: int) -> None:
    text = CASES[number % len(CASES)]
    dtypes = ("float32", "float64", "float32", "float16", "int32", "int64")
    dtype = dtypes[int(rng.integers(len(dtypes)))]
    ring = "plus_times"
    if rng.random() < 0.3 and all(len(set(t)) == len(t) for t in text.split("->")[0].split(",")):
        ring = "min_plus" if rng.random() < 0.5 else "max_plus"
        dtype = "float32" if text.count(",") > 1 or dtype == "float16" else dtype
    letters = sorted({c for c in text if c.isalpha()})
    most = (900, 900, 300, 60, 20, 10, 8)[len(letters) - 1]
    sizes = {c: int(rng.integers(1, most + 1)) for c in letters}
    if rng.random() < 0.5:
        sizes = {c: -(-n // 4) * 4 for c, n in sizes.items()}
    if dtype == "float16":
        sizes = {c: min(n, 60) for c, n in sizes.items()}  # sums that it can hold
    if ring != "plus_times":
        sizes = {c: min(n, 100) for c, n in sizes.items()}
    kind = int(rng.integers(3))
    hosts = [array(tuple(sizes[c] for c in t), dtype, kind) for t in text.split("->")[0].split(",")]

    def run() -> str | None:
        want = expected(text, hosts, ring)
        operands = [on_device(h, kind) for h in hosts]
        if rng.random() < 0.4:
            operands = [torch.from_dlpack(x) if kind != 2 else x for x in operands]
        got = lw.einsum(text, *operands, semiring=ring)
        if type(got) is not type(operands[0]):
            return f"gave {type(got)}"
        found = cupy.asnumpy(got) if isinstance(got, cupy.ndarray) else got.cpu().numpy()
        if found.shape != want.shape:
            return f"shape {found.shape}, expected {want.shape}"
        if found.dtype.kind != "f":
            return None if np.array_equal(found, want.astype(found.dtype)) else "differs"
        slack = {"float16": 2e-2, "float32": 1e-3, "float64": 1e-10}[dtype]
        worst = float(np.max(np.abs(found - want), initial=0.0))
        scale = 1.0 + float(np.max(np.abs(want), initial=0.0))
        return None if worst <= slack * scale else f"differs by {worst:.3g}"

    check(f"{text} {dtype} {ring} {sizes} layout {kind}", run)


def special_checks() -> None:
    def given_out() -> str | None:
        a, b = cupy.random.random((65, 33)), cupy.random.random((33, 70))
        out = cupy.random.random((70, 65)).T
        old = out.copy()
        lw.einsum("ij,jk->ik", a, b, out=out, alpha=-2.0, beta=0.5)
        return None if cupy.allclose(out, 0.5 * old - 2.0 * (a @ b)) else "differs"

    def aliased() -> str | None:
        a = cupy.random.random((64, 64))
        want = a @ a
        lw.einsum("ij,jk->ik", a, a, out=a)
        return None if cupy.allclose(a, want) else "differs"

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

    def empty() -> str | None:
        found = lw.einsum("ij,jk->ik", cupy.ones((3, 0)), cupy.ones((0, 4)))
        return None if cupy.array_equal(found, cupy.zeros((3, 4))) else "differs"

    def refused() -> str | None:
        try:
            lw.einsum("ij,jk->ik", cupy.ones((3, 3)), np.ones((3, 3)))
        except lw.LoopwrightError as error:
            return None if "host's memory" in str(error) else str(error)
        return "not refused"

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
    for number in range(64):
        if is_over(0.45):
            say("time is over: random cases", number, "of 64")
            break
        random_case(number)
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
