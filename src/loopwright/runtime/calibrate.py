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
from dataclasses import field, replace

import numpy as np
import numpy.typing as npt

from loopwright.ir.machine import Machine
from loopwright.lazy_dataclass import dataclass
from loopwright.machines.calibration import Calibration
from loopwright.runtime.address import Address, data_address, function_at
from loopwright.runtime.llvm_engine import LoadedObject, compile_to_object, load_object
from loopwright.runtime.thread_pool import Pool
from loopwright.runtime.workers import SYMBOLS, pool_source

__all__ = ["MeasuredLoop", "calibrate", "clock_loop", "loops", "module"]

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


# -------------------------------------------------------------------------------------------------
# Small measured loops as LLVM IR text: dependent chains, independent chains, reads, pointer walks.
# Every loop has the signature `i64 name(i64 turns, ptr data)`. Registers start from `data`, so that
# nothing is known to LLVM, and end in it, so that nothing is dead. One operand is read anew in each
# turn, so that nothing is invariant. A chain inside one turn could be rebuilt as a tree where the
# operation is associative; a chain through the turns cannot.


_TYPES = {"float16": "half", "float32": "float", "float64": "double"}
_TYPES |= {f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)}
_SUFFIX = {"half": "f16", "float": "f32", "double": "f64"}
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_BITS = {element: int(dtype.lstrip("floatin")) for dtype, element in _TYPES.items()}
_FLOATS = ("float16", "float32", "float64")
_INTS = ("int8", "int16", "int32")

# (name of the result, of the chained operand, of another register) -> lines of one operation
Step = Callable[[str, str, str], str]


@dataclass(frozen=True, slots=True)
class MeasuredLoop:
    """One measured function."""

    name: str
    text: str  # its LLVM IR
    declarations: tuple[str, ...]  # intrinsics it calls
    quantity: str  # "per_cycle", "latency", "accumulate", "load", "transfer", "bytes" or "clock"
    operation: str  # as in Machine.arithmetic, or ""
    dtype: str
    amount: int  # operations, or bytes, of one turn
    vector_bytes: int = 0  # width of its registers


def module(measured: list[MeasuredLoop]) -> str:
    """The text of one module with all loops."""
    declarations = sorted({d for loop in measured for d in loop.declarations})
    return "\n".join([*declarations, *(loop.text for loop in measured)])


def clock_loop() -> MeasuredLoop:
    """A chain of 16 integer additions and exclusive ors: one cycle each on every processor."""
    links = []
    last = "%x"
    for i in range(16):
        operation, operand = ("add", "%a") if i % 2 == 0 else ("xor", "%b")
        links.append(f"%r{i} = {operation} i64 {last}, {operand}")
        last = f"%r{i}"
    entry = ["%a = load i64, ptr %data", "%q = getelementptr i64, ptr %data, i64 1"]
    text = _function(
        "clock",
        [*entry, "%b = load i64, ptr %q"],
        [f"%x = phi i64 [ %a, %entry ], [ {last}, %turn ]"],
        links,
        [f"store i64 {last}, ptr %data"],
    )
    return MeasuredLoop("clock", text, (), "clock", "", "", 16)


def loops(machine: Machine) -> list[MeasuredLoop]:
    """Every loop that has a meaning on this machine."""
    registers = 24 if machine.vector_registers >= 32 else 10
    floats = [t for t in _FLOATS if t != "float16" or "fp16" in machine.features]
    found: list[MeasuredLoop] = []
    for dtype in floats:
        if "fma" in machine.features:
            found += _fma_loops(machine, dtype, registers)
        for operation in ("add", "mul", "min", "max"):
            found.append(_chains(machine, operation, dtype, registers))
            found.append(_chains(machine, operation, dtype, 1))
    for dtype in _INTS:
        if machine.isa == "aarch64":
            found += _fma_loops(machine, dtype, registers)
        for operation in ("add", "mul", "min", "max"):
            found.append(_chains(machine, operation, dtype, registers))
            found.append(_chains(machine, operation, dtype, 1))
        if machine.fused("dot", dtype) is not None:
            found += _dot_loops(machine, dtype, registers)
    return [*found, _vector_walk(), _transfer_loop(), _read_loop(machine)]


def _vector(machine: Machine, dtype: str) -> str:
    element = _TYPES[dtype]
    return f"<{machine.lanes(_BITS[element])} x {element}>"


def _chains(machine: Machine, operation: str, dtype: str, registers: int) -> MeasuredLoop:
    """x_i <- x_i op a: throughput with many registers, latency with one."""
    kind = _vector(machine, dtype)

    def step(result: str, x: str, _: str) -> str:
        return _operation(result, operation, dtype, kind, [x, "%a"])

    quantity = "latency" if registers == 1 else "per_cycle"
    return _register_loop(quantity, operation, dtype, kind, registers, step)


