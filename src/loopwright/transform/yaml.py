"""Schedule trees as YAML text, the exchange format of isl's users."""

from __future__ import annotations

import islpy as isl

from loopwright.ir.islkit import context
from loopwright.ir.schedule import Schedule

__all__ = ["schedule_yaml"]

_BLOCK_STYLE = 0


def schedule_yaml(schedule: Schedule) -> str:
    """The order of a schedule; marks, which say how loops are mapped, are no part of it."""
    printer = isl.Printer.to_str(context()).set_yaml_style(_BLOCK_STYLE)
    return printer.print_schedule(schedule.tree).get_str()
