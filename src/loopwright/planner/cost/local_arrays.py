"""Which local arrays of a program need no memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from loopwright.ir.program import Program, Role
from loopwright.ir.schedule_tree import Node, bands

__all__ = ["arrays_in_registers"]


def arrays_in_registers(
    program: Program, root: Node, used: Mapping[str, Collection[str]]
) -> frozenset[str]:
    """Local scalars, and local arrays that one innermost loop makes and uses.

    `used` are the arrays of each statement.
    """
    local = {a.name: a.rank for a in program.arrays if a.role is Role.LOCAL}
    found = {name for name, rank in local.items() if not rank}
    users: dict[str, set[str]] = {name: set() for name in local}
    for statement, arrays in used.items():
        for array in arrays:
            if array in users:
                users[array].add(statement)
    for band in bands(root):
        if any(True for _ in bands(band.child)):
            continue
        inside = band.statements
        found |= {name for name, own in users.items() if own and own <= inside}
    return frozenset(found)
