"""A loop tree as numbers of fixed length, for learned cost models and policies.

First the columns of the whole tree (`TREE_COLUMNS`: the machine, the sizes, and the counts of the
closed form), then those of a loop (`LOOP_COLUMNS`) for each of MOST_LOOPS loops, outermost first,
nest after nest; where a tree has fewer loops, zeros. Extents, strides and times are logarithms to
base 2; cycles are those of the closed form over the roofline's.
"""

from __future__ import annotations

from math import log2, prod
from typing import Any

import numpy as np

from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.memo import BoundedCache
from loopwright.tuning.actions import MOST_LOOPS
from loopwright.tuning.loop_tree import LoopTree, TreeNest
from loopwright.tuning.nest_facts import StatementFacts, bytes_of
from loopwright.tuning.tree_cost import bound_seconds, model_of

__all__ = ["COLUMNS", "FEATURES", "LOOP_COLUMNS", "TREE_COLUMNS", "features", "tree_row"]

TREE_COLUMNS: tuple[str, ...] = (
    "log2 operations",
    "bytes of an element",
    "lanes of the machine",
    "vector registers",
    "latency times operations started a cycle",
    "log2 L1",
    "log2 L2",
    "log2 last cache",
    "threads",
    "log2 bytes of arrays over L1",
    "operations for a byte of the arrays",
    "log2 predicted over roofline",
    "arithmetic over roofline",
    "loads and stores over roofline",
    "instructions over roofline",
    "chains of sums over roofline",
    "beginnings and ends over roofline",
    "packing over roofline",
    "zeroing over roofline",
    "lines over roofline",
    "lines into L1 for an operation",
    "lines into L2 for an operation",
    "lines into L3 for an operation",
    "loads for an operation",
    "stores for an operation",
    "gathered elements for an operation",
    "packed bytes for an operation",
    "share of lanes wasted",
    "registers of sums",
    "lanes of the code",
    "lanes are partial sums",
    "accumulators",
    "log2 operations of straight-line code",
    "share of cycles in the first nest",
)
LOOP_COLUMNS: tuple[str, ...] = (
    "cursor",
    "log2 iterations",
    "log2 points an iteration covers",
    "tail over points an iteration covers",
    "accumulates",
    "not the first nest",
    "written element moves",
    "operand a moves",
    "operand b moves",
    "loops to the next of its dimension outside",
    "parallel",
    "vector",
    "unrolled",
    "packs a",
    "packs b",
    "log2 bytes that the write moves",
    "log2 bytes that a moves",
    "log2 bytes that b moves",
    "log2 bytes touched inside over L1",
    "log2 bytes touched inside over L2",
    "log2 iterations inside",
    "log2 iterations outside",
)
COLUMNS = (
    *TREE_COLUMNS,
    *(f"loop {k}: {name}" for k in range(MOST_LOOPS) for name in LOOP_COLUMNS),
)
FEATURES = len(COLUMNS)
_MOST = 64.0  # of ratios without a bound of their own


def features(tree: LoopTree, machine: Machine, threads: int = 1) -> Any:
    """The columns of a tree, float32 of length FEATURES."""
    rows = np.zeros((MOST_LOOPS, len(LOOP_COLUMNS)), np.float32)
    number = 0
    for at, nest in enumerate(tree.nests):
        found = _loop_rows(tree, nest, machine, at > 0)[: MOST_LOOPS - number]
        if found:
            rows[number : number + len(found)] = found
        number += len(found)
    if tree.cursor < MOST_LOOPS and number:
        rows[tree.cursor, 0] = 1.0
    return np.concatenate([tree_row(tree, machine, threads), rows.ravel()])