def _fma_loops(machine: Machine, dtype: str, registers: int) -> list[MeasuredLoop]:
    """c_i <- a*b + c_i by the addend, x <- x*a + b by a factor.

    Integers multiply and add in two operations which LLVM joins; so that the product of one turn is
    not computed once for all registers, it is that of a and another register.
    """
    kind = _vector(machine, dtype)
    is_float = dtype in _FLOATS

    def every_register(result: str, x: str, other: str) -> str:
        return _operation(result, "fma", dtype, kind, ["%a", "%b" if is_float else other, x])

    def by_addend(result: str, x: str, _: str) -> str:
        return _operation(result, "fma", dtype, kind, ["%a", "%b", x])

    def by_factor(result: str, x: str, _: str) -> str:
        return _operation(result, "fma", dtype, kind, [x, "%a", "%b"])

    links = 4 if is_float else 1
    return [
        _register_loop("per_cycle", "fma", dtype, kind, registers, every_register),
        _register_loop("accumulate", "fma", dtype, kind, 1, by_addend, links=links),
        _register_loop("latency", "fma", dtype, kind, 1, by_factor, links=4),
    ]


def _dot_loops(machine: Machine, dtype: str, registers: int) -> list[MeasuredLoop]:
    """c_i <- c_i + sums of four products of bytes, or of two of 16-bit integers."""
    lanes, group = machine.lanes(32), 4 if dtype == "int8" else 2
    accumulator, factors = f"<{lanes} x i32>", f"<{group * lanes} x {_TYPES[dtype]}>"
    if machine.isa == "aarch64":
        name, addend = f"llvm.aarch64.neon.sdot.v{lanes}i32.v{group * lanes}i8", True
    elif machine.features & {"avx512vnni", "avxvnni"}:
        word = "vpdpbusd" if dtype == "int8" else "vpdpwssd"
        name, addend = f"llvm.x86.avx512.{word}.{machine.vector_bytes * 8}", True
    else:
        word = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}[lanes]
        name, addend = f"llvm.x86.{word}", False
    types = [*([accumulator] if addend else []), factors, factors]

    def by_addend(result: str, x: str, other: str) -> str:
        # A product that does not take the addend is that of another register, so that it is not
        # computed once for all.
        b = "%b" if addend else other
        casts = [
            f"{result}.{v} = bitcast {accumulator} {text} to {factors}"
            for v, text in (("a", "%a"), ("b", b))
        ]
        values = [*([x] if addend else []), f"{result}.a", f"{result}.b"]
        operands = ", ".join(f"{t} {v}" for t, v in zip(types, values, strict=True))
        if addend:
            return "\n  ".join([*casts, f"{result} = call {accumulator} @{name}({operands})"])
        product = f"{result}.p = call {accumulator} @{name}({operands})"
        return "\n  ".join([*casts, product, f"{result} = add {accumulator} {x}, {result}.p"])

    declaration = f"declare {accumulator} @{name}({', '.join(types)})"
    found = [_register_loop("per_cycle", "dot", dtype, accumulator, registers, by_addend)]
    if addend:
        found.append(_register_loop("accumulate", "dot", dtype, accumulator, 1, by_addend, links=4))
    return [replace(loop, declarations=(declaration,)) for loop in found]


def _operation(result: str, operation: str, dtype: str, kind: str, operands: list[str]) -> str:
    element = _TYPES[dtype]
    typed = ", ".join(f"{kind} {o}" for o in operands)
    suffix = f"v{kind[1:].split()[0]}{_SUFFIX.get(element, element)}"
    if operation == "fma" and element in _SUFFIX:
        return f"{result} = call {kind} @llvm.fma.{suffix}({typed})"
    if operation == "fma":
        product = f"{result}.p = mul {kind} {operands[0]}, {operands[1]}"
        return f"{product}\n  {result} = add {kind} {operands[2]}, {result}.p"
    if operation in ("min", "max") and element in _SUFFIX:
        # nnan: the bare instruction, whose rule for NaN differs from the intrinsic's on x86
        return f"{result} = call nnan nsz {kind} @llvm.{operation}num.{suffix}({typed})"
    if operation in ("min", "max"):
        return f"{result} = call {kind} @llvm.s{operation}.{suffix}({typed})"
    word = _FLOAT[operation] if element in _SUFFIX else operation
    return f"{result} = {word} {kind} {', '.join(operands)}"


