"""A long-lived process on a real device: the campaign of random einsums, on its arrays.

    PYTHONPATH=src:tests:DIRECTORY_OF_ISLPY python3 tests/gpu/on_device/soak_check.py [seconds]

A plain script: it needs CuPy, cuda-bindings, NVRTC and NumPy. Cases of `outside/campaigns/einsums`
(every dtype, semiring and layout) are laid out on the device with the same strides and compared
bit by bit with the oracle: first in one thread, whose memory must not grow with the calls, then in
four threads with streams of their own. Arrays of more than 2^31 elements and results that do not
fit come last. The exit status is the number of faults.
"""

from __future__ import annotations

import ctypes
import json
import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "src"))

import cupy
import numpy as np
from numpy.lib.array_utils import byte_bounds

import loopwright as lw
from einsum_oracle import oracle
from loopwright.semirings import SEMIRINGS
from outside.campaigns.campaign import Campaign, Case, Difference, Unjudged, judge, shrunk
from outside.campaigns.einsums import Einsums, array_of, smaller

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 150.0
THREADS = 4
FREE = 64 << 20  # bytes that a process may grow by while the same patterns are called again
MOST_SHOWN = 12

outcomes: Counter[str] = Counter()
faults: list[str] = []


def say(*words: Any) -> None:
    print(*words, flush=True)


def twin(host: np.ndarray) -> cupy.ndarray:
    """A copy on the device with the same strides, as far from an aligned address."""
    if not host.size:
        return cupy.empty(host.shape, host.dtype)
    low, high = byte_bounds(host)
    start = host.__array_interface__["data"][0]
    shift = low % 16 // host.itemsize * host.itemsize
    raw = np.frombuffer(ctypes.string_at(low, high - low), np.uint8)
    memory = cupy.empty(shift + len(raw), np.uint8)
    memory[shift:] = cupy.asarray(raw)
    pointer = memory.data + shift + (start - low)
    return cupy.ndarray(host.shape, host.dtype, pointer, host.strides)


def check(case: Case) -> None:
    """One case in the current stream: `einsums.check`, but for `out` of every kind."""
    arrays = [array_of(case, k) for k in range(len(case["terms"]))]
    text = f"{','.join(case['terms'])}->{case['out']}"
    if np.result_type(*arrays).kind not in SEMIRINGS[case["semiring"]].kinds:
        raise Unjudged("dtypes whose common type the semiring does not take")
    expected = oracle(text, *arrays, semiring=case["semiring"])
    operands = [twin(a) for a in arrays]
    out = None if case["into"] == "none" else twin(np.zeros(expected.shape, expected.dtype).T).T
    keywords = {} if out is None else {"out": out}
    given = lw.einsum(text, *operands, semiring=case["semiring"], **keywords)
    if not isinstance(given, cupy.ndarray) or (out is not None and given is not out):
        raise Difference(f"the result is of {type(given)}, or not out")
    found = cupy.asnumpy(given)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        raise Difference(f"{found.dtype} {found.shape}, not {expected.dtype} {expected.shape}")
    if np.any(found != expected):
        place = tuple(int(k) for k in np.argwhere(np.atleast_1d(found != expected))[0])
        raise Difference(f"{np.sum(found != expected)} elements differ, the first at {place}")
    for k, (operand, old) in enumerate(zip(operands, arrays, strict=True)):
        if not np.array_equal(cupy.asnumpy(operand), old):
            raise Difference(f"operand {k} has changed")


def run_cases(draw: Callable[[np.random.Generator], Case], seed: int, end: float) -> int:
    """Cases until the time is over; how many."""
    random = np.random.default_rng(seed)
    campaign = Campaign("device einsums", draw, check, smaller)
    count = 0
    while time.monotonic() < end:
        case = campaign.draw(random)
        verdict = judge(campaign, case)
        count += 1
        outcomes[verdict.outcome + (f": {verdict.kind}" if verdict.kind else "")] += 1
        if verdict.is_fault and len(faults) < MOST_SHOWN:
            small, again, repeats = shrunk(campaign, case, verdict)
            faults.append(f"{again.told}\n  {json.dumps(small)}\n  repeats: {repeats}")
            say("FAULT", faults[-1])
    return count


