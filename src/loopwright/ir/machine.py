"""The machine: a processor as the numbers that planning needs, each with its source.

Symbols in brackets are those of the hypothetical processor of theory 1, section 1. Memory
instructions are taken to issue beside arithmetic ones. Only the standard library is imported here:
a process that finds its kernel in the cache needs the machine and little else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import field, fields, replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import computed_once

__all__ = ["Cache", "Machine", "OpCost", "ParallelCost", "Processor", "VmmaCost"]

# What an operation may be taken to cost when its own row is missing, best first.
_SIMILAR: dict[str, tuple[str, ...]] = {
    "sub": ("add",),
    "add": ("sub",),
    "min": ("max", "add"),
    "max": ("min", "add"),
    "and": ("or", "xor", "add"),
    "or": ("and", "xor", "add"),
    "xor": ("or", "and", "add"),
}
# Operations that take several instructions, as so many of one that has a row: a saturating sum, the
# extreme of both operands, its comparison with the end that absorbs, a select; a wide product in
# two halves, each of them narrowed.
_COMPOSED: dict[str, tuple[str, int]] = {
    "add_top": ("add", 4),
    "add_bottom": ("add", 4),
    "mul_sat": ("mul", 4),
}
_DTYPE = re.compile(r"(float|int|uint|complex)(8|16|32|64|128)")
_WIDTHS = {"float": (16, 32, 64), "int": (8, 16, 32, 64)}
# Element types whose multiply-add takes a lane of a register as a factor (Arm's by-element forms).
_BY_ELEMENT = ("float16", "float32", "float64", "int16", "int32", "uint16", "uint32")
_FOR_PEOPLE = ("description", "sources")  # fields that no plan depends on


@dataclass(frozen=True, slots=True)
class Cache:
    """One level of data cache: set-associative, least recently used line leaves first."""

    level: int  # 1 is nearest to the core
    size: int  # bytes of one instance [S_Li]
    ways: int  # lines of a set [W_Li]
    line: int  # bytes of a line [C_Li]
    shared_by: int = 1  # hardware threads that share one instance
    bytes_per_cycle: float | None = None  # what one core reads from it; None: not known

    @property
    def sets(self) -> int:
        """The number of sets [N_Li]: S = N * C * W."""
        return max(1, self.size // (self.line * self.ways))

    @property
    def way_bytes(self) -> int:
        """Bytes that fill one line of every set, N * C."""
        return self.sets * self.line


@dataclass(frozen=True, slots=True)
class OpCost:
    """What one vector operation costs; an emulated operation is the sum of its instructions."""

    latency: float  # cycles from an operand to the result; for fma and dot, from a factor
    per_cycle: float  # operations started per cycle when no other competes
    accumulate: float  # cycles from the addend to the result; differs from latency in fma and dot
    uses: tuple[tuple[str, float], ...] = ()  # share of a cycle of each unit, by unit name
    instructions: int = 1  # how many instructions one operation takes

    def scaled(self, vectors: float) -> OpCost:
        """The cost of doing this on `vectors` registers for one register of elements."""
        return OpCost(
            self.latency,
            self.per_cycle / vectors,
            self.accumulate,
            tuple((unit, share * vectors) for unit, share in self.uses),
            int(self.instructions * vectors),
        )


_row = attrgetter("latency", "per_cycle", "accumulate", "uses", "instructions")  # all of OpCost


@dataclass(frozen=True, slots=True)
class VmmaCost:
    """One vector step c <- c plus (a times b)."""

    latency: float  # cycles before a dependent step may start [L_VMMA]
    per_cycle: float  # steps started per cycle [N_VMMA]
    fused: bool  # one instruction does both operations
    instructions: int  # instructions of one step
    chain: float  # cycles that the accumulator alone is busy: the addition's part of `latency`
    by_element: bool  # a may be one lane of a register, so that broadcasting it is free


@dataclass(frozen=True, slots=True)
class ParallelCost:
    """Cycles to open and close a parallel region [C_PAR]."""

    base: float
    per_thread: float
    points: tuple[tuple[int, float], ...] = ()  # (threads, cycles) as measured, before the line

    def cycles(self, threads: int) -> float:
        """C_PAR(threads): the measured point where there is one, else base + per_thread*threads."""
        return dict(self.points).get(threads, self.base + self.per_thread * threads)


@dataclass(frozen=True, slots=True)
class Processor:
    """The hypothetical processor: a machine seen for one element type and one operator pair."""

    element_bytes: int  # [S_DATA]
    registers: int  # vector registers [N_REG]
    lanes: int  # elements of one vector register [N_VEC]
    latency: float  # [L_VMMA]
    per_cycle: float  # [N_VMMA]
    load_latency: float  # cycles before a vector loaded from L1 can be used [L_VLOAD]
    add_latency: float  # cycles of the plus operation alone [L_ADD]
    l1: Cache
    l2: Cache
    prefetches_per_cycle: float  # [N_prefetch]
    prefetch_latency: float  # [L_prefetch]
    loads_per_cycle: float  # vector loads started per cycle
    fused: bool  # see VmmaCost
    by_element: bool  # see VmmaCost

    @property
    def gamma(self) -> float:
        """Elements that must be in flight to keep the pipes full: N_VEC * L_VMMA * N_VMMA."""
        return self.lanes * self.latency * self.per_cycle


@dataclass(frozen=True)
class Machine:
    """A processor model; every field but the name has its origin in `sources`."""

    name: str  # the name of the data file, such as neoverse-n1
    description: str  # one line for people
    isa: str  # instruction set: aarch64, x86_64, ppc64le
    llvm_cpu: str  # the name LLVM knows it by
    features: frozenset[str]  # instruction set extensions that matter to us, such as dotprod
    vector_bytes: int  # bytes of a vector register
    vector_registers: int  # [N_REG]; 0 means that there are none and N_VEC is 1
    caches: tuple[Cache, ...]  # data caches, L1 first
    arithmetic: Mapping[tuple[str, str], OpCost] = field(hash=False)  # by (operation, dtype name)
    load_latency: float  # [L_VLOAD]
    loads_per_cycle: float
    stores_per_cycle: float
    issue_width: float  # instructions started per cycle, of all kinds
    prefetches_per_cycle: float  # [N_prefetch]
    prefetch_latency: float  # [L_prefetch], 300 when unknown
    parallel_cost: ParallelCost  # [C_PAR]
    cores: int  # physical cores, or the cores this process may use when it is the host
    frequency_hz: float | None = None  # clock rate; None when only cycles are known
    memory_bytes_per_cycle: float | None = None  # what one core reads from memory; None: not known
    prefetch_streams: int | None = None  # runs of lines a core fetches ahead of; None: not known
    sources: Mapping[str, str] = field(hash=False, default_factory=dict)  # field -> origin

    def __post_init__(self) -> None:
        object.__setattr__(self, "arithmetic", MappingProxyType(dict(self.arithmetic)))
        object.__setattr__(self, "sources", MappingProxyType(dict(self.sources)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Plain dictionaries travel in a pickle: a read-only view cannot."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {"arithmetic": dict(self.arithmetic), "sources": dict(self.sources)}
        return _rebuilt, (values | plain,)

    @computed_once
    def content_hash(self) -> str:
        """A hash of all that plans are made from, for keys: the same in every process.

        What only people read is no part of it: where numbers come from, and the description.
        """
        values = (getattr(self, f.name) for f in fields(self) if f.name not in _FOR_PEOPLE)
        return hashlib.sha256(repr([_in_order(value) for value in values]).encode()).hexdigest()

    def lanes(self, dtype_bits: int) -> int:
        """N_VEC: how many elements of `dtype_bits` bits one vector register holds."""
        if self.vector_registers == 0:
            return 1
        return max(1, self.vector_bytes * 8 // dtype_bits)

    def cache(self, level: int) -> Cache:
        """The cache of `level`, or the last one when the machine has fewer levels."""
        return next((c for c in self.caches if c.level == level), self.caches[-1])

    def source(self, key: str) -> str:
        """Where a number comes from: `arithmetic.fma.float32` falls back to `arithmetic.fma`..."""
        while key and key not in self.sources:
            key = key.rpartition(".")[0]
        return self.sources.get(key, "unknown")

    def fused(self, operation: str, dtype_name: str) -> OpCost | None:
        """The cost of "fma" or "dot" on this dtype, or None where no instruction does it."""
        kind, bits = _kind_and_bits(dtype_name)
        signed = "int" if kind == "uint" else kind
        row = self.arithmetic.get((operation, f"{signed}{bits}"))
        if row is None and dtype_name == "float16" and "fp16" not in self.features:
            wide = self.fused(operation, "float32")  # computed in two registers of float32
            return None if wide is None else wide.scaled(2)
        return row

    def cost(self, operation: str, dtype_name: str) -> OpCost:
        """The cost of one vector operation, or of its nearest relative where it has no row.

        A missing row is looked for as the signed type, then as a similar operation (min as max,
        then as add), then at other widths of the same kind, nearest first, then as an integer for
        floats and the reverse.
        """
        if operation in _COMPOSED:
            single, count = _COMPOSED[operation]
            # Unsigned sums have no negative term: saturating is all they need.
            is_plain = single == "add" and dtype_name.startswith("uint")
            return self.cost(single, dtype_name).scaled(1 if is_plain else count)
        kind, bits = _kind_and_bits(dtype_name)
        if kind == "complex":
            return self._complex_cost(operation, f"float{bits // 2}")
        if dtype_name == "float16" and "fp16" not in self.features:
            return self.cost(operation, "float32").scaled(2)
        for name in _dtypes_like("int" if kind == "uint" else kind, bits):
            for candidate in (operation, *_SIMILAR.get(operation, ())):
                row = self.arithmetic.get((candidate, name))
                if row is not None:
                    return row
        raise UsageError(
            f"machine {self.name} does not know the cost of '{operation}' on {dtype_name}",
            hint=f"one of {', '.join(sorted({op for op, _ in self.arithmetic}))}",
        )

    def _complex_cost(self, operation: str, part: str) -> OpCost:
        """Complex numbers as pairs of floats: a sum is one operation per register, a product two.

        (a + bi)(c + di) = (ac - bd) + (ad + bc)i: four real products for two parts.
        """
        if operation not in ("add", "sub", "mul", "div"):
            raise UsageError(f"'{operation}' is not defined on complex numbers")
        cost = self.cost(operation, part)
        return cost.scaled(2) if operation in ("mul", "div") else cost

    def vmma(self, plus: str, times: str, dtype_name: str) -> VmmaCost:
        """L_VMMA and N_VMMA of the step c <- c plus (a times b).

        Fused (add or sub with mul, where the machine has the instruction): L is the latency of the
        accumulator chain, N the instruction's throughput. Otherwise L is the sum of both latencies
        and N the smaller throughput if the two issue together, half of it if they compete for the
        same units. Between these cases lies what the units allow: with u_x and u_y the share of a
        cycle of unit r that each takes, N = min(N_x, N_y, 1 / max over r of (u_x(r) + u_y(r))),
        which is the printed rule when the unit sets are disjoint or equal.
        """
        kind, bits = _kind_and_bits(dtype_name)
        is_fma = plus in ("add", "sub") and times == "mul"
        if is_fma and kind == "complex":
            step = self.vmma(plus, times, f"float{bits // 2}")
            return replace(step, per_cycle=step.per_cycle / 2, instructions=2 * step.instructions)
        row = self.fused("fma", dtype_name) if is_fma else None
        if row is not None:
            by_element = "fma-by-element" in self.features and f"{kind}{bits}" in _BY_ELEMENT
            chain = row.accumulate
            return VmmaCost(chain, row.per_cycle, True, row.instructions, chain, by_element)
        first, second = self.cost(times, dtype_name), self.cost(plus, dtype_name)
        shares = dict(first.uses)
        for unit, share in second.uses:
            shares[unit] = shares.get(unit, 0.0) + share
        together = first.instructions + second.instructions
        limits = [first.per_cycle, second.per_cycle, self.issue_width / together]
        limits += [1 / share for share in shares.values()]
        latency = first.latency + second.latency
        return VmmaCost(latency, min(limits), False, together, second.latency, False)

    def peak_ops_per_cycle(self, plus: str, times: str, dtype_name: str) -> float:
        """Operations per cycle and core that no code can exceed: 2 * N_VEC * N_VMMA."""
        _, bits = _kind_and_bits(dtype_name)
        return 2 * self.lanes(bits) * self.vmma(plus, times, dtype_name).per_cycle

    def processor(self, plus: str, times: str, dtype_name: str) -> Processor:
        """This machine as the hypothetical processor of one element type and operator pair."""
        _, bits = _kind_and_bits(dtype_name)
        step = self.vmma(plus, times, dtype_name)
        return Processor(
            element_bytes=bits // 8,
            registers=self.vector_registers,
            lanes=self.lanes(bits),
            latency=step.latency,
            per_cycle=step.per_cycle,
            load_latency=self.load_latency,
            add_latency=self.cost(plus, dtype_name).latency,
            l1=self.cache(1),
            l2=self.cache(2),
            prefetches_per_cycle=self.prefetches_per_cycle,
            prefetch_latency=self.prefetch_latency,
            loads_per_cycle=self.loads_per_cycle,
            fused=step.fused,
            by_element=step.by_element,
        )


def _in_order(value: Any) -> Any:
    """A field as a value whose text is the same in every process: sets and mappings are sorted."""
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        # Rows as tuples: their text takes half the time.
        return [(key, _row(value[key])) for key in sorted(value)]
    return value


def _rebuilt(values: dict[str, Any]) -> Machine:
    return Machine(**values)


def _kind_and_bits(dtype_name: str) -> tuple[str, int]:
    """`float32` -> ("float", 32); a boolean takes a byte and costs what an int8 does."""
    if dtype_name == "bool":
        return "int", 8
    match = _DTYPE.fullmatch(dtype_name)
    if match is None:
        raise UsageError(f"'{dtype_name}' is not the name of an element type")
    return match[1], int(match[2])


def _dtypes_like(kind: str, bits: int) -> Iterator[str]:
    """Names of element types, from the type itself to ever less similar ones."""
    for other in (kind, *(k for k in _WIDTHS if k != kind)):
        for width in sorted(_WIDTHS[other], key=lambda w: (abs(w - bits), -w)):
            yield f"{other}{width}"
