"""Measure the processor this process runs on: throughputs, latencies, bandwidths, in cycles.

Times are of the wall clock; a cycle is a sixteenth of an iteration of the clock loop, measured
beside each number, so that a changing frequency does not matter. Of repeated runs the fastest
counts: disturbances only make a run longer.
"""

from __future__ import annotations

import ctypes
import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from loopwright.ir.machine import Machine
from loopwright.machines.calibration import Calibration
from loopwright.runtime.address import Address, data_address, function_at
from loopwright.runtime.llvm_engine import LoadedObject, compile_to_object, load_object
from loopwright.runtime.microbenchmarks import MeasuredLoop, clock_loop, loops, module
from loopwright.runtime.thread_pool import Pool
from loopwright.runtime.workers import SYMBOLS, pool_source

__all__ = ["calibrate"]

_RUN_SECONDS = 0.0005  # of one run: long against the call, short against a time slice
_REPEATS = 31
_MOST_MEMORY = 1 << 28  # bytes read for the memory bandwidth
_ALIGNMENT = 128  # bytes; no vector register is wider
_ARGUMENTS = ctypes.c_int64, ctypes.c_void_p  # number of turns, data

_EMPTY = "define void @empty(ptr %launch, ptr %team, i64 %thread, ptr %objects) {\n  ret void\n}"
_REGIONS = 400  # parallel regions opened in a row
_ROUNDS = 8  # rows of regions per number of threads
_MOST_REGION_SECONDS = 1e-5  # beyond this a thread waited for a processor that others used

Report = Callable[[str], None]


@dataclass
class _Bench:
    """Compiled loops, and what runs them."""

    code: LoadedObject
    buffer: npt.NDArray[np.uint8]
    clocks: list[float] = field(default_factory=list)  # seconds of a cycle, as measured

    def seconds_per_turn(self, name: str, data: Address, turns: int) -> float:
        function = function_at(self.code.address(name), *_ARGUMENTS, result=ctypes.c_int64)
        start = time.perf_counter()
        function(turns, data)
        return (time.perf_counter() - start) / turns

    def cycles_per_turn(
        self, name: str, data: Address | None = None, least_turns: int = 1
    ) -> float:
        """The time of the fastest iteration of a loop, in cycles measured between the runs."""
        place = data_address(self.buffer) if data is None else data
        turns = max(least_turns, self._turns(name, place))
        clock_data = data_address(self.buffer) + (self.buffer.nbytes - 64)
        clock_turns = self._turns("clock", clock_data)
        fastest = cycle = float("inf")
        for _ in range(_REPEATS):
            cycle = min(cycle, self.seconds_per_turn("clock", clock_data, clock_turns) / 16)
            fastest = min(fastest, self.seconds_per_turn(name, place, turns))
        self.clocks.append(cycle)
        return fastest / cycle

    def _turns(self, name: str, data: Address) -> int:
        """The number of iterations that take about `_RUN_SECONDS`."""
        turns = 256
        while turns < 1 << 30:
            # The fastest of three: one run that was interrupted would give far too few turns.
            seconds = min(self.seconds_per_turn(name, data, turns) for _ in range(3))
            if seconds * turns >= _RUN_SECONDS / 4:
                return max(1, int(_RUN_SECONDS / seconds))
            turns *= 4
        return turns


def calibrate(machine: Machine, report: Report = lambda line: None) -> Calibration:
    """Measure this processor, which `machine` describes, and return what was found.

    `report` is given a line before each group of measurements.
    """
    measured = [clock_loop(), *loops(machine)]
    text = "\n".join([module(measured), pool_source(), _EMPTY])
    symbols = (*(loop.name for loop in measured), *SYMBOLS, "empty")
    code = load_object(compile_to_object(text, machine.llvm_cpu), symbols)
    bench = _Bench(code, _vectors(1 << 16))
    tables = _arithmetic(bench, measured, report)
    report("load latency")
    load_latency = _load_latency(bench, tables["latency"]["add", "float64"])
    report("read bandwidth of the caches and of memory")
    rates, memory = _bandwidths(bench, machine, next(x for x in measured if x.quantity == "bytes"))
    report("cost of a parallel region")
    parallel = _parallel(bench, machine.cores)
    return Calibration(
        llvm_cpu=machine.llvm_cpu,
        frequency_hz=round(1 / min(bench.clocks), -6),
        **tables,
        load_latency=load_latency,
        cache_bytes_per_cycle=rates,
        memory_bytes_per_cycle=memory,
        parallel=parallel,
        date=datetime.date.today().isoformat(),
    )


