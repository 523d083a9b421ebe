"""Search for counter-examples among all small storages that satisfy a format's invariants.

A descriptor that is unsound fails on something small. So every choice of sizes up to three, of
counts and of index arrays is made in turn, those with the smallest sums first, and the claims
about the descriptor are tested for each. What is found is a counter-example that can be printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from itertools import combinations, combinations_with_replacement, permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass

from .bounds_proof import joint
from .curves import CURVES
from .enumerate_sets import IndexEnvironment, enumerate_points, values_of
from .format import Format, Index
from .format_symbols import fixed_symbols, value_of
from .tensor_entries import environment_of
from .uf import Conj, IntegerSet, Term, TupleVar, calls, evaluate
from .validate_tensor import is_in_order, satisfies

__all__ = ["CounterExample", "Search", "search", "storages", "tie"]

LARGEST = 3
_MOST_STORAGES = 100
_MOST_AFTER = 20  # the first counter-example
_MOST_TRIED = 1500
_MOST_CHOICES = 400  # of one index array
_MOST_VALUES = 5  # of an element whose range has no end

Ints = NDArray[np.int64]
Point = Mapping[str, int]


@dataclass(frozen=True)
class CounterExample:
    """A storage that satisfies every invariant of a format, and the tuples that refute a claim."""

    claim: str
    shape: tuple[int, ...]
    symbols: Mapping[str, int]
    arrays: Mapping[str, NDArray[Any]]
    tuples: tuple[Point, ...]  # with coordinates and place; none where there is no tuple at all
    text: str  # what is wrong

    def __str__(self) -> str:
        size = " x ".join(map(str, self.shape))
        counts = ", ".join(f"{name} = {value}" for name, value in self.symbols.items())
        lines = [f"shape {size}: {counts}"]
        lines += [f"{name} = {array.tolist()}" for name, array in self.arrays.items()]
        for point in self.tuples:
            lines.append(", ".join(f"{name} = {value}" for name, value in point.items()))
        return "\n".join([*lines, self.text])


@dataclass
class Search:
    """How many storages were examined, and the first counter-example of each claim."""

    found: dict[str, CounterExample] = field(default_factory=dict)
    storages: int = 0
    is_complete: bool = True  # whether nothing was left out for want of effort

    @property
    def text(self) -> str:
        kind = "all" if self.is_complete else "the first"
        return f"{kind} {self.storages} storages with sizes up to {LARGEST}"


@dataclass(frozen=True)
class _Storage:
    """Index arrays that satisfy the invariants of a format; stands for a tensor without values."""

    format: Format
    shape: tuple[int, ...]
    symbols: Mapping[str, int]
    arrays: Mapping[str, NDArray[Any]]

    @property
    def values(self) -> NDArray[Any]:
        return np.zeros(value_of(self.format.places, self.symbols))


def search(format: Format) -> Search:
    """Look at small storages until enough have been seen; counter-examples by claim."""
    result = Search()
    most = _MOST_STORAGES
    for storage in storages(format, result):
        result.storages += 1
        for fault in _faults(storage):
            # What fails in one way often fails in others, but not much later.
            most = min(most, result.storages + _MOST_AFTER)
            result.found.setdefault(fault.claim, fault)
        if result.storages >= most:
            result.is_complete = False
            break
    return result


def storages(format: Format, effort: Search) -> Iterator[_Storage]:
    """Every small storage that satisfies the invariants, smallest first."""
    names = (*format.sizes, *format.counts)
    chosen = product(
        *(range(1, LARGEST + 1) for _ in format.sizes),
        *(range(LARGEST + 1) for _ in format.counts),
    )
    tried = [0]
    for numbers in sorted(chosen, key=lambda c: (sum(c), c)):
        given = dict(zip(names, numbers, strict=True))
        shape = tuple(given[name] for name in format.sizes)
        symbols = fixed_symbols(format, shape) | given
        for arrays in _completed(format, symbols, {}, tried, effort):
            storage = _Storage(format, shape, symbols, arrays)
            if _is_ordered(storage):
                yield storage
        if tried[0] > _MOST_TRIED:
            effort.is_complete = False
            return


def _completed(
    format: Format,
    symbols: Mapping[str, int],
    arrays: dict[str, NDArray[Any]],
    tried: list[int],
    effort: Search,
) -> Iterator[dict[str, NDArray[Any]]]:
    """The arrays with those that are missing, in every way that satisfies all invariants."""
    left = [index for index in format.indices if index.name not in arrays]
    if not left:
        yield dict(arrays)
        return
    index = next((i for i in left if _needs(i) <= arrays.keys()), left[0])
    for array in _choices(index, IndexEnvironment(symbols, arrays), effort):
        tried[0] += 1
        if tried[0] > _MOST_TRIED:
            return
        grown = {**arrays, index.name: array}
        if _keeps(format, index, symbols, grown):
            yield from _completed(format, symbols, grown, tried, effort)


def _needs(index: Index) -> set[str]:
    """The index arrays that must be known before the domain and range of this one are."""
    return {call.name for part in (index.domain, index.range) for call in part.calls}


def _choices(index: Index, env: IndexEnvironment, effort: Search) -> Iterator[NDArray[Any]]:
    """The arrays that an index array may be, by its domain, range and growth alone."""
    try:
        shape = tuple(value_of(extent, env.symbols) for extent in index.extents)
        places = _members(index.domain, env)
        values = _values(index.range, env)
    except UsageError:
        return
    if any(size < 0 for size in shape):
        return
    inside = all(0 <= x < size for at in places for x, size in zip(at, shape, strict=True))
    dtype = np.dtype(index.dtype or np.int64)
    limits = np.iinfo(dtype)
    allowed = [value for value in values if limits.min <= value <= limits.max]
    rows = (shape[-1] if index.rank == 1 else 0) == len(places)
    sequences = _sequences(index, allowed, len(places), is_whole=rows)
    for count, numbers in enumerate(sequences):
        if count >= _MOST_CHOICES:
            effort.is_complete = False
            return
        array = np.full(shape, 0 if index.pad is None else index.pad, dtype)
        if inside:
            for at, number in zip(places, numbers, strict=True):
                array[at] = number
        yield array


def _sequences(
    index: Index, values: list[int], count: int, *, is_whole: bool
) -> Iterable[tuple[int, ...]]:
    if index.inverse and is_whole:
        return permutations(values, count)
    if index.monotone and is_whole:
        chosen = combinations if index.is_strict else combinations_with_replacement
        return chosen(values if "increasing" in index.monotone else values[::-1], count)
    return product(values, repeat=count)


def _members(of: IntegerSet, env: IndexEnvironment) -> list[tuple[int, ...]]:
    found: dict[tuple[int, ...], None] = {}
    for conj in of.conjs:
        columns = enumerate_points(conj, of.variables, env)
        rows = zip(*(columns[name].tolist() for name in of.variables), strict=True)
        found.update(dict.fromkeys(rows))
    return list(found)


def _values(of: IntegerSet, env: IndexEnvironment) -> list[int]:
    """The numbers of a range; of one without an end the first few."""
    (name,) = of.variables
    limits = (
        range(-_MOST_VALUES, _MOST_VALUES + 1)
        if all(_is_open(conj, name) for conj in of.conjs)
        else range(-4 * LARGEST, 4 * LARGEST)
    )
    return [
        value
        for value in limits
        if any(
            all(_is_true(c.term, c.is_equality, {name: value}, env) for c in conj.constraints)
            for conj in of.conjs
        )
    ]


def _is_open(conj: Conj, name: str) -> bool:
    signs = {c.term.coefficient(TupleVar(name)) > 0 for c in conj.constraints}
    return not conj.equalities and len(signs) < 2


def _is_true(term: Term, is_equality: bool, values: Point, env: IndexEnvironment) -> bool:
    value = evaluate(term, {**env.symbols, **values}, dict(env.arrays))
    return value == 0 if is_equality else value >= 0


def _keeps(
    format: Format, last: Index, symbols: Mapping[str, int], arrays: dict[str, NDArray[Any]]
) -> bool:
    """Whether the invariants of the arrays so far hold; those without the last one did."""
    env = environment_of(_Storage(format, (), symbols, _with_rest(format, arrays)))
    inverses = {index.inverse for index in format.indices if index.name in arrays}
    known = {*arrays, *inverses, *CURVES}
    return satisfies(format, last, env) and all(
        satisfies(format, rule, env)
        for rule in format.invariants
        if (used := {c.name for conj in (*rule.premise, *rule.conclusion) for c in conj.calls})
        <= known
        and (last.name in used or last.inverse in used or not used)
    )


def _with_rest(format: Format, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays, with trivial permutations for those whose inverse would be asked for."""
    rest = {i.name: np.zeros(0, np.int64) for i in format.indices if i.name not in arrays}
    return arrays | rest


