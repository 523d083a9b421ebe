"""From preprocessed text back to the file the user wrote."""

from __future__ import annotations

from difflib import SequenceMatcher

from loopwright.diagnostics import Span
from loopwright.frontends.c.lines import Lines
from loopwright.frontends.c.preprocess import MAIN
from loopwright.frontends.c.syntax import Range
from loopwright.frontends.c.text import SourceText
from loopwright.frontends.c.tokens import Token, tokenize

__all__ = ["Places"]

_MOST_LINES = 12  # of the source that one preprocessed line may stand for: a macro call over lines
_MOST_TOKENS = 1500  # of a line that is still aligned word by word


class Places:
    """Finds the span of a range of preprocessed text.

    Lines are exact, as line markers tell them. Within a line the words before and after macro
    expansion are aligned: a word the user wrote is found, one out of a macro gets the place of the
    macro's use.
    """

    def __init__(self, source: SourceText, lines: Lines) -> None:
        self._source = source
        self._lines = lines
        self._aligned: dict[int, list[tuple[Token, Span]]] = {}

    def span(self, at: Range) -> Span:
        """The source of text[at[0]:at[1]]."""
        first, last = self._word(at[0]), self._word(max(at[1] - 1, at[0]))
        if first.file != last.file or (last.line, last.end_column) < (first.line, first.column):
            last = first
        return Span(
            first.file, first.line, first.column, last.end_line, last.end_column, first.text
        )

    def origin(self, offset: int) -> tuple[str, int]:
        """The file (MAIN for the user's own) and line of an offset."""
        return self._lines.origins[self._lines.row(offset)]

    def _word(self, offset: int) -> Span:
        row = self._lines.row(offset)
        if not self._lines.origins:
            return self._source.span(1)
        file, number = self._lines.origins[row]
        if file != MAIN:
            column = offset - self._lines.starts[row] + 1
            return Span(file, number, column, number, column + 1, self._lines.line_text(row))
        if row not in self._aligned:
            self._aligned[row] = self._align(row, number)
        spans = [span for token, span in self._aligned[row] if token.start <= offset < token.end]
        return spans[0] if spans else self._source.span(number)

    def _align(self, row: int, number: int) -> list[tuple[Token, Span]]:
        """Each word of a preprocessed line with its place in the source."""
        start = self._lines.starts[row]
        after = list(tokenize(self._lines.text, start, start + len(self._lines.line_text(row))))
        before = self._written(row, number) if len(after) <= _MOST_TOKENS else []
        if len(before) > _MOST_TOKENS or not before:
            whole = self._source.span(number)
            return [(token, whole) for token in after]
        matcher = SequenceMatcher(
            None, [text for text, _ in before], [token.text for token in after], autojunk=False
        )
        found: list[tuple[Token, Span]] = []
        for tag, i, j, first, last in matcher.get_opcodes():
            if tag == "equal":
                found += [(after[k], before[i + k - first][1]) for k in range(first, last)]
            else:
                # Words out of a macro stand for the words that were replaced by them.
                used = before[i:j] or before[max(i - 1, 0) : i] or before[:1]
                span = _joined(used[0][1], used[-1][1])
                found += [(after[k], span) for k in range(first, last)]
        return found

    def _written(self, row: int, number: int) -> list[tuple[str, Span]]:
        """The words of the source that a preprocessed line was made of, with their places."""
        origins = self._lines.origins
        is_last = row + 1 >= len(origins) or origins[row + 1][0] != MAIN
        following = number + 1 if is_last else max(origins[row + 1][1], number + 1)
        stop = min(following, number + _MOST_LINES, len(self._source.lines) + 1)
        words: list[tuple[str, Span]] = []
        for line in range(number, stop):
            text = self._source.lines[line - 1]
            for token in tokenize(text):
                if token.kind not in ("pragma", "bad") or line == number:
                    span = self._source.span(line, token.start + 1, token.end + 1)
                    words.append((token.text, span))
        return words


def _joined(first: Span, last: Span) -> Span:
    end_line, end = (last.line, last.end_column) if last.line == first.line else (first.line, 0)
    end = end or max(len(first.text.rstrip()) + 1, first.column + 1)
    return Span(first.file, first.line, first.column, end_line, end, first.text)