def _vectors(size: int) -> npt.NDArray[np.uint8]:
    """Zeroed bytes with the alignment of the widest vector register."""
    raw = np.zeros(size + _ALIGNMENT, np.uint8)
    first = -data_address(raw) % _ALIGNMENT
    return raw[first : first + size]


def _arithmetic(
    bench: _Bench, measured: list[MeasuredLoop], report: Report
) -> dict[str, dict[tuple[str, str], float]]:
    """Throughputs and latencies by quantity, operation and element type."""
    tables: dict[str, dict[tuple[str, str], float]] = {
        "per_cycle": {},
        "latency": {},
        "accumulate": {},
    }
    group = ""
    for loop in measured:
        if loop.quantity not in tables:
            continue
        if loop.dtype != group:
            group = loop.dtype
            report(f"throughput and latency of {group}")
        _fill(bench.buffer, loop)
        cycles = bench.cycles_per_turn(loop.name)
        value = loop.amount / cycles if loop.quantity == "per_cycle" else cycles / loop.amount
        tables[loop.quantity][loop.operation, loop.dtype] = round(value, 3)
    return tables


def _fill(buffer: npt.NDArray[np.uint8], loop: MeasuredLoop) -> None:
    """Fill the data with ones, for fma with zeros in %b, the third vector: no loop overflows."""
    values = buffer.view(loop.dtype)
    values[:] = 1
    if loop.operation == "fma":
        lanes = loop.vector_bytes // values.itemsize
        values[2 * lanes : 3 * lanes] = 0


def _load_latency(bench: _Bench, float_addition: float) -> float:
    """Cycles from the address of a vector load to its value.

    The walk through memory also moves the value to an integer register. The way there and back is
    measured with two sums on it; the way back is taken as its shorter half, in whole cycles.
    """
    bench.buffer[:] = 0
    bench.buffer.view(np.float64)[1] = 1.0
    both_ways = bench.cycles_per_turn("transfer") - float_addition - 1
    bench.buffer.view(np.int64)[:2] = data_address(bench.buffer)
    walk = bench.cycles_per_turn("walk")
    return round(max(1.0, walk - max(1, round(both_ways) // 2)), 2)


def _bandwidths(
    bench: _Bench, machine: Machine, loop: MeasuredLoop
) -> tuple[tuple[float, ...], float]:
    """Bytes per cycle read by one core from each cache, and from memory."""
    sizes = [_power_of_two(cache.size // 2) for cache in machine.caches]
    beyond = min(_MOST_MEMORY, 8 * sizes[-1])
    return tuple(_read_rate(bench, loop, size) for size in sizes), _read_rate(bench, loop, beyond)


def _read_rate(bench: _Bench, loop: MeasuredLoop, size: int) -> float:
    block = np.ones(size // 8 + 16, np.int64)
    # On a line of its own, so that no vector straddles two.
    start = -data_address(block) % 128 // 8
    block[start] = size - 1
    # A whole pass at least: the part a shorter run reads again and again would stay in a cache.
    place = data_address(block[start:])
    return round(loop.amount / bench.cycles_per_turn(loop.name, place, size // loop.amount), 2)


def _power_of_two(size: int) -> int:
    """The largest power of two that is not above `size`."""
    return 1 << (size.bit_length() - 1)


def _parallel(bench: _Bench, cores: int) -> tuple[tuple[int, float], ...]:
    """Cycles that a region of several threads costs beyond a call that uses one.

    A number of threads for which the machine was too busy is left out.
    """
    if cores < 2:
        return ()
    pool = Pool(bench.code)
    try:
        alone = _region_seconds(pool, bench.code.address("empty"), 1)
        points = []
        for threads in sorted({2**i for i in range(1, cores.bit_length())} | {cores}):
            extra = _region_seconds(pool, bench.code.address("empty"), threads) - alone
            if extra <= _MOST_REGION_SECONDS:
                points.append((threads, float(max(1, round(extra / min(bench.clocks))))))
        return tuple(points)
    finally:
        pool.close()


def _region_seconds(pool: Pool, function: Address, threads: int) -> float:
    """The time of an empty parallel region whose threads are awake: a low quantile of many."""
    nothing = Address(0, None)
    fastest = float("inf")
    for _ in range(_ROUNDS):
        samples = []
        for _ in range(_REGIONS):
            start = time.perf_counter()
            pool.run(function, nothing, (nothing, nothing, 0), nothing, threads)
            samples.append(time.perf_counter() - start)
        fastest = min(fastest, sorted(samples)[_REGIONS // 20])
        time.sleep(0.01)  # another process may leave its processor meanwhile
    return fastest
