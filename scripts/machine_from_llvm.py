"""Fill the LLVM-sourced numbers of machine data files from LLVM's own scheduling models.

    python scripts/machine_from_llvm.py neoverse-n1            # print what LLVM says
    python scripts/machine_from_llvm.py --all --update         # rewrite the data files
    python scripts/machine_from_llvm.py --all --check          # fail when a file differs

A data file asks for it by its source text: a field whose source holds "LLVM 22.1 scheduling model
of CPU" is computed here from CPU, unless a longer key such as arithmetic.fma.float64 names another
source for one row.

How: llvmlite's LLVM is built with assertions, so `-debug-only=machine-scheduler` prints, for every
instruction, its latency and the units it occupies. We compile two chains of the same operation, of
two and of three links. The difference of their critical paths is the latency of one link, that of
their unit cycles its occupation: no instruction needs to be recognised, and an operation that takes
several instructions (64-bit multiplication on most machines) counts as their sum. The text comes on
stderr, hence a child process. A development tool: nothing of the package imports it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llvm_chains import (
    FLOATS,
    INTS,
    LOGIC,
    Writer,
    chain_functions,
    dot_functions,
    memory_functions,
    separator,
)

DATA = Path(__file__).resolve().parent.parent / "src" / "loopwright" / "machines" / "data"
MODEL = re.compile(r"LLVM ([\d.]+) scheduling model of ([\w.-]*\w)")
TRIPLES = {
    "aarch64": "aarch64-unknown-linux-gnu",
    "x86_64": "x86_64-unknown-linux-gnu",
    "ppc64le": "powerpc64le-unknown-linux-gnu",
}


@dataclass(frozen=True)
class Chain:
    """What LLVM says about one function: critical path, instructions, unit cycles."""

    path: int
    instructions: int
    cycles: dict[str, int]


@dataclass(frozen=True)
class Link:
    """The difference of two chains: one operation."""

    latency: float
    instructions: int
    cycles: dict[str, int]


def wanted(machine: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the (operation, dtype) rows this machine has instructions for."""
    features = set(machine["features"])
    floats = [d for d in FLOATS if d != "float16" or "fp16" in features]
    rows = [(op, d) for d in floats for op in ("add", "sub", "mul", "div", "min", "max")]
    rows += [(op, d) for d in INTS for op in ("add", "sub", "mul", "min", "max", *LOGIC)]
    rows += [("fma", d) for d in floats if "fma" in features]
    if machine["isa"] == "aarch64":
        rows += [("fma", d) for d in ("int8", "int16", "int32")]
    if features & {"dotprod", "avx512vnni", "avxvnni"}:
        rows.append(("dot", "int8"))
    if machine["isa"] == "x86_64" and (machine["vector_bytes"] == 16 or "avx2" in features):
        rows.append(("dot", "int16"))
    return rows


def run_llvm(machine: dict[str, Any], cpu: str, text: str) -> str:
    """Compile `text` for `cpu` in a child process and return the scheduler's log."""
    features = "+fullfp16" if "fp16" in machine["features"] and machine["isa"] == "aarch64" else ""
    command = [sys.executable, __file__, "--child", TRIPLES[machine["isa"]], cpu, features]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{cpu}: LLVM failed\n{done.stderr[-4000:]}")
    return done.stderr


def child(triple: str, cpu: str, features: str) -> None:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    for option in ("-debug-only=machine-scheduler", "-misched-dump-reserved-cycles"):
        llvm.set_option("machine_from_llvm", option)
    target = llvm.Target.from_triple(triple)
    module = llvm.parse_assembly(sys.stdin.read())
    module.verify()
    target.create_target_machine(cpu=cpu, features=features, opt=2).emit_assembly(module)


