"""Liveness of variables around a region, from the tokens of the function alone.

Names are compared as text: two variables of one name count as one, which is conservative.
"""

from __future__ import annotations

from collections.abc import Sequence

from loopwright.frontends.c.lexer import CToken
from loopwright.lazy_dataclass import dataclass

__all__ = ["RegionContext", "changed_names", "is_mentioned"]

_ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
_ENDS = (";", "{", "}")
_NOT_TYPES = ("return", "goto", "case", "else", "do")


@dataclass(frozen=True, slots=True)
class RegionContext:
    """The tokens of a function's body around one region."""

    before: Sequence[CToken]  # from the opening brace of the body to the region
    after: Sequence[CToken]  # from the region to the closing brace

    def is_used_after(self, name: str) -> bool:
        """Whether the value that the region leaves in a variable may be read outside it."""
        if self.has_address(name) or self._jumps():
            return is_mentioned(self.before, name, declared=True) or is_mentioned(self.after, name)
        if _reads_first(self.after, name):
            return True
        return self.repeats and self._is_read_again(name)

    def is_set_before(self, name: str) -> bool:
        """Whether a value from outside, or from an earlier execution, may reach the region."""
        return self._jumps() or self.repeats or is_mentioned(self.before, name, declared=True)

    @property
    def repeats(self) -> bool:
        """Whether the region may be in a loop: it is not in the outermost block."""
        depth = sum((t.text == "{") - (t.text == "}") for t in self.before)
        return depth > 1 or (bool(self.before) and self.before[-1].text in (")", "else", "do"))

    def _is_read_again(self, name: str) -> bool:
        """Whether the enclosing block, executed again, reads a variable before assigning it."""
        depth = brace = 0  # of the outermost enclosing block inside the body
        for at, token in enumerate(self.before):
            depth += (token.text == "{") - (token.text == "}")
            if depth <= 1:
                brace = at + 1
        head, brackets = brace, 0
        while head > 0 and (brackets or self.before[head - 1].text not in _ENDS):
            head -= 1
            brackets += (self.before[head].text == ")") - (self.before[head].text == "(")
        if is_mentioned(self.before[head:brace], name):
            return True
        return _reads_first(self.before[brace + 1 :], name)

    def has_address(self, name: str) -> bool:
        """Whether the function takes the address of a variable outside the region."""
        return any(_is_address(tokens, name) for tokens in (self.before, self.after))

    def _jumps(self) -> bool:
        words = ("goto", "setjmp", "longjmp", "asm", "__asm__")
        return any(t.text in words for tokens in (self.before, self.after) for t in tokens)


def is_mentioned(tokens: Sequence[CToken], name: str, *, declared: bool = False) -> bool:
    """Whether a name occurs; with `declared`, other than in a declaration without a value."""
    for at, token in enumerate(tokens):
        if token.text != name or token.kind != "name":
            continue
        if declared and _is_plain_declaration(tokens, at):
            continue
        return True
    return False


def _is_plain_declaration(tokens: Sequence[CToken], at: int) -> bool:
    """Whether a name is declared without a value: `int i, j;` or `double x[4][5];`."""
    start = at
    while start and tokens[start - 1].text not in _ENDS and tokens[start - 1].kind != "pragma":
        start -= 1
    words = tokens[start:at]
    if not words or words[0].kind != "name" or words[0].text in _NOT_TYPES:
        return False
    if any(t.text in ("=", "(", ".", "->") for t in words):
        return False
    pairs = zip(words, tokens[start + 1 : at + 1], strict=True)
    is_type = any(one.kind == other.kind == "name" for one, other in pairs)
    end = at + 1
    while end < len(tokens) and tokens[end].text == "[":
        while end < len(tokens) and tokens[end].text != "]":
            end += 1
        end += 1
    return is_type and end < len(tokens) and tokens[end].text in (",", ";")


