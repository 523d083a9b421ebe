"""C as Sunway's compilers take it, rewritten for the host's compiler.

Works on preprocessed text and keeps every line where it is. Three things are rewritten:

    asm volatile("getr %0" : "=r"(v));  ->  ({ ...; lw_receive(1, &lw_v, sizeof lw_v); ... });
    doublev4 v = 0;                     ->  doublev4 v = <0 in all lanes>;
    (doublev4)x                         ->  <x, or x in all lanes>
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

__all__ = ["rewrite_sunway_c"]

_VECTORS = "doublev4|floatv4|intv8|uintv8|int256|doublev8|floatv8|intv16"
_ASM = re.compile(r"\b(?:__asm__|__asm|asm)\b\s*(?:volatile|__volatile__|__volatile)?\s*(?=\()")
_DECLARATION = re.compile(rf"\b({_VECTORS})\s+(?=\w+\s*(?:=[^=]|,))")
_INITIALISED = re.compile(r"\s*\w+\s*=(?!=)\s*+(?!\{)")
_CAST = re.compile(rf"\(\s*({_VECTORS})\s*\)\s*(?!\{{)(?=[\w(*&+.-])")
_PRIMARY = re.compile(r"\w[\w.]*|\(")
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
_SKIPPED = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')


def rewrite_sunway_c(text: str) -> str:
    """The text with Sunway's instructions and vectors as the emulator's headers spell them."""
    text = _replaced(text, _ASM, _instruction)
    text = _replaced(text, _DECLARATION, _initialised)
    return _replaced(text, _CAST, _cast)


_Rewrite = Callable[[str, re.Match[str]], tuple[str, int] | None]


def _replaced(text: str, pattern: re.Pattern[str], rewrite: _Rewrite) -> str:
    """The text with each match replaced by what `rewrite` says, up to where it says."""
    parts, last = [], 0
    for match in pattern.finditer(text):
        if match.start() < last:
            continue
        found = rewrite(text, match)
        if found is not None:
            new, end = found
            lines = text.count("\n", match.start(), end) - new.count("\n")
            parts += [text[last : match.start()], new, "\n" * lines]
            last = end
    return "".join([*parts, text[last:]])


# -- instructions --------------------------------------------------------------------------------


def _instruction(text: str, match: re.Match[str]) -> tuple[str, int] | None:
    """A call in place of an asm statement; None where the instruction is not one of Sunway's."""
    end = _closing(text, match.end())
    if end is None:
        return None
    template, *operands = _split(text[match.end() + 1 : end - 1], ":")
    code = "".join(s[1:-1] for s in _STRING.findall(template))
    words = re.split(r"[\s,]+", code.replace("\\n", " ").replace("\\t", " ").strip())
    values = [_operand(o) for group in operands[:2] for o in _split(group, ",") if o.strip()]
    if words == ["memb"] and any('"memory"' in group for group in operands[2:]):
        return "athread_memory_barrier()", end  # the compiler moves no access beyond it, either
    found = _call(words, values)
    return None if found is None else (found, end)


def _call(words: list[str], values: list[str]) -> str | None:
    match words, values:
        case ["memb" | "nop" | "flush"], _:
            return "((void)0)"
        case ["rcsr", "%0", number], [x]:
            return f"(({x}) = lw_csr({number}))"
        case ["rtc" | "rpcc", "%0"], [x]:
            return f"(({x}) = athread_time_cycle())"
        case ["getr" | "getc" as name, "%0"], [x]:
            along = int(name == "getr")
            body = f"lw_receive({along}, &lw_v, sizeof lw_v); ({x}) = lw_v;"
            return f"({{ __typeof__({x}) lw_v; {body} }})"
        case ["putr" | "putc" as name, "%0", "%1"], [x, to]:
            return f"({{ __typeof__({x}) lw_v = ({x}); {_send(name, to)} }})"
        case ["putr" | "putc" as name, "%0", to], [x]:
            return f"({{ __typeof__({x}) lw_v = ({x}); {_send(name, to.lstrip('$#'))} }})"
        case ["synr" | "sync" as name, _], _:
            return f"athread_syn({'ROW_SCOPE' if name == 'synr' else 'COL_SCOPE'}, 0xff)"
    return None


