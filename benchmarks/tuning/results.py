"""The lines of an evaluation: attempts of contestants, and the judge's times of a shape.

    attempt    what one contestant came to on one shape with one budget: its tree, what it spent
    judged     seconds of all contestants on one shape, measured in turns in one process

A file may be added to at any time, by another run, from another machine's file (`merge_files`) or
with contestants that did not exist before; the last line of a key counts.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

__all__ = [
    "Row", "Rows", "append_row", "attempts_of", "judged_of", "label_of", "merge_files", "read_rows"
]  # fmt: skip

Row = dict[str, Any]
Rows = Sequence[Row]
_NEEDED = {
    "attempt": {"set", "shape", "who", "budget", "spent", "measurements", "trace", "tree"},
    "judged": {"set", "shape", "operations", "peak", "times"},
}


def read_rows(file: Path) -> list[Row]:
    """The lines of a file; those that are no row are left out. A missing file has none.

    A file that ends in .gz is unpacked: results that are kept are packed, others are added to.
    """
    if not file.exists():
        return []
    data = file.read_bytes()
    return list(_rows((gzip.decompress(data) if file.suffix == ".gz" else data).decode("utf-8")))


def _rows(text: str) -> Iterator[Row]:
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            print("a damaged line is passed over", file=sys.stderr)
            continue
        if isinstance(row, dict) and _NEEDED.get(row.get("kind", ""), {""}) <= set(row):
            yield row


def append_row(file: Path, row: Row) -> None:
    """Add a line, on a line of its own also behind one that was broken off."""
    text = json.dumps(row) + "\n"
    if file.exists() and file.stat().st_size:
        with file.open("rb") as whole:
            whole.seek(-1, 2)
            text = text if whole.read() == b"\n" else "\n" + text
    with file.open("a", encoding="utf-8") as out:
        out.write(text)


def label_of(who: str, budget: float) -> str:
    """A contestant with its budget, where it has one."""
    return f"{who} {budget:g} s" if budget else who


def attempts_of(rows: Rows, name: str) -> dict[tuple[str, str], Row]:
    """The attempts on a set by shape and label, the last of each."""
    chosen = (row for row in rows if row["kind"] == "attempt" and row["set"] == name)
    return {(row["shape"], label_of(row["who"], row["budget"])): row for row in chosen}


def judged_of(rows: Rows, name: str) -> dict[str, Row]:
    """The judge's lines on a set by shape, the last of each."""
    return {r["shape"]: r for r in rows if r["kind"] == "judged" and r["set"] == name}


def merge_files(into: Path, files: Iterable[Path]) -> int:
    """Add the lines of files that are not yet in another one; how many there were."""
    known = {json.dumps(row, sort_keys=True) for row in read_rows(into)}
    added = 0
    for file in files:
        for row in read_rows(file):
            text = json.dumps(row, sort_keys=True)
            if text not in known:
                known.add(text)
                append_row(into, row)
                added += 1
    return added
