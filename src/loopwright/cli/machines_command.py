"""`loopwright machines`: all machines we have data for, or one of them with all its sources."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from loopwright.ir.gpu_machine import GpuMachine
from loopwright.ir.machine import Cache, Machine
from loopwright.ir.mesh_machine import MeshMachine, SmallBlock
from loopwright.machines.load import load_machine, machine_names, machine_to_json
from loopwright.machines.load_gpu import gpu_names, load_gpu
from loopwright.machines.load_mesh import load_mesh, mesh_names
from loopwright.machines.machine_argument import target_machine
from loopwright.tables import table_lines

__all__ = ["add_arguments", "run"]

_PAIRS = (("add", "mul"), ("min", "add"))  # the step of a product, and of shortest paths


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("name", nargs="?", help="a machine, 'host', or the path of a JSON file")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(args: argparse.Namespace) -> int:
    """Print all machines, or one."""
    if args.name is None:
        machines = [load_machine(name) for name in machine_names()]
        gpus = [load_gpu(name) for name in gpu_names()]
        meshes = [load_mesh(name) for name in mesh_names()]
        if args.json:
            told = [machine_to_json(machine) for machine in machines]
            told += [_object(gpu) for gpu in gpus] + [_object(mesh) for mesh in meshes]
            print(json.dumps(told, indent=2))
            return 0
        print("\n\n".join([_table(machines), _gpu_table(gpus), _mesh_table(meshes)]))
        return 0
    if args.name in gpu_names() or args.name in mesh_names():
        other = load_gpu(args.name) if args.name in gpu_names() else load_mesh(args.name)
        print(json.dumps(_object(other), indent=2) if args.json else _plain_page(other))
        return 0
    machine = target_machine(None if args.name == "host" else args.name)
    print(json.dumps(machine_to_json(machine), indent=2) if args.json else _page(machine))
    return 0


def _table(machines: list[Machine]) -> str:
    head = ("machine", "isa", "bits", "regs", "L1", "L2", "L3", "L/N f64", "ops/cycle")
    lines = table_lines([head, *(_row(machine) for machine in machines)])
    note = (
        "L/N: cycles and vector steps per cycle of a float64 multiply-add; ops/cycle: its bound,\n"
        "and that of a (min, +) step. `loopwright machines NAME` shows every number and its source,"
        "\n`loopwright machines host` this machine."
    )
    return "\n".join([*lines, "", note])


def _row(machine: Machine) -> tuple[str, ...]:
    step = machine.vmma("add", "mul", "float64")
    bounds = [machine.peak_ops_per_cycle(plus, times, "float64") for plus, times in _PAIRS]
    caches = [_size(machine.caches[i].size) if i < len(machine.caches) else "-" for i in range(3)]
    return (
        machine.name,
        machine.isa,
        str(machine.vector_bytes * 8),
        str(machine.vector_registers),
        *caches,
        f"{step.latency:g}/{step.per_cycle:g}",
        " ".join(f"{bound:g}" for bound in bounds),
    )


def _gpu_table(gpus: list[GpuMachine]) -> str:
    head = ("GPU", "SMs", "GHz", "threads", "shared", "L2", "GB/s", "Tflop/s f32 f64")
    rows = [
        (
            gpu.name,
            str(gpu.multiprocessors),
            f"{gpu.frequency_hz / 1e9:.2f}",
            str(gpu.threads_per_multiprocessor),
            _size(gpu.shared_per_multiprocessor),
            _size(gpu.cache_bytes),
            f"{gpu.memory_bytes_per_second / 1e9:.0f}",
            " ".join(f"{2e-12 * gpu.rate('fma', x):.3g}" for x in ("float32", "float64")),
        )
        for gpu in gpus
    ]
    return "\n".join(table_lines([head, *rows]))


def _mesh_table(meshes: list[MeshMachine]) -> str:
    head = ("mesh", "groups", "cores", "GHz", "bits", "scratchpad", "GB/s", "Gflop/s f64")
    rows = [
        (
            mesh.name,
            str(mesh.groups),
            f"{mesh.rows} x {mesh.columns}",
            f"{mesh.frequency_hz / 1e9:.2f}",
            str(8 * mesh.vector_bytes),
            _size(mesh.scratchpad_bytes),
            f"{mesh.memory_bytes_per_second / 1e9:.1f}",
            f"{mesh.peak_flops('float64') / 1e9:.1f}",
        )
        for mesh in meshes
    ]
    note = "mesh: cores, bandwidth and flops are those of one core group."
    return "\n".join([*table_lines([head, *rows]), "", note])


def _plain_page(machine: GpuMachine | MeshMachine) -> str:
    """Every field, its value and its source."""
    facts: list[tuple[str, str]] = []
    for key, value in _object(machine).items():
        match value:
            case [{}, *_]:
                facts += ((f"{key}[{i}]", _value_text(row)) for i, row in enumerate(value))
            case dict() if key == "rates":
                facts += ((f"{key}.{name}", _value_text(row)) for name, row in value.items())
            case _ if key not in ("name", "description", "sources"):
                facts.append((key, _value_text(value)))
    width = max(20, *(len(value) for _, value in facts))
    lines = [f"{machine.name}: {machine.description}", ""]
    for key, value in facts:
        source = machine.sources.get(re.split(r"[.\[]", key)[0], "")
        lines.append(f"{key:<28} {value:<{width}} {source}".rstrip())
    return "\n".join(lines)


def _value_text(value: Any) -> str:
    match value:
        case None:
            return "unknown"
        case dict():
            return ", ".join(f"{name} {number:g}" for name, number in value.items())
        case float():
            return f"{value:g}"
    return str(value)


def _object(machine: GpuMachine | MeshMachine) -> dict[str, Any]:
    """A machine as JSON, with the fields of its data file."""
    return {f.name: _plain(getattr(machine, f.name)) for f in fields(machine)}


def _plain(value: Any) -> Any:
    match value:
        case Mapping():
            return dict(value)
        case (SmallBlock(), *_):
            return [_plain(item) for item in value]
        case SmallBlock():
            return {f.name: getattr(value, f.name) for f in fields(value)}
    return value


def _page(machine: Machine) -> str:
    facts = list(_facts(machine))
    width = max(34, *(len(value) for _, value in facts))
    lines = [f"{machine.name}: {machine.description}", ""]
    lines += [f"{key:<22} {value:<{width}} {machine.source(key)}" for key, value in facts]
    lines += ["", f"{'operation':<22} {'latency   per cycle   instructions':<{width}} source"]
    for (operation, dtype), cost in sorted(machine.arithmetic.items()):
        latency = f"{cost.latency:g}"
        if cost.accumulate != cost.latency:
            latency += f" ({cost.accumulate:g})"
        numbers = f"{latency:<9} {cost.per_cycle:<11g} {cost.instructions}"
        source = machine.source(f"arithmetic.{operation}.{dtype}")
        lines.append(f"{operation + ' ' + dtype:<22} {numbers:<{width}} {source}")
    return "\n".join([*lines, "", "(n): cycles from the addend to the result"])


def _facts(machine: Machine) -> Iterator[tuple[str, str]]:
    """The fields of a machine and their values as text, in order of declaration."""
    yield "isa", machine.isa
    yield "llvm_cpu", machine.llvm_cpu
    yield "features", " ".join(sorted(machine.features))
    yield "cores", str(machine.cores)
    frequency = machine.frequency_hz
    yield "frequency_hz", "unknown" if frequency is None else f"{frequency / 1e9:.2f} GHz"
    yield "vector_bytes", str(machine.vector_bytes)
    yield "vector_registers", str(machine.vector_registers)
    for cache in machine.caches:
        yield "caches", _cache_text(cache)
    for field in ("load_latency", "loads_per_cycle", "stores_per_cycle", "issue_width"):
        yield field, f"{getattr(machine, field):g}"
    for field in ("prefetches_per_cycle", "prefetch_latency"):
        yield field, f"{getattr(machine, field):g}"
    memory = machine.memory_bytes_per_cycle
    if memory is not None:
        yield "memory_bytes_per_cycle", f"{memory:g}"
    if machine.prefetch_streams is not None:
        yield "prefetch_streams", str(machine.prefetch_streams)
    cost = machine.parallel_cost
    yield "parallel_cost", f"{cost.base:g} + {cost.per_thread:g} per thread"


def _cache_text(cache: Cache) -> str:
    text = f"L{cache.level} {_size(cache.size)}, {cache.ways} ways, {cache.line} B lines"
    text += f", {cache.shared_by} threads" if cache.shared_by > 1 else ""
    return text if cache.bytes_per_cycle is None else f"{text}, {cache.bytes_per_cycle:g} B/cycle"


def _size(size: int) -> str:
    if size % (1 << 20) == 0:
        return f"{size >> 20} MiB"
    return f"{size / (1 << 20):.1f} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
