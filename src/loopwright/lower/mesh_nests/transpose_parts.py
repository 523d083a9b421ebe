"""Broadcast boxes that lie across the lanes of their use: each core transposes its own part.

    for r: for c: A_box[low(own) + r, c] = A_part[r, c]        all cores at once, each its own part
    for p in range(8): give A_box[low(p) + r, c] = A_part[r, c] of p
    for i: for j: for k: C[i, j] = C[i, j] + X[i, k] * A_box[j, k]
->  for r: for c: A_box[c, low(own) + r] = A_part[r, c]
    for p in range(8): give A_box[c, low(p) + r] = A_box[c, low(p) + r] of p
    for i: for j: for k: C[i, j] = C[i, j] + X[i, k] * A_box[k, j]

Vectors of results go along j, and so do those of the factor now. Else every core writes the whole
box down once more (`mesh_nests/register_tiles`): eight times as much work, and twice the memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from loopwright.ir.expr import Const, Expr, Load, Var
from loopwright.ir.loops import Alloc, Copy, LoopNest, MeshBroadcast, Stmt, Store
from loopwright.ir.visit import expressions, loads, names, rebuild, rewrite, statements
from loopwright.lower.linear_forms import linear, normal

__all__ = ["transpose_parts"]

_LANES = 4
_RANK = 2


def transpose_parts(nest: LoopNest) -> LoopNest:
    """The nest with broadcast boxes along the lanes of the statements that use them."""
    boxes = _across_lanes(nest.body)
    if not boxes:
        return nest

    def visit(stmt: Stmt) -> Stmt:
        match stmt:
            case Alloc(buffer=buffer, shape=(rows, width)) if buffer.name in boxes:
                pitch = normal((rows + (_LANES - 1)) // _LANES * _LANES)
                memory = replace(buffer, strides=(pitch, Const(1)))
                return replace(stmt, buffer=memory, shape=(width, pitch))
            case Store(buffer=name, index=index) if name in boxes:
                return replace(stmt, index=index[::-1])
            case MeshBroadcast(target=name, target_start=start, shape=shape) if name in boxes:
                # The root has its part in its place, and gives it from there.
                start, shape = start[::-1], shape[::-1]
                return replace(
                    stmt, target_start=start, source=name, source_start=start, shape=shape
                )
        return stmt

    def change(node: Expr) -> Expr:
        if isinstance(node, Load) and node.array in boxes:
            return replace(node, index=node.index[::-1])
        return node

    return replace(nest, body=rebuild(nest.body, visit, lambda expr: rewrite(expr, change)))


def _across_lanes(body: Stmt) -> frozenset[str]:
    """The boxes that cores fill for each other and that sums use across their lanes, and only so.

    Each core has copied its own part before (`lower/mesh_nests/keep_own_parts`).
    """
    everything = list(statements(body))
    given = [s for s in everything if isinstance(s, MeshBroadcast)]
    fills = Counter(s.target for s in given)
    shapes = {s.buffer.name: s.shape for s in everything if isinstance(s, Alloc)}
    sources = {
        s.target: s.source
        for s in given
        if s.is_kept and fills[s.target] == 1 and len(s.shape) == _RANK
        if _has_whole_vectors(shapes.get(s.source, ()))
    }
    used: set[str] = set()
    for stmt in everything:
        match stmt:
            case Store(buffer=name, value=value):
                if not (isinstance(value, Load) and value.array == sources.get(name)):
                    sources.pop(name, None)
            case Copy(target=target, source=source):
                sources.pop(target, None)
                sources.pop(source, None)
            case MeshBroadcast(source=source):
                sources.pop(source, None)
        for load in {each for expr in expressions(stmt) for each in loads(expr)}:
            if load.array not in sources:
                continue
            if isinstance(stmt, Store) and _is_across(stmt, load):
                used.add(load.array)
            else:
                del sources[load.array]
    return frozenset(sources.keys() & used)


def _has_whole_vectors(shape: Sequence[Expr]) -> bool:
    """Whether the rows of a part are whole vectors when they lie along the lanes."""
    match shape:
        case (_, Const(value=rows), _):
            return int(rows.real) % _LANES == 0
    return False


def _is_across(stmt: Store, load: Load) -> bool:
    """Whether a sum goes along the last dimension of a box, and its results along the first."""
    if not stmt.index or load.array == stmt.buffer:
        return False
    first, last = load.index
    kept = set().union(*map(names, stmt.index))
    along = {atom for atom, factor in linear(first).terms if factor == 1}
    is_lane = any(
        isinstance(atom, Var) and factor == 1 and atom in along and atom.name not in names(last)
        for atom, factor in linear(stmt.index[-1]).terms
    )
    return is_lane and any(
        isinstance(atom, Var) and factor == 1 and atom.name not in kept
        for atom, factor in linear(last).terms
    )
