"""How the loops of a nest become quick code: what is unrolled, and what lives in registers.

As LoopNest does (theory: LoopStack, arXiv 2205.00618), the order of the loops is kept exactly and

    0 .. registers          loops; from `registers` on the block of the written array that the loops
                            inside touch stays in vector registers
    registers .. body       loops over reduced dimensions; those over written ones are unrolled
    body ..                 straight-line code, at most MOST_OPERATIONS vector operations

Where the innermost loop is too long for that, or straight-line code could be longer, a loop is
injected: one is split in two, which changes no order.
"""

from __future__ import annotations

from math import prod

from loopwright.ir.machine import Machine
from loopwright.lazy_dataclass import dataclass

__all__ = ["MOST_OPERATIONS", "CodeLevel", "CodePlan", "plan_code"]

# Vector operations of straight-line code. LoopNest has 320; LLVM's time grows with them, and from
# 32 on the loop around costs nothing that can be measured.
MOST_OPERATIONS = 32
_MOST_ASSIGNED = 8  # vectors that straight-line code copies or fills: memory is what takes time
_MOST_ONCE = 16  # vector operations of straight-line code that sums nothing up
_MOST_COPIES = 128  # vector operations of code, with all unrolled copies
_STRIP = 8  # vectors of a long innermost loop at a time
_FEW_CHAINS = 8  # accumulators that hide the latency of an addition


@dataclass(frozen=True, slots=True)
class CodeLevel:
    """A loop as code sees it; accesses are the write, then the operands."""

    dim: str
    step: int  # points of its dimension that an iteration covers
    trips: int  # iterations at most
    coefs: tuple[int, ...]  # elements that each access moves by in an iteration
    is_written: bool  # the written element varies with its dimension
    packs: tuple[int, ...] = ()  # operands that are packed before the loop begins
    is_vector: bool = False  # asked for as the vector loop
    is_unrolled: bool = False  # asked to be unrolled


@dataclass(frozen=True, slots=True)
class CodePlan:
    """The loops of a nest with those that were injected, and what becomes of each."""

    levels: tuple[CodeLevel, ...]
    registers: int  # depth from which on written elements live in registers
    body: int  # depth from which on code is straight-line
    vector: int  # depth of the loop whose iterations are lanes
    lanes: int  # 1: scalar code
    is_dot: bool  # lanes are partial results of one element
    accumulators: int  # partial results of each vector

    @property
    def is_once(self) -> bool:
        """Whether straight-line code takes one step of the sum of every element it loads."""
        return self.registers == self.body < len(self.levels) and all(
            level.is_written for level in self.levels[self.body :]
        )

    def units(self, depth: int) -> int:
        """Vector operations that the iterations of a loop take."""
        return _units(self.levels[depth], depth == self.vector, self.lanes)


def _units(level: CodeLevel, is_vector: bool, lanes: int) -> int:
    if not is_vector:
        return level.trips
    whole, rest = divmod(level.trips, lanes)
    return whole + rest.bit_count()


