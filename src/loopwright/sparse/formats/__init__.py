"""The built-in formats by name: `find("csr")`, `find("bcsr(3,3)")`, `find("csf", rank=4)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass
from loopwright.sparse.format import COORDINATES, Format

from .compressed import bcsr, csc, csf, csr, csr_unsorted, dcsr, hicoo, lil
from .coordinates import alto, coo, mcoo, scoo
from .padded import dia, ell, sell

__all__ = ["BUILT_IN", "Family", "find", "is_built_in"]


@dataclass(frozen=True, slots=True)
class Family:
    """A built-in format with its parameters open."""

    build: Callable[..., Format]
    example: str  # how it may be written, with all parameters
    line: str  # what it is
    ranks: tuple[int, ...] = (2,)  # of the tensors it can hold
    takes_rank: bool = False  # whether the rank is the first argument of `build`


_ANY = tuple(range(1, len(COORDINATES) + 1))

BUILT_IN: Mapping[str, Family] = MappingProxyType(
    {
        "coo": Family(coo, "coo", "coordinates in any order", _ANY, True),
        "scoo": Family(scoo, "scoo", "coordinates, sorted", _ANY, True),
        "mcoo2": Family(lambda: mcoo(2), "mcoo2", "coordinates along Morton's curve"),
        "mcoo3": Family(lambda: mcoo(3), "mcoo3", "coordinates along Morton's curve", (3,)),
        "csr": Family(csr, "csr", "compressed rows"),
        "csr_unsorted": Family(csr_unsorted, "csr_unsorted", "compressed rows, columns unsorted"),
        "csc": Family(csc, "csc", "compressed columns"),
        "dia": Family(dia, "dia", "diagonals"),
        "ell": Family(ell, "ell(column)", "rows of equal length"),
        "bcsr": Family(bcsr, "bcsr(3,3)", "compressed rows of dense blocks"),
        "dcsr": Family(dcsr, "dcsr", "compressed rows, only those with entries"),
        "lil": Family(lil, "lil", "a list of columns per row"),
        "csf": Family(csf, "csf", "a tree of coordinates", _ANY[1:], True),
        "hicoo": Family(hicoo, "hicoo(128)", "blocks along Morton's curve", _ANY[1:], True),
        "alto": Family(alto, "alto", "one packed number per entry", _ANY[1:], True),
        "sell": Family(sell, "sell(32,128)", "slices of rows of equal length"),
    }
)

_SPELLING = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\(([^()]*)\))?\s*")


def find(wanted: str | Format, rank: int = 2) -> Format:
    """The format meant by a name with parameters, for tensors of `rank` dimensions."""
    if isinstance(wanted, Format):
        if wanted.rank != rank:
            _refuse_rank(wanted.name, (wanted.rank,), rank)
        return wanted
    if not isinstance(wanted, str):
        raise UsageError(
            "a format is a name or a Format",
            found=repr(wanted),
            hint=f"one of {_examples()}, or declare your own",
        )
    return _found(wanted, rank)


def is_built_in(format: Format) -> bool:
    """Whether a format is one of the table under its own name, with any parameters."""
    family = BUILT_IN.get(format.name.split("(")[0])
    if family is None or format.rank not in family.ranks:
        return False
    try:
        return find(format.name, format.rank) == format
    except UsageError:
        return False  # a name with parameters that the family does not have


def _examples() -> str:
    return ", ".join(family.example for family in BUILT_IN.values())


@lru_cache(maxsize=64)
def _found(text: str, rank: int) -> Format:
    match = _SPELLING.fullmatch(text)
    name = match[1].lower() if match else text
    if match is None or name not in BUILT_IN:
        raise UsageError(
            f"unknown format '{text}'",
            hint=f"one of {_examples()}, or declare your own",
        )
    family = BUILT_IN[name]
    if rank not in family.ranks:
        _refuse_rank(name, family.ranks, rank)
    words = [word.strip() for word in (match[2] or "").split(",") if word.strip()]
    arguments = [int(word) if word.isdecimal() else word for word in words]
    try:
        return family.build(*([rank] if family.takes_rank else []), *arguments)
    except TypeError as error:
        hint = f"write it as {family.example}"
        raise UsageError(f"wrong parameters for the format {name}", text, hint) from error


def _refuse_rank(name: str, ranks: tuple[int, ...], rank: int) -> None:
    spelled = ", ".join(map(str, ranks))
    others = ", ".join(n for n, family in BUILT_IN.items() if rank in family.ranks)
    raise UsageError(
        f"the format {name} holds tensors of {spelled} dimensions, not {rank}",
        hint=f"for {rank} dimensions use {others}" if others else "",
    )
