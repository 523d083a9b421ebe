"""The YAML in which isl writes schedule trees: read without trusting it, and written.

isl's own reader ends the process on some malformed trees, so structure is read here, and isl sees
only sets and functions. Both spellings of isl are read: nested lines, and braces on one line.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import TypeAlias

from loopwright.ir.islkit import context, isl
from loopwright.ir.schedule import Schedule
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "Data",
    "NotYaml",
    "read_yaml",
    "schedule_yaml",
]


Data: TypeAlias = "str | list[Data] | dict[str, Data]"

_MOST_DEPTH = 64
_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+)\s*')
_Token: TypeAlias = tuple[str, int]  # text and line


class NotYaml(Exception):  # noqa: N818, says what the text is
    """Raised with the reason and the number of the line, from 1."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(f"line {line}: {reason}")


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    indent: int
    text: str


def read_yaml(text: str) -> Data:
    """Mappings, lists and scalars; scalars stay text, their quotes removed."""
    lines = list(_lines(text))
    if not lines:
        raise NotYaml("there is nothing", 1)
    found, rest = _block(lines, 0)
    if rest:
        raise NotYaml("the indentation fits nothing above", rest[0].number)
    return found


def _lines(text: str) -> Iterator[_Line]:
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#") and stripped not in ("---", "..."):
            yield _Line(number, len(line) - len(line.lstrip(" ")), stripped)


def _block(lines: list[_Line], depth: int) -> tuple[Data, list[_Line]]:
    """The value of the lines with the indentation of the first one, and the lines after them."""
    first = lines[0]
    if depth > _MOST_DEPTH:
        raise NotYaml("the tree is too deep", first.number)
    if first.text[0] in "{[":
        return _flow(lines)
    if first.text == "-" or first.text.startswith("- "):
        return _items(lines, first.indent, depth)
    return _entries(lines, first.indent, depth)


def _items(lines: list[_Line], indent: int, depth: int) -> tuple[Data, list[_Line]]:
    found: list[Data] = []
    while lines and lines[0].indent == indent and lines[0].text.startswith("-"):
        line = lines[0]
        inner = line.text[1:].lstrip()
        if inner:
            # What stands after the dash begins a block of its own, further right.
            shift = len(line.text) - len(inner)
            lines = [_Line(line.number, indent + shift, inner), *lines[1:]]
        else:
            lines = lines[1:]
        if not lines or lines[0].indent <= indent:
            raise NotYaml("an entry of a list is empty", line.number)
        value, lines = _block(lines, depth + 1)
        found.append(value)
    return found, lines


def _entries(lines: list[_Line], indent: int, depth: int) -> tuple[Data, list[_Line]]:
    found: dict[str, Data] = {}
    while lines and lines[0].indent == indent:
        line = lines[0]
        key, colon, inner = line.text.partition(":")
        key = _scalar(key.strip(), line.number)
        if not colon or not key or key in found:
            raise NotYaml("a key and a colon are expected", line.number)
        if inner.strip():
            # A value on the line itself may be a scalar, or braces that go on below.
            rest = [_Line(line.number, line.indent, inner.strip()), *lines[1:]]
            value, lines = _flow(rest)
        else:
            lines = lines[1:]
            # A list may stand as far left as its key.
            is_list = bool(lines) and lines[0].indent == indent and lines[0].text.startswith("-")
            if not lines or (lines[0].indent <= indent and not is_list):
                raise NotYaml(f"'{key}' has no value", line.number)
            value, lines = _block(lines, depth + 1)
        found[key] = value
    return found, lines


def _flow(lines: list[_Line]) -> tuple[Data, list[_Line]]:
    """A value in braces, brackets or quotes, and the lines after its last one."""
    tokens: deque[_Token] = deque()
    depth = 0
    for position, line in enumerate(lines):
        found = list(_tokens(line))
        tokens += found
        depth += sum((t in "{[") - (t in "}]") for t, _ in found)
        if depth <= 0:
            value = _value(tokens, 0)
            if tokens:
                raise NotYaml(f"'{tokens[0][0]}' is one too many", tokens[0][1])
            return value, lines[position + 1 :]
    raise NotYaml("a brace is not closed", lines[-1].number)


def _tokens(line: _Line) -> Iterator[_Token]:
    at = 0
    while at < len(line.text):
        found = _TOKEN.match(line.text, at)
        if found is None:
            raise NotYaml("a quotation mark is not closed", line.number)
        yield found[1], line.number
        at = found.end()


def _value(tokens: deque[_Token], depth: int) -> Data:
    if not tokens or depth > _MOST_DEPTH:
        raise NotYaml("a value is missing or too deep", tokens[0][1] if tokens else 1)
    token, line = tokens.popleft()
    if token == "[":
        return _list(tokens, depth)
    if token == "{":
        return _mapping(tokens, depth)
    if token in "}],:":
        raise NotYaml(f"'{token}' stands where a value is expected", line)
    return _scalar(token, line)


def _list(tokens: deque[_Token], depth: int) -> Data:
    found: list[Data] = []
    while tokens and tokens[0][0] != "]":
        found.append(_value(tokens, depth + 1))
        _skip_comma(tokens, "]")
    tokens.popleft()
    return found


def _mapping(tokens: deque[_Token], depth: int) -> Data:
    found: dict[str, Data] = {}
    while tokens and tokens[0][0] != "}":
        token, line = tokens.popleft()
        key = _scalar(token, line)
        if not tokens or tokens[0][0] != ":" or token in "{}[],:" or key in found:
            raise NotYaml("a key and a colon are expected", line)
        tokens.popleft()
        found[key] = _value(tokens, depth + 1)
        _skip_comma(tokens, "}")
    tokens.popleft()
    return found


def _skip_comma(tokens: deque[_Token], end: str) -> None:
    if not tokens or tokens[0][0] not in (",", end):
        raise NotYaml(f"',' or '{end}' is expected", tokens[0][1] if tokens else 1)
    if tokens[0][0] == ",":
        tokens.popleft()


def _scalar(token: str, line: int) -> str:
    if not token.startswith('"'):
        return token
    if len(token) < 2 or not token.endswith('"'):
        raise NotYaml("a quotation mark is not closed", line)
    return re.sub(r"\\(.)", r"\1", token[1:-1])


_BLOCK_STYLE = 0


def schedule_yaml(schedule: Schedule) -> str:
    """The schedule tree as isl's YAML; marks, which map loops to the machine, are left out."""
    printer = isl.Printer.to_str(context()).set_yaml_style(_BLOCK_STYLE)
    return printer.print_schedule(schedule.tree).get_str()
