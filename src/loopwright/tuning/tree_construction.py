"""The tree that is built without a search: a block of the result in registers, sums inside.

The rule of BLIS for any nest that sums: the lanes run along a written dimension in which the write
and at most one operand are contiguous; the block of registers is as square as they allow; the
summed dimensions go around it, all others outside. An operand whose panel is read again and does
not stay in the first cache is packed.
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.ir.machine import Machine
from loopwright.tuning.loop_tree import LoopTree, TreeLoop, TreeNest
from loopwright.tuning.tree_facts import AccessFacts, statement_facts
from loopwright.tuning.tree_legality import is_reorderable_nest, order_violation

__all__ = ["constructed_tree"]

_SHARE = 2  # of the registers hold the block: operands need the others


def constructed_tree(tree: LoopTree, machine: Machine) -> LoopTree:
    """The naive `tree` with every nest that sums built for the registers of a machine."""
    nests = tuple(_constructed(tree, nest, machine) for nest in tree.nests)
    return replace(tree, nests=nests, cursor=0)


def _constructed(tree: LoopTree, nest: TreeNest, machine: Machine) -> TreeNest:
    statement = nest.statement
    extents = dict(statement.dims)
    written = [d for d in extents if d not in statement.reduced]
    if statement.plus is None or not statement.reduced or not written:
        return nest
    facts = statement_facts(tree, nest.statement)
    lanes = machine.lanes(8 * facts.element_bytes[0])
    block = max(machine.vector_registers, 8) // _SHARE  # vectors
    vector = min(written, key=lambda d: _strangeness(facts, d, extents[d], lanes))
    rows = [d for d in written if d != vector and extents[d] > 1]
    rows.sort(key=lambda d: _shared(facts, d, vector))
    width = _width(extents[vector], 4 * lanes, lanes)
    height = _height(extents[rows[0]], max(1, block * lanes // width)) if rows else 1
    blocks = {vector: width, **({rows[0]: height} if rows else {})}
    outer = [d for d in written if d not in blocks] + [d for d in blocks if d != vector] + [vector]
    loops = [_outer(d, extents[d], blocks.get(d, 1)) for d in outer]
    loops += [TreeLoop(d, extents[d]) for d in statement.reduced]
    loops += [TreeLoop(d, blocks[d]) for d in outer if blocks.get(d, 1) > 1]
    made = TreeNest(statement, _with_packs(loops, facts, extents, machine))
    if not is_reorderable_nest(tree, made) and order_violation(tree, made) is not None:
        return nest
    return made


def _outer(dim: str, extent: int, block: int) -> TreeLoop:
    size, tail = divmod(extent, block)
    return TreeLoop(dim, size, tail)


def _strangeness(facts: AccessFacts, dim: str, extent: int, lanes: int) -> tuple[bool, int, int]:
    """Lanes along short dimensions, and accesses that would be gathered, come last."""
    strided = sum(moves[dim] not in (0, 1) for moves in facts.moves)
    return extent < lanes, strided, -extent


def _shared(facts: AccessFacts, dim: str, vector: str) -> int:
    """Operands that move along both dimensions: the block reuses nothing of them."""
    return sum(m[dim] != 0 and m[vector] != 0 for m in facts.moves[1:])


def _width(extent: int, most: int, lanes: int) -> int:
    """Points of a block along the lanes: whole vectors, without a rest where that can be."""
    whole = [w for w in range(lanes, most + 1, lanes) if w <= extent]
    if not whole:
        return extent
    even = [w for w in whole if extent % w == 0]
    return max(even) if even and 2 * max(even) >= max(whole) else max(whole)


def _height(extent: int, most: int) -> int:
    """Rows of a block: at most `most`, without a rest where that can be."""
    most = min(most, extent)
    even = max(h for h in range(1, most + 1) if extent % h == 0)
    return even if 2 * even > most else most


def _with_packs(
    loops: list[TreeLoop], facts: AccessFacts, extents: dict[str, int], machine: Machine
) -> tuple[TreeLoop, ...]:
    """Pack, before all loops, an operand that is read again and does not stay in L1."""
    packed = []
    for operand, moves in enumerate(facts.moves[1:3]):
        size = facts.element_bytes[1 + operand]
        for dim, extent in extents.items():
            size *= extent if moves[dim] else 1
        again = any(moves[dim] == 0 for dim in extents)
        along = next((loop.dim for loop in reversed(loops)), None)
        is_read_by_lanes = along is not None and moves[along] != 0
        if again and is_read_by_lanes and machine.cache(1).size < size:
            packed.append(operand)
    if not packed or not loops:
        return tuple(loops)
    return (replace(loops[0], packs=tuple(packed)), *loops[1:])
