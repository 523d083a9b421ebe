"""A small fault of the source: the text of some lines, and what stands there instead.

Mutants are found by text, not by number of line: the function must hold `before` exactly once. So
they survive changes elsewhere in the file; where the function itself has changed, they are stale.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

__all__ = ["Finding", "Function", "Mutant", "functions", "read_mutants", "write_mutants"]

MUTANTS = Path(__file__).parent / "mutants.json"
MISCOMPILES = Path(__file__).parent / "miscompiles.json"
TEN_FAULTS = Path(__file__).parent / "ten_faults.json"  # written by hand, without a look at tests


@dataclass(frozen=True)
class Finding:
    """What the tests say of a mutant."""

    killed_by: str | None  # the first test that fails; None: the mutant survives
    how: str  # failed, crashed, timed out, not collected; survived
    tests: int  # that ran to their end
    of: int  # tests that reach the line
    seconds: float  # of processors


@dataclass(frozen=True)
class Mutant:
    """A fault in one function."""

    file: str  # below `src`
    within: str  # the qualified name of the function, "" for a module
    line: int  # where it was drawn
    kind: str
    before: str  # whole lines
    after: str
    name: str = ""  # of a fault that somebody wrote
    finding: Finding | None = None

    @property
    def key(self) -> str:
        """A name for files: the same as long as the fault is the same."""
        text = "\0".join((self.file, self.within, self.before, self.after))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def place(self, source: str) -> int | None:
        """Return where `before` begins in the text of the file; None if not exactly once."""
        found = [f for f in functions(source) if f.name == self.within]
        if len(found) != 1:
            return None
        start, end = found[0].start, found[0].end
        text = "\n" + source[start:end]
        if text.count(f"\n{self.before}\n") != 1:
            return None
        return start + text.index(f"\n{self.before}\n")

    def lines(self, source: str) -> range | None:
        """Return the lines that the fault replaces, counted from 1."""
        place = self.place(source)
        if place is None:
            return None
        first = source.count("\n", 0, place) + 1
        return range(first, first + self.before.count("\n") + 1)

    def applied(self, source: str) -> str:
        """Return the text of the file with the fault."""
        place = self.place(source)
        if place is None:
            raise ValueError(f"{self.file}: {self.within or 'module'} has changed: {self.before}")
        return source[:place] + self.after + source[place + len(self.before) :]


@dataclass(frozen=True)
class Function:
    """A function of a file and the offsets of its text, or the whole module."""

    name: str
    node: ast.AST
    start: int
    end: int


@lru_cache(maxsize=4)
def functions(source: str) -> tuple[Function, ...]:
    """Return the module and every function in it, by qualified names."""
    return tuple(_functions(source, ast.parse(source)))


def _functions(source: str, tree: ast.Module) -> Iterator[Function]:
    offsets = [0]
    for line in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    yield Function("", tree, 0, len(source))

    def inside(node: ast.AST, prefix: str) -> Iterator[Function]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                name = prefix + child.name
                assert child.end_lineno is not None
                yield Function(name, child, offsets[child.lineno - 1], offsets[child.end_lineno])
                yield from inside(child, f"{name}.")
            elif isinstance(child, ast.ClassDef):
                yield from inside(child, f"{prefix}{child.name}.")
            else:
                yield from inside(child, prefix)

    yield from inside(tree, "")


def read_mutants(path: Path) -> list[Mutant]:
    """Read mutants and what the tests say of them."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    found = [Mutant(**{**row, "finding": None}) for row in rows]
    return [
        replace(mutant, finding=Finding(**row["finding"])) if row.get("finding") else mutant
        for mutant, row in zip(found, rows, strict=True)
    ]


def write_mutants(path: Path, mutants: Iterable[Mutant]) -> None:
    """Write mutants, a line for each."""
    rows = [json.dumps(asdict(mutant), ensure_ascii=False) for mutant in mutants]
    path.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")