def plan_code(
    levels: tuple[CodeLevel, ...],
    machine: Machine,
    bits: int,
    *,
    accumulates: bool,
    is_free: bool,
    accumulators: int = 0,
) -> CodePlan:
    """The plan of a nest whose loops are `levels`.

    `bits` are those of an element, `accumulates` says whether the nest has a plus, `is_free`
    whether that may happen in any order.
    """
    if not levels:
        return CodePlan((), 0, 0, -1, 1, False, 1)
    room = max(4, machine.vector_registers * 3 // 4)
    levels, vector, lanes = _with_lanes(levels, machine.lanes(bits), accumulates, is_free)
    is_dot = accumulates and not levels[vector].is_written
    if vector == len(levels) - 1:
        strip = _strip(levels[vector].trips, lanes)
        if levels[vector].trips > strip and not _is_kept_row(levels, lanes, room):
            levels = _injected(levels, vector, strip)
            vector += 1
    draft = CodePlan(levels, 0, 0, vector, lanes, is_dot, 1)
    most = MOST_OPERATIONS if accumulates else _MOST_ASSIGNED
    operations = _operations_from(draft)
    body = _first(operations, most)
    marked = [
        k
        for k, x in enumerate(levels)
        if x.is_vector or (x.is_unrolled and operations[k] <= _MOST_COPIES)
    ]
    body = min([body, vector, *marked])
    body = max([body, *(k for k, x in enumerate(levels) if x.packs)])  # loops that pack come first
    if not accumulates:
        return CodePlan(levels, len(levels), body, vector, lanes, is_dot, 1)
    registers = _register_depth(draft, body, room)
    if registers == body and all(x.is_written for x in levels[body:]):
        # Every operation loads and stores its element: longer code gains nothing.
        shorter = _first(operations, _MOST_ONCE)
        body = max(body, min([shorter, vector, *marked]))
        registers = body
    can_inject = registers < body and not levels[body - 1].is_written
    if can_inject and not levels[body].packs:  # each iteration packs anew
        more = MOST_OPERATIONS // operations[body]
        factor = _factor(levels[body - 1].trips, more)
        if factor > 1:
            levels = _injected(levels, body - 1, factor)
            vector += vector >= body
    draft = CodePlan(levels, registers, body, vector, lanes, is_dot, 1)
    partial = _accumulators(draft, room, accumulators, is_free=is_free)
    return CodePlan(levels, registers, body, vector, lanes, is_dot, partial)


def _with_lanes(
    levels: tuple[CodeLevel, ...], lanes: int, accumulates: bool, is_free: bool
) -> tuple[tuple[CodeLevel, ...], int, int]:
    """The loops with the one whose iterations are lanes, its depth, and the lanes of a vector.

    The innermost loop (or the one asked for, or one that is unrolled inside it) where all accesses
    stand still or move by one element. Else the nearest loop outside where they do, which is
    jammed: so many of its iterations as a vector has lanes run side by side through the loops
    inside. Each element's steps of a sum keep their order. Else the innermost loop with elements
    that are gathered, or without vectors where gathering takes more operations than they save.
    """
    asked = next((k for k, x in enumerate(levels) if x.is_vector), None)
    first = len(levels) - 1 if asked is None else asked
    depths = [first, *range(len(levels) - 1, first, -1)]
    for depth in depths:
        level = levels[depth]
        is_ordered_sum = accumulates and not level.is_written and not is_free
        if _is_unit(level) and not is_ordered_sum:
            return levels, depth, _lanes(lanes, level.trips)
    for depth in reversed(range(first)):
        level = levels[depth]
        if any(inner.packs for inner in levels[depth:]):
            break
        if _is_unit(level) and level.coefs[0] == 1 and level.trips >= lanes:
            return _jammed(levels, depth, lanes), len(levels) + _is_strip(levels), lanes
    level = levels[first]
    is_ordered_sum = accumulates and not level.is_written and not is_free
    if is_ordered_sum or not _pays(level, lanes, accumulates):
        return levels, first, 1
    return levels, first, _lanes(lanes, level.trips)


def _is_unit(level: CodeLevel) -> bool:
    return all(coef in (0, 1) for coef in level.coefs)


def _is_strip(levels: tuple[CodeLevel, ...]) -> bool:
    """Whether the innermost loop is cut when one outside is jammed into it.

    Elements of a loop that is not reduced are loaded and stored one by one: without more of them in
    straight-line code, most of its operations would be those of the loop.
    """
    return levels[-1].is_written and levels[-1].trips > _STRIP and not levels[-1].is_vector


def _jammed(levels: tuple[CodeLevel, ...], depth: int, lanes: int) -> tuple[CodeLevel, ...]:
    """A vector of iterations of the loop at `depth` as the innermost loop."""
    split = _injected(levels, depth, lanes)
    jammed = (*split[: depth + 1], *split[depth + 2 :], split[depth + 1])
    if not _is_strip(levels):
        return jammed
    return _injected(jammed, len(jammed) - 2, _strip(levels[-1].trips, 1))


def _pays(level: CodeLevel, lanes: int, accumulates: bool) -> bool:
    """Whether vectors with gathered elements take fewer operations than code without vectors.

    An element that is gathered or scattered is loaded or stored and moved to or from its lane.
    """
    uses = (2 if accumulates and level.is_written else 1, *([1] * (len(level.coefs) - 1)))
    moved = [(coef, n) for coef, n in zip(level.coefs, uses, strict=True) if coef]
    vectors = 1 + sum(n if coef == 1 else 2 * lanes * n for coef, n in moved)
    return vectors < lanes * (1 + sum(n for _, n in moved))


def _lanes(lanes: int, trips: int) -> int:
    """The lanes of a vector, or the power of two below a shorter loop."""
    while lanes > trips:
        lanes //= 2
    return max(lanes, 1)


def _strip(trips: int, lanes: int) -> int:
    """Iterations of a long innermost loop at a time: all of equal length where that can be."""
    vectors, rest = divmod(trips, lanes)
    equal = [n for n in range(_STRIP, 2 * _STRIP) if vectors % n == 0]
    return lanes * (equal[0] if equal and not rest else _STRIP)


def _is_kept_row(levels: tuple[CodeLevel, ...], lanes: int, room: int) -> bool:
    """Whether all that the innermost loop reads of an operand stays in registers.

    The loop outside does not move in it, so straight-line code of the whole row can keep it.
    """
    if len(levels) < 2 or -(-levels[-1].trips // lanes) > room:
        return False
    pairs = zip(levels[-2].coefs[1:], levels[-1].coefs[1:], strict=True)
    return any(outer == 0 and inner == 1 for outer, inner in pairs)


def _first(operations: list[int], most: int) -> int:
    """The first depth from which on there are at most so many operations, else the last one."""
    return next((k for k, n in enumerate(operations) if n <= most), len(operations) - 1)


def _injected(levels: tuple[CodeLevel, ...], depth: int, factor: int) -> tuple[CodeLevel, ...]:
    """The loop at `depth` split by `factor`."""
    level = levels[depth]
    kind = level.dim, level.step * factor, -(-level.trips // factor)
    outer = CodeLevel(
        *kind, tuple([c * factor for c in level.coefs]), level.is_written, level.packs
    )
    flags = level.is_vector, level.is_unrolled
    inner = CodeLevel(level.dim, level.step, factor, level.coefs, level.is_written, (), *flags)
    return (*levels[:depth], outer, inner, *levels[depth + 1 :])


def _operations_from(plan: CodePlan) -> list[int]:
    """Vector operations of the loops from each depth on."""
    found, operations = [], 1
    for depth in range(len(plan.levels) - 1, -1, -1):
        operations *= plan.units(depth)
        found.append(operations)
    return found[::-1]


def _blocks(plan: CodePlan, depth: int) -> int:
    """Vector registers that hold what the loops from `depth` on write."""
    return prod(plan.units(k) for k in range(depth, len(plan.levels)) if plan.levels[k].is_written)


def _register_depth(plan: CodePlan, body: int, room: int) -> int:
    """The outermost depth from which on the written block fits into registers.

    Loops over written dimensions in front of it keep nothing: they stay loops.
    """

    operations = prod(plan.units(k) for k in range(body, len(plan.levels)))

    def copies(depth: int) -> int:
        unrolled = (plan.units(k) for k in range(depth, body) if plan.levels[k].is_written)
        return prod(unrolled) * operations

    for depth in range(body + 1):
        if depth < body and plan.levels[depth].is_written:
            continue
        if _blocks(plan, depth) <= room and (depth == body or copies(depth) <= _MOST_COPIES):
            return depth
    return body


def _factor(trips: int, most: int) -> int:
    """How often a loop is unrolled: a divisor of its iterations where there is a good one."""
    most = min(most, trips, 16)
    best = max((f for f in range(1, most + 1) if trips % f == 0), default=1)
    return best if 2 * best > most else 1 << (most.bit_length() - 1) if most else 1


def _accumulators(plan: CodePlan, room: int, wanted: int, *, is_free: bool) -> int:
    if not is_free:
        return 1
    blocks = _blocks(plan, plan.registers)
    steps = prod(
        plan.units(k) for k in range(plan.body, len(plan.levels)) if not plan.levels[k].is_written
    )
    most = max(1, min(steps, room // max(blocks, 1)))
    return min(wanted or max(1, _FEW_CHAINS // max(blocks, 1)), most)