def _reads_first(tokens: Sequence[CToken], name: str) -> bool:
    """Whether some path through the tokens reads a name before it is assigned."""
    at = 0
    while at < len(tokens):
        if tokens[at].text == "for" and _counts(tokens, at, name):
            if _overwrites(tokens, at + 2):
                return False
            at = _statement_end(tokens, at)  # uses inside come after the loop's own assignment
        elif tokens[at].text == name and tokens[at].kind == "name":
            return not _overwrites(tokens, at)
        else:
            at += 1
    return False


def _counts(tokens: Sequence[CToken], at: int, name: str) -> bool:
    """Whether `for (name = ...` or `for (int name = ...` begins here, with another start."""
    words = [t.text for t in tokens[at + 1 : at + 5]]
    if words[:3] != ["(", name, "="]:
        return words[0:1] == ["("] and words[2:4] == [name, "="]
    return not _is_own_start(tokens, at + 2)


def _is_own_start(tokens: Sequence[CToken], at: int) -> bool:
    """Whether the right-hand side of `i = ...` reads i."""
    stop = next(
        (k for k in range(at + 2, len(tokens)) if tokens[k].text in (";", ",")), len(tokens)
    )
    return any(t.text == tokens[at].text for t in tokens[at + 2 : stop])


def _statement_end(tokens: Sequence[CToken], at: int) -> int:
    """The index after the statement that begins at `at`, usually a loop."""
    while at < len(tokens) and tokens[at].text in ("for", "while", "if", "else"):
        at += 1
        if at < len(tokens) and tokens[at].text == "(":
            at = _partner(tokens, at) + 1
    if at < len(tokens) and tokens[at].text == "{":
        return _partner(tokens, at) + 1
    while at < len(tokens) and tokens[at].text not in (";", "}"):
        at = _partner(tokens, at) if tokens[at].text in ("(", "[", "{") else at
        at += 1
    return at + 1


def _partner(tokens: Sequence[CToken], at: int) -> int:
    """The index of the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += tokens[place].text in ("(", "[", "{")
        depth -= tokens[place].text in (")", "]", "}")
        if depth == 0:
            return place
    return len(tokens)


def _overwrites(tokens: Sequence[CToken], at: int) -> bool:
    """Whether the use of a name assigns it unconditionally: `i = ...;`, `for (i = ...`."""
    if at + 1 >= len(tokens) or tokens[at + 1].text != "=":
        return False
    head = at
    if at >= 2 and tokens[at - 1].text == "(" and tokens[at - 2].text == "for":
        head = at - 2
    if head and not (tokens[head - 1].text in (";", "{", "}") or tokens[head - 1].kind == "pragma"):
        return False
    if _is_own_start(tokens, at):
        return False
    depth = lowest = 0
    for token in tokens[:head]:
        depth += (token.text == "{") - (token.text == "}")
        lowest = min(lowest, depth)
    return depth == lowest


def _is_address(tokens: Sequence[CToken], name: str) -> bool:
    """Whether `&name` or `&(name)` occurs; `x & name` counts too, which is conservative."""
    return any(t.text == name and _before(tokens, at) == "&" for at, t in enumerate(tokens))


def _before(tokens: Sequence[CToken], at: int) -> str:
    """What stands before a name and the parentheses that open before it."""
    while at and tokens[at - 1].text == "(":
        at -= 1
    return tokens[at - 1].text if at else ""


def changed_names(tokens: Sequence[CToken]) -> frozenset[str]:
    """Names that are assigned, incremented, decremented, or whose address is taken."""
    found: set[str] = set()
    for at, token in enumerate(tokens):
        if token.kind != "name":
            continue
        before = _before(tokens, at)
        after = tokens[at + 1].text if at + 1 < len(tokens) else ""
        is_assigned = after in _ASSIGNMENTS and not _is_initialised(tokens, at)
        if is_assigned or after in ("++", "--") or before in ("++", "--", "&"):
            found.add(token.text)
    return frozenset(found)


def _is_initialised(tokens: Sequence[CToken], at: int) -> bool:
    """Whether `=` at a name is its initialisation, as in `int n = 5`."""
    return tokens[at + 1].text == "=" and at > 0 and tokens[at - 1].kind == "name"
