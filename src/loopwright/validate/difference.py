"""The findings of a validation: differences between a program and its translation."""

from __future__ import annotations

from enum import Enum

from loopwright.diagnostics import Span
from loopwright.lazy_dataclass import dataclass

__all__ = ["Difference", "DifferenceKind", "Report"]

_MOST_SHOWN = 8


class DifferenceKind(Enum):
    """How a difference was found."""

    ORDER = "order"  # an element is computed from other values
    DATA = "data"  # an element holds another number
    FAULT = "fault"  # an access out of bounds, a read of undefined memory, or a race


@dataclass(frozen=True, slots=True)
class Difference:
    """One element or run in which a translation differs from its program."""

    kind: DifferenceKind
    runner: str  # who ran the translation: "interpreter", "value numbers", "jit", "c"
    params: tuple[tuple[str, int], ...]  # the sizes
    threads: int
    element: str  # "A[1, 2]"; empty for faults
    expected: str
    found: str
    note: str = ""  # where the two computations first differ
    span: Span | None = None  # of the statement that should have written the element

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {value}" for name, value in self.params) or "no sizes"
        team = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        place = "" if self.span is None else f"{self.span.file}:{self.span.line}: "
        what = f"{self.element}: " if self.element else ""
        text = f"{place}{what}{self.expected}; found {self.found}"
        note = f"\n    {self.note}" if self.note else ""
        return f"{text} ({self.kind.value}, {self.runner}, {sizes}, {team}){note}"


@dataclass(frozen=True, slots=True)
class Report:
    """What a validation compared, what it could not, and the differences it found."""

    differences: tuple[Difference, ...]
    checked: tuple[str, ...]  # what was compared, in words
    skipped: tuple[str, ...] = ()  # what could not be compared, and why

    @property
    def is_clean(self) -> bool:
        return not self.differences

    def __str__(self) -> str:
        lines = [f"checked: {line}" for line in self.checked]
        lines += [f"not checked: {line}" for line in self.skipped]
        lines += [f"difference: {found}" for found in self.differences[:_MOST_SHOWN]]
        left = len(self.differences) - _MOST_SHOWN
        lines += [f"and {left} more differences"] if left > 0 else []
        return "\n".join(lines)
