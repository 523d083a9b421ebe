"""A function told apart from others without being read: its text, and values as text.

Reading a function (finding its lines, parsing them, typing its body) takes longer than all else
that a call of a known one needs in a new process. What reading depends on is cheap to collect: the
lines of the definition, the name and number of arguments, and the values of the outer names.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FunctionType

import numpy as np

from loopwright.frontends.python.captures import lookup

__all__ = ["definition_text", "value_texts"]

_NUMBERS = (bool, int, float, complex)
# Modules whose functions and classes mean the same in every process.
_KNOWN_MODULES = frozenset({"builtins", "math", "numpy"})


def definition_text(function: FunctionType) -> str | None:
    """Everything of a function's source that reading it depends on; None when that is not plain.

    The text is that of the file as it is now: so is what `read_source` would find. It runs from
    the first decorator to the last line that is indented deeper.
    """
    code = function.__code__
    lines = _file_lines(code.co_filename)
    first = code.co_firstlineno - 1
    last = max((end for _, end, _, _ in code.co_positions() if end), default=0)
    if lines is None or not 0 <= first < last <= len(lines):
        return None
    margin = _indent(lines[first])
    while last < len(lines) and (not lines[last].strip() or _indent(lines[last]) > margin):
        last += 1
    # A bracket that closes here was opened in the definition: code and text do not belong together.
    if last < len(lines) and lines[last].lstrip()[:1] in (b")", b"]", b"}"):
        return None
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    encoding = [line for line in lines[:2] if b"coding" in line]
    text = b"".join(lines[first:last]).rstrip()
    return repr((code.co_name, counts, encoding, text))


def _file_lines(file: str) -> list[bytes] | None:
    """The lines of a source file; None for text that lies elsewhere."""
    # Whoever compiles text without a file may leave it in linecache, under any name, without date.
    cached = getattr(sys.modules.get("linecache"), "cache", {}).get(file, ())
    if len(cached) > 1 and cached[1] is None:
        return None
    try:
        with open(file, "rb") as source:
            return source.read().splitlines(keepends=True)
    except (OSError, ValueError):
        return None


def _indent(line: bytes) -> int:
    return len(line) - len(line.lstrip())


def value_texts(function: FunctionType, names: Iterable[str]) -> str | None:
    """What outer names stand for now, as text; None when that would not tell values apart."""
    texts = [_value_text(lookup(function, name)) for name in names]
    return None if None in texts else repr(texts)


def _value_text(value: object) -> str | None:
    if type(value) in _NUMBERS:
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, np.generic) and type(value).__module__ == "numpy":
        return f"{value.dtype.name} {value.tobytes().hex()}"
    # NumPy's ufuncs have a name only.
    module = "numpy" if isinstance(value, np.ufunc) else getattr(value, "__module__", None)
    name = getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module not in _KNOWN_MODULES:
        return None
    return f"{module}.{name}" if getattr(sys.modules[module], name, None) is value else None
