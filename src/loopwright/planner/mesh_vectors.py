"""Which nests a core of a mesh does by vectors, and what it writes down for them.

The pass that makes register tiles (`lower/register_tiles`) is asked: it is given the nest of one
statement, its arrays in the scratchpad, with an extent of its own for each loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.ir.expr import Const, Expr
from loopwright.ir.loops import Alloc, Buffer, For, LoopNest, Mark, Space, Stmt, Store
from loopwright.ir.program import Program, Statement
from loopwright.ir.visit import statements
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.register_tiles import register_tiles

__all__ = ["VectorNest", "vector_nest"]

_ROW = 1 << 12  # elements of a row of any array here


@dataclass(frozen=True, slots=True)
class VectorNest:
    """A nest that is done by vectors."""

    # Factors that are written down before their use, each by the two iterators it depends on.
    factors: tuple[tuple[str, str], ...]


def vector_nest(
    program: Program, statement: Statement, iterators: Sequence[str]
) -> VectorNest | None:
    """How a statement is done by vectors in loops of its iterators, outermost first."""
    extents = {name: 104 * (at + 1) for at, name in enumerate(iterators)}
    store = Store(statement.write.array, statement.write.index, statement.value)
    body: Stmt = store
    for name in reversed(iterators):
        body = For(name, Const(0), Const(extents[name]), body, Const(1))
    scalars: list[Buffer] = []
    for array in program.arrays:
        strides = [Const(_ROW**at) for at in reversed(range(array.rank))]
        if not array.rank:
            scalars.append(Buffer(array.name, array.dtype, ()))
            continue
        memory = Buffer(array.name, array.dtype, tuple(strides), Space.SCRATCHPAD, writable=True)
        body = Alloc(memory, tuple(Const(_ROW) for _ in strides), body)
    nest = LoopNest("probe", tuple(scalars), program.params, body)
    made = list(statements(register_tiles(nest).body))
    if not any(isinstance(stmt, For) and stmt.mark is Mark.VECTOR for stmt in made):
        return None
    known = {array.name for array in program.arrays}
    by_extent = {extent: name for name, extent in extents.items()}
    factors: list[tuple[str, str]] = []
    for stmt in made:
        if not isinstance(stmt, Alloc) or stmt.buffer.name in known:
            continue
        if stmt.buffer.space is Space.SCRATCHPAD:
            first, second = (by_extent[_number(extent)] for extent in stmt.shape)
            factors.append((first, second))
    return VectorNest(tuple(factors))


def _number(extent: Expr) -> int:
    assert isinstance(extent, Const)
    return int(extent.value.real)
