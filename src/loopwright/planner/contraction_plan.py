"""The choices for a contraction as a Plan: steps that can be printed, stored and replayed."""

from __future__ import annotations

from loopwright.ir.form import Kind, Packing
from loopwright.planner.analytical import Choice
from loopwright.transform.contract import (
    Block,
    Contract,
    Pack,
    ParallelBundle,
    PrefetchAhead,
    RegisterTile,
)
from loopwright.transform.step import Step

__all__ = ["contraction_plan"]


def contraction_plan(statement: str, choice: Choice) -> tuple[Step, ...]:
    """The steps that `choice` stands for. `left` and `right` are the program's own operands."""
    form, values = choice.form, choice.values
    steps: list[Step] = [Contract(statement)]
    sides = ("left", "right")
    turned = dict(zip(sides, sides[::-1] if choice.instance.swapped else sides, strict=True))
    if form.kind is Kind.PRODUCT:
        m_c, n_c = values["mc"], values["nc"]
        m_r, n_r = form.rows, form.columns
        if choice.instance.swapped:
            m_c, n_c, m_r, n_r = n_c, m_c, n_r, m_r
        steps.append(Block(statement, m_c, n_c, values["kc"]))
        for side, packing in zip(sides, (form.left_packing, form.right_packing), strict=True):
            if packing is not Packing.DIRECT:
                steps.append(Pack(statement, turned[side]))
        steps.append(RegisterTile(statement, m_r, n_r, form.unroll))
        if form.ahead:
            steps.append(PrefetchAhead(statement, form.ahead))
    bundle = form.parallel
    if choice.instance.swapped and bundle in ("i", "j"):
        bundle = "j" if bundle == "i" else "i"
    if bundle != "none":
        steps.append(ParallelBundle(statement, bundle))
    return tuple(steps)