def _is_ordered(storage: _Storage) -> bool:
    try:
        return is_in_order(storage)
    except UsageError:
        return True  # what cannot even be enumerated is examined further


# -- faults ---------------------------------------------------------------------------------------


def _faults(storage: _Storage) -> Iterator[CounterExample]:
    """The claims that a storage which satisfies all invariants refutes."""
    format = storage.format
    whole = joint(format)
    env = environment_of(storage)
    try:
        rows = [
            point
            for conj in whole.conjs
            for point in _points(enumerate_points(conj, whole.variables, env))
        ]
    except UsageError as error:
        yield _fault("calls", storage, (), str(error).splitlines()[0])
        return
    inputs, coordinates, place = format.variables, format.coordinates, whole.outputs[-1]
    yield from _clash(
        "function", storage, rows, inputs, (*coordinates, place), "one tuple, two meanings"
    )
    if format.is_unique:
        text = "two tuples hold one coordinate"
        yield from _clash("injective", storage, rows, coordinates, inputs, text)
    yield from _clash("access", storage, rows, (place,), inputs, "two tuples share a place")
    count = value_of(format.places, storage.symbols)
    for row in rows:
        for name, size in zip(coordinates, storage.shape, strict=True):
            if not 0 <= row[name] < size:
                text = f"{name} = {row[name]} lies outside the shape"
                yield _fault("shape", storage, (row,), text)
        if not 0 <= row[place] < count:
            text = f"the place {row[place]} lies outside the {count} values"
            yield _fault("places", storage, (row,), text)
    if format.padding is None:
        lost = sorted(set(range(count)) - {row[place] for row in rows})
        if lost:
            text = f"no tuple reaches the value at place {lost[0]}"
            yield _fault("reached", storage, (), text)


