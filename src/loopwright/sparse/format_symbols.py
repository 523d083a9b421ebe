"""The values of a format's symbols, from the shape of a tensor and the lengths of its arrays.

`solve_symbols` and `check_lengths` define what the symbols of a tensor are and what is wrong with
it; they take longer than many kernels. `settled_by` compiles the same for one format to Python: it
returns the symbols of tensors in which those find nothing wrong, and None of any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError

from .enumerate_sets import IndexEnvironment, values_of
from .format import Format
from .uf import Atom, AtomProduct, Floor, Sym, Term, TupleVar, UFCall, atoms, symbols
from .uf.evaluate_terms import python_expression, python_function

__all__ = [
    "SymbolSolver",
    "check_sizes",
    "fixed_symbols",
    "solve_symbols",
    "symbol_solver",
    "value_of",
]


def check_sizes(format: Format, shape: Sequence[int]) -> None:
    """Check that sizes are numbers with which 64 bits can count."""
    for dimension, size in enumerate(shape):
        if not 0 <= size < 1 << 62:
            raise UsageError(
                f"{format.name}: dimension {dimension} of the shape is {size}",
                hint="sizes lie between 0 and 2^62 - 1",
            )


def value_of(term: Term, known: Mapping[str, int]) -> int:
    """The value of a term of symbols."""
    return int(values_of(term, {}, IndexEnvironment(known, {})))


def fixed_symbols(format: Format, shape: Sequence[int]) -> dict[str, int]:
    """The symbols that the shape alone decides: its sizes and what is defined by them."""
    known = dict(zip(format.sizes, map(int, shape), strict=True))
    for name, term in format.defined:
        known[name] = value_of(term, known)
    return known


def solve_symbols(
    format: Format, shape: Sequence[int], arrays: Mapping[str, NDArray[Any]], places: int
) -> dict[str, int]:
    """The value of every symbol: counts follow from extents, such as ND from the length of off."""
    known = fixed_symbols(format, shape)
    lengths = [(format.places, places)]
    for index in format.indices:
        lengths += zip(index.extents, arrays[index.name].shape, strict=True)
    unknown = set(format.counts)
    while unknown:
        found = _first_solution(lengths, unknown, known)
        if found is None:
            name = min(unknown)
            raise UsageError(
                f"{format.name}: {name} does not follow from the lengths of the arrays",
                hint=f"pass symbols={{'{name}': ...}}",
            )
        known[found[0]] = found[1]
        unknown.remove(found[0])
    return known


def _first_solution(
    lengths: Iterable[tuple[Term, int]], unknown: set[str], known: Mapping[str, int]
) -> tuple[str, int] | None:
    """(name, value) for the first length of the form factor*name + known things."""
    for term, length in lengths:
        for atom, factor in term.terms:
            rest = term.without(atom)
            if not isinstance(atom, Sym) or atom.name not in unknown or symbols(rest) & unknown:
                continue
            left = length - value_of(rest, known)
            if left % factor == 0:
                return atom.name, left // factor
    return None


# f(shape, arrays, values): the symbols, or None where something is wrong or not decided here.
SymbolSolver: TypeAlias = Callable[
    [tuple[int, ...], Mapping[str, NDArray[Any]], NDArray[Any]], "dict[str, int] | None"
]
_SAFE = 1 << 63  # numbers that `points.values_of` refuses
_WIDEST = 62  # bits of sizes


@lru_cache(maxsize=256)
def symbol_solver(format: Format) -> SymbolSolver:
    """The symbols of tensors of a format, if their lengths are as they should be."""
    body = _body(format)
    given = ("shape", "arrays", "values")
    if body is None:
        return lambda shape, arrays, values: None
    dtypes = {f"d{k}": np.dtype(i.dtype) for k, i in enumerate(format.indices) if i.dtype}
    found: SymbolSolver = python_function(given, body, dtypes)
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

    def text(term: Term) -> str:
        return python_expression(term, place.__getitem__, {})

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
        left = f"({length}-({text(rest)}))" if rest != Term() else length
        place[name] = f"s{len(place)}"
        lines.append(f"{place[name]} = {left}" + ("" if factor == 1 else f"//{factor}"))
        if factor == 1:
            told.add((term, length))  # this length is what it should be
        unknown.remove(name)
    wrong += [f"{text(t)} != {length}" for t, length in lengths if (t, length) not in told]
    wrong += [f"not 0 <= {own} < {1 << bits}" for own in place.values()]
    known = ", ".join(f"{name!r}: {own}" for name, own in place.items())
    return [*lines, f"if {' or '.join(wrong)}:", "    return None", f"return {{{known}}}"]


def _terms(format: Format) -> Iterator[Term]:
    yield format.places
    yield from (term for _, term in format.defined)
    for index in format.indices:
        yield from index.extents


def _solution(
    lengths: list[tuple[Term, str]], unknown: set[str]
) -> tuple[Term, str, str, int] | None:
    """The first length of the form factor*name + known things, in the order of `solve_symbols`."""
    for term, length in lengths:
        for atom, factor in term.terms:
            rest = term.without(atom)
            if isinstance(atom, Sym) and atom.name in unknown and not symbols(rest) & unknown:
                return term, length, atom.name, factor
    return None


def _safe_bits(terms: list[Term]) -> int | None:
    """So many bits that terms of symbols with no more stay within 64 bits; None for other terms."""
    for term in terms:
        if any(isinstance(atom, UFCall | TupleVar) for atom in atoms(term)):
            return None
        if any(isinstance(atom, Floor) and not atom.by.is_constant for atom in atoms(term)):
            return None
    for bits in range(_WIDEST, 0, -1):
        if all(_reach(term, 1 << bits) < _SAFE for term in terms):
            return bits
    return None


def _reach(term: Term, most: int) -> int:
    """A bound of the absolute value of a term and of all its parts."""
    return abs(term.constant) + sum(abs(f) * _atom_reach(a, most) for a, f in term.terms)


def _atom_reach(atom: Atom, most: int) -> int:
    match atom:
        case Floor(x=x, by=by):
            return max(_reach(x, most), _reach(by, most))
        case AtomProduct(factors=factors):
            reach = 1
            for factor in factors:
                reach *= _atom_reach(factor, most)
            return reach
        case _:
            return most