def _send(name: str, to: str) -> str:
    return f"lw_send({int(name == 'putr')}, &lw_v, sizeof lw_v, ({to}));"


def _operand(text: str) -> str:
    """The expression of an operand, `"=r"(x)`."""
    start = text.index("(") if "(" in text else 0
    return text[start:].strip()[1:-1]


# -- vectors -------------------------------------------------------------------------------------


def _splat(kind: str, value: str) -> str:
    """A vector as it is, a scalar in all lanes; which of them `value` is, the compiler knows."""
    chosen = f"_Generic(({value}), {kind}: lw_same_{kind}, default: lw_splat_{kind})"
    return f"{chosen}({value})"


def _initialised(text: str, match: re.Match[str]) -> tuple[str, int] | None:
    """A declaration of vectors with what they are initialised by; None where it is none."""
    end = next((i for i, _ in _outside(text, match.end(), ";")), None)
    if end is None:
        return None  # parameters
    parts = []
    for part in _split(text[match.end() : end], ","):
        head = _INITIALISED.match(part)
        if head is None:
            parts.append(part)
            continue
        value = _replaced(part[head.end() :], _CAST, _cast)
        parts.append(head[0] + _splat(match[1], value))
    return match[0] + ",".join(parts), end


def _cast(text: str, match: re.Match[str]) -> tuple[str, int] | None:
    before = re.search(r"(\w+|\))\s*$", text[max(0, match.start() - 40) : match.start()])
    if before is not None and before[1] not in ("return", "case", "else"):
        return None  # sizeof, a parameter of a prototype
    end = _unary(text, match.end())
    return None if end is None else (_splat(match[1], text[match.end() : end]), end)


def _unary(text: str, at: int) -> int | None:
    """Where the unary expression that begins at `at` ends."""
    while text[at] in "+-*&~! \n":
        at += 1
    primary = _PRIMARY.match(text, at)
    if primary is None:
        return None
    end: int | None = primary.end() if primary[0] != "(" else _closing(text, at)
    while end is not None:
        follows = re.compile(r"\s*(?:(?:->|\.)\s*\w+|(?=[\[(]))").match(text, end)
        if follows is None:
            return end
        is_open = text[follows.end() : follows.end() + 1] in ("[", "(")
        end = _closing(text, follows.end()) if is_open else follows.end()
    return None


# -- text with brackets and strings --------------------------------------------------------------


def _outside(text: str, at: int, characters: str) -> Iterator[tuple[int, str]]:
    """Yield where `characters` stand from `at` on, outside of brackets and strings."""
    depth = 0
    while at < len(text):
        skipped = _SKIPPED.match(text, at)
        if skipped is not None:
            at = skipped.end()
            continue
        c = text[at]
        if c in characters and depth == 0:
            yield at, c
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth < 0:
                return
        at += 1


def _closing(text: str, at: int) -> int | None:
    """The place after the bracket that closes the one at `at`."""
    depth = 0
    while at < len(text):
        skipped = _SKIPPED.match(text, at)
        if skipped is not None:
            at = skipped.end()
            continue
        depth += (text[at] in "([{") - (text[at] in ")]}")
        at += 1
        if depth == 0:
            return at
    return None


def _split(text: str, separator: str) -> list[str]:
    """The parts of a text between separators outside of brackets and strings."""
    places = [i for i, _ in _outside(text, 0, separator)]
    starts, ends = [0, *(i + 1 for i in places)], [*places, len(text)]
    return [text[a:b] for a, b in zip(starts, ends, strict=True)]
