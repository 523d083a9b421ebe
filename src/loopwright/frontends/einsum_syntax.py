"""All of NumPy's einsum syntax: implicit output, ellipsis, repeated indices, many operands.

Only letters and ranks matter here, no array is read.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from functools import lru_cache

from loopwright.diagnostics import UsageError, WrongTypeError
from loopwright.lazy_dataclass import dataclass

__all__ = ["EinsumSubscripts", "parse_subscripts", "sublist_subscripts"]

# In ASCII order, as the letters of an implicit output: index lists rely on it.
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_HINT = "letters, ',' between operands, '...' once in each, and '->' before the output"


@dataclass(frozen=True, slots=True)
class EinsumSubscripts:
    """An einsum with every dimension named: ellipses replaced by letters of their own."""

    operands: tuple[str, ...]  # a letter per dimension
    out: str  # distinct letters

    @property
    def text(self) -> str:
        return f"{','.join(self.operands)}->{self.out}"


@lru_cache(maxsize=4096)
def parse_subscripts(text: str, ranks: tuple[int, ...]) -> EinsumSubscripts:
    """Check `text` against the operands' ranks and name every dimension."""
    _check_characters(text)
    compact = text.replace(" ", "")
    left, arrow, right = compact.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise UsageError(
            f"einsum '{text}' names {_count(len(terms), 'operand')}",
            found=f"{_count(len(ranks), 'array')} given",
            hint="one comma-separated group of letters per array",
        )
    used = set(compact)
    free = [c for c in _LETTERS if c not in used]
    dotted = [(t, r) for t, r in zip(terms, ranks, strict=True) if "..." in t]
    width = max([0, *(rank - len(term.replace("...", "")) for term, rank in dotted)])
    if width > len(free):
        raise UsageError(f"einsum '{text}': more dimensions than letters")
    extra = "".join(free[:width])
    operands = tuple(
        _expand(text, term, rank, extra, number)
        for number, (term, rank) in enumerate(zip(terms, ranks, strict=True), 1)
    )
    out = _output(text, operands, right if arrow else None, extra, any("..." in t for t in terms))
    return EinsumSubscripts(operands, out)


def sublist_subscripts(lists: Sequence[Iterable[object]], out: Iterable[object] | None) -> str:
    """NumPy's other spelling, integers and Ellipsis per operand, as a subscript string."""
    text = ",".join(map(_spelled, lists))
    return text if out is None else f"{text}->{_spelled(out)}"


def _spelled(entries: Iterable[object]) -> str:
    return "".join("..." if entry is Ellipsis else _letter(entry) for entry in entries)


def _letter(entry: object) -> str:
    what, hint = "an index list holds whole numbers and Ellipsis", f"0 to {len(_LETTERS) - 1}"
    try:
        number = operator.index(entry)  # type: ignore[arg-type]
    except TypeError:
        raise WrongTypeError(what, found=repr(entry)[:60], hint=hint) from None
    if not 0 <= number < len(_LETTERS):
        raise UsageError(what, found=repr(entry)[:60], hint=hint)
    return _LETTERS[number]


def _check_characters(text: str) -> None:
    """Refuse text that is no einsum expression, at its first wrong character."""
    at = arrows = 0
    has_dots = False
    while at < len(text):
        c = text[at]
        if text.startswith("->", at):
            arrows += 1
            if arrows > 1:
                raise _refusal(text, at, "'->' must stand at most once", length=2)
            has_dots = False
            at += 2
        elif text.startswith("...", at) and not has_dots:
            has_dots = True
            at += 3
        elif c in _LETTERS or c == " ":
            at += 1
        elif c == "," and not arrows:
            has_dots = False
            at += 1
        else:
            raise _refusal(text, at, _reason(c, arrows))


def _reason(c: str, arrows: int) -> str:
    match c:
        case ".":
            return "an ellipsis is three dots, once per operand"
        case "-" | ">":
            return "'->' must stand whole"
        case "," if arrows:
            return "the output is one group of letters"
        case _:
            return f"{c!r} is no subscript"


def _expand(text: str, term: str, rank: int, extra: str, number: int) -> str:
    """The term with its ellipsis spelled out, aligned to the right as broadcasting does."""
    named = len(term.replace("...", ""))
    if "..." in term:
        missing = rank - named
        if missing >= 0:
            return term.replace("...", extra[len(extra) - missing :] if missing else "")
    elif named == rank:
        return term
    raise UsageError(
        f"einsum '{text}': operand {number} has {_count(rank, 'dimension')}",
        found=f"'{term}' names {named}",
        hint="one letter per dimension",
    )


def _output(
    text: str, operands: tuple[str, ...], right: str | None, extra: str, has_ellipsis: bool
) -> str:
    every = "".join(operands)
    if right is None:
        # Implicit output: the ellipsis, then the letters that occur once, in alphabetical order.
        once = sorted(c for c in set(every) if every.count(c) == 1 and c not in extra)
        return extra + "".join(once)
    if "..." in right:
        right = right.replace("...", extra)
    elif has_ellipsis and extra:
        raise UsageError(
            f"einsum '{text}': the output must hold '...' as well, since broadcast loops remain"
        )
    start = text.index("->") + 2
    for c in right:
        if right.count(c) > 1:
            raise _refusal(text, text.rindex(c), f"the output names '{c}' twice", hint="")
        if c not in every:
            at = text.index(c, start)
            raise _refusal(text, at, f"the output names '{c}', which no operand has", hint="")
    return right


def _refusal(text: str, at: int, why: str, *, length: int = 1, hint: str = _HINT) -> UsageError:
    """An error that shows the text with carets under the characters from `at`."""
    if text.isprintable() and text.isascii():
        why += f"\n    {text}\n    {' ' * at}{'^' * length}"
    else:
        why += f", at character {at + 1}"  # carets would be misaligned
    return UsageError(f"einsum '{text}': {why}", hint=hint)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
