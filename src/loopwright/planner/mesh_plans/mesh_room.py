"""Bytes of a scratchpad that boxes take, and that they may take."""

from __future__ import annotations

from math import prod

from loopwright.ir.loops import Axis
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.schedule import Schedule, StagedBox
from loopwright.ir.schedule_tree import nodes_of, path_to
from loopwright.planner.mesh_plans.mesh_tiles import box_bytes

__all__ = ["scratchpad_bytes", "scratchpad_room"]

# Bytes of a scratchpad for the arguments of a call and counters, and for vectors that do not find a
# register: compilers of a host, for which the emulator builds, have shorter ones.
_ARGUMENTS = 5 << 9


def scratchpad_room(machine: MeshMachine) -> int:
    """Bytes of a scratchpad for boxes."""
    return machine.scratchpad_bytes - machine.scratchpad_reserved - _ARGUMENTS


def scratchpad_bytes(schedule: Schedule) -> int:
    """Bytes that boxes take at a time, at most: those of a loop and of the loops around it."""
    root, program = nodes_of(schedule), schedule.program
    most = 0

    def size(box: StagedBox) -> int:
        element = program.array(box.array).dtype.bytes
        own = box_bytes(prod(box.memory), element, box.buffers)
        if box.axis is not Axis.MESH or box.panel is None:
            return own
        # Of a box of all cores, what goes on from a row to the columns has memory, too.
        return own + box_bytes(box.panel.memory[0] * prod(box.sides[1:]), element, 1)

    boxes = [
        one for box in schedule.boxes for one in (box, box.panel) if one is not None
    ]  # fmt: skip
    for loop in dict.fromkeys(box.loop for box in boxes):
        around = {band.loop for band in path_to(root, loop)}
        most = max(
            most,
            sum(size(box) for box in boxes if box.loop in around),
        )
    return most
