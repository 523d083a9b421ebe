"""Preprocessed text without system headers, and where each of its lines comes from."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

__all__ = ["Lines", "split_lines"]

_MARKER = re.compile(r'#(?:line)? *(\d+) "((?:[^"\\]|\\.)*)"((?: \d)*)\s*')


@dataclass(frozen=True, slots=True)
class Lines:
    """Text of the user's own files, with the file and line of every line of it."""

    text: str
    starts: tuple[int, ...]  # offset of each line in `text`
    origins: tuple[tuple[str, int], ...]  # file and line number of each line

    def row(self, offset: int) -> int:
        """The number (from 0) of the line that holds `offset`."""
        return max(bisect_right(self.starts, offset) - 1, 0)

    def line_text(self, row: int) -> str:
        end = self.starts[row + 1] - 1 if row + 1 < len(self.starts) else len(self.text)
        return self.text[self.starts[row] : end]


def split_lines(preprocessed: str) -> Lines:
    """Read the line markers.

    A header is the system's when it is *entered* as such: macros of system headers make compilers
    mark lines of the user's own file with the same flag.
    """
    system: set[str] = set()
    kept: list[str] = []
    origins: list[tuple[str, int]] = []
    file, number, is_ours = "", 1, False
    for line in preprocessed.split("\n"):
        if line.startswith("#"):
            match = _MARKER.fullmatch(line)
            if match is not None:
                file, number = _unescaped(match[2]), int(match[1])
                flags = match[3].split()
                if "1" in flags and "3" in flags:
                    system.add(file)
                is_ours = file not in system and file not in ("<built-in>", "<command-line>")
                continue
        if is_ours and line and not line.isspace():
            kept.append(line)
            origins.append((file, number))
        number += 1
    starts: list[int] = []
    at = 0
    for line in kept:
        starts.append(at)
        at += len(line) + 1
    return Lines("\n".join(kept), tuple(starts), tuple(origins))


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)
