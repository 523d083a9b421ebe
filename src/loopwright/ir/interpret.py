"""What programs and loop nests mean: slow and plain, the oracle every backend is compared with."""

from __future__ import annotations

from loopwright.ir.evaluate import evaluate
from loopwright.ir.interpret_nest import interpret_nest
from loopwright.ir.interpret_program import interpret_program, interpret_schedule
from loopwright.ir.memory import Memory, element_strides

__all__ = [
    "Memory",
    "element_strides",
    "evaluate",
    "interpret_nest",
    "interpret_program",
    "interpret_schedule",
]
