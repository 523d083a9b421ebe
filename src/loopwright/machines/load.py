"""Machines as JSON: list the data files, read and check one, write one back.

Every field of a data file has an entry in its `sources`; a longer key such as
arithmetic.fma.float64 speaks for one row. "(unchecked)" marks a number entered from memory of the
named document. Numbers of LLVM's scheduling models are written by scripts/machine_from_llvm.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any

from loopwright.diagnostics import UsageError
from loopwright.ir.machine import Cache, Machine, OpCost, ParallelCost
from loopwright.machines.json_object import JsonObject, read_json

__all__ = ["load_machine", "machine_from_json", "machine_names", "machine_to_json"]

FORMAT = 1
ISAS = ("aarch64", "ppc64le", "x86_64")
OPERATIONS = ("add", "and", "div", "dot", "fma", "max", "min", "mul", "or", "sub", "xor")
_DTYPE = re.compile(r"float(16|32|64)|int(8|16|32|64)")
# A path beside this file and not importlib.resources, whose import costs more than all the rest;
# a wheel is always unpacked, so the folder is there.
_DATA = os.path.join(os.path.dirname(__file__), "data")


def machine_names() -> tuple[str, ...]:
    """The names of all machines we have data for, sorted."""
    return tuple(sorted(f[:-5] for f in os.listdir(_DATA) if f.endswith(".json")))


@lru_cache(maxsize=64)
def load_machine(name: str) -> Machine:
    """The machine of that name, or of a JSON file of one's own when `name` ends in .json."""
    if name.endswith(".json"):
        return machine_from_json(read_json(name), name)
    if name not in machine_names():
        import difflib  # lazy: needed only for this message

        near = difflib.get_close_matches(name, machine_names(), n=3, cutoff=0.5)
        raise UsageError(
            f"no machine is named '{name}'",
            hint=f"one of {', '.join(near or machine_names())}, or the path of a JSON file",
        )
    return machine_from_json(read_json(os.path.join(_DATA, f"{name}.json")), f"{name}.json")


def machine_from_json(data: Any, where: str) -> Machine:
    """Return the machine that `data` describes; refuse anything missing, unknown or absurd."""
    top = JsonObject(data, where)
    if top.whole("format") != FORMAT:
        raise UsageError(f"{where}: format {data['format']!r} is not {FORMAT}")
    known = {f.name for f in fields(Machine)} | {"format"}
    unknown = sorted(set(top.data) - known)
    if unknown:
        raise UsageError(f"{where}: unknown field", found=unknown[0], hint=", ".join(sorted(known)))
    machine = Machine(
        name=top.name("name"),
        description=top.text("description"),
        isa=top.choice("isa", ISAS),
        llvm_cpu=top.name("llvm_cpu"),
        features=frozenset(top.names("features")),
        vector_bytes=top.whole("vector_bytes"),
        vector_registers=top.whole("vector_registers", least=0),
        caches=tuple(_cache(item) for item in top.items("caches")),
        arithmetic=_arithmetic(top.inner("arithmetic")),
        load_latency=top.number("load_latency"),
        loads_per_cycle=top.number("loads_per_cycle"),
        stores_per_cycle=top.number("stores_per_cycle"),
        issue_width=top.number("issue_width"),
        prefetches_per_cycle=top.number("prefetches_per_cycle"),
        prefetch_latency=top.number("prefetch_latency"),
        parallel_cost=_parallel_cost(top.inner("parallel_cost")),
        cores=top.whole("cores"),
        frequency_hz=top.number_or_none("frequency_hz"),
        memory_bytes_per_cycle=top.number_or_none("memory_bytes_per_cycle"),
        prefetch_streams=top.whole_or_none("prefetch_streams"),
        sources={key: top.inner("sources").text(key) for key in top.inner("sources").data},
    )
    if [c.level for c in machine.caches] != list(range(1, len(machine.caches) + 1)):
        raise UsageError(f"{where}: caches must be levels 1, 2, ... in order, at least one")
    return machine


def _cache(reader: JsonObject) -> Cache:
    return Cache(
        reader.whole("level"),
        reader.whole("size"),
        reader.whole("ways"),
        reader.whole("line"),
        reader.whole("shared_by"),
        reader.number_or_none("bytes_per_cycle"),
    )


def _parallel_cost(reader: JsonObject) -> ParallelCost:
    points: list[tuple[int, float]] = []
    if "points" in reader.data:
        inner = reader.inner("points")
        for key in inner.data:
            if not (key.isascii() and key.isdigit()):
                raise UsageError(f"{inner.where}: not a number of threads", found=key)
            points.append((int(key), inner.number(key)))
    return ParallelCost(reader.number("base"), reader.number("per_thread"), tuple(sorted(points)))


def _arithmetic(reader: JsonObject) -> dict[tuple[str, str], OpCost]:
    table: dict[tuple[str, str], OpCost] = {}
    for operation in reader.data:
        if operation not in OPERATIONS:
            raise UsageError(
                f"{reader.where}: unknown operation", found=operation, hint=", ".join(OPERATIONS)
            )
        rows = reader.inner(operation)
        for dtype in rows.data:
            if _DTYPE.fullmatch(dtype) is None:
                raise UsageError(f"{rows.where}: unknown element type", found=dtype)
            table[operation, dtype] = _op_cost(rows.inner(dtype))
    return table


def _op_cost(row: JsonObject) -> OpCost:
    latency = row.number("latency")
    uses = row.inner("uses") if "uses" in row.data else JsonObject({}, row.where)
    return OpCost(
        latency=latency,
        per_cycle=row.number("per_cycle"),
        accumulate=row.number("accumulate") if "accumulate" in row.data else latency,
        uses=tuple((unit, uses.number(unit)) for unit in sorted(uses.data)),
        instructions=row.whole("instructions") if "instructions" in row.data else 1,
    )


def machine_to_json(machine: Machine) -> dict[str, Any]:
    """The JSON value that machine_from_json turns into an equal machine."""
    arithmetic: dict[str, dict[str, Any]] = {}
    for (operation, dtype), cost in sorted(machine.arithmetic.items()):
        arithmetic.setdefault(operation, {})[dtype] = _op_cost_to_json(cost)
    parallel: dict[str, Any] = {
        "base": machine.parallel_cost.base,
        "per_thread": machine.parallel_cost.per_thread,
    }
    if machine.parallel_cost.points:
        parallel["points"] = {str(t): c for t, c in machine.parallel_cost.points}
    return {
        "format": FORMAT,
        **_known(machine),
        "features": sorted(machine.features),
        "caches": [_known(cache) for cache in machine.caches],
        "arithmetic": arithmetic,
        "parallel_cost": parallel,
        "sources": dict(machine.sources),
    }


def _known(noun: Machine | Cache) -> dict[str, Any]:
    values = {f.name: getattr(noun, f.name) for f in fields(noun)}
    return {name: value for name, value in values.items() if value is not None}


def _op_cost_to_json(cost: OpCost) -> Mapping[str, Any]:
    row: dict[str, Any] = {"latency": cost.latency, "per_cycle": cost.per_cycle}
    if cost.instructions != 1:
        row["instructions"] = cost.instructions
    row["uses"] = dict(cost.uses)
    if cost.accumulate != cost.latency:
        row["accumulate"] = cost.accumulate
    return row