def tree_row(tree: LoopTree, machine: Machine, threads: int = 1) -> Any:
    """The columns of the whole tree alone, float32."""
    model = model_of(machine)
    cost = model.cost(tree, threads)
    kept = (machine, tree.arrays, *(nest.statement for nest in tree.nests))
    key = (threads, *map(id, kept))
    known = _kept_columns.get(key)
    if known is None:
        known = _kept_columns[key] = _program_columns(tree, machine, threads), kept
    bound = bound_seconds(tree, machine) * model.hz
    operations = max(1.0, sum([n.operations for n in cost.nests]))
    main = max(cost.nests, key=lambda n: n.cycles, default=None)

    def summed(name: str, unit: float) -> float:
        total = 0.0
        for nest in cost.nests:
            total += getattr(nest, name)
        return min(_MOST, total / unit)

    def lines(level: int) -> float:
        return sum([n.misses[level] for n in cost.nests if level < len(n.misses)]) / operations

    found = [
        *known[0],
        log2(cost.cycles / bound),
        summed("arithmetic", bound),
        summed("memory", bound),
        summed("issue", bound),
        summed("chain", bound),
        summed("overhead", bound),
        summed("copying", bound),
        summed("filling", bound),
        summed("traffic", bound),
        *(min(_MOST, lines(level)) for level in range(3)),
        summed("loads", operations),
        summed("stores", operations),
        summed("inserts", operations),
        summed("packed", operations),
    ]
    if main is None:
        found += [0.0] * (len(TREE_COLUMNS) - len(found))
    else:
        found += [
            main.waste,
            min(_MOST, main.registers),
            main.lanes,
            main.is_dot,
            main.accumulators,
            log2(max(1.0, main.body)),
            cost.nests[0].cycles / cost.cycles,
        ]
    return np.array(found, np.float32)


# By identity: edits keep statements and arrays. The second item keeps alive what a key names.
_kept_columns: BoundedCache[tuple[int, ...], tuple[list[float], Any]] = BoundedCache(1024)


def _program_columns(tree: LoopTree, machine: Machine, threads: int) -> list[float]:
    """The columns that loops do not change: of the program and of the machine."""
    dtype = tree.nests[0].statement.write.dtype if tree.nests else tree.arrays[0].dtype
    caches = machine.caches
    total = float(sum(bytes_of(array) for array in tree.arrays))
    step = machine.vmma("add", "mul", dtype.name) if dtype.is_float else None
    return [
        log2(max(1, tree.operations)),
        dtype.bytes,
        machine.lanes(dtype.bits),
        machine.vector_registers,
        step.latency * step.per_cycle if step is not None else 1.0,
        log2(caches[0].size),
        log2(machine.cache(2).size),
        log2(caches[-1].size),
        threads,
        log2(total / caches[0].size),
        min(_MOST, tree.operations / total),
    ]


def _loop_rows(
    tree: LoopTree, nest: TreeNest, machine: Machine, is_later: bool
) -> list[list[float]]:
    """The columns of every loop of a nest."""
    facts = model_of(machine).facts(tree, nest.statement)
    loops, steps = nest.loops, nest.steps
    points = {name: 1 for name, _ in facts.dims}
    touched, inside = [], []
    trips = 1.0
    for loop, step in zip(reversed(loops), reversed(steps), strict=True):
        touched.append(_bytes_touched(facts, points))
        inside.append(trips)
        points[loop.dim] = step * loop.size + loop.tail
        trips *= loop.trips
    touched.reverse()
    inside.reverse()
    found: list[list[float]] = []
    outside, last = 1.0, dict[str, int]()
    l1, l2 = machine.caches[0].size, machine.cache(2).size
    for depth, loop in enumerate(loops):
        moves = [facts.moves[k][loop.dim] if k < len(facts.moves) else 0 for k in range(3)]
        sizes = [facts.dtypes[k].bytes if k < len(facts.dtypes) else 1 for k in range(3)]
        found.append(
            [
                0.0,
                log2(loop.trips),
                log2(steps[depth]),
                loop.tail / steps[depth],
                facts.accumulates,
                is_later,
                *(float(move != 0) for move in moves),
                depth - last[loop.dim] if loop.dim in last else 0,
                loop.mark is Mark.PARALLEL,
                loop.mark is Mark.VECTOR,
                loop.mark is Mark.UNROLL,
                0 in loop.packs,
                1 in loop.packs,
                *(
                    log2(1 + abs(move) * steps[depth] * size)
                    for move, size in zip(moves, sizes, strict=True)
                ),
                log2(touched[depth] / l1),
                log2(touched[depth] / l2),
                log2(inside[depth]),
                log2(outside),
            ]
        )
        outside *= loop.trips
        last[loop.dim] = depth
    return found


def _bytes_touched(facts: StatementFacts, points: dict[str, int]) -> float:
    """Bytes of elements that points of the dimensions touch."""
    total = 0.0
    for moving, dtype in zip(facts.moving, facts.dtypes, strict=True):
        total += dtype.bytes * prod(points[d] for _, d in moving)
    return total
