"""Whether a C function is nothing but its regions: declarations around them, and no other code.

The text between two regions is not ours to run. It is looked at as text, comments and directives
left out: a declaration begins with a word and another word, or with words of C's own types.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from loopwright.diagnostics import Diagnostic, SourceError, Span
from loopwright.frontends.c import CFile, CRegion, CVariable
from loopwright.frontends.c.constant_initializer import Constant, constant_of

__all__ = ["initial_array", "initial_value", "require_only_regions"]

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
_LINKAGE = re.compile(r"\bextern\s*\Z")  # extern "C" {, its string blanked


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


def initial_value(variable: CVariable) -> Constant | None:
    """The number or the lists of numbers that a variable is declared with; None: without any.

    Raises SourceError for a value that is no constant of numbers.
    """
    if not variable.init:
        return None
    found = constant_of(variable.init)
    if found is not None and (variable.shape or not isinstance(found, list)):
        return found
    message = f"the value that '{variable.name}' begins with is not a plain number"
    hint = "assign it in the region, or make it a parameter"
    text = variable.init[:60]
    raise SourceError(Diagnostic(variable.span, message, "LW151", found=text, hint=hint))


def initial_array(variable: CVariable, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """A new array of a variable as C begins it; what has no value of its own is zero."""
    array = np.zeros(shape, variable.dtype.numpy)
    first = initial_value(variable)
    if first is not None and not _fill(array, first):
        message = f"the list that '{variable.name}' begins with does not fit its extents"
        raise SourceError(Diagnostic(variable.span, message, "LW151", found=variable.init[:60]))
    return array


def _fill(array: np.ndarray[Any, Any], first: Constant) -> bool:
    """Put the items of a list into an array, by rows where braces are left out."""
    if not isinstance(first, list):
        array[...] = first
        return array.ndim == 0
    if not any(isinstance(item, list) for item in first):
        flat = array.reshape(-1)
        flat[: len(first)] = first[: flat.size]
        return len(first) <= flat.size
    if array.ndim < 2 or len(first) > len(array):
        return False
    return all(isinstance(x, list) and _fill(row, x) for row, x in zip(array, first, strict=False))


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
            if depth == 0 and _LINKAGE.search(text, start, match.start()):
                continue
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
    if re.match(r"(?:_Static_assert|static_assert)\b", text):
        return True
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
