"""Identifiers of emitted C: the user's where they are free, never a word of C or of others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

__all__ = ["Names", "as_identifier", "identifiers"]

_TEXT = """
auto break case char const continue default do double else enum extern float for goto if inline
int long register restrict return short signed sizeof static struct switch typedef union
unsigned void volatile while _Alignas _Alignof _Atomic _Bool _Complex _Generic _Imaginary
_Noreturn _Static_assert _Thread_local asm typeof fortran linux unix i386 I NULL errno bool true
false complex imaginary main alignas alignof nullptr constexpr thread_local static_assert
"""
_WORDS = frozenset(_TEXT.split())
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def identifiers(text: str) -> frozenset[str]:
    """Every word of a text that could name something in C."""
    return frozenset(_IDENTIFIER.findall(text))


def as_identifier(name: str) -> str:
    """A name that C accepts: other letters by their numbers, words of C and of ours set apart."""
    plain = "".join(
        c if c.isascii() and (c.isalnum() or c == "_") else f"u{ord(c):x}" for c in name
    )
    if not plain or plain[0].isdigit():
        plain = f"v{plain}"
    return f"{plain}_" if plain in _WORDS or plain.startswith(("lw_", "__")) else plain


class Names:
    """The names in use at a place of the text; inner blocks see those of outer ones."""

    def __init__(self, taken: Iterable[str] = (), foreign: frozenset[str] = frozenset()) -> None:
        self._scopes: list[set[str]] = [set(taken)]
        self._foreign = foreign  # words of the text around: a name that we make up is none of them

    def declare(self, wish: str, *, is_own: bool = True) -> str:
        """A name for something new in the innermost block; the user's own may be foreign.

        Names that we make up have small letters: macros of headers, which nobody shows us, have
        capital ones.
        """
        plain = as_identifier(wish.lower() if is_own and wish.isupper() else wish)
        name, count = plain, 1
        while self._is_taken(name) or (is_own and name in self._foreign):
            count += 1
            name = f"{plain}_{count}"
            is_own = True
        self._scopes[-1].add(name)
        return name

    @contextmanager
    def block(self) -> Iterator[None]:
        """A block of its own: what it declares is free again behind it."""
        self._scopes.append(set())
        yield
        self._scopes.pop()

    def _is_taken(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes)
