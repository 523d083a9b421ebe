"""Boxes that a core brings in after it has put some of their elements itself.

A put that has ended has left the scratchpad, and need not have come to main memory. Between nests
cores meet, which orders all. Inside of a mapped iteration a core is alone: a get of what it has put
before comes after a barrier of its own requests, and where it reads such elements directly, the put
has landed first.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from loopwright.ir.access_names import named_accesses
from loopwright.ir.islkit import bounded, isl
from loopwright.ir.loops import Alloc, Copy, Mark, Stmt
from loopwright.ir.schedule import Schedule, StagedBox
from loopwright.ir.schedule_tree import nodes_of, path_to
from loopwright.ir.visit import expressions, loads, rebuild, statements

__all__ = ["comes_after_puts", "in_order_on_one_core", "is_read_directly"]

_IN, _OUT = isl.dim_type.in_, isl.dim_type.out
_QUOTA = 200_000  # elementary isl operations for a pair of boxes


def comes_after_puts(schedule: Schedule, box: StagedBox) -> bool:
    """Whether a core may bring in elements of a box that it has put before, since it met others.

    No two mapped iterations move the same element of an array that is written (stage_box), so both
    happen in the same one.
    """
    if not box.is_brought_in:
        return False
    puts = [put for put in schedule.boxes if put.is_put_back and put.array == box.array]
    return any(
        bounded(partial(_is_put_before, schedule, put, box), lambda _: True, _QUOTA) for put in puts
    )


def _is_put_before(schedule: Schedule, put: StagedBox, box: StagedBox) -> bool:
    ours, theirs = ([loop for _, loop in one.variables] for one in (box, put))
    mapped = [at for at, loop in enumerate(ours) if schedule.mark(loop) is Mark.THREAD]
    pairs = zip(ours, theirs, strict=False)
    common = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))
    if common <= mapped[0]:
        return False  # of another nest
    same = min(common, mapped[-1] + 1)
    # A box of a loop around, or of the same one, is put back behind this one.
    is_beside = common < min(len(ours), len(theirs))
    if same == common and not is_beside:
        return False  # one of the two for each mapped iteration: brought in first, then put back
    domains = (put.whole.get_space().domain(), box.whole.get_space().domain())
    order = isl.Map.universe(isl.Space.map_from_domain_and_range(*domains))
    for at in range(same):
        order = order.equate(_IN, at, _OUT, at)
    before = isl.Map.empty(order.get_space())
    for at in range(same, common):
        before = before.union(order.order_lt(_IN, at, _OUT, at))
        order = order.equate(_IN, at, _OUT, at)
    if is_beside:
        before = before.union(order)
    # { A[e] -> [[v] -> [w]] }: put in iteration v, brought in before iteration w.
    moved = put.whole.reverse().range_product(box.whole.reverse())
    return not moved.intersect_range(before.wrap()).is_empty()


def is_read_directly(schedule: Schedule, box: StagedBox) -> bool:
    """Whether some access to the array of a box, in the same mapped loop, reads main memory."""
    loops = [loop for _, loop in box.variables]
    mapped = next(loop for loop in loops if schedule.mark(loop) is Mark.THREAD)
    inside = path_to(nodes_of(schedule), mapped)[-1].statements
    staged = {name for each in schedule.boxes for name in each.accesses}
    return any(
        one.access.array == box.array and not one.is_write and one.name not in staged
        for statement in schedule.program.statements
        if statement.name in inside
        for one in named_accesses(statement)
    )


def in_order_on_one_core(stmt: Stmt) -> Stmt:
    """A statement that one core runs as a whole, its copies in the order of their arrays.

    So run nests whose mapped loop has one iteration, with all loops around them: no core waits for
    another one in between.
    """
    inner = list(statements(stmt))
    own = {each.buffer.name for each in inner if isinstance(each, Alloc)}
    put = {each.target for each in inner if isinstance(each, Copy)} - own
    read = {load.array for each in inner for expr in expressions(each) for load in loads(expr)}

    def visit(node: Stmt) -> Stmt:
        if isinstance(node, Copy) and node.source in put:
            return replace(node, after_puts=True)
        if isinstance(node, Copy) and node.target in put & read:
            return replace(node, lands=True)
        return node

    return rebuild(stmt, visit) if put else stmt
