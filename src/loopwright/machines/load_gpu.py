"""GPUs as JSON: list the data files, read and check one.

As for processors, every field of a data file has an entry in its `sources`.
"""

from __future__ import annotations

import os
from dataclasses import fields
from functools import lru_cache
from typing import Any

from loopwright.diagnostics import UsageError
from loopwright.ir.gpu_machine import GpuMachine
from loopwright.machines.json_object import JsonObject, read_json

__all__ = ["gpu_from_json", "gpu_names", "load_gpu"]

FORMAT = 1
_DATA = os.path.join(os.path.dirname(__file__), "data", "gpu")


def gpu_names() -> tuple[str, ...]:
    """The names of all GPUs we have data for, sorted."""
    return tuple(sorted(f[:-5] for f in os.listdir(_DATA) if f.endswith(".json")))


@lru_cache(maxsize=16)
def load_gpu(name: str) -> GpuMachine:
    """The GPU of that name, or of a JSON file of one's own when `name` ends in .json."""
    if name.endswith(".json"):
        return gpu_from_json(read_json(name), name)
    if name not in gpu_names():
        hint = f"one of {', '.join(gpu_names())}, or the path of a JSON file"
        raise UsageError(f"no GPU is named '{name}'", hint=hint)
    return gpu_from_json(read_json(os.path.join(_DATA, f"{name}.json")), f"{name}.json")


def gpu_from_json(data: Any, where: str) -> GpuMachine:
    """The GPU that `data` describes; refuses anything missing, unknown or absurd."""
    top = JsonObject(data, where)
    if top.whole("format") != FORMAT:
        raise UsageError(f"{where}: format {data['format']!r} is not {FORMAT}")
    known = {f.name for f in fields(GpuMachine)} | {"format"}
    unknown = sorted(set(top.data) - known)
    if unknown:
        raise UsageError(f"{where}: unknown field", found=unknown[0], hint=", ".join(sorted(known)))
    major, minor = _capability(top)
    rates = top.inner("rates")
    return GpuMachine(
        name=top.name("name"),
        description=top.text("description"),
        capability=(major, minor),
        multiprocessors=top.whole("multiprocessors"),
        frequency_hz=top.number("frequency_hz"),
        warp=top.whole("warp"),
        threads_per_block=top.whole("threads_per_block"),
        threads_per_multiprocessor=top.whole("threads_per_multiprocessor"),
        blocks_per_multiprocessor=top.whole("blocks_per_multiprocessor"),
        registers_per_multiprocessor=top.whole("registers_per_multiprocessor"),
        registers_per_thread=top.whole("registers_per_thread"),
        register_unit=top.whole("register_unit"),
        shared_per_block=top.whole("shared_per_block"),
        shared_static=top.whole("shared_static"),
        shared_per_multiprocessor=top.whole("shared_per_multiprocessor"),
        shared_unit=top.whole("shared_unit"),
        shared_reserved=top.whole("shared_reserved", least=0),
        banks=top.whole("banks"),
        sector=top.whole("sector"),
        cache_bytes=top.whole("cache_bytes"),
        memory_bytes_per_second=top.number("memory_bytes_per_second"),
        rates={op: _rates(rates.inner(op)) for op in rates.data},
        has_async_copy=top.truth("has_async_copy"),
        launch_seconds=top.number("launch_seconds"),
        sources={key: top.inner("sources").text(key) for key in top.inner("sources").data},
    )


def _capability(top: JsonObject) -> tuple[int, int]:
    value = top.data.get("capability")
    match value:
        case [int(major), int(minor)] if 5 <= major <= 99 and 0 <= minor <= 9:
            return major, minor
    raise UsageError(f"{top.where}: field 'capability' is two whole numbers", found=repr(value))


def _rates(row: JsonObject) -> dict[str, float]:
    return {dtype: row.number(dtype) for dtype in row.data}
