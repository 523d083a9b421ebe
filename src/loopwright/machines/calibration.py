"""Measured numbers of one processor: kept in the user's cache directory, laid over its data.

`loopwright calibrate` measures (runtime/calibrate.py); this file holds the noun, its file and the
merge. A calibration can make plans better or worse, never wrong: a file that does not fit is
ignored.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any

from loopwright import options
from loopwright.ir.machine import Machine, OpCost, ParallelCost
from loopwright.lazy_dataclass import dataclass

__all__ = ["Calibration", "calibrated", "read_calibration", "write_calibration"]

FORMAT = 1
_FILE = "calibration.json"
_CONFIRMS = 0.06  # a measurement this near to the known value confirms it: clocks are not exact
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured on one processor; times are in cycles of its own clock."""

    llvm_cpu: str  # the processor it was measured on
    frequency_hz: float
    per_cycle: Mapping[tuple[str, str], float] = field(hash=False)  # by (operation, dtype)
    latency: Mapping[tuple[str, str], float] = field(hash=False)  # operand or factor to result
    accumulate: Mapping[tuple[str, str], float] = field(hash=False)  # addend to result
    load_latency: float | None = None  # cycles before a vector loaded from L1 can be used
    cache_bytes_per_cycle: tuple[float, ...] = ()  # read bandwidth of one core, L1 first
    memory_bytes_per_cycle: float | None = None
    parallel: tuple[tuple[int, float], ...] = ()  # (threads, cycles of a parallel region)
    date: str = ""  # when, ISO 8601

    def __post_init__(self) -> None:
        for name in ("per_cycle", "latency", "accumulate"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))


def calibrated(machine: Machine, calibration: Calibration) -> Machine:
    """`machine` with measured numbers in place of those of the data file, and their sources."""
    note = f"measured on this machine {calibration.date}".rstrip()
    sources = dict(machine.sources)
    arithmetic = dict(machine.arithmetic)
    for key in sorted({*calibration.per_cycle, *calibration.latency, *calibration.accumulate}):
        arithmetic[key] = _measured_cost(machine, key, calibration)
        sources[f"arithmetic.{key[0]}.{key[1]}"] = note
    changes: dict[str, Any] = {"frequency_hz": calibration.frequency_hz}
    if calibration.load_latency is not None:
        changes["load_latency"] = _settled(calibration.load_latency, machine.load_latency)
    if calibration.memory_bytes_per_cycle is not None:
        changes["memory_bytes_per_cycle"] = calibration.memory_bytes_per_cycle
    if calibration.cache_bytes_per_cycle:
        rates = (*calibration.cache_bytes_per_cycle, *(None,) * len(machine.caches))
        changes["caches"] = tuple(
            replace(cache, bytes_per_cycle=rate)
            for cache, rate in zip(machine.caches, rates, strict=False)
        )
        sources["caches.bytes_per_cycle"] = note
    if calibration.parallel:
        changes["parallel_cost"] = _line_through(calibration.parallel, machine.parallel_cost)
    sources |= {name: note for name in changes if name != "caches"}
    return replace(machine, arithmetic=arithmetic, sources=sources, **changes)


def _measured_cost(machine: Machine, key: tuple[str, str], found: Calibration) -> OpCost:
    """The row of `key` with its measured numbers; unit shares follow the throughput."""
    old = machine.arithmetic.get(key)
    if old is None:
        latency = found.latency.get(key, found.accumulate.get(key, 1.0))
        old = OpCost(latency, found.per_cycle.get(key, 1.0), latency)
    per_cycle = _settled(found.per_cycle.get(key, old.per_cycle), old.per_cycle)
    latency = _settled(found.latency.get(key, old.latency), old.latency)
    # Without a separate addend (all but fma and dot) both latencies are the same number.
    believed = old.accumulate if old.accumulate != old.latency else latency
    accumulate = _settled(found.accumulate.get(key, believed), believed)
    scale = old.per_cycle / per_cycle
    uses = tuple((unit, share * scale) for unit, share in old.uses)
    return OpCost(latency, per_cycle, accumulate, uses, old.instructions)


def _settled(measured: float, believed: float) -> float:
    return believed if abs(measured - believed) <= _CONFIRMS * believed else round(measured, 2)


def _line_through(points: tuple[tuple[int, float], ...], believed: ParallelCost) -> ParallelCost:
    """The least-squares line through the points; with one point, the slope of the data file."""
    mean_x = sum(t for t, _ in points) / len(points)
    mean_y = sum(c for _, c in points) / len(points)
    spread = sum((t - mean_x) ** 2 for t, _ in points)
    slope = believed.per_thread
    if spread > 0:
        slope = max(1.0, sum((t - mean_x) * (c - mean_y) for t, c in points) / spread)
    return ParallelCost(max(1.0, mean_y - slope * mean_x), slope, points)


def read_calibration(llvm_cpu: str) -> Calibration | None:
    """The stored calibration of this processor, or None when there is none that fits."""
    try:
        with open(_path(), encoding="utf-8") as file:
            data = json.loads(file.read(_MOST_BYTES))
        found = _from_json(data)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if found.llvm_cpu == llvm_cpu else None


def write_calibration(calibration: Calibration) -> str:
    """Store a calibration for later processes and return its path; readers never see half of it."""
    path = _path()
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(_to_json(calibration), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return path


def _path() -> str:
    return str(options.cache_dir() / _FILE)


def _to_json(calibration: Calibration) -> dict[str, Any]:
    def rows(table: Mapping[tuple[str, str], float]) -> dict[str, float]:
        return {f"{operation}.{dtype}": value for (operation, dtype), value in table.items()}

    return {
        "format": FORMAT,
        "llvm_cpu": calibration.llvm_cpu,
        "frequency_hz": calibration.frequency_hz,
        "per_cycle": rows(calibration.per_cycle),
        "latency": rows(calibration.latency),
        "accumulate": rows(calibration.accumulate),
        "load_latency": calibration.load_latency,
        "cache_bytes_per_cycle": list(calibration.cache_bytes_per_cycle),
        "memory_bytes_per_cycle": calibration.memory_bytes_per_cycle,
        "parallel": {str(threads): cycles for threads, cycles in calibration.parallel},
        "date": calibration.date,
    }


def _from_json(data: Any) -> Calibration:
    """The calibration in a JSON value; raises ValueError, KeyError or TypeError otherwise."""
    if data["format"] != FORMAT:
        raise ValueError("another format")

    def rows(name: str) -> dict[tuple[str, str], float]:
        table: dict[tuple[str, str], float] = {}
        for key, value in dict(data[name]).items():
            operation, dot, dtype = key.partition(".")
            if not dot:
                raise ValueError(f"not a row: {key}")
            table[operation, dtype] = _positive(value)
        return table

    def optional(name: str) -> float | None:
        return None if data[name] is None else _positive(data[name])

    return Calibration(
        llvm_cpu=str(data["llvm_cpu"]),
        frequency_hz=_positive(data["frequency_hz"]),
        per_cycle=rows("per_cycle"),
        latency=rows("latency"),
        accumulate=rows("accumulate"),
        load_latency=optional("load_latency"),
        cache_bytes_per_cycle=tuple(_positive(v) for v in data["cache_bytes_per_cycle"]),
        memory_bytes_per_cycle=optional("memory_bytes_per_cycle"),
        parallel=tuple(sorted((int(t), _positive(c)) for t, c in dict(data["parallel"]).items())),
        date=str(data["date"]),
    )


def _positive(value: Any) -> float:
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"not a positive number: {value!r}")
    return number
