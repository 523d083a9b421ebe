"""Macro expansion of the built-in preprocessor (C11 6.10.3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from loopwright.lazy_dataclass import dataclass

__all__ = ["Macro", "MacroFault", "MacroToken", "Macros", "macro_text", "macro_tokens"]

_MOST_WORDS = 200_000  # tokens made in one file: each level of nested macros may double them
_MOST_DEPTH = 60  # nesting of macro calls in arguments of others

_MACRO_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f\v]+)|(?P<name>[^\W\d]\w*)|(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
    |(?P<string>(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"|[uUL]?'(?:[^'\\\n]|\\.)+')
    |(?P<op>\#\#|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.DOTALL | re.VERBOSE,
)


class MacroFault(Exception):  # noqa: N818, not an error of ours: it becomes a Diagnostic
    """A macro that cannot be expanded."""


class MacroToken(NamedTuple):
    """A token before and during expansion."""

    kind: str
    text: str
    is_apart: bool = False  # preceded by white space
    hidden: frozenset[str] = frozenset()  # the hide set: macros it was expanded from


@dataclass(frozen=True, slots=True)
class Macro:
    """`#define name body` or `#define name(params) body`."""

    name: str
    params: tuple[str, ...] | None
    body: tuple[MacroToken, ...]
    is_variadic: bool = False


def macro_tokens(text: str) -> list[MacroToken]:
    """The tokens of text without comments."""
    found: list[MacroToken] = []
    is_apart = False
    for match in _MACRO_TOKEN.finditer(text):
        kind = match.lastgroup or "op"
        if kind != "space":
            found.append(MacroToken(kind, match[0], is_apart))
        is_apart = kind == "space"
    return found


def macro_text(tokens: Sequence[MacroToken]) -> str:
    """The text of tokens, with spaces where there were some or two tokens would merge."""
    parts: list[str] = []
    last = ""
    for word in tokens:
        if last and (word.is_apart or _runs_together(last, word.text)):
            parts.append(" ")
        parts.append(word.text)
        last = word.text
    return "".join(parts)


def _runs_together(x: str, y: str) -> bool:
    def is_word(character: str) -> bool:
        return character.isalnum() or character in "_.\"'"

    if is_word(x[-1]) or is_word(y[0]):
        return is_word(x[-1]) and is_word(y[0])
    return x[-1] not in "()[]{};,?~" and y[0] not in "()[]{};,?~"


class Macros:
    """The macros defined at a line of the text."""

    def __init__(self) -> None:
        self._defined: dict[str, Macro] = {}
        self._spent = 0

    def define(self, text: str) -> None:
        """Process the text after `#define`: a name, parameters, a body."""
        match = re.match(r"\s*([^\W\d]\w*)(\(([^)]*)\))?", text)
        if match is None:
            raise MacroFault("a name is missing after #define")
        body = tuple(macro_tokens(text[match.end() :]))
        params, is_variadic = None, False
        if match[2] is not None:
            names = [part.strip() for part in match[3].split(",")] if match[3].strip() else []
            is_variadic = bool(names) and names[-1].endswith("...")
            if is_variadic:
                names[-1] = names[-1].removesuffix("...").strip() or "__VA_ARGS__"
            params = tuple(names)
        self._defined[match[1]] = Macro(match[1], params, body, is_variadic)

    def undefine(self, name: str) -> None:
        self._defined.pop(name, None)

    def __contains__(self, name: str) -> bool:
        return name in self._defined

    def expand(
        self,
        tokens: Sequence[MacroToken],
        more: Callable[[], Sequence[MacroToken] | None] = lambda: None,
        depth: int = 0,
    ) -> list[MacroToken]:
        """Expand every macro; `more` supplies the next line for calls that continue there."""
        if depth > _MOST_DEPTH:
            raise MacroFault("calls of macros are nested too deeply")
        done: list[MacroToken] = []
        waiting = list(reversed(tokens))
        while waiting:
            word = waiting.pop()
            macro = self._defined.get(word.text) if word.kind == "name" else None
            if macro is None or word.text in word.hidden:
                done.append(word)
                continue
            args: list[list[MacroToken]] = []
            if macro.params is not None:
                found = self._arguments(waiting, more, macro)
                if found is None:
                    done.append(word)
                    continue
                args = found
            made = self._substitute(macro, args, depth)
            self._spent += len(made) + 1
            if self._spent > _MOST_WORDS:
                raise MacroFault(f"macros of the file make more than {_MOST_WORDS} words")
            hidden = word.hidden | {macro.name}
            new = [w._replace(hidden=w.hidden | hidden) for w in made]
            if new:
                new[0] = new[0]._replace(is_apart=word.is_apart)
            waiting += reversed(new)
        return done

    def _arguments(
        self,
        waiting: list[MacroToken],
        more: Callable[[], Sequence[MacroToken] | None],
        macro: Macro,
    ) -> list[list[MacroToken]] | None:
        """The arguments of a macro call, taken off `waiting`; None when there is no call."""
        while not waiting:
            line = more()
            if line is None:
                return None
            waiting += reversed(line)
        if waiting[-1].text != "(":
            return None
        waiting.pop()
        args: list[list[MacroToken]] = [[]]
        depth = 0
        params = macro.params or ()
        while True:
            while not waiting:
                line = more()
                if line is None:
                    raise MacroFault(f"')' is missing in the call of the macro '{macro.name}'")
                waiting += reversed(line)
            word = waiting.pop()
            if word.text == ")" and depth == 0:
                break
            depth += (word.text in "([{") - (word.text in ")]}")
            is_rest = macro.is_variadic and len(args) == len(params)
            if word.text == "," and depth == 0 and not is_rest:
                args.append([])
            else:
                args[-1].append(word)
        if not params and args == [[]]:
            args = []
        if macro.is_variadic and len(args) == len(params) - 1:
            args.append([])
        if len(args) != len(params):
            message = (
                f"the macro '{macro.name}' takes {len(params)} arguments, {len(args)} are given"
            )
            raise MacroFault(message)
        return args

    def _substitute(
        self, macro: Macro, args: list[list[MacroToken]], depth: int
    ) -> list[MacroToken]:
        """The body of a macro with its arguments substituted and # and ## applied."""
        raw = dict(zip(macro.params or (), args, strict=True))
        expanded: dict[str, list[MacroToken]] = {}
        made: list[MacroToken] = []
        body = macro.body
        at = 0
        is_pasting = False
        while at < len(body):
            word = body[at]
            if word.text == "##" and at > 0:
                is_pasting = True
                at += 1
                continue
            follows = body[at + 1].text if at + 1 < len(body) else ""
            if word.text == "#" and macro.params is not None and follows in raw:
                piece = [_stringified(raw[follows])]
                at += 1
            elif word.text in raw and word.kind == "name":
                if is_pasting or follows == "##":
                    piece = raw[word.text]
                else:
                    if word.text not in expanded:
                        expanded[word.text] = self.expand(raw[word.text], depth=depth + 1)
                    piece = expanded[word.text]
                piece = [piece[0]._replace(is_apart=word.is_apart), *piece[1:]] if piece else []
            else:
                piece = [word]
            if is_pasting and made and piece:
                glued = macro_tokens(made.pop().text + piece[0].text)
                piece = [*glued, *piece[1:]]
            made += piece
            is_pasting = False
            at += 1
        return made


def _stringified(arg: Sequence[MacroToken]) -> MacroToken:
    escaped = [
        w._replace(text=re.sub(r'(["\\])', r"\\\1", w.text)) if w.kind == "string" else w
        for w in arg
    ]
    return MacroToken("string", f'"{macro_text(escaped)}"')
