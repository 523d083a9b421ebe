"""What a cost model needs of a nest: the statement's facts, and the plan that quick code makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import COMPARISONS, Binary, Call, Cast, Expr, Load, Select, Unary
from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.ir.program import Access, Array
from loopwright.ir.visit import names
from loopwright.lazy_dataclass import dataclass
from loopwright.tuning.join_loops import joined_nest
from loopwright.tuning.loop_tree import LoopTree, TreeNest, TreeStatement, shape_of
from loopwright.tuning.lower_tree import row_major
from loopwright.tuning.quick_plan import MOST_OPERATIONS, CodeLevel, CodePlan, plan_code
from loopwright.tuning.tree_facts import statement_facts

__all__ = ["StatementFacts", "bytes_of", "code_plan", "facts_of", "quick_nest"]

_SLOW = 7.0  # cycles of one vector of quotients, roots and the like, where no row tells


@dataclass(frozen=True, slots=True)
class StatementFacts:
    """What loops do not change about a statement."""

    dims: tuple[tuple[str, int], ...]
    moves: tuple[Mapping[str, int], ...]  # of the write, then the operands, in elements
    dtypes: tuple[DType, ...]
    sizes: tuple[int, ...]  # bytes of an element of each access
    written: frozenset[str]  # dimensions that the written element varies with
    moving: tuple[tuple[tuple[int, str], ...], ...]  # of each access: bytes and dimension, by bytes
    used: tuple[frozenset[str], ...]  # dimensions that each operand varies with
    is_free: bool  # accumulates, in any order
    accumulates: bool
    operation: float  # cycles of one vector operation
    instructions: float  # of one vector operation
    latency: float  # cycles until the next step of a sum may start
    simple: float  # cycles of a vector operation such as an insert
    bytes: float  # of the elements that are written
    total: float  # bytes of all arrays of the tree


def bytes_of(array: Array) -> int:
    return array.dtype.bytes * prod(shape_of(array))


def facts_of(tree: LoopTree, statement: TreeStatement, machine: Machine) -> StatementFacts:
    accesses: list[Access | Load] = [statement.write, *statement.operands]
    plus, dtype = statement.plus, statement.write.dtype
    is_free = plus is not None and (tree.reassoc or dtype.is_exact or plus not in ("add", "mul"))
    cycles, instructions, latency = _operation(statement, machine)
    moves = statement_facts(tree, statement).moves
    extents = dict(statement.dims)
    written = frozenset(names(statement.write.load()))
    elements = prod(extents[d] for d in written)
    return StatementFacts(
        statement.dims,
        moves,
        tuple(a.dtype for a in accesses),
        tuple(a.dtype.bytes for a in accesses),
        written,
        tuple(
            tuple(sorted((abs(c) * a.dtype.bytes, d) for d, c in own.items() if d and c))
            for a, own in zip(accesses, moves, strict=True)
        ),
        tuple(frozenset(names(load)) for load in statement.operands),
        is_free,
        plus is not None,
        cycles,
        instructions,
        latency,
        1 / machine.cost("add", dtype.name).per_cycle,
        float(elements * dtype.bytes),
        float(sum(bytes_of(array) for array in tree.arrays)),
    )


def _operation(statement: TreeStatement, machine: Machine) -> tuple[float, float, float]:
    """Cycles and instructions of one vector operation, and the latency of a step of the sum."""
    value, plus, dtype = statement.value, statement.plus, statement.write.dtype
    if isinstance(value, Binary) and value.op == "mul" and plus == "add" and dtype.is_float:
        step = machine.vmma("add", "mul", dtype.name)
        inner = [_cycles(e, machine) for part in (value.x, value.y) for e in _on_data(part)]
        count = sum(cycles > 0 for cycles in inner)
        return 1 / step.per_cycle + sum(inner), float(step.instructions + count), step.latency
    parts = [_cycles(e, machine) for e in _on_data(value)]
    cycles, instructions = sum(parts), float(sum(part > 0 for part in parts))
    if plus is None:
        return cycles, instructions, 0.0
    row = machine.cost(plus, dtype.name)
    return cycles + 1 / row.per_cycle, instructions + row.instructions, row.latency


def _on_data(value: Expr) -> Iterator[Expr]:
    """The expressions of a value, subscripts left out."""
    yield value
    parts: tuple[Expr, ...] = ()
    match value:
        case Binary(x=x, y=y):
            parts = (x, y)
        case Unary(x=x) | Cast(x=x):
            parts = (x,)
        case Call(args=args):
            parts = args
        case Select(cond=cond, x=x, y=y):
            parts = (cond, x, y)
    for part in parts:
        yield from _on_data(part)


def _cycles(expr: Expr, machine: Machine) -> float:
    """Cycles of one operation on a whole vector; 0 for what is none."""
    if isinstance(expr, Call):
        return _SLOW
    if isinstance(expr, Cast):
        return 0.5
    if not isinstance(expr, Binary | Unary):
        return 0.0
    dtype = expr.x.dtype
    if expr.dtype.is_integer and expr.dtype.bits == 64 and not dtype.is_float:
        return 1.0 if dtype.bits == 64 else 0.5
    known = {"neg": "sub", "div": "div"}.get(expr.op, expr.op)
    if expr.op in COMPARISONS:
        known = "max"
    if known not in ("add", "sub", "mul", "min", "max", "and", "or", "xor", "div"):
        return _SLOW
    return 1 / machine.cost(known, dtype.name).per_cycle


def quick_nest(nest: TreeNest, machine: Machine) -> TreeNest:
    """The nest as quick code sees it: neighbouring loops of one dimension are one."""
    return joined_nest(nest, machine.lanes(nest.statement.write.dtype.bits), MOST_OPERATIONS)


def code_plan(nest: TreeNest, facts: StatementFacts, machine: Machine) -> CodePlan:
    """The plan that quick code makes of a nest (nest_code): loops, registers, straight-line code.

    `nest` is one of quick_nest. Accesses are the write, then the operands; packed operands move in
    their buffers.
    """
    loops, steps = nest.loops, nest.steps
    columns = [
        [moves[loop.dim] * step for loop, step in zip(loops, steps, strict=True)]
        for moves in facts.moves
    ]
    for depth, loop in enumerate(loops):
        for operand in loop.packs:
            used = facts.used[operand]
            depths = [k for k in range(depth, len(loops)) if loops[k].dim in used]
            strides = row_major([loops[k].trips for k in depths])
            inside = dict(zip(depths, strides, strict=True))
            columns[operand + 1] = [inside.get(k, 0) for k in range(len(loops))]
    levels = [
        CodeLevel(
            loop.dim,
            step,
            loop.trips,
            coefs,
            loop.dim in facts.written,
            tuple([operand + 1 for operand in loop.packs]) if loop.packs else (),
            loop.mark is Mark.VECTOR,
            loop.mark is Mark.UNROLL,
        )
        for loop, step, coefs in zip(loops, steps, zip(*columns, strict=True), strict=True)
    ]
    return plan_code(
        tuple(levels),
        machine,
        facts.dtypes[0].bits,
        accumulates=facts.accumulates,
        is_free=facts.is_free,
        accumulators=nest.accumulators,
    )
