"""Workers: teams of every size, waiting, late workers, pieces of work, who decides how many."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import loopwright as lw
from backends.compiled import compile_nest
from drawn import in_all
from loopwright import options
from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Const, Load, Var
from loopwright.ir.loops import Alloc, Barrier, Block, Buffer, For, LoopNest, Mark, Space, Store
from loopwright.ir.team import IS_OPEN
from loopwright.runtime import thread_pool, workers
from loopwright.runtime.kernel import BoundKernel, CompiledKernel
from loopwright.runtime.llvm_engine import LoadedObject, compile_to_object, load_object
from loopwright.runtime.thread_pool import Pool, num_threads, set_num_threads
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


def products(size: int, threads: int, seed: int) -> bool:
    a, b = np.random.default_rng(seed).integers(-4, 5, (2, size, size)).astype(np.float32)
    return np.array_equal(lw.einsum("ij,jk->ik", a, b, threads=threads), a @ b)


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


SIZE = 37
n = Var("n")


@pytest.fixture(scope="module")
def kernel() -> CompiledKernel:
    """y = x reversed and doubled, through shared memory, with barriers between."""
    t = Buffer("t", FLOAT64, (ONE,), Space.SCRATCH)
    x = Load("x", (i,), FLOAT64)
    fill = For("i", Const(0), n, Store("t", (i,), x + x), ONE, Mark.PARALLEL)
    turned = Store("y", (i,), Load("t", (n - 1 - i,), FLOAT64))
    use = For("i", Const(0), n, turned, ONE, Mark.PARALLEL)
    buffers = (
        Buffer("x", FLOAT64, (ONE,)),
        Buffer("y", FLOAT64, (ONE,), writable=True),
    )
    body = Alloc(t, (n,), Block((fill, Barrier(), use)))
    return compile_nest(LoopNest("f", buffers, ("n",), body))


@pytest.fixture
def plain_pool() -> Pool:
    return Pool(load_object(compile_to_object(workers.pool_source()), workers.SYMBOLS))


def bound(kernel: CompiledKernel, plain_pool: Pool, count: int) -> BoundKernel:
    return kernel.bind({"n": SIZE}, np.zeros(0, np.int64), count, lambda: plain_pool)


def is_right(run: Callable[..., None], seed: int) -> bool:
    x = np.random.default_rng(seed).random(SIZE)
    y = np.empty(SIZE)
    run(x, y)
    return np.array_equal(y, 2 * x[::-1])


def test_teams_of_changing_size(kernel: CompiledKernel, plain_pool: Pool) -> None:
    """A worker without a part in a job must not take part in the next one by mistake."""
    runs = [bound(kernel, plain_pool, count) for count in (2, 4, 3, 1, 4, 2)]
    for seed in range(60):
        assert is_right(runs[seed % len(runs)], seed)


def from_four_threads(work: Callable[[int], bool]) -> list[bool]:
    results = [False] * 4
    start = threading.Barrier(4)

    def run(number: int) -> None:
        start.wait()
        results[number] = all(work(seed) for seed in range(number * 100, number * 100 + 50))

    callers = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return results


def test_concurrent_calls(kernel: CompiledKernel, plain_pool: Pool) -> None:
    """One caller gets the workers, the others run on their own threads."""
    run = bound(kernel, plain_pool, 2)
    assert from_four_threads(lambda seed: is_right(run, seed)) == [True] * 4


def test_a_closed_pool_serves_no_more(kernel: CompiledKernel, plain_pool: Pool) -> None:
    run = bound(kernel, plain_pool, 3)
    assert is_right(run, 1)
    workers = list(plain_pool._workers)
    plain_pool.close()
    assert not any(worker.is_alive() for worker in workers)
    assert is_right(run, 2)
    assert plain_pool._workers == []
    plain_pool.close()


def test_no_more_threads(
    kernel: CompiledKernel, plain_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = bound(kernel, plain_pool, 4)
    real, started = threading.Thread.start, []

    def start(thread: threading.Thread) -> None:
        if thread.name == "loopwright":
            if len(started) == 2:
                raise RuntimeError("can't start new thread")
            started.append(thread)
        real(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        assert is_right(run, 1)
        assert len(plain_pool._workers) == 2
    assert is_right(run, 2)
    assert len(plain_pool._workers) == 3


@pytest.fixture(autouse=True)
def _nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pool, "_chosen", None)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


@pytest.mark.parametrize("count", [0, -1, 257, 1.5, "2", None])
def test_refused_numbers_of_threads(count: object) -> None:
    with pytest.raises(UsageError) as caught:
        set_num_threads(count)  # type: ignore[arg-type]
    assert str(caught.value) == (
        f"the number of threads must be a whole number\nnote: found {count!r}\ntry: 1 to 256"
    )


def test_who_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call of the program, then our variable, then OpenMP's, then the processors."""
    assert num_threads() == len(os.sched_getaffinity(0))
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert num_threads() == 7
    with options.override(num_threads=5):
        assert num_threads() == 5
        set_num_threads(3)
        assert num_threads() == 3
    with options.override(num_threads=4096):
        assert num_threads() == 3


@pytest.mark.parametrize(
    ("value", "count"),
    [("3", 3), (" 3 ", 3), ("4,2", 4), ("", 0), ("0", 0), ("-2", 0), ("many", 0), ("²", 0)],
)
def test_openmp_variable(value: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert num_threads() == (count or len(os.sched_getaffinity(0)))
