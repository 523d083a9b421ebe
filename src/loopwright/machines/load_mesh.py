"""Processors of core groups as JSON: list the data files, read and check one.

As for processors and GPUs, every field of a data file has an entry in its `sources`.
"""

from __future__ import annotations

import os
from dataclasses import fields
from functools import lru_cache
from typing import Any

from loopwright.diagnostics import UsageError
from loopwright.ir.mesh_machine import MeshMachine, SmallBlock
from loopwright.machines.json_object import JsonObject, read_json

__all__ = ["load_mesh", "mesh_from_json", "mesh_names"]

FORMAT = 1
_DATA = os.path.join(os.path.dirname(__file__), "data", "mesh")


def mesh_names() -> tuple[str, ...]:
    """The names of all processors of core groups we have data for, sorted."""
    return tuple(sorted(f[:-5] for f in os.listdir(_DATA) if f.endswith(".json")))


@lru_cache(maxsize=16)
def load_mesh(name: str) -> MeshMachine:
    """The one of that name, or of a JSON file of one's own when `name` ends in .json."""
    if name.endswith(".json"):
        return mesh_from_json(read_json(name), name)
    if name not in mesh_names():
        hint = f"one of {', '.join(mesh_names())}, or the path of a JSON file"
        raise UsageError(f"no processor of core groups is named '{name}'", hint=hint)
    return mesh_from_json(read_json(os.path.join(_DATA, f"{name}.json")), f"{name}.json")


def mesh_from_json(data: Any, where: str) -> MeshMachine:
    """What `data` describes; refuses anything missing, unknown or absurd."""
    top = JsonObject(data, where)
    if top.whole("format") != FORMAT:
        raise UsageError(f"{where}: format {data['format']!r} is not {FORMAT}")
    known = {f.name for f in fields(MeshMachine)} | {"format"}
    unknown = sorted(set(top.data) - known)
    if unknown:
        raise UsageError(f"{where}: unknown field", found=unknown[0], hint=", ".join(sorted(known)))
    rates, sources = top.inner("rates"), top.inner("sources")
    found = MeshMachine(
        name=top.name("name"),
        description=top.text("description"),
        groups=top.whole("groups"),
        rows=top.whole("rows"),
        columns=top.whole("columns"),
        frequency_hz=top.number("frequency_hz"),
        host_frequency_hz=top.number("host_frequency_hz"),
        host_cache_bytes=top.whole("host_cache_bytes"),
        vector_bytes=top.whole("vector_bytes"),
        vector_registers=top.whole("vector_registers"),
        fma_latency=top.number_or_none("fma_latency"),
        rates={dtype: rates.number(dtype) for dtype in rates.data},
        scratchpad_bytes=top.whole("scratchpad_bytes"),
        scratchpad_reserved=top.whole("scratchpad_reserved", least=0),
        scratchpad_latency=top.number_or_none("scratchpad_latency"),
        memory_bytes_per_second=top.number("memory_bytes_per_second"),
        request_cycles=top.number("request_cycles"),
        block_cycles=top.number_or_none("block_cycles"),
        byte_cycles=top.number("byte_cycles"),
        small_blocks=tuple(
            SmallBlock(
                row.whole("bytes"), row.whole("gap", least=0), row.number("bytes_per_second")
            )
            for row in top.items("small_blocks", least=0)
        ),
        partial_line_get_cycles=top.number("partial_line_get_cycles", zero=True),
        partial_line_put_cycles=top.number("partial_line_put_cycles", zero=True),
        broadcast_byte_cycles=top.number_or_none("broadcast_byte_cycles"),
        dma_latency=top.number_or_none("dma_latency"),
        global_access_cycles=top.number_or_none("global_access_cycles"),
        dma_unit=top.whole("dma_unit"),
        transaction_bytes=top.whole("transaction_bytes"),
        exchange_latency=top.number("exchange_latency"),
        has_remote_access=top.truth("has_remote_access"),
        barrier_cycles=top.number_or_none("barrier_cycles"),
        launch_cycles=top.number("launch_cycles"),
        sources={key: sources.text(key) for key in sources.data},
    )
    if found.scratchpad_reserved >= found.scratchpad_bytes:
        raise UsageError(f"{where}: the stack takes all of the scratchpad")
    return found
