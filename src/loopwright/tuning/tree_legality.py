"""Which orders of a tree's loops compute what the source order computes, by the exact test.

The dependences of a nest are those of its statement on itself, through the element it accumulates.
Where the accumulation may be reordered - the type is exact, the operator is exact for every type
(min, max, bitwise), or the tree allows reassociation - none are left (`relaxed_dependences`), and
all orders are legal. Elsewhere an order is legal iff `analysis/legality` finds no violation.

That test is about few loops: where the two ends of every dependence agree in a dimension, its loops
order nothing, and the loops of one dimension alone always keep their order. So the answer depends
on the loops of the dimensions that move, and is remembered by them.
"""

from __future__ import annotations

from functools import lru_cache

from loopwright.analysis.dependences import Dependences, dependences
from loopwright.analysis.legality import Witness, carried_by, violation
from loopwright.analysis.reductions import relaxed_dependences
from loopwright.analysis.relations import maps_of, moved_dimensions
from loopwright.diagnostics import Span
from loopwright.frontends.extract import program_of
from loopwright.frontends.source_tree import ArrayParam, Assign, ForLoop, Node, SourceTree
from loopwright.ir.expr import Binary, Const, Expr, Var
from loopwright.ir.islkit import affine, isl
from loopwright.ir.program import Array, Program
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import BoundedCache
from loopwright.tuning.loop_tree import LoopTree, TreeNest, TreeStatement

__all__ = ["carries_dependence", "is_reorderable_nest", "order_violation", "statement_program"]

# Loops as the test sees them: dimension, points that an iteration covers.
_Order = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class _Facts:
    """What must be kept of a statement's order."""

    program: Program
    exact: Dependences
    relaxed: Dependences
    moved: frozenset[str]  # dimensions in which exact dependences move
    moved_relaxed: frozenset[str]


def statement_program(
    statement: TreeStatement, arrays: tuple[Array, ...], reassoc: bool
) -> Program:
    """The polyhedral program of a statement in the order of its dimensions."""
    span = Span("<loop tree>", 1, 1, 1, 2, "")
    write = statement.write
    value = statement.value
    if statement.plus is not None:
        value = Binary(statement.plus, write.load(), value)
    body: Node = Assign(write, value, span)
    for name, extent in reversed(statement.dims):
        body = ForLoop(name, Const(0), Const(extent), 1, (body,), span)
    used = {write.array, *(load.array for load in statement.operands)}
    params = tuple(ArrayParam(a.name, a.dtype, a.shape, span) for a in arrays if a.name in used)
    tree = SourceTree("nest", params, (), (), (body,), None, (), span)
    return program_of(tree, reassoc=reassoc)


def order_violation(tree: LoopTree, nest: TreeNest) -> Witness | None:
    """A dependence that the order of a nest's loops breaks; None where the order is legal."""
    if tree.reassoc and _is_plain_sum(nest.statement):
        return None
    facts = _facts(nest.statement, tree.arrays, tree.reassoc)
    if len(facts.moved_relaxed) < 2:
        return None
    return _violation(nest.statement, tree.arrays, tree.reassoc, _order(nest, facts.moved_relaxed))


def carries_dependence(
    tree: LoopTree, nest: TreeNest, depth: int, *, relaxed: bool = False
) -> bool:
    """Whether iterations of a loop depend on each other, within one iteration of those outside.

    With `relaxed`, other than by an accumulation that may be reordered.
    """
    facts = _facts(nest.statement, tree.arrays, tree.reassoc)
    moved = facts.moved_relaxed if relaxed else facts.moved
    if nest.loops[depth].dim not in moved:
        return False
    order = _order(nest, moved)
    at = sum(loop.dim in moved for loop in nest.loops[:depth])
    return _carries(nest.statement, tree.arrays, tree.reassoc, order, at, relaxed)


def is_reorderable_nest(tree: LoopTree, nest: TreeNest) -> bool:
    """Whether the accumulation of a nest may happen in any order."""
    if tree.reassoc and _is_plain_sum(nest.statement):
        return True
    return not _facts(nest.statement, tree.arrays, tree.reassoc).moved_relaxed


def _is_plain_sum(statement: TreeStatement) -> bool:
    """Whether the accumulation is all that iterations depend on each other by.

    Subscripts of the write are different dimensions, so no element is reached by other points than
    those that differ in the reduced ones, and no operand reads the written array. No set is needed
    to tell: agents ask about trees of hundreds of sizes.
    """
    known = _plain.get(id(statement))
    if known is None:
        known = _plain[id(statement)] = _has_plain_sum(statement), statement
    return known[0]


# By identity, which takes no hash of a statement; the second item keeps it alive.
_plain: BoundedCache[int, tuple[bool, TreeStatement]] = BoundedCache(4096)


def _has_plain_sum(statement: TreeStatement) -> bool:
    written = [entry.name for entry in statement.write.index if isinstance(entry, Var)]
    if len(set(written)) != len(statement.write.index):
        return False
    return all(load.array != statement.write.array for load in statement.operands)


@lru_cache(maxsize=4096)
def _facts(statement: TreeStatement, arrays: tuple[Array, ...], reassoc: bool) -> _Facts:
    program = statement_program(statement, arrays, reassoc)
    exact = dependences(program)
    relaxed = relaxed_dependences(program, exact)
    return _Facts(program, exact, relaxed, _moved(exact), _moved(relaxed))


def _moved(found: Dependences) -> frozenset[str]:
    iterators = found.program.statements[0].iterators
    return frozenset(
        iterators[k]
        for _, relation in found.kinds
        for pairs in maps_of(relation)
        for k in moved_dimensions(pairs)
    )


def _order(nest: TreeNest, dims: frozenset[str]) -> _Order:
    return tuple(
        (loop.dim, step)
        for loop, step in zip(nest.loops, nest.steps, strict=True)
        if loop.dim in dims
    )


@lru_cache(maxsize=4096)
def _violation(
    statement: TreeStatement, arrays: tuple[Array, ...], reassoc: bool, order: _Order
) -> Witness | None:
    facts = _facts(statement, arrays, reassoc)
    return violation(facts.relaxed, _tree(facts.program, order))


@lru_cache(maxsize=4096)
def _carries(
    statement: TreeStatement,
    arrays: tuple[Array, ...],
    reassoc: bool,
    order: _Order,
    at: int,
    relaxed: bool,
) -> bool:
    facts = _facts(statement, arrays, reassoc)
    kept = facts.relaxed if relaxed else facts.exact
    return not carried_by(kept, _tree(facts.program, order), _band_name(at)).is_empty


def _band_name(at: int) -> str:
    return f"loop{at}"


def _tree(program: Program, order: _Order) -> isl.Schedule:
    """The schedule tree of loops: digit after digit of each dimension's mixed radix."""
    (statement,) = program.statements
    space = statement.domain.get_space()
    left: dict[str, Expr] = {}
    digits = []
    for dim, step in order:
        rest = left.get(dim, Var(dim))
        digits.append(rest // step)
        left[dim] = rest % step
    tree = isl.Schedule.from_domain(isl.UnionSet.from_set(statement.domain))
    for at, digit in reversed(list(enumerate(digits))):
        value = isl.UnionPwAff.from_pw_aff(affine(digit, space))
        band = isl.MultiUnionPwAff.from_union_pw_aff(value)
        tree = tree.insert_partial_schedule(band.set_tuple_name(isl.dim_type.set, _band_name(at)))
    return tree
