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
from loopwright.tuning.tree_facts import REDUCED, footprints, statement_facts

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
        moves = statement_facts(tree, nest.statement).moves
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
    key = id(tree.nests), id(tree.arrays), id(machine), threads
    known = _kept_views.get(key)
    if known is None:
        kept = tree.nests, tree.arrays, machine
        known = _kept_views[key] = _without_cursor(tree, machine, threads), kept
    seen: Floats = known[0].copy()
    if tree.cursor < min(tree.count, MOST_LOOPS):
        seen[tree.cursor * LOOP_NUMBERS] = 1
    return seen


def _without_cursor(tree: LoopTree, machine: Machine, threads: int) -> Floats:
    seen = np.zeros(OBSERVED, np.float32)
    at = 0
    for number, nest in enumerate(tree.nests):
        rows = _known_rows(tree, nest, number, machine)[: MOST_LOOPS * LOOP_NUMBERS - at]
        seen[at : at + len(rows)] = rows
        at += len(rows)
    start = MOST_LOOPS * LOOP_NUMBERS
    here = _tree_numbers(tree, machine)
    seen[start : start + len(here)] = here
    fixed = _machine_numbers(machine, threads)
    seen[start + len(here) : start + len(here) + len(fixed)] = fixed
    return seen


# By identity: moves of the cursor keep the nests of a tree, and edits all of them but one. The
# second item keeps what a key names alive.
_kept_views: BoundedCache[tuple[int, ...], tuple[Floats, Any]] = BoundedCache(1024)
_kept_rows: BoundedCache[tuple[int, ...], tuple[Floats, Any]] = BoundedCache(4096)


def _known_rows(tree: LoopTree, nest: TreeNest, number: int, machine: Machine) -> Floats:
    key = id(nest), id(tree.arrays), id(machine), number
    known = _kept_rows.get(key)
    if known is None:
        kept = nest, tree.arrays, machine
        rows = np.array(_rows(tree, nest, number, machine), np.float32).reshape(-1)
        known = _kept_rows[key] = rows, kept
    return known[0]


def _rows(tree: LoopTree, nest: TreeNest, number: int, machine: Machine) -> list[list[float]]:
    facts = statement_facts(tree, nest.statement)
    l1, l2 = machine.cache(1).size, machine.cache(2).size
    trips = [log2(loop.trips) for loop in nest.loops]
    total = sum(trips)
    outside = 0.0
    last: dict[str, int] = {}
    is_compute = float(nest.statement.plus is not None)
    partial = log2(max(nest.accumulators, 1)) / 3
    found = []
    touched = zip(nest.loops, trips, nest.steps, footprints(nest, facts), strict=True)
    for depth, (loop, own, step, bytes_below) in enumerate(touched):
        dim, packs = loop.dim, loop.packs
        since = depth - last[dim] if dim in last else 0
        last[dim] = depth
        write, a, b = facts.strides[dim]
        found.append(
            [
                0.0,  # the cursor
                own / 8,
                log2(step) / 8,
                loop.tail / step,
                is_compute,
                float(0 in packs),
                float(1 in packs),
                *_GROUPS[facts.groups[dim]],
                since / 8,
                *_MARKS[loop.mark.value],
                log2(write * step + 1) / 16,
                log2(a * step + 1) / 16,
                log2(b * step + 1) / 16,
                log2(bytes_below / l1) / 8,
                log2(bytes_below / l2) / 8,
                (total - outside - own) / 16,
                outside / 16,
                number / 4,
                partial,
            ]
        )
        outside += own
    return found


# One of four groups of dimensions; parallel, vector, unrolled.
_GROUPS = tuple(tuple(float(k == group) for k in range(4)) for group in range(4))
_MARKED = (Mark.PARALLEL, Mark.VECTOR, Mark.UNROLL)
_MARKS = {mark.value: tuple(float(mark is each) for each in _MARKED) for mark in Mark}


def _tree_numbers(tree: LoopTree, machine: Machine) -> list[float]:
    """Seven numbers of the whole tree."""
    nest = tree.nests[0]
    kept = (machine, tree.arrays, *(each.statement for each in tree.nests))
    key = tuple(map(id, kept))
    known = _kept_numbers.get(key)
    if known is None:
        known = _kept_numbers[key] = _statement_numbers(tree, machine), kept
    work, size, intensity, registers = known[0]
    return [
        work,
        size,
        intensity,
        log2(_written_block(tree, nest) / registers) / 8,
        tree.count / MOST_LOOPS,
        len(tree.nests) / 4,
        float(tree.reassoc),
    ]


# By identity: edits keep statements.
_kept_numbers: BoundedCache[tuple[int, ...], tuple[tuple[float, ...], Any]] = BoundedCache(1024)


def _statement_numbers(tree: LoopTree, machine: Machine) -> tuple[float, float, float, int]:
    """Work, bytes of an element, arithmetic intensity, elements that all registers hold."""
    work = max(tree.operations, 1)
    nest = tree.nests[0]
    facts = statement_facts(tree, nest.statement)
    total = footprints(nest, facts)[0] if nest.loops else 1
    size = facts.element_bytes[0]
    registers = max(machine.vector_registers, 1) * machine.lanes(8 * size)
    return log2(work) / 32, size / 8, log2(work / total) / 8, registers


def _written_block(tree: LoopTree, nest: TreeNest) -> int:
    """Elements of the written array that the loops inside the innermost reduced one touch."""
    groups = statement_facts(tree, nest.statement).groups
    points = 1
    for loop in reversed(nest.loops):
        if groups[loop.dim] == REDUCED:
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
