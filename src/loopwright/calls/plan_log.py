"""Plans of contractions in the log, one line each."""

from __future__ import annotations

from loopwright.ir.machine import Machine
from loopwright.log import log
from loopwright.planner.analytical import Choice

__all__ = ["log_plan"]


def log_plan(what: str, choice: Choice, machine: Machine) -> None:
    """Tell the plan of a contraction, if plans are asked for."""

    def text() -> str:
        from loopwright.planner.explain import explain_choice  # lazy: only those who log need it

        lines = explain_choice(choice, machine).splitlines()
        return f"{what}: {'; '.join(line.strip() for line in lines)}"

    log("plan", text)
