"""Whether a C function is nothing but its regions: declarations around them, and no other code.

The text between two regions is not ours to run. It is looked at as text, comments and directives
left out: a declaration begins with a word and another word, or with words of C's own types.
"""

from __future__ import annotations

import re

from loopwright.diagnostics import Diagnostic, SourceError, Span
from loopwright.frontends.c import CFile, CRegion, CVariable

__all__ = ["initial_value", "require_only_regions"]

# Comments, literals and directives, of which only their length counts.
_SKIPPED = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|^[ \t]*#(?:[^\n\\]|\\.)*",
    re.DOTALL | re.MULTILINE,
)
_DECLARATION = re.compile(
    r"(?:(?:static|const|volatile|register|auto|restrict|unsigned|signed|long|short|struct|enum)\s+)*"
    r"[A-Za-z_]\w*[\s*]+[A-Za-z_]\w*\s*(?:\[|=|,|$)",
    re.DOTALL,
)
_NO_TYPE = re.compile(r"(?:return|goto|case|else|do|break|continue|sizeof|typedef)\b")
_NUMBER = re.compile(r"[+-]?\s*(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFlLuU]*")


def require_only_regions(file: CFile, regions: tuple[CRegion, ...]) -> None:
    """Raise SourceError unless the function of these regions does nothing outside them."""
    text = _plain(file)
    start, end = _body(text, regions[0].outer_start)
    for first, last in _gaps(regions, start, end):
        offset = first
        for part in text[first:last].split(";"):
            word = part.strip()
            at = offset + len(part) - len(part.lstrip())
            offset += len(part) + 1
            if word and word != "return" and not _is_declaration(word):
                raise SourceError(_other_code(file, regions[0].function, at))


def initial_value(variable: CVariable) -> float | int | None:
    """The number that a variable is declared with; None: it begins without one.

    Raises SourceError for a value that is no plain number.
    """
    if not variable.init:
        return None
    if variable.shape and variable.init.replace(" ", "") in ("{0}", "{0.0}", "{}"):
        return 0
    if _NUMBER.fullmatch(variable.init) and not variable.shape:
        digits = re.sub(r"[fFlLuU\s]+", "", variable.init)
        return int(digits) if re.fullmatch(r"[+-]?\d+", digits) else float(digits)
    message = f"the value that '{variable.name}' begins with is not a plain number"
    hint = "assign it in the region, or make it a parameter"
    found = variable.init[:60]
    raise SourceError(Diagnostic(variable.span, message, "LW151", found=found, hint=hint))


def _plain(file: CFile) -> str:
    """The text with everything that is no code blanked; one byte is one character."""
    return _SKIPPED.sub(_blank, file.source.decode("latin-1"))


def _blank(match: re.Match[str]) -> str:
    return "".join("\n" if c == "\n" else " " for c in match[0])


def _body(text: str, inside: int) -> tuple[int, int]:
    """The range between the outermost braces around a place."""
    depth, start = 0, 0
    for match in re.finditer(r"[{}]", text):
        if match[0] == "{":
            if depth == 0:
                start = match.end()
            depth += 1
        else:
            depth = max(0, depth - 1)
            if depth == 0 and match.start() >= inside:
                return start, match.start()
    return start, len(text)


def _gaps(regions: tuple[CRegion, ...], start: int, end: int) -> list[tuple[int, int]]:
    edges = [start]
    for region in regions:
        edges += (region.outer_start, region.outer_end)
    return list(zip(edges[::2], [*edges[1::2], end], strict=True))


def _is_declaration(text: str) -> bool:
    return bool(_DECLARATION.match(text)) and not _NO_TYPE.match(text) and "{" not in text


def _other_code(file: CFile, function: str, at: int) -> Diagnostic:
    before = file.source[:at].decode(file.encoding, errors="replace")
    line = before.count("\n") + 1
    column = len(before) - before.rfind("\n")
    text = file.source.decode(file.encoding).split("\n")[line - 1].rstrip("\r")
    span = Span(file.name, line, column, line, max(len(text.rstrip()) + 1, column + 1), text)
    hint = "put it into a region or another function; 'loopwright cc' leaves it where it is"
    message = f"'{function}' is more than its regions"
    return Diagnostic(span, message, "LW150", hint=hint)
