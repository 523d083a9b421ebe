"""Reading relations between instances: their parts, their ends, functions as expressions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.islkit import isl, isl_integer, maps_in, pieces_in

__all__ = [
    "affine_expr",
    "affine_sum",
    "between",
    "ends",
    "function_exprs",
    "maps_of",
    "moved_dimensions",
    "smallest_point",
    "translation",
    "union",
]

_KINDS = (isl.dim_type.param, isl.dim_type.set)


def maps_of(relation: isl.UnionMap) -> tuple[isl.Map, ...]:
    """The maps a union map consists of, one per pair of spaces, ordered by their ends."""
    return tuple(sorted(maps_in(relation), key=ends))


def ends(relation: isl.Map) -> tuple[str, str]:
    """The names of the domain and the range of a map."""
    source = relation.get_tuple_name(isl.dim_type.in_)
    target = relation.get_tuple_name(isl.dim_type.out)
    return source or "", target or ""


def between(relation: isl.UnionMap, source: str, target: str) -> isl.UnionMap:
    """The part `{ source[i] -> target[j] }` of a union map."""
    kept = isl.UnionMap.empty(relation.get_space())
    for part in maps_of(relation):
        if ends(part) == (source, target):
            kept = kept.union(isl.UnionMap.from_map(part))
    return kept


def union(space: isl.Space, parts: Iterable[isl.Map]) -> isl.UnionMap:
    """The union of maps; `space` gives the parameters when there are none."""
    total = isl.UnionMap.empty(space)
    for part in parts:
        total = total.union(isl.UnionMap.from_map(part))
    return total


def moved_dimensions(pairs: isl.Map) -> frozenset[int]:
    """The dimensions in which some pair of a relation `{ S[i] -> S[j] }` differs.

    Asked of the pairs themselves: the set of their distances would have to be projected, whose
    cost grows exponentially with the dimensions and escapes the quota.
    """
    into, out = isl.dim_type.in_, isl.dim_type.out

    def is_moved(position: int) -> bool:
        return not pairs.is_subset(pairs.equate(into, position, out, position))

    return frozenset(k for k in range(pairs.dim(out)) if is_moved(k))


def smallest_point(
    points: isl.Set, *, most_divisions: int | None = None
) -> tuple[tuple[str, int], ...]:
    """The values of the parameters of a set and of one of its points, the smallest ones first.

    By name; points without a name for a dimension have "". The set must not be empty. Of a set with
    a piece of more than `most_divisions` any point is taken, for which isl needs no search.
    """
    names = [points.get_dim_name(kind, k) or "" for kind in _KINDS for k in range(points.dim(kind))]
    count = points.dim(isl.dim_type.param)
    flat = points.flatten().move_dims(isl.dim_type.set, 0, isl.dim_type.param, 0, count)
    # A parameter without a lower bound has no smallest value: any point will do. So it must where
    # isl loses the smallest one, which it does for some sets whose divisions were moved.
    rank = flat.dim(isl.dim_type.set)
    divisions = max(piece.dim(isl.dim_type.div) for piece in flat.get_basic_sets())
    is_hard = most_divisions is not None and divisions > most_divisions
    bounded = not is_hard and all(flat.dim_min_val(k).is_int() for k in range(rank))
    first = flat.lexmin() if bounded else flat
    point = (flat if first.is_empty() else first).sample_point()
    values = (point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(rank))
    return tuple(zip(names, values, strict=True))


def translation(space: isl.Space, distance: Sequence[int]) -> isl.Map:
    """`{ S[i] -> S[i + distance] }` on a set space."""
    function = isl.MultiAff.identity_on_domain_space(space)
    for at, value in enumerate(distance):
        moved = function.get_at(at).add_constant_val(isl_integer(value))
        function = function.set_at(at, moved)
    return isl.Map.from_multi_aff(function)


def function_exprs(relation: isl.Map, inputs: Sequence[str]) -> tuple[Expr, ...] | None:
    """The outputs of `{ S[inputs] -> T[outputs] }` as affine expressions of its inputs.

    None when the relation is not one affine function on its whole domain.
    """
    if not relation.is_single_valued():
        return None
    function = isl.PwMultiAff.from_map(relation).coalesce()
    pieces = [piece for _, piece in pieces_in(function)]
    if len(pieces) != 1 or pieces[0].involves_locals():
        return None
    outputs = [pieces[0].get_at(k) for k in range(relation.dim(isl.dim_type.out))]
    found = [affine_expr(output, inputs) for output in outputs]
    return tuple(x for x in found if x is not None) if None not in found else None


def affine_sum(terms: Iterable[tuple[str, int]], constant: int) -> Expr:
    """`sum of coefficient * Var(name) + constant`, positive terms first, the constant last."""
    kept = sorted((t for t in terms if t[1]), key=lambda t: t[1] < 0)
    total: Expr = Const(constant)
    for position, (name, factor) in enumerate(kept):
        term = Const(abs(factor)) * Var(name)
        if position == 0:
            total = term if factor > 0 else Const(constant) - term
            constant = constant if factor > 0 else 0
        else:
            total = total + term if factor > 0 else total - term
    if not kept or constant == 0:
        return total
    return total + constant if constant > 0 else total - -constant


def affine_expr(aff: isl.Aff, inputs: Sequence[str]) -> Expr | None:
    """An isl affine expression with integer coefficients and no divisions; None for others."""
    if not aff.get_denominator_val().is_one() or aff.involves_locals():
        return None
    params = [aff.get_dim_name(isl.dim_type.param, k) for k in range(aff.dim(isl.dim_type.param))]
    terms = [
        (name or "", aff.get_coefficient_val(kind, k).to_python())
        for kind, names in ((isl.dim_type.in_, inputs), (isl.dim_type.param, params))
        for k, name in enumerate(names)
    ]
    return affine_sum(terms, aff.get_constant_val().to_python())
