"""What a format says of the lengths of its arrays, as Python code that is written once.

`solve_symbols` and `check_lengths` say what the symbols of a tensor are and what is wrong with it;
they take longer than many kernels. What is written here gives the same symbols to tensors in which
they find nothing wrong, and nothing to any other: who gets nothing asks them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .format import Format
from .uf import Atom, Call, Floor, Linear, Product, Sym, Var, atoms, symbols
from .uf.written import function, written

__all__ = ["Settle", "settled_by"]

# f(shape, arrays, values): the symbols, or None where something is wrong or cannot be told here.
Settle: TypeAlias = Callable[
    [tuple[int, ...], Mapping[str, NDArray[Any]], NDArray[Any]], "dict[str, int] | None"
]
_SAFE = 1 << 63  # numbers that `points.values_of` refuses
_WIDEST = 62  # bits of sizes


@lru_cache(maxsize=256)
def settled_by(format: Format) -> Settle:
    """The symbols of tensors of a format, if their lengths are as they should be."""
    body = _body(format)
    given = ("shape", "arrays", "values")
    if body is None:
        return lambda shape, arrays, values: None
    dtypes = {f"d{k}": np.dtype(i.dtype) for k, i in enumerate(format.indices) if i.dtype}
    found: Settle = function(given, body, dtypes)
    return found


def _body(format: Format) -> list[str] | None:
    """The lines of `settled_by`; None where some symbol does not follow in any case."""
    terms = [*_terms(format)]
    bits = _safe_bits(terms)
    if bits is None:
        return None
    fixed = (*format.sizes, *(name for name, _ in format.defined))
    place = {name: f"s{k}" for k, name in enumerate(fixed)}
    arrays = [f"a{k}" for k in range(len(format.indices))]

    def text(term: Linear) -> str:
        return written(term, place.__getitem__, {})

    lines = [f"if len(shape) != {format.rank} or len(arrays) != {len(arrays)}:", "    return None"]
    lines.append(f"{', '.join(place[name] for name in format.sizes)}, = shape")
    lines += [f"{place[name]} = {text(term)}" for name, term in format.defined]
    wrong = ["values.ndim != 1"]
    lengths = [(format.places, "values.size")]
    for number, (array, index) in enumerate(zip(arrays, format.indices, strict=True)):
        lines.append(f"{array} = arrays.get({index.name!r})")
        wrong.append(f"{array}.dtype.kind not in 'iu'")
        if index.dtype:
            wrong.append(f"{array}.dtype != d{number}")
        shape = [f"n{number}_{k}" for k in range(index.rank)]
        lines += [f"if {array} is None or {array}.ndim != {index.rank}:", "    return None"]
        lines.append(f"{', '.join(shape)}, = {array}.shape")
        lengths += zip(index.extents, shape, strict=True)
    unknown = set(format.counts)
    told = set()
    while unknown:
        found = _solution(lengths, unknown)
        if found is None:
            return None
        term, length, name, factor = found
        rest = term.without(Sym(name))
        left = f"({length}-({text(rest)}))" if rest != Linear() else length
        place[name] = f"s{len(place)}"
        lines.append(f"{place[name]} = {left}" + ("" if factor == 1 else f"//{factor}"))
        if factor == 1:
            told.add((term, length))  # this length is what it should be
        unknown.remove(name)
    wrong += [f"{text(t)} != {length}" for t, length in lengths if (t, length) not in told]
    wrong += [f"not 0 <= {own} < {1 << bits}" for own in place.values()]
    known = ", ".join(f"{name!r}: {own}" for name, own in place.items())
    return [*lines, f"if {' or '.join(wrong)}:", "    return None", f"return {{{known}}}"]


def _terms(format: Format) -> Iterator[Linear]:
    yield format.places
    yield from (term for _, term in format.defined)
    for index in format.indices:
        yield from index.extents


def _solution(
    lengths: list[tuple[Linear, str]], unknown: set[str]
) -> tuple[Linear, str, str, int] | None:
    """The first length of the form factor*name + known things, in the order of `solve_symbols`."""
    for term, length in lengths:
        for atom, factor in term.terms:
            rest = term.without(atom)
            if isinstance(atom, Sym) and atom.name in unknown and not symbols(rest) & unknown:
                return term, length, atom.name, factor
    return None


def _safe_bits(terms: list[Linear]) -> int | None:
    """So many bits that terms of symbols with no more stay within 64 bits; None for other terms."""
    for term in terms:
        if any(isinstance(atom, Call | Var) for atom in atoms(term)):
            return None
        if any(isinstance(atom, Floor) and not atom.by.is_constant for atom in atoms(term)):
            return None
    for bits in range(_WIDEST, 0, -1):
        if all(_reach(term, 1 << bits) < _SAFE for term in terms):
            return bits
    return None


def _reach(term: Linear, most: int) -> int:
    """A bound of the absolute value of a term and of all its parts."""
    return abs(term.constant) + sum(abs(f) * _atom_reach(a, most) for a, f in term.terms)


def _atom_reach(atom: Atom, most: int) -> int:
    match atom:
        case Floor(x=x, by=by):
            return max(_reach(x, most), _reach(by, most))
        case Product(factors=factors):
            reach = 1
            for factor in factors:
                reach *= _atom_reach(factor, most)
            return reach
        case _:
            return most
