"""The choices for a contraction as a Plan: steps that can be printed, stored and replayed.

What is proven is this plan, so it says what the loops of `lower` do for each kind of form: which
bundle is shared out, what is packed, which reductions are taken in another order.
"""

from __future__ import annotations

from typing import assert_never

from loopwright.ir.contraction import Contraction
from loopwright.ir.form import Form, Kind, Packing
from loopwright.planner.analytical import Choice
from loopwright.transform.contract import (
    ELEMENTS,
    BlockBundles,
    Contract,
    Pack,
    ParallelBundle,
    PrefetchAhead,
    Reassociate,
    RegisterTile,
)
from loopwright.transform.step import Step

__all__ = ["contraction_plan"]


def contraction_plan(
    contraction: Contraction, choice: Choice, *, turned: bool = False
) -> tuple[Step, ...]:
    """The steps that `choice` stands for, in terms of the operands and bundles of `contraction`.

    `turned`: the left operand of `contraction` is the right one of the shape that was planned.
    """
    plan = _Steps(contraction, choice, choice.shape.swapped != turned)
    match choice.form.kind:
        case Kind.PRODUCT:
            how = plan.product()
        case Kind.ROWS:
            how = plan.rows()
        case Kind.COLUMNS:
            how = plan.columns()
        case Kind.ELEMENTS:
            how = plan.elements()
        case kind:
            assert_never(kind)
    return (Contract(contraction.statement), *how)


class _Steps:
    """The steps of one choice, kind by kind.

    A form names rows and columns as its kernel sees them; the program's are the other way round
    where the operands have changed places.
    """

    def __init__(self, contraction: Contraction, choice: Choice, is_swapped: bool) -> None:
        self._statement = contraction.statement
        self._has_right = contraction.right is not None
        self._choice = choice
        self._form: Form = choice.form
        self._is_swapped = is_swapped

    def product(self) -> list[Step]:
        """Algorithm 6: blocks of i, j and p; register tiles of i x j."""
        form, values = self._form, self._choice.values
        packings = (("left", form.left_packing), ("right", form.right_packing))
        return [
            self._blocks(values["mc"], values["nc"], values["kc"]),
            *(x for side, how in packings if how is not Packing.DIRECT for x in self._pack(side)),
            self._tile(form.rows, form.columns, form.unroll),
            *self._prefetch(),
            *self._parallel(form.parallel),
        ]

    def rows(self) -> list[Step]:
        """Algorithm 8: every lane of every accumulator gathers a sum of its own along p."""
        form = self._form
        is_packed = form.right_packing is not Packing.DIRECT and form.times != "first"
        return [
            *(self._pack("right") if is_packed else []),
            self._tile(form.rows, 1, form.columns * form.unroll),
            Reassociate(self._statement, form.columns),
            *self._prefetch(),
            *self._parallel(form.parallel),
        ]

    def columns(self) -> list[Step]:
        """Algorithm 7: blocks of j; `rows` steps of p at a time, or in as many parts of p."""
        form = self._form
        # A dot product whose order is kept has one column, which vectors do not fill.
        width = form.columns if self._choice.shape.j else 1
        return [
            self._blocks(0, self._choice.values["nc"], 0),
            self._tile(1, width, form.rows),
            *([Reassociate(self._statement, form.rows)] if form.apart else []),
            *self._prefetch(),
            *self._parallel(form.parallel),
        ]

    def elements(self) -> list[Step]:
        """One loop over all elements of out but for the nearest ones, which fill vectors.

        The form calls it "batch": in its shape it stands for loops of every bundle.
        """
        return self._parallel("none" if self._form.parallel == "none" else ELEMENTS)

    def _blocks(self, mc: int, nc: int, kc: int) -> Step:
        if self._is_swapped:
            mc, nc = nc, mc
        return BlockBundles(self._statement, mc, nc, kc)

    def _tile(self, rows: int, columns: int, unroll: int) -> Step:
        if self._is_swapped:
            rows, columns = columns, rows
        return RegisterTile(self._statement, rows, columns, unroll)

    def _pack(self, side: str) -> list[Step]:
        if self._is_swapped:
            side = {"left": "right", "right": "left"}[side]
        # An operand without loops is a number that the elements of the other one are combined with.
        is_number = side == "right" and not self._has_right
        return [] if is_number else [Pack(self._statement, side)]

    def _prefetch(self) -> list[Step]:
        ahead = self._form.ahead
        return [PrefetchAhead(self._statement, ahead)] if ahead else []

    def _parallel(self, bundle: str) -> list[Step]:
        if bundle == "none":
            return []
        if self._is_swapped:
            bundle = {"i": "j", "j": "i"}.get(bundle, bundle)
        return [ParallelBundle(self._statement, bundle)]
