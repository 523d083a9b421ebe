"""Which nests a core of a mesh does by vectors, and what it writes down for them.

The pass that makes register tiles (`register_tiles`) is asked: it is given the nest of one
statement, its arrays in the scratchpad, with an extent of its own for each loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.ir.expr import Const, Expr
from loopwright.ir.islkit import isl
from loopwright.ir.loops import Alloc, Buffer, For, LoopNest, Mark, Space, Stmt, Store
from loopwright.ir.program import Program, Statement
from loopwright.ir.schedule_tree import Node, bands
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.ir.visit import loads, names, statements
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.mesh_nests.register_tiles import register_tiles

__all__ = ["VectorNest", "phases_of", "spilled_bytes", "vector_nest"]

_ROW = 1 << 12  # elements of a row of any array here
_SPILLED = 3 << 9  # bytes of a product's vectors: a host's compiler keeps those of each apart


@dataclass(frozen=True, slots=True)
class VectorNest:
    """A nest that is done by vectors."""

    # Factors that are written down before their use, each by the two iterators it depends on.
    factors: tuple[tuple[str, str], ...]
    # The iterators of the rows of a register tile and of its vectors; "": there is none.
    row: str
    lane: str
    is_rectangle: bool  # else tiles differ in size


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
    *outer, last = (names(entry) & extents.keys() for entry in statement.write.index)
    rows = [name for used in outer if len(used) == 1 for name in used]
    row, lane = rows[-1] if rows else "", "".join(last)
    return VectorNest(tuple(factors), row, lane, _is_rectangle(statement, iterators[:2]))


def _is_rectangle(statement: Statement, iterators: Sequence[str]) -> bool:
    """Whether the values of some iterators do not depend on each other."""
    kept = [statement.iterators.index(name) for name in iterators]
    domain = statement.domain
    for at in range(len(statement.iterators)):
        if at not in kept:
            domain = domain.eliminate(isl.dim_type.set, at, 1)
    hull = None
    for at in kept:
        alone = domain
        for other in kept:
            alone = alone.eliminate(isl.dim_type.set, other, 1) if other != at else alone
        hull = alone if hull is None else hull.intersect(alone)
    return hull is None or bool(hull.is_subset(domain))


def phases_of(root: Node) -> tuple[frozenset[str], ...]:
    """The statements of each phase of a region: those have functions of their own."""
    parts = [branch.child for branch in root.filters] if isinstance(root, InOrder) else [root]
    return tuple(map(_statements_of, parts))


def _statements_of(node: Node) -> frozenset[str]:
    return frozenset().union(*(band.statements for band in bands(node)))


def spilled_bytes(
    program: Program, phases: Sequence[frozenset[str]], nodes: Sequence[Node]
) -> int:  # fmt: skip
    """Bytes of the stack for vectors that find no register, beyond those of one product.

    Of the function that these nodes are in: phases of a region run one after another.
    """
    own = frozenset().union(*map(_statements_of, nodes))
    together = frozenset().union(*(phase for phase in phases if phase & own))
    products = [
        statement
        for statement in program.statements
        if statement.name in together
        and len(statement.iterators) > len(statement.write.index) > 1
        and any(load.array == statement.write.array for load in loads(statement.value))
    ]
    return _SPILLED * max(0, len(products) - 1)


def _number(extent: Expr) -> int:
    assert isinstance(extent, Const)
    return int(extent.value.real)
