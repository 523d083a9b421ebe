"""Validation of tensors in unverified formats, before and after a conversion.

Built-in descriptors have been verified, under whatever names. Another may be unsound, or unable to
hold a tensor that is to be stored; code made of it would then give wrong results silently. So, for
such formats,

    a source   satisfies its invariants, and its entries lie in the shape, in order, none twice
    a target   has a tuple for each entry of the source; once made, it satisfies its invariants and
               reads as the source does

The data decide. For large tensors a proof for all tensors of the format, found once, replaces some
of these checks.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import DtypeError, UsageError
from loopwright.lazy_dataclass import dataclass

from .bounds_proof import entry_facts, require_bounds
from .curves import CURVES
from .enumerate_sets import IndexEnvironment, values_of
from .format import Format
from .format_symbols import fixed_symbols
from .formats.canonical_formats import is_verified
from .invariants import facts_of
from .synthesis.entry_iterator import plain_iterator
from .synthesis.inverse import invert
from .tensor import SparseTensor
from .tensor_entries import Entries, entries, environment_of, require_within, without_padding
from .uf import Atom, Conj, Constraint, Term, TupleVar, calls, symbols, variables
from .validate_arrays import invariants_hold, require_valid_arrays
from .validate_tensor import check_lengths, check_order, satisfies, validate_tensor

__all__ = ["is_unverified", "require_faithful", "require_storable", "require_valid_source"]

Ints = NDArray[np.int64]
# Values checked of all tensors of a format so far, from which on a proof, which takes a tenth of a
# second or more, is quicker than checks.
_MANY = 1 << 17
_ARRANGED = frozenset({"injective", "order"})
_READ = _ARRANGED | {"function", "calls", "shape", "places"}
_STORED = _READ - _ARRANGED | {"access"}


def is_unverified(format: Format) -> bool:
    """Whether a format is no built-in one under any name, so that its tensors are validated."""
    return not is_verified(format)


# -- sources -------------------------------------------------------------------------------------


def require_valid_source(tensor: SparseTensor) -> None:
    """Raise UsageError unless a tensor of a user's own format is what code takes it for.

    Places that two tuples share, or that none reaches, do no harm to those who read.
    """
    format = tensor.format
    if not is_unverified(format):
        return
    check_lengths(tensor)
    _require_fill(format, tensor.dtype)
    if not _satisfies_invariants(tensor):
        validate_tensor(tensor)  # says which invariant is violated, and where
    if _is_proof_worth(tensor) and _proved(format) >= _READ:
        return
    found = entries(tensor)
    require_within(tensor, found)
    check_order(tensor, found)


def _satisfies_invariants(tensor: SparseTensor) -> bool:
    """Whether every index array has its declared range and growth, and all invariants hold."""
    told = invariants_hold(tensor)
    if told is not None:
        return told
    format = tensor.format
    plain = IndexEnvironment(tensor.symbols, tensor.arrays)
    if not all(satisfies(format, index, plain) for index in format.indices):
        return False
    env = environment_of(tensor)
    return all(satisfies(format, rule, env) for rule in format.invariants)


def _require_fill(format: Format, dtype: np.dtype[Any]) -> None:
    """Refuse values that cannot hold what stands where there is no entry."""
    if format.padding is None:
        return
    fill = format.padding.fill
    try:
        held = dtype.type(fill) == fill
    except (OverflowError, TypeError, ValueError):
        held = False
    if not held:
        raise DtypeError(
            f"{format.name}: places without an entry hold {fill}, which {dtype} cannot hold",
            found=str(dtype),
            hint=f"values of a type that holds {fill}, or Padding(fill=0)",
        )


# -- targets -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Limit:
    """A constraint of a map that not every coordinate within the shape fulfils."""

    given: Constraint  # as it stands in the map
    told: Constraint  # of coordinates and positions


def require_storable(tensor: SparseTensor, target: Format) -> None:
    """Raise UsageError unless a user's own format has a tuple for each entry of a tensor.

    What depends on index arrays that are still to be made is left to `require_kept`.
    """
    if not is_unverified(target) or target.rank != tensor.ndim:
        return
    require_bounds(target)
    _require_fill(target, tensor.dtype)
    _require_places(target)
    limits = _limits(target)
    if not limits:
        return
    found = _entries_of(tensor, target)
    columns = dict(zip(target.coordinates, found.coordinates, strict=True))
    sizes = fixed_symbols(target, tensor.shape)
    known = {*target.coordinates}
    for limit in limits:
        term = limit.told.term
        if not (variables(term) <= known and symbols(term) <= sizes.keys()):
            continue
        if any(call.name not in CURVES for call in calls(term)):
            continue
        value = values_of(term, columns, IndexEnvironment(sizes, {}))
        wrong = np.broadcast_to(value != 0 if limit.told.is_equality else value < 0, found.count)
        if wrong.any():
            raise UsageError(
                f"{target.name} cannot hold the entry {_at(found, int(np.argmax(wrong)))}",
                found=f"its map wants {limit.given}",
                hint="a format whose map reaches all entries, or a tensor without this one",
            )


@lru_cache(maxsize=64)
def _limits(format: Format) -> tuple[_Limit, ...]:
    """The constraints of a map that leave out coordinates within the shape, or may do so."""
    from .uf.oracle import implies  # lazy: loads isl, which built-in formats do without

    try:
        found = invert(format)
    except UsageError:
        return ()  # synthesis refuses the format and says why
    held = (Constraint.eq(Term.of(stored.element), stored.value) for stored in found.stored)
    base = Conj.of((*entry_facts(found), *held))
    solved: dict[Atom, Term] = {TupleVar(name): value for name, value in found.values}
    limits = [_Limit(c, c.substitute(solved)) for c in format.map.conjs[0].constraints]
    return tuple(x for x in limits if not implies(base, x.told, facts_of(format)))


@lru_cache(maxsize=64)
def _require_places(format: Format) -> None:
    """Refuse a format with places outside its values: code would write there."""
    from .verify_claims import claims_of, proved_by_isl  # lazy: loads isl
    from .verify_search import search

    claim = next(claim for claim in claims_of(format) if claim.name == "places")
    if proved_by_isl(claim, format):
        return
    example = search(format).found.get("places")
    if example is not None:
        _refuse_claim(format, claim.sentence, str(example), claim.hint)


def _refuse_claim(format: Format, sentence: str, found: str, hint: str) -> NoReturn:
    raise UsageError(
        f"the descriptor of {format.name} is wrong: {sentence} does not hold", found, hint
    )


def require_faithful(source: SparseTensor, made: SparseTensor) -> None:
    """Raise UsageError unless the result satisfies its invariants and reads as the source does."""
    format = made.format
    if not is_unverified(format):
        return
    if _is_proof_worth(made) and _is_faithful(format):
        _require_whole(made, is_proved=True)
        return
    _require_whole(made, is_proved=False)
    one, other = _entries_of(source, format), _entries_of(made, format)
    orders = [np.lexsort(found.coordinates[::-1]) for found in (one, other)]
    rows = [
        np.stack([at[order] for at in found.coordinates])
        for found, order in zip((one, other), orders, strict=True)
    ]
    fresh = [_firsts(row) for row in rows]
    values = [
        tensor.values[found.places[order]]
        for tensor, found, order in zip((source, made), (one, other), orders, strict=True)
    ]
    if not np.array_equal(rows[0][:, fresh[0]], rows[1][:, fresh[1]]):
        is_summed = not fresh[0].all() and format.padding is not None
        _refuse_lost(format, rows[0], rows[1], is_summed=is_summed)
    # Sums of repeated entries round as they may; single ones are copied.
    if fresh[0].all() and len(values[0]) == len(values[1]):
        _require_values(format, rows[0], values[0], values[1])


def _require_whole(made: SparseTensor, *, is_proved: bool) -> None:
    """Refuse a result that violates an invariant of its format, which cannot hold this tensor."""
    format = made.format
    try:
        if not is_proved or not _satisfies_invariants(made):
            validate_tensor(made)
        require_valid_arrays(made)
        if is_proved and not _proved(format) >= _ARRANGED:
            check_order(made, entries(made))
    except UsageError as error:
        if not _has_own_places(made):
            hint = "check the access, and whether the pointers are declared monotone"
            _refuse_claim(format, "no two tuples share a place", error.message, hint)
        said = error.message.removeprefix(f"{format.name}: ")
        raise UsageError(
            f"{format.name} cannot hold this tensor: {said}",
            error.found,
            "another format, or a descriptor with fewer invariants; "
            f"loopwright.sparse.verify tells what is wrong with {format.name}",
        ) from error


def _has_own_places(made: SparseTensor) -> bool:
    try:
        places = entries(made).places
    except UsageError:
        return True  # something else is wrong
    return len(np.unique(places)) == len(places)


def _entries_of(tensor: SparseTensor, target: Format) -> Entries:
    """The entries of a tensor, without those that it or the target takes for padding."""
    return without_padding(entries(tensor), tensor.values, tensor.format, target)


def _firsts(rows: Ints) -> NDArray[np.bool_]:
    """Which of some sorted coordinates are not those before them."""
    first = np.ones(rows.shape[1], np.bool_)
    if rows.shape[1]:
        first[1:] = (rows[:, 1:] != rows[:, :-1]).any(axis=0)
    return first


def _refuse_lost(format: Format, wanted: Ints, found: Ints, *, is_summed: bool) -> None:
    """Tell of an entry that is missing or was not there before."""
    before, after = ({tuple(at) for at in rows.T.tolist()} for rows in (wanted, found))
    hint = "check the map for it"
    lost = sorted(before - after)
    # Repeated entries may sum up to what reads as padding.
    if lost and not is_summed:
        raise UsageError(
            f"{format.name} cannot hold the entry {lost[0]}",
            found=f"no tuple of its map: {format.map}",
            hint=hint,
        )
    new = sorted(after - before)
    if new:
        raise UsageError(
            f"{format.name} cannot hold this tensor: it would read {new[0]} as an entry too",
            found=str(format.map),
            hint=hint,
        )


def _require_values(format: Format, rows: Ints, wanted: NDArray[Any], found: NDArray[Any]) -> None:
    wrong = ~((wanted == found) | ((wanted != wanted) & (found != found)))
    if wrong.any():
        n = int(np.argmax(wrong))
        at = tuple(rows[:, n].tolist())
        raise UsageError(
            f"{format.name} cannot hold the entry {at}: it reads as another value",
            found=f"{found[n]} in place of {wanted[n]}",
            hint="check the access: is there a place for each entry?",
        )


def _at(found: Entries, n: int) -> str:
    return f"({', '.join(str(at[n]) for at in found.coordinates)})"


# -- proofs --------------------------------------------------------------------------------------


def _is_proof_worth(tensor: SparseTensor) -> bool:
    """Whether checks of tensors of this format have taken, or would take, as long as a proof."""
    seen = _places_seen(tensor.format)
    seen[0] += len(tensor.values)
    return seen[0] >= _MANY


@lru_cache(maxsize=64)
def _places_seen(format: Format) -> list[int]:
    """A counter of the values of tensors that were checked."""
    return [0]


@lru_cache(maxsize=64)
def _proved(format: Format) -> frozenset[str]:
    """The claims that hold of all tensors which satisfy the invariants of a format.

    A claim that the descriptor does not make counts as proved.
    """
    from .verify_claims import claims_of, proved_by_isl  # lazy: loads isl

    claims = {claim.name: claim for claim in claims_of(format)}
    proved = {name for name, claim in claims.items() if proved_by_isl(claim, format)}
    return frozenset(proved | ({"injective", "order"} - claims.keys()))


@lru_cache(maxsize=64)
def _is_faithful(format: Format) -> bool:
    """Whether all that is stored in a format, and satisfies its invariants, reads back unchanged.

    That includes the order, which may be an invariant of its own.
    """
    is_reached = format.padding is not None or _is_numbered(format)
    return is_reached and not _limits(format) and _proved(format) >= _STORED


def _is_numbered(format: Format) -> bool:
    """Whether the place of a tuple is its number, so that every place has a tuple."""
    iterator = plain_iterator(format)
    found = None if iterator is None else iterator.numbering
    if iterator is None or found is None:
        return False
    return (found.number, found.total) == (iterator.place, format.places)
