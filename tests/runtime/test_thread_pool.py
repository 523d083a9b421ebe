"""Workers: teams of every size, many callers at once, shutdown, and how many threads are used."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from backends.compiled import compile_nest
from loopwright import options
from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.expr import Const, Load, Var
from loopwright.ir.loops import Alloc, Barrier, Block, Buffer, For, LoopNest, Mark, Space, Store
from loopwright.runtime import thread_pool, workers
from loopwright.runtime.kernel import BoundKernel, CompiledKernel
from loopwright.runtime.llvm_engine import compile_to_object, load_object
from loopwright.runtime.thread_pool import Pool, num_threads, set_num_threads
from loopwright.runtime.waiting import PLACE_WORDS

SIZE = 37
ONE, i, n = Const(1), Var("i"), Var("n")


@pytest.fixture(scope="module")
def kernel() -> CompiledKernel:
    """y = x reversed and doubled, through shared memory, with barriers between."""
    t = Buffer("t", FLOAT64, (ONE,), Space.SCRATCH)
    x = Load("x", (i,), FLOAT64)
    fill = For("i", Const(0), n, Store("t", (i,), x + x), ONE, Mark.PARALLEL)
    turned = Store("y", (i,), Load("t", (n - 1 - i,), FLOAT64))
    use = For("i", Const(0), n, turned, ONE, Mark.PARALLEL)
    buffers = (Buffer("x", FLOAT64, (ONE,)), Buffer("y", FLOAT64, (ONE,), writable=True))
    body = Alloc(t, (n,), Block((fill, Barrier(), use)))
    return compile_nest(LoopNest("f", buffers, ("n",), body))


@pytest.fixture
def pool() -> Pool:
    return Pool(load_object(compile_to_object(workers.pool_source()), workers.SYMBOLS))


def bound(kernel: CompiledKernel, pool: Pool, count: int) -> BoundKernel:
    return kernel.bind({"n": SIZE}, np.zeros(0, np.int64), count, lambda: pool)


def is_right(run: Callable[..., None], seed: int) -> bool:
    x = np.random.default_rng(seed).random(SIZE)
    y = np.empty(SIZE)
    run(x, y)
    return np.array_equal(y, 2 * x[::-1])


def test_the_pool_grows_as_asked(kernel: CompiledKernel, pool: Pool) -> None:
    for count, grown in ((1, 0), (3, 2), (2, 2), (5, 4), (4, 4)):
        assert is_right(bound(kernel, pool, count), count)
        assert len(pool._workers) == grown


def test_more_threads_than_iterations(kernel: CompiledKernel, pool: Pool) -> None:
    assert is_right(bound(kernel, pool, SIZE + 3), 0)


def test_more_threads_than_any_pool_has(kernel: CompiledKernel, pool: Pool) -> None:
    """The slots of the pool end somewhere; beyond them a call runs alone."""
    assert is_right(bound(kernel, pool, workers.MOST_THREADS + 1), 0)
    assert pool._workers == []


def test_many_calls(kernel: CompiledKernel, pool: Pool) -> None:
    run = bound(kernel, pool, 2)
    assert all(is_right(run, seed) for seed in range(500))


def test_workers_wake_up(kernel: CompiledKernel, pool: Pool) -> None:
    """After a pause they sleep on a condition variable instead of spinning."""
    run = bound(kernel, pool, 3)
    for seed in range(5):
        assert is_right(run, seed)
        time.sleep(0.005)


def test_roused_workers_are_awake_for_a_while(kernel: CompiledKernel, pool: Pool) -> None:
    """Those that are meant stop sleeping without a job, and sleep again when none comes."""
    pool.rouse(3)  # nobody is there yet
    run = bound(kernel, pool, 4)
    assert is_right(run, 0)
    slots = pool._words[workers._SLOTS :].reshape(-1, PLACE_WORDS)

    def are_asleep() -> bool:
        return slots[1:4, 1].tolist() == [1, 1, 1]

    def is_one_awake() -> bool:
        pool.rouse(3)  # they sleep again before a busy system lets us look
        return not are_asleep()

    for seed in range(3):
        assert until(are_asleep)
        assert until(is_one_awake)
        assert until(are_asleep)
        pool.rouse(4)
        assert is_right(run, seed)


def until(holds: Callable[[], bool]) -> bool:
    """Whether something comes to hold; what does not for ten minutes never does."""
    end = time.monotonic() + 600
    while not holds():
        if time.monotonic() > end:
            return False
    return True


def test_teams_of_changing_size(kernel: CompiledKernel, pool: Pool) -> None:
    """A worker without a part in a job must not take part in the next one by mistake."""
    runs = [bound(kernel, pool, count) for count in (2, 4, 3, 1, 4, 2)]
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


def test_concurrent_calls(kernel: CompiledKernel, pool: Pool) -> None:
    """One caller gets the workers, the others run on their own threads."""
    run = bound(kernel, pool, 2)
    assert from_four_threads(lambda seed: is_right(run, seed)) == [True] * 4


def test_one_bound_kernel_from_four_threads(kernel: CompiledKernel, pool: Pool) -> None:
    """Each calling thread has scratch memory of its own."""
    run = bound(kernel, pool, 1)
    assert from_four_threads(lambda seed: is_right(run, seed)) == [True] * 4


def test_a_closed_pool_serves_no_more(kernel: CompiledKernel, pool: Pool) -> None:
    run = bound(kernel, pool, 3)
    assert is_right(run, 1)
    workers = list(pool._workers)
    pool.close()
    assert not any(worker.is_alive() for worker in workers)
    assert is_right(run, 2)
    assert pool._workers == []
    pool.close()


def test_no_more_threads(
    kernel: CompiledKernel, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = bound(kernel, pool, 4)
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
        assert len(pool._workers) == 2
    assert is_right(run, 2)
    assert len(pool._workers) == 3


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


def test_never_more_than_the_pool_holds() -> None:
    with options.override(num_threads=4096):
        assert num_threads() == workers.MOST_THREADS


@pytest.mark.parametrize(
    ("value", "count"),
    [("3", 3), (" 3 ", 3), ("4,2", 4), ("", 0), ("0", 0), ("-2", 0), ("many", 0), ("²", 0)],
)
def test_openmp_variable(value: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert num_threads() == (count or len(os.sched_getaffinity(0)))
