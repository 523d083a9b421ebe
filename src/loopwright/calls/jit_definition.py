"""A Python function for given argument types, read only when somebody must know its meaning.

A function that an earlier process has compiled is known by its text and the values of its outer
names (`fingerprint`). Two entries of the disk cache lead to its summary: the first tells which
outer names count, the second, keyed by what they stand for now, holds the summary. Reading is
deterministic: if all names that an earlier reading asked for have the same values, it asks for
the same names and gives the same tree.
"""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

from loopwright.calls.function_summary import FunctionSummary, summary_key
from loopwright.frontends.python import ArgType
from loopwright.frontends.python.fingerprint import definition_text, lookup, value_texts
from loopwright.ir.serial import Malformed
from loopwright.kernels import recall, remember

if TYPE_CHECKING:
    from loopwright.frontends.source_tree import SourceTree

__all__ = ["JitDefinition"]


class JitDefinition:
    """A function for one tuple of argument types."""

    def __init__(
        self,
        function: FunctionType,
        types: tuple[ArgType, ...],
        *,
        reassoc: bool,
        raises: bool = False,
    ) -> None:
        self.reassoc = reassoc
        self.captured: tuple[tuple[str, object], ...] = ()  # outer names, the values they had
        self._function = function
        self._types = types
        self._raises = raises  # whether a flag behind the result says that Python may raise
        self._tree: SourceTree | None = None
        self._text = _text(function, types, reassoc, raises)

    def __str__(self) -> str:
        return f"definition of '{self._function.__qualname__}'"

    @property
    def tree(self) -> SourceTree:
        """The function as read now."""
        if self._tree is None:
            # lazy: a known function is called without being read
            from loopwright.frontends.python.py_statements import parse_function

            self._tree = parse_function(self._function, self._types, raises=self._raises)
            self.captured = self._tree.captured
        return self._tree

    def known(self) -> tuple[str, FunctionSummary] | None:
        """Key and summary of the function, if an earlier process has left them."""
        first = None if self._text is None else recall(self._text)
        match first:
            case {"captured": list(names)} if all(isinstance(name, str) for name in names):
                place = self._place(names)
                facts = None if place is None else recall(place)
            case _:
                return None
        match facts:
            case {"key": str(key), "summary": data}:
                summary = _summary(data)
                self.captured = tuple((name, lookup(self._function, name)) for name in names)
                return None if summary is None else (key, summary)
        return None

    def key(self) -> str:
        """A hash of all that the meaning depends on, made from the tree."""
        return summary_key(self.tree, reassoc=self.reassoc)

    def keep(self, key: str, summary: FunctionSummary) -> None:
        """Let later processes know the function without reading it."""
        match self.places():
            case (first, second):
                remember(second, {"key": key, "summary": summary.to_json()})
                remember(first, {"captured": [name for name, _ in self.captured]})

    def places(self) -> tuple[str, ...]:
        """Under which texts its two entries are kept; none when text would not tell it apart."""
        second = self._place([name for name, _ in self.captured])
        return () if self._text is None or second is None else (self._text, second)

    def _place(self, names: list[str]) -> str | None:
        values = value_texts(self._function, names)
        return None if values is None else f"{self._text} {names} {values}"


def _text(
    function: FunctionType, types: tuple[ArgType, ...], reassoc: bool, raises: bool
) -> str | None:
    text = definition_text(function)
    if text is None:
        return None
    word = " raises" if raises else ""
    return f"definition {text} {[tuple(x) for x in types]} {reassoc}{word}"


def _summary(data: Any) -> FunctionSummary | None:
    try:
        return FunctionSummary.from_json(data)
    except Malformed:
        return None