def parse_log(log: str) -> tuple[dict[str, Chain], dict[str, int]]:
    """Return each function's Chain (its scheduling before register allocation), and unit counts."""
    units: dict[str, int] = {}
    for name, index in re.findall(r"^(\w+)\((\d+)\) = \d+$", log, re.MULTILINE):
        units[name] = max(units.get(name, 0), int(index) + 1)
    chains: dict[str, Chain] = {}
    for part in log.split("********** MI Scheduling **********\n")[1:]:
        name = part.split(":", 1)[0]
        path = re.search(r"Critical Path\(GS-RR \): (\d+)", part)
        if name in chains or path is None:
            continue
        cycles: dict[str, int] = {}
        count, counting = 0, False
        for line in part.splitlines():
            if line.startswith("Scheduling SU("):
                counting = " = COPY " not in line
                count += counting
            found = re.match(r"  (\w+) \+(\d+)x\d+u$", line)
            if found and counting:
                cycles[found[1]] = cycles.get(found[1], 0) + int(found[2])
        chains[name] = Chain(int(path[1]), count, cycles)
    return chains, units


def difference(longer: Chain, shorter: Chain) -> Link:
    names = longer.cycles.keys() | shorter.cycles.keys()
    cycles = {n: longer.cycles.get(n, 0) - shorter.cycles.get(n, 0) for n in sorted(names)}
    return Link(
        longer.path - shorter.path,
        longer.instructions - shorter.instructions,
        {n: c for n, c in cycles.items() if c > 0},
    )


def extract(machine: dict[str, Any], cpu: str) -> dict[str, Any]:
    """Return arithmetic rows and memory numbers of `machine` by the scheduling model of `cpu`."""
    width = machine["vector_bytes"]
    writer = Writer(f'"min-legal-vector-width"="{width * 8}" "prefer-vector-width"="{width * 8}"')
    rows = wanted(machine)
    for op, dtype in rows:
        if op == "dot":
            dot_functions(writer, dtype, machine)
        else:
            for name in ("fma.acc", "fma.mul") if op == "fma" else (op,):
                chain_functions(writer, name, dtype, width)
    memory_functions(writer, width)
    chains, units = parse_log(run_llvm(machine, cpu, writer.text))

    def link(name: str) -> Link:
        return difference(chains[f"{name}.3"], chains[f"{name}.2"])

    def cost(op: str, dtype: str) -> Link:
        between = separator(op, dtype)
        whole = link(f"{op}.{dtype}")
        return whole if between is None else subtract(whole, cost(between, dtype))

    found: dict[tuple[str, str], dict[str, Any]] = {}
    for op, dtype in rows:
        if op in ("fma", "dot"):
            row = describe(link(f"{op}.mul.{dtype}"), units)
            accumulate = link(f"{op}.acc.{dtype}").latency
            row |= {"accumulate": accumulate} if accumulate != row["latency"] else {}
        else:
            row = describe(cost(op, dtype), units)
        found[op, dtype] = row
    keep_binding_units(found)
    table: dict[str, dict[str, Any]] = {}
    for (op, dtype), row in sorted(found.items()):
        table.setdefault(op, {})[dtype] = row
    load, base = chains["load"], chains["base"]
    return {
        "arithmetic": table,
        "load_latency": load.path - base.path,
        "loads_per_cycle": throughput(difference(load, base).cycles, units),
        "stores_per_cycle": throughput(chains["store"].cycles, units),
        "prefetches_per_cycle": throughput(chains["prefetch"].cycles, units),
    }


def subtract(link: Link, part: Link) -> Link:
    cycles = {n: c - part.cycles.get(n, 0) for n, c in link.cycles.items()}
    return Link(
        link.latency - part.latency,
        link.instructions - part.instructions,
        {n: c for n, c in cycles.items() if c > 0},
    )


def throughput(cycles: dict[str, int], units: dict[str, int]) -> float:
    """Operations per cycle; 0 where LLVM models no unit."""
    return tidy(1 / max(c / units[n] for n, c in cycles.items())) if cycles else 0


