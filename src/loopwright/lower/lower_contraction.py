"""A form to its LoopNest: one algorithm per kind."""

from __future__ import annotations

from collections.abc import Callable

from loopwright.ir.form import Form, Kind
from loopwright.ir.loops import LoopNest
from loopwright.lower.columns import lower_columns
from loopwright.lower.elements import lower_elements
from loopwright.lower.macro_kernel import lower_product
from loopwright.lower.rows import lower_rows

__all__ = ["lower_contraction"]

_ALGORITHMS: dict[Kind, Callable[[Form, str], LoopNest]] = {
    Kind.PRODUCT: lower_product,
    Kind.ROWS: lower_rows,
    Kind.COLUMNS: lower_columns,
    Kind.ELEMENTS: lower_elements,
}


def lower_contraction(form: Form, name: str) -> LoopNest:
    """The loop nest of a contraction in the given form."""
    return _ALGORITHMS[form.kind](form, name)