def _points(columns: Mapping[str, Ints]) -> Iterator[dict[str, int]]:
    names = list(columns)
    for row in zip(*(columns[name].tolist() for name in names), strict=True):
        yield dict(zip(names, row, strict=True))


def _clash(
    claim: str,
    storage: _Storage,
    rows: Iterable[Point],
    same: tuple[str, ...],
    other: tuple[str, ...],
    text: str,
) -> Iterator[CounterExample]:
    """Two points that agree in `same` and differ in `other`."""
    seen: dict[tuple[int, ...], Point] = {}
    for row in rows:
        first = seen.setdefault(tuple(row[name] for name in same), row)
        if any(first[name] != row[name] for name in other):
            yield _fault(claim, storage, (first, row), text)
            return


def _fault(claim: str, storage: _Storage, tuples: tuple[Point, ...], text: str) -> CounterExample:
    return CounterExample(claim, storage.shape, storage.symbols, storage.arrays, tuples, text)


def tie(format: Format) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Two coordinates that the order of a format does not distinguish; None if none is found."""
    side = 2 * LARGEST
    if any(c.name not in CURVES for key in format.order for c in calls(key)):
        return None
    grid = np.indices((side,) * format.rank).reshape(format.rank, -1)
    columns = dict(zip(format.coordinates, grid, strict=True))
    symbols = fixed_symbols(format, (side,) * format.rank)
    env = IndexEnvironment(symbols, {})
    seen: dict[tuple[int, ...], tuple[int, ...]] = {}
    keys = [np.broadcast_to(values_of(k, columns, env), grid.shape[1]) for k in format.order]
    for n, at in enumerate(grid.T.tolist()):
        key = tuple(int(k[n]) for k in keys)
        first = seen.setdefault(key, tuple(at))
        if first != tuple(at):
            return first, tuple(at)
    return None
