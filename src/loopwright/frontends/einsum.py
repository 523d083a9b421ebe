"""The einsum grammar of NumPy, whole: implicit output, ellipsis, repeated indices, many operands.

Everything here works on letters and ranks; no array is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from loopwright.diagnostics import UsageError

__all__ = ["Subscripts", "parse_subscripts", "sublist_subscripts"]

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Subscripts:
    """An einsum with every dimension named: ellipses replaced by letters of their own."""

    operands: tuple[str, ...]  # a letter per dimension
    out: str  # distinct letters

    @property
    def text(self) -> str:
        return f"{','.join(self.operands)}->{self.out}"


@lru_cache(maxsize=4096)
def parse_subscripts(text: str, ranks: tuple[int, ...]) -> Subscripts:
    """Check `text` against the operands' ranks and name every dimension."""
    compact = text.replace(" ", "")
    left, arrow, right = compact.partition("->")
    if "->" in right or compact.count("-") != compact.count(">") or ("-" in compact and not arrow):
        raise _refusal(text, "'->' must stand at most once")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise UsageError(
            f"einsum '{text}' names {_count(len(terms), 'operand')}",
            found=f"{_count(len(ranks), 'array')} given",
            hint="one comma-separated group of letters per array",
        )
    for term in [*terms, right]:
        _check_letters(text, term)
    used = set(compact)
    free = [c for c in _LETTERS if c not in used]
    dotted = [(t, r) for t, r in zip(terms, ranks, strict=True) if "..." in t]
    width = max([0, *(rank - len(term.replace("...", "")) for term, rank in dotted)])
    if width > len(free):
        raise _refusal(text, "more dimensions than letters")
    extra = "".join(free[:width])
    operands = tuple(
        _expand(text, term, rank, extra, number)
        for number, (term, rank) in enumerate(zip(terms, ranks, strict=True))
    )
    out = _output(text, operands, right if arrow else None, extra, any("..." in t for t in terms))
    return Subscripts(operands, out)


def sublist_subscripts(lists: Sequence[Sequence[object]], out: Sequence[object] | None) -> str:
    """NumPy's other spelling, integers and Ellipsis per operand, as a subscript string."""

    def spell(entries: Sequence[object]) -> str:
        letters = []
        for entry in entries:
            if entry is Ellipsis:
                letters.append("...")
            elif isinstance(entry, int) and 0 <= entry < len(_LETTERS):
                letters.append(_LETTERS[entry])
            else:
                raise UsageError(
                    "an index list holds whole numbers and Ellipsis",
                    found=repr(entry),
                    hint=f"0 to {len(_LETTERS) - 1}",
                )
        return "".join(letters)

    text = ",".join(spell(x) for x in lists)
    return text if out is None else f"{text}->{spell(out)}"


def _check_letters(text: str, term: str) -> None:
    plain = term.replace("...", "", 1)
    for c in plain:
        if c not in _LETTERS:
            what = "an ellipsis is three dots, once per operand" if c == "." else "only letters"
            raise _refusal(text, what, found=repr(c))


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
        # The implicit output: the ellipsis, then letters that stand once, in alphabetical order.
        once = sorted(c for c in set(every) if every.count(c) == 1 and c not in extra)
        return extra + "".join(once)
    if "..." in right:
        right = right.replace("...", extra)
    elif has_ellipsis and extra:
        raise _refusal(text, "the output must hold '...' as well, since broadcast loops remain")
    for c in right:
        if right.count(c) > 1:
            raise _refusal(text, f"the output names '{c}' twice")
        if c not in every:
            raise _refusal(text, f"the output names '{c}', which no operand has")
    return right


def _refusal(text: str, why: str, found: str = "") -> UsageError:
    return UsageError(f"einsum '{text}': {why}", found=found)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