def _register_loop(
    quantity: str,
    operation: str,
    dtype: str,
    kind: str,
    registers: int,
    step: Step,
    *,
    links: int = 1,
) -> MeasuredLoop:
    """Chains in `registers` registers of type `kind`, each `links` operations long per turn.

    Data: two vectors for %a, which takes turns between them, one for %b, then the registers.
    """
    name = f"{quantity}.{operation}.{dtype}"
    count, _, element = kind.strip("<>").partition(" x ")
    width = int(count) * _BITS[element] // 8
    entry = [f"%pb = getelementptr {kind}, ptr %data, i64 2", f"%b = load {kind}, ptr %pb"]
    body = ["%side = and i64 %i, 1", f"%pa = getelementptr {kind}, ptr %data, i64 %side"]
    body.append(f"%a = load {kind}, ptr %pa")
    phis, after = [], []
    for i in range(registers):
        entry.append(f"%q{i} = getelementptr {kind}, ptr %data, i64 {i + 3}")
        entry.append(f"%s{i} = load {kind}, ptr %q{i}")
        phis.append(f"%x{i} = phi {kind} [ %s{i}, %entry ], [ %y{i}, %turn ]")
        last = f"%x{i}"
        for link in range(links):
            result = f"%y{i}" if link == links - 1 else f"%y{i}.{link}"
            body.append(step(result, last, f"%x{(i + 1) % registers}"))
            last = result
        after.append(f"store {kind} %y{i}, ptr %q{i}")
    text = _function(name, entry, phis, body, after)
    declarations = (_declaration(text, kind),) if "@llvm." in text else ()
    return MeasuredLoop(
        name, text, declarations, quantity, operation, dtype, registers * links, width
    )


def _declaration(text: str, kind: str) -> str:
    name = text.partition("@llvm.")[2].partition("(")[0]
    count = 3 if name.startswith("fma") else 2
    return f"declare {kind} @llvm.{name}({', '.join([kind] * count)})"


def _vector_walk() -> MeasuredLoop:
    """p <- half of the vector at p: the latency of a vector load, and of moving its value out."""
    # volatile: the load would be narrowed to the half that is used
    body = ["%v = load volatile <2 x i64>, ptr %p", "%w = extractelement <2 x i64> %v, i64 0"]
    body.append("%next = inttoptr i64 %w to ptr")
    phis = ["%p = phi ptr [ %data, %entry ], [ %next, %turn ]"]
    text = _function("walk", [], phis, body, ["store ptr %next, ptr %data"])
    return MeasuredLoop("walk", text, (), "load", "", "", 1)


def _transfer_loop() -> MeasuredLoop:
    """x <- (x as a double, plus a) as an integer, plus z: to a vector register and back.

    The two sums keep the value from staying on either side; their latencies are known.
    """
    body = [
        "%d = bitcast i64 %x to double",
        "%e = fadd double %d, %a",
        "%f = bitcast double %e to i64",
        "%y = add i64 %f, %z",
    ]
    entry = [
        "%a = load double, ptr %data",
        "%z = load i64, ptr %data",
        "%q = getelementptr i64, ptr %data, i64 1",
        "%s = load i64, ptr %q",
    ]
    phis = ["%x = phi i64 [ %s, %entry ], [ %y, %turn ]"]
    text = _function("transfer", entry, phis, body, ["store i64 %y, ptr %q"])
    return MeasuredLoop("transfer", text, (), "transfer", "", "", 1)


def _read_loop(machine: Machine) -> MeasuredLoop:
    """Read eight vectors a turn, around and around in a block of memory.

    The first word of the block is its size less one, a power of two less one.
    """
    kind = f"<{machine.vector_bytes // 4} x i32>"
    count = 8
    step = count * machine.vector_bytes
    body = ["%p = getelementptr i8, ptr %data, i64 %at"]
    for i in range(count):
        body.append(f"%q{i} = getelementptr i8, ptr %p, i64 {i * machine.vector_bytes}")
        # volatile: nothing uses the value, as any use would take issue slots from the loads
        body.append(f"%v{i} = load volatile {kind}, ptr %q{i}")
    body += [f"%ahead = add i64 %at, {step}", "%next = and i64 %ahead, %mask"]
    phis = ["%at = phi i64 [ 0, %entry ], [ %next, %turn ]"]
    text = _function("read", ["%mask = load i64, ptr %data"], phis, body, [])
    return MeasuredLoop("read", text, (), "bytes", "", "", step, machine.vector_bytes)


def _function(
    name: str, entry: list[str], phis: list[str], body: list[str], after: list[str]
) -> str:
    lines = [
        f'define i64 @"{name}"(i64 %n, ptr %data) {{',
        "entry:",
        *(f"  {line}" for line in entry),
        "  br label %turn",
        "turn:",
        "  %i = phi i64 [ 0, %entry ], [ %i.next, %turn ]",
        *(f"  {line}" for line in phis),
        *(f"  {line}" for line in body),
        "  %i.next = add i64 %i, 1",
        "  %more = icmp ult i64 %i.next, %n",
        "  br i1 %more, label %turn, label %done",
        "done:",
        *(f"  {line}" for line in after),
        "  ret i64 %i.next",
        "}",
    ]
    return "\n".join(lines)
