"""The values of a format's symbols, from the shape of a tensor and the lengths of its arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from loopwright.diagnostics import UsageError

from .format import Format
from .points import Surroundings, values_of
from .uf import Linear, Sym, symbols

__all__ = ["check_sizes", "fixed_symbols", "solve_symbols", "value_of"]


def check_sizes(format: Format, shape: Sequence[int]) -> None:
    """Check that sizes are numbers with which 64 bits can count."""
    for dimension, size in enumerate(shape):
        if not 0 <= size < 1 << 62:
            raise UsageError(
                f"{format.name}: dimension {dimension} of the shape is {size}",
                hint="sizes lie between 0 and 2^62 - 1",
            )


def value_of(term: Linear, known: Mapping[str, int]) -> int:
    """The value of a term of symbols."""
    return int(values_of(term, {}, Surroundings(known, {})))


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
    lengths: Iterable[tuple[Linear, int]], unknown: set[str], known: Mapping[str, int]
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
