"""Lines of C: indented, and none too long to read."""

from __future__ import annotations

__all__ = ["INDENT", "Lines"]

INDENT = "    "
_MOST_COLUMNS = 100
_BREAKS = ",;?:=<>&|+-*/%^"
_LEAST_SHARE = 0.5  # of a line that must be used before it is broken


class Lines:
    """Text that grows line by line."""

    def __init__(self, margin: str = "") -> None:
        self._lines: list[str] = []
        self._margin = margin

    def add(self, text: str, comment: str = "") -> None:
        """One statement or head of a statement, over several lines if it is long.

        A comment stands behind it on the same line, or above it where the line is too short.
        """
        margin, rest = self._margin, text
        if comment:
            note = f"/* {comment} */"
            if len(margin) + len(text) + 1 + len(note) <= _MOST_COLUMNS:
                rest = f"{text} {note}"
            else:
                self._lines.append(margin + note)
        while len(margin) + len(rest) > _MOST_COLUMNS:
            at = _break(rest, _MOST_COLUMNS - len(margin))
            if at is None:
                break
            self._lines.append(margin + rest[:at].rstrip())
            rest = rest[at:].lstrip()
            margin = self._margin + INDENT
        self._lines.append(margin + rest)

    def directive(self, text: str) -> None:
        """A line of the preprocessor or a pragma: never broken."""
        self._lines.append(self._margin + text)

    def blank(self) -> None:
        self._lines.append("")

    def indent(self) -> None:
        self._margin += INDENT

    def dedent(self) -> None:
        self._margin = self._margin.removesuffix(INDENT)

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)


def _break(text: str, width: int) -> int | None:
    """Where to break a line: after an operator or comma inside few brackets, late on the line."""
    best: tuple[int, int] | None = None
    place: int | None = None
    depth = 0
    for at, letter in enumerate(text):
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == " " and at and text[at - 1] in _BREAKS:
            if at > width and place is not None:
                break
            is_early = at < _LEAST_SHARE * width
            # Between the parts of a loop's head rather than inside one of them.
            level = 0 if text[at - 1] == ";" else 2 * depth + (text[at - 1] in "*/%")
            score = (level + (1000 if is_early else 0), -at)
            if best is None or score < best:
                best, place = score, at
    return place