def tidy(value: float) -> float:
    rounded = round(value, 4)
    return int(rounded) if rounded == int(rounded) else rounded


def describe(link: Link, units: dict[str, int]) -> dict[str, Any]:
    row = {"latency": link.latency, "per_cycle": throughput(link.cycles, units)}
    if link.instructions != 1:
        row["instructions"] = link.instructions
    return {**row, "uses": {n: tidy(c / units[n]) for n, c in link.cycles.items()}}


def keep_binding_units(rows: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Drop the units that limit neither one operation nor a pair of operations of one dtype."""
    pairs = [
        (a["uses"], b["uses"])
        for (_, dtype_a), a in rows.items()
        for (_, dtype_b), b in rows.items()
        if dtype_a == dtype_b
    ]
    needed: set[str] = set()
    for first, second in pairs:
        load = {n: first.get(n, 0) + second.get(n, 0) for n in first.keys() | second.keys()}
        most = max(load.values())
        binding = {n for n, c in load.items() if c >= most - 1e-9}
        if not binding & needed:
            needed.add(min(binding))
    for row in rows.values():
        row["uses"] = {n: c for n, c in sorted(row["uses"].items()) if n in needed}


def filled(machine: dict[str, Any]) -> dict[str, Any]:
    """Return `machine` with every LLVM-sourced number recomputed."""
    sources = machine["sources"]
    result = dict(machine)
    cache: dict[str, dict[str, Any]] = {}
    for field in ("arithmetic", *(f for f in sources if f.endswith("_per_cycle")), "load_latency"):
        model = MODEL.search(sources.get(field, ""))
        if model is None:
            continue
        if model[2] not in cache:
            cache[model[2]] = extract(machine, model[2])
        new = cache[model[2]][field]
        if not new:
            raise SystemExit(f"{machine['name']}: LLVM's model of {model[2]} has no {field}")
        result[field] = with_own_rows(machine, new) if field == "arithmetic" else new
    return result


def with_own_rows(machine: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Keep the rows whose own source is not LLVM."""
    table = {op: dict(rows) for op, rows in new.items()}
    for op, rows in machine.get("arithmetic", {}).items():
        for dtype, row in rows.items():
            key = f"arithmetic.{op}.{dtype}"
            own = machine["sources"].get(key) or machine["sources"].get(f"arithmetic.{op}")
            if own and not MODEL.search(own):
                table.setdefault(op, {})[dtype] = row
    return {op: dict(sorted(rows.items())) for op, rows in sorted(table.items())}


def dump(value: Any, indent: int = 0) -> str:
    """JSON that keeps on one line what fits there, so that one row is one line of a diff."""
    short = json.dumps(value)
    if len(short) <= 94 - indent or not isinstance(value, dict | list):
        return short
    pad = " " * (indent + 2)
    if isinstance(value, list):
        items = [pad + dump(item, indent + 2) for item in value]
        return "[\n" + ",\n".join(items) + "\n" + " " * indent + "]"
    items = [f"{pad}{json.dumps(key)}: {dump(item, indent + 2)}" for key, item in value.items()]
    return "{\n" + ",\n".join(items) + "\n" + " " * indent + "}"


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="machines; see src/loopwright/machines/data")
    parser.add_argument("--all", action="store_true", help="every machine")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--update", action="store_true", help="rewrite the data files")
    group.add_argument("--check", action="store_true", help="fail when a data file differs")
    args = parser.parse_args()
    names = sorted(p.stem for p in DATA.glob("*.json")) if args.all else args.names
    stale = []
    for name in names:
        path = DATA / f"{name}.json"
        before = path.read_text()
        after = dump(filled(json.loads(before))) + "\n"
        if args.update:
            path.write_text(after)
        elif args.check:
            stale += [name] if json.loads(after) != json.loads(before) else []
        else:
            print(after, end="")
    if stale:
        print(f"data files differ from LLVM: {', '.join(stale)}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