def used() -> tuple[int, int]:
    """Bytes of the device that are taken beside CuPy's pool, and the largest of the process."""
    cupy.get_default_memory_pool().free_all_blocks()
    free, whole = cupy.cuda.runtime.memGetInfo()
    return whole - free, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def alone(cases: Einsums, seconds: float) -> None:
    """New patterns first; then the same ones again, for which nothing may be left behind."""
    begin = time.monotonic()
    first = run_cases(cases.draw, 1, begin + 0.6 * seconds)
    before = used()
    second = run_cases(partial(_known, cases), 2, begin + seconds)
    grown = [late - early for early, late in zip(before, used(), strict=True)]
    told = [
        f"{size >> 20} MiB (of {whole >> 20})" for size, whole in zip(grown, before, strict=True)
    ]
    say(f"one thread: {first} cases, then {second} of known patterns")
    say(f"the device's memory grew by {told[0]}, the process by {told[1]}")
    if max(grown) > FREE:
        faults.append("memory grows with calls of known patterns")


def _known(cases: Einsums, random: np.random.Generator) -> Case:
    return dict(cases.cases[int(random.integers(len(cases.cases)))])


def together(cases: Einsums, seconds: float) -> None:
    """Threads with streams of their own draw from the same cases."""
    counts = [0] * THREADS
    end = time.monotonic() + seconds

    def work(k: int) -> None:
        with cupy.cuda.Stream(non_blocking=True):
            counts[k] = run_cases(cases.draw, 10 + k, end)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say(f"{THREADS} threads: {counts} cases")


def large(name: str, text: str, *shapes: tuple[int, ...]) -> None:
    """Operands of int8 with more than 2^31 elements, beside CuPy."""
    operands = [(cupy.arange(np.prod(s), dtype=np.int64) % 5).astype(np.int8) for s in shapes]
    operands = [a.reshape(s) for a, s in zip(operands, shapes, strict=True)]
    found = lw.einsum(text, *operands)
    if name == "transposition":
        right = all(bool((found[:, k] == operands[0][k]).all()) for k in (0, 1, -2, -1))
    elif name == "sums":
        wanted = operands[0].sum(axis=1, dtype=np.int8)
        right = bool((found == wanted).all())
    else:
        wanted = cupy.matmul(operands[0][-64:].astype(np.float64), operands[1].astype(np.float64))
        right = bool((found[-64:] == wanted.astype(np.int64).astype(np.int8)).all())
    say(f"{name} of {shapes}: {'right' if right else 'WRONG'}")
    if not right:
        faults.append(f"{name} of {shapes} is wrong")


def too_large() -> None:
    """A result that no device holds: an error that says so, and the next call works."""
    a = cupy.ones(600_000, np.float32)
    try:
        lw.einsum("i,j->ij", a, a)
        faults.append("a result of 1.4 TB was not refused")
    except (lw.LoopwrightError, cupy.cuda.memory.OutOfMemoryError, MemoryError) as error:
        say(f"too large: {type(error).__name__}: {str(error).splitlines()[0][:150]}")
    if float(lw.einsum("i,i->", a, a)) != 600_000.0:
        faults.append("the call after a refused one is wrong")


def main() -> int:
    cases = Einsums()
    alone(cases, 0.65 * SECONDS)
    together(cases, 0.25 * SECONDS)
    large("transposition", "ij->ji", (46_400, 46_500))
    large("sums", "ij->i", (3, 1_000_000_007))
    large("product", "ij,jk->ik", (2_200_000, 1_000), (1_000, 64))
    too_large()
    for outcome, count in outcomes.most_common():
        say(f"{count:7d} {outcome}")
    for fault in faults:
        say("FAULT", fault)
    return min(len(faults), 100)


if __name__ == "__main__":
    sys.exit(main())
