"""Tables for people: rows of text in columns."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["table_lines"]


def table_lines(rows: Sequence[Sequence[str]], *, numbers: bool = False) -> list[str]:
    """The rows with their cells in columns, two blanks between them.

    Cells stand on the left of their columns; with `numbers` all but those of the first column on
    the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_cells(row, widths, numbers=numbers)).rstrip() for row in rows]


def _cells(row: Sequence[str], widths: Sequence[int], *, numbers: bool) -> list[str]:
    cells = zip(row, widths, strict=True)
    return [
        cell.rjust(width) if numbers and at else cell.ljust(width)
        for at, (cell, width) in enumerate(cells)
    ]
