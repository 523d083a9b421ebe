"""Teams on machines with fewer processors than threads: waiting, late workers, pieces of work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from backends.compiled import compile_nest
from drawn import in_all
from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Const, Load, Var
from loopwright.ir.loops import Alloc, Barrier, Block, Buffer, For, LoopNest, Mark, Space, Store
from loopwright.ir.team import IS_OPEN
from loopwright.runtime import workers
from loopwright.runtime.kernel import CompiledKernel
from loopwright.runtime.llvm_engine import LoadedObject, compile_to_object, load_object
from loopwright.runtime.thread_pool import Pool
from loopwright.runtime.waiting import PLACE_WORDS

MANY = 16  # threads; more than processors on most machines, and many more on ours
ROUNDS_OF_MANY = 500 if in_all() else 100

# A region of fixed shares with %rounds barriers: every thread counts, and after each barrier adds
# what its right neighbour has counted so far, which is known only behind the barrier. Thread 1
# waits before the first barrier for as long as the word says that follows the counts.
ROUNDS = """
declare i32 @usleep(i32)

define void @rounds(ptr %launch, ptr %team, i64 %thread, ptr %objects) {
entry:
  %threads = load i64, ptr %team, align 8
  %rounds = load i64, ptr %launch, align 8
  %pause.at = getelementptr i64, ptr %launch, i64 1
  %pause = load i64, ptr %pause.at, align 8
  %barrier.at = getelementptr i64, ptr %team, i64 6
  %barrier = load ptr, ptr %barrier.at, align 8
  %place = mul i64 %thread, 8
  %first = add i64 %place, 8
  %own = getelementptr i64, ptr %launch, i64 %first
  %after = add i64 %thread, 1
  %beside = srem i64 %after, %threads
  %far = mul i64 %beside, 8
  %second = add i64 %far, 8
  %other = getelementptr i64, ptr %launch, i64 %second
  %seen = getelementptr i64, ptr %own, i64 1
  br label %loop
loop:
  %round = phi i64 [ 0, %entry ], [ %next, %go ]
  %next = add i64 %round, 1
  store i64 %next, ptr %own, align 8
  %is_one = icmp eq i64 %thread, 1
  br i1 %is_one, label %late, label %meet
late:
  %short = trunc i64 %pause to i32
  %slept = call i32 @usleep(i32 %short)
  br label %meet
meet:
  call void %barrier(ptr %team, i64 %thread)
  %theirs = load i64, ptr %other, align 8
  %sum = load i64, ptr %seen, align 8
  %more = add i64 %sum, %theirs
  store i64 %more, ptr %seen, align 8
  call void %barrier(ptr %team, i64 %thread)
  br label %go
go:
  %again = icmp slt i64 %next, %rounds
  br i1 %again, label %loop, label %exit
exit:
  ret void
}
"""

# A region that those who come may do: the caller counts and goes home.
ALONE = f"""
define void @alone(ptr %launch, ptr %team, i64 %thread, ptr %objects) {{
  %open = getelementptr i64, ptr %team, i64 {IS_OPEN}
  store atomic i64 1, ptr %open monotonic, align 8
  %at = getelementptr i64, ptr %launch, i64 %thread
  %old = atomicrmw add ptr %at, i64 1 seq_cst
  ret void
}}
"""


@pytest.fixture(scope="module")
def code() -> LoadedObject:
    return load_object(compile_to_object(ROUNDS + ALONE), ("rounds", "alone"))


@pytest.fixture(params=["futex", "condition"])
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    """Workers that sleep as this system does best, and as every POSIX system can."""
    source = workers.pool_source() if request.param == "futex" else workers.pool_source("posix")
    made = Pool(load_object(compile_to_object(source), workers.SYMBOLS))
    yield made
    made.close()


def run_rounds(pool: Pool, code: LoadedObject, rounds: int, threads: int, pause: int = 0) -> bool:
    """Whether all barriers held: each thread has seen the sum 1 + 2 + ... of its neighbour."""
    words = np.zeros(8 + 8 * threads, np.int64)
    words[:2] = rounds, pause
    assert pool.run(code.address("rounds"), words.ctypes.data, (0, 0, 0), 0, threads)
    seen = words[8:].reshape(threads, 8)
    total = rounds * (rounds + 1) // 2
    return seen[:, 0].tolist() == [rounds] * threads and seen[:, 1].tolist() == [total] * threads


def test_barriers_of_more_threads_than_processors(pool: Pool, code: LoadedObject) -> None:
    assert run_rounds(pool, code, ROUNDS_OF_MANY, MANY)


def test_barriers_with_sleeping_threads(pool: Pool, code: LoadedObject) -> None:
    """One thread is so late at every barrier that the others sleep there."""
    assert run_rounds(pool, code, 20, 4, pause=3000)


def test_small_regions_of_more_threads_than_processors(pool: Pool, code: LoadedObject) -> None:
    assert all(run_rounds(pool, code, 1, MANY) for _ in range(ROUNDS_OF_MANY))


def test_open_regions_of_more_threads_than_processors(pool: Pool, code: LoadedObject) -> None:
    """Thousands of them: the caller takes part in each, workers in those they come in time for."""
    counts = np.zeros(MANY, np.int64)
    for _ in range(5000):
        assert pool.run(code.address("alone"), counts.ctypes.data, (0, 0, 0), 0, MANY)
    assert counts[0] == 5000
    assert counts.max() == 5000


def test_no_call_waits_for_a_worker_that_never_comes(pool: Pool, code: LoadedObject) -> None:
    """Workers that the system does not run at all: here they were never started."""
    pool._workers = [threading.Thread() for _ in range(3)]
    counts = np.zeros(4, np.int64)
    for _ in range(100):
        assert pool.run(code.address("alone"), counts.ctypes.data, (0, 0, 0), 0, 4)
    assert counts.tolist() == [100, 0, 0, 0]
    pool._workers = []


def switches(pool: Pool) -> list[str]:
    """Of each worker, how often the system has let it run and taken the processor away."""
    tasks = Path("/proc/self/task")
    if not tasks.exists():
        pytest.skip("this system does not say how often a thread was switched to")
    return [
        line
        for worker in pool._workers
        for line in (tasks / str(worker.native_id) / "status").read_text().splitlines()
        if "ctxt_switches" in line
    ]


def test_workers_that_wait_sleep(pool: Pool, code: LoadedObject) -> None:
    """An idle pool takes no processor time."""
    assert run_rounds(pool, code, 1, 4)
    slots = pool._words[workers._SLOTS :].reshape(-1, PLACE_WORDS)
    while slots[1:4, 1].tolist() != [1, 1, 1]:
        time.sleep(0.001)
    before, now = [], switches(pool)
    while before != now:  # those who spin, or look now and then, never come to rest
        time.sleep(0.02)
        before, now = now, switches(pool)


ONE, i = Const(1), Var("i")


@pytest.fixture(scope="module")
def smoothing() -> CompiledKernel:
    """Steps of a stencil between y and shared memory, two barriers each."""
    size, spare = Var("n"), Buffer("z", FLOAT64, (ONE,), Space.SCRATCH)

    def sums(target: str, source: str) -> For:
        left, right = (Load(source, (i + d,), FLOAT64) for d in (-1, 1))
        body = Store(target, (i,), (left + right) * Const(0.5, FLOAT64))
        return For("i", ONE, size - 1, body, ONE, Mark.PARALLEL)

    copied = Store("z", (i,), Load("y", (i,), FLOAT64))
    copy = For("i", Const(0), size, copied, ONE, Mark.PARALLEL)
    steps = Block((sums("z", "y"), Barrier(), sums("y", "z"), Barrier()))
    body = Block((copy, Barrier(), For("t", Const(0), Var("steps"), steps, ONE)))
    y = Buffer("y", FLOAT64, (ONE,), writable=True)
    return compile_nest(LoopNest("smooth", (y,), ("n", "steps"), Alloc(spare, (size,), body)))


def smoothed(y: np.ndarray, steps: int) -> np.ndarray:
    for _ in range(2 * steps):
        y = np.concatenate([y[:1], (y[:-2] + y[2:]) * 0.5, y[-1:]])
    return y


@pytest.mark.parametrize("threads", [2, 3, 5, MANY])
def test_pieces_between_many_barriers(smoothing: CompiledKernel, pool: Pool, threads: int) -> None:
    """Bit-equal results whoever takes which piece, thousands of barriers."""
    rng = np.random.default_rng(threads)
    for size in (3, 10, 37, 200):
        y = rng.random(size)
        expected = smoothed(y, 60)
        values = {"n": size, "steps": 60}
        bound = smoothing.bind(values, np.zeros(0, np.int64), threads, lambda: pool)
        for _ in range(3):
            found = y.copy()
            bound(found)
            assert np.array_equal(found, expected)


def test_pieces_of_workers_that_never_come(smoothing: CompiledKernel, pool: Pool) -> None:
    """The caller takes all pieces itself, through all barriers."""
    pool._workers = [threading.Thread() for _ in range(3)]
    values = {"n": 50, "steps": 20}
    bound = smoothing.bind(values, np.zeros(0, np.int64), 4, lambda: pool)
    y = np.random.default_rng(1).random(50)
    found = y.copy()
    bound(found)
    assert np.array_equal(found, smoothed(y, 20))
    pool._workers = []


def test_teams_of_changing_size_claim_pieces(smoothing: CompiledKernel, pool: Pool) -> None:
    values = {"n": 64, "steps": 5}
    runs = [
        smoothing.bind(values, np.zeros(0, np.int64), threads, lambda: pool)
        for threads in (2, MANY, 3, 1, 7, 2)
    ]
    y = np.random.default_rng(2).random(64)
    expected = smoothed(y, 5)
    for number in range(120):
        found = y.copy()
        runs[number % len(runs)](found)
        assert np.array_equal(found, expected)


def products(size: int, threads: int, seed: int) -> bool:
    a, b = np.random.default_rng(seed).integers(-4, 5, (2, size, size)).astype(np.float32)
    return np.array_equal(lw.einsum("ij,jk->ik", a, b, threads=threads), a @ b)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("size", [64, 200, 350])
def test_products_of_more_threads_than_processors(size: int) -> None:
    assert all(products(size, threads, size) for threads in (MANY, 4, MANY))


def test_results_do_not_depend_on_the_team() -> None:
    """Float sums bit by bit: a piece has one order, whoever takes it and however many there are."""
    rng = np.random.default_rng(5)
    a, b = rng.random((2, 300, 300))
    first = lw.einsum("ij,jk->ik", a, b, threads=2)
    for threads in (2, 3, 8, MANY, 2):
        assert np.array_equal(lw.einsum("ij,jk->ik", a, b, threads=threads), first)


def test_concurrent_calls_of_large_teams() -> None:
    """One caller has the workers, others compute alone meanwhile; all are right."""
    right = [False] * 4

    def work(number: int) -> None:
        right[number] = all(products(120, MANY, 10 * number + k) for k in range(5))

    run_all([lambda k=k: work(k) for k in range(4)])  # type: ignore[misc]
    assert right == [True] * 4


def run_all(jobs: list[Callable[[], None]]) -> None:
    running = [threading.Thread(target=job) for job in jobs]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
