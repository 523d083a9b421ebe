"""What an agent sees of a tree: LoopTune's 20 numbers per loop, and more for general agents.

LoopTune's observation leaves out which dimension a loop belongs to, which loops are reductions and
the machine, so that different states look alike. The general one has them: rows of LOOP_NUMBERS for
each of MOST_LOOPS loops, then GLOBAL_NUMBERS about the tree, the machine and the episode.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from math import log2
from typing import Any, TypeAlias

import numpy as np

from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.memo import BoundedCache
from loopwright.tuning.actions import MOST_LOOPS
from loopwright.tuning.loop_tree import LoopTree, TreeNest
from loopwright.tuning.tree_facts import AccessFacts, footprints, statement_facts

__all__ = [
    "GLOBAL_NUMBERS",
    "LOOPTUNE_LOOPS",
    "LOOPTUNE_NUMBERS",
    "LOOP_NUMBERS",
    "OBSERVED",
    "Floats",
    "Strides",
    "looptune_observation",
    "tree_observation",
]

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]

LOOPTUNE_LOOPS = 10
LOOPTUNE_NUMBERS = 20
_BINS = 16
LOOP_NUMBERS = 24
GLOBAL_NUMBERS = 24
OBSERVED = MOST_LOOPS * LOOP_NUMBERS + GLOBAL_NUMBERS  # numbers of the general observation


class Strides(Enum):
    """How the accesses of a loop are counted by their strides."""

    COUNTS = "counts"  # how many have a stride of each bin: LoopTune's paper
    SHARES = "shares"  # the same, divided by their sum: LoopTune's code


def looptune_observation(tree: LoopTree, strides: Strides = Strides.COUNTS) -> Floats:
    """LoopTune's observation: for each of 10 loops cursor, size, tail, compute nest, 16 bins.

    Bin b counts the accesses whose stride, in elements, is in (2^(b-1), 2^b]; strides of 0 and
    above 2^15 are left out. Rows of loops that are not there are 0; sizes are as they are.
    """
    seen = np.zeros((LOOPTUNE_LOOPS, LOOPTUNE_NUMBERS), np.float32)
    number = 0
    for nest in tree.nests:
        moves = statement_facts(tree, nest).moves
        is_compute = nest.statement.plus is not None
        for loop, step in zip(nest.loops, nest.steps, strict=True):
            if number == LOOPTUNE_LOOPS:
                break
            row = seen[number]
            row[:4] = number == tree.cursor, loop.size, loop.tail, is_compute
            for access in moves:
                stride = abs(access[loop.dim]) * step
                if 0 < stride <= 1 << (_BINS - 1):
                    row[4 + (stride - 1).bit_length()] += 1
            total = row[4:].sum()
            if strides is Strides.SHARES and total:
                row[4:] /= total
            number += 1
    return seen.reshape(-1)


def tree_observation(tree: LoopTree, machine: Machine, threads: int = 1) -> Floats:
    """The general observation, but for what only an episode knows: the last 8 global numbers.

    Per loop: cursor; log2 of iterations and of points per iteration, tail; whether the nest sums;
    packs a, packs b; M, N, K, batch; loops since the one outside of the same dimension; parallel,
    vector, unrolled; log2 byte strides of the write, a and b; log2 of the footprint over L1 and L2;
    log2 of iterations inside and outside; number of the nest, log2 of accumulators. All are scaled
    to a few units.
    """
    seen = np.zeros(OBSERVED, np.float32)
    rows: list[list[float]] = []
    for number, nest in enumerate(tree.nests):
        rows += _known_rows(tree, nest, number, machine)
    table = np.array(rows[:MOST_LOOPS], np.float32)
    if len(table):
        table[:, 0] = 0
        if tree.cursor < MOST_LOOPS:
            table[tree.cursor, 0] = 1
        seen[: table.size] = table.reshape(-1)
    start = MOST_LOOPS * LOOP_NUMBERS
    here = _tree_numbers(tree, machine)
    seen[start : start + len(here)] = here
    fixed = _machine_numbers(machine, threads)
    seen[start + len(here) : start + len(here) + len(fixed)] = fixed
    return seen


# By identity: an edit changes one nest at most. The second item keeps what a key names alive.
_kept_rows: BoundedCache[tuple[int, ...], tuple[list[list[float]], Any]] = BoundedCache(4096)


def _known_rows(tree: LoopTree, nest: TreeNest, number: int, machine: Machine) -> list[list[float]]:
    key = id(nest), id(tree.arrays), id(machine), number
    known = _kept_rows.get(key)
    if known is None:
        kept = nest, tree.arrays, machine
        known = _kept_rows[key] = _rows(tree, nest, number, machine), kept
    return known[0]


def _rows(tree: LoopTree, nest: TreeNest, number: int, machine: Machine) -> list[list[float]]:
    facts = statement_facts(tree, nest)
    l1, l2 = machine.cache(1).size, machine.cache(2).size
    total = sum(log2(loop.trips) for loop in nest.loops)
    outside = 0.0
    last: dict[str, int] = {}
    is_compute = float(nest.statement.plus is not None)
    partial = log2(max(nest.accumulators, 1)) / 3
    found = []
    touched = zip(nest.loops, nest.steps, footprints(nest, facts), strict=True)
    for depth, (loop, step, bytes_below) in enumerate(touched):
        group = facts.groups[loop.dim]
        trips = log2(loop.trips)
        inside = total - outside - trips
        mark = loop.mark
        since = depth - last[loop.dim] if loop.dim in last else 0
        last[loop.dim] = depth
        found.append(
            [
                0.0,  # the cursor
                trips / 8,
                log2(step) / 8,
                loop.tail / step,
                is_compute,
                float(0 in loop.packs),
                float(1 in loop.packs),
                float(group == 0),
                float(group == 1),
                float(group == 2),
                float(group == 3),
                since / 8,
                float(mark is Mark.PARALLEL),
                float(mark is Mark.VECTOR),
                float(mark is Mark.UNROLL),
                *_strides(facts, loop.dim, step),
                log2(bytes_below / l1) / 8,
                log2(bytes_below / l2) / 8,
                inside / 16,
                outside / 16,
                number / 4,
                partial,
            ]
        )
        outside += trips
    return found


def _strides(facts: AccessFacts, dim: str, step: int) -> list[float]:
    """log2 of the bytes that the write, a and b move by in an iteration; 0 where they stay."""
    found = [
        log2(abs(moves[dim]) * step * size + 1) / 16
        for moves, size in zip(facts.moves[:3], facts.element_bytes, strict=False)
    ]
    return found + [0.0] * (3 - len(found))


def _tree_numbers(tree: LoopTree, machine: Machine) -> list[float]:
    """Seven numbers of the whole tree."""
    work = tree.operations
    nest = tree.nests[0]
    facts = statement_facts(tree, nest)
    total = footprints(nest, facts)[0] if nest.loops else 1
    size = facts.element_bytes[0]
    registers = max(machine.vector_registers, 1) * machine.lanes(8 * size)
    return [
        log2(max(work, 1)) / 32,
        size / 8,
        log2(max(work, 1) / total) / 8,  # arithmetic intensity
        log2(_written_block(nest) / registers) / 8,
        tree.count / MOST_LOOPS,
        len(tree.nests) / 4,
        float(tree.reassoc),
    ]


def _written_block(nest: TreeNest) -> int:
    """Elements of the written array that the loops inside the innermost reduced one touch."""
    reduced = nest.statement.reduced
    points = 1
    for loop in reversed(nest.loops):
        if loop.dim in reduced:
            break
        points *= loop.trips
    return points


@lru_cache(maxsize=16)
def _machine_numbers(machine: Machine, threads: int) -> tuple[float, ...]:
    """Nine numbers of the machine."""
    step = machine.vmma("add", "mul", "float32")
    return (
        log2(machine.lanes(32)) / 4,
        log2(max(machine.vector_registers, 1)) / 5,
        step.latency * step.per_cycle / 16,
        machine.loads_per_cycle / 4,
        log2(machine.cache(1).size) / 24,
        log2(machine.cache(2).size) / 24,
        log2(machine.caches[-1].size) / 24,
        log2(max(threads, 1)) / 8,
        machine.issue_width / 8,
    )
