"""A table of which tests execute which lines of the source."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .at_start.line_events import index_of

__all__ = ["ROOT", "SOURCE", "Reached", "TestRun", "package_of", "read_records"]

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
TABLE = ROOT / ".mutants" / "reached.npz"
_TESTS_AT_ONCE = 1024  # whose bits are transposed together


def package_of(file: str) -> str:
    """Return the package of a source file: `lower` of `loopwright/lower/x.py`."""
    parts = file.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "loopwright" else "(top)"


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


@dataclass(frozen=True)
class TestRun:
    """A test, and how its run under the recorder went."""

    __test__ = False

    name: str  # the identifier that pytest gives it
    outcome: str  # passed, failed, skipped
    seconds: float  # of processors, children included
    processes: int  # children that it started

    @property
    def file(self) -> str:
        return self.name.split("::")[0]


@dataclass(frozen=True)
class Reached:
    """A table of tests and lines; equal columns of lines are stored once."""

    tests: tuple[TestRun, ...]
    starts: dict[str, int]  # file below `src` -> position of its line 0
    digests: dict[str, str]  # file below `src` -> what it contained
    class_of: np.ndarray  # position -> row of `classes`; row 0 has no test
    classes: np.ndarray  # row -> tests, as packed bits
    imported: np.ndarray = field(repr=False)  # positions that run when modules are imported

    def tests_of(self, file: str, line: int) -> list[TestRun]:
        """Return the tests that execute a line."""
        bits = self.classes[self.class_of[self.starts[file] + line]]
        there = np.flatnonzero(np.unpackbits(bits, count=len(self.tests)))
        return [self.tests[at] for at in there]

    def tests_of_file(self, file: str) -> list[TestRun]:
        """Return the tests that execute any line of a file."""
        end = min((at for at in self.starts.values() if at > self.starts[file]), default=None)
        rows = self.classes[np.unique(self.class_of[self.starts[file] : end])]
        bits = np.bitwise_or.reduce(rows, axis=0)
        return [self.tests[at] for at in np.flatnonzero(np.unpackbits(bits, count=len(self.tests)))]

    def is_reached(self, file: str, line: int) -> bool:
        """Return whether a line runs in a test."""
        return bool(self.class_of[self.starts[file] + line])

    def is_imported(self, file: str, line: int) -> bool:
        """Return whether a line runs when its module is imported."""
        return bool(self.imported[self.starts[file] + line])

    @cached_property
    def changed(self) -> set[str]:
        """Files that are no longer what they were when the tests ran."""
        return {
            file
            for file, digest in self.digests.items()
            if not (SOURCE / file).exists() or _digest(SOURCE / file) != digest
        }

    def coverage(self) -> dict[str, tuple[int, int]]:
        """Return, by package, the executable lines that ran and all of them."""
        found: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        for file, start in self.starts.items():
            code = compile((SOURCE / file).read_text(encoding="utf-8"), file, "exec")
            lines = np.array(sorted(_lines(code))) + start
            ran = (self.class_of[lines] > 0) | (self.imported[lines] > 0)
            found[package_of(file)][0] += int(ran.sum())
            found[package_of(file)][1] += len(lines)
        return {package: (ran, every) for package, (ran, every) in sorted(found.items())}

    def save(self, path: Path) -> None:
        """Write the table, compressed."""
        path.parent.mkdir(parents=True, exist_ok=True)
        about = {
            "tests": [(t.name, t.outcome, t.seconds, t.processes) for t in self.tests],
            "starts": self.starts,
            "digests": self.digests,
        }
        np.savez_compressed(
            path,
            about=np.frombuffer(json.dumps(about).encode(), np.uint8),
            class_of=self.class_of,
            classes=self.classes,
            imported=np.packbits(self.imported),
        )

    @classmethod
    def load(cls, path: Path = TABLE) -> Reached:
        """Read the table of an earlier run."""
        with np.load(path) as data:
            about = json.loads(data["about"].tobytes())
            class_of = data["class_of"]
            return cls(
                tuple(TestRun(*each) for each in about["tests"]),
                about["starts"],
                about["digests"],
                class_of,
                data["classes"],
                np.unpackbits(data["imported"], count=len(class_of)),
            )


def _lines(code: Any) -> Iterator[int]:
    """Yield the lines of a code object and of those nested in it that can run."""
    yield from {line for _, _, line in code.co_lines() if line}
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from _lines(constant)


def read_records(folder: Path, before: Reached | None = None) -> Reached:
    """Return the table of the records that test processes wrote, added to an earlier one."""
    absolute, positions = index_of(SOURCE)
    starts = {str(Path(file).relative_to(SOURCE)): at for file, at in absolute.items()}
    if before is not None and (before.starts != starts or before.changed):
        raise SystemExit("the source has changed since the earlier records: begin anew")
    imported = before.imported.copy() if before else np.zeros(positions, np.uint8)
    tests = list(before.tests) if before else []
    blocks = [before.classes[before.class_of]] if before else []
    columns: list[np.ndarray] = []
    for row in _rows(folder):
        bits = np.frombuffer(zlib.decompress(base64.b85decode(row["lines"])), np.uint8)
        if row["test"]:
            tests.append(TestRun(row["test"], row["outcome"], row["seconds"], row["processes"]))
            columns.append(bits)
        else:
            imported |= np.unpackbits(bits, count=positions)
    for first in range(0, len(columns), _TESTS_AT_ONCE):
        part = np.unpackbits(np.stack(columns[first : first + _TESTS_AT_ONCE]), axis=1)
        blocks.append(np.packbits(part[:, :positions].T, axis=1))
    # Blocks stand side by side byte by byte: a test without a name stands for unused bits.
    tests += [TestRun("", "none", 0.0, 0)] * (-len(tests) % 8)
    class_of, classes = _classes(np.concatenate(blocks, axis=1))
    digests = {file: _digest(SOURCE / file) for file in starts}
    return Reached(tuple(tests), starts, digests, class_of, classes, imported)


def _classes(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each row among the distinct ones, and those; number 0 is all zeros."""
    numbers = {bytes(rows.shape[1]): 0}
    class_of = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in rows], np.int32)
    distinct = np.frombuffer(b"".join(numbers), np.uint8).reshape(len(numbers), -1)
    return class_of, distinct


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a folder; the last line of a process that was ended may be cut off."""
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.endswith("}"):
                yield json.loads(line)
