"""Large numbers in sets taken as parameters, for isl's scheduler.

A loop of 1200 iterations lets the scheduler find orders that hold for 1200 iterations only, with
coefficients of that size; it works long, and what it finds is of no use. Here `c + k`, for a number
c of some size and a small k, becomes `p + k` with a parameter p. At p = c the sets are the same, so
that a schedule which is legal for all p is legal for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import islpy as isl

from loopwright.analysis.relations import maps_of
from loopwright.ir.islkit import context
from loopwright.ir.islparts import functions_in, pieces_in, sets_in

__all__ = ["Numbers", "large_numbers"]

_LEAST = 16  # numbers below are no sizes
_NEAR = 8  # numbers no further apart are one size, and something small


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers that become parameters, no two of them near to each other."""

    values: tuple[int, ...]

    def domain(self, instances: isl.UnionSet) -> isl.UnionSet:
        """`{ S[i] }` with parameters for numbers, each of which is large."""
        if not self.values:
            return instances
        found = isl.UnionSet.empty(self._space(instances.get_space()))
        for part in sets_in(instances):
            changed = self._map(isl.Map.from_range(part)).range()
            found = found.union(isl.UnionSet.from_set(changed))
        return found.intersect_params(self._large())

    def pairs(self, pairs: isl.UnionMap) -> isl.UnionMap:
        """`{ S[i] -> T[j] }` with parameters for numbers, each of which is large."""
        if not self.values:
            return pairs
        found = isl.UnionMap.empty(self._space(pairs.get_space()))
        for part in maps_of(pairs):
            found = found.union(isl.UnionMap.from_map(self._map(part)))
        return found.intersect_params(self._large())

    def back(self, function: isl.UnionPwAff) -> isl.UnionPwAff:
        """A function of instances with the numbers in place of the parameters."""
        if not self.values:
            return function
        found = isl.UnionPwAff.empty(self._without(function.get_space()))
        for part in functions_in(function):
            found = found.union_add(isl.UnionPwAff.from_pw_aff(self._number_function(part)))
        return found

    def universe(self, instances: isl.UnionSet) -> isl.UnionSet:
        """All instances of the statements of some, without the parameters."""
        if not self.values:
            return instances.universe()
        found = isl.UnionSet.empty(self._without(instances.get_space()))
        for part in sets_in(instances):
            whole = isl.Set.universe(self._without(part.get_space()))
            found = found.union(isl.UnionSet.from_set(whole))
        return found

    # -- spaces -----------------------------------------------------------------------------------

    def _names(self) -> tuple[str, ...]:
        return tuple(f"lw_number_{value}" for value in self.values)

    def _space(self, space: isl.Space) -> isl.Space:
        """A space with the parameters added."""
        for name in self._names():
            at = space.dim(isl.dim_type.param)
            space = space.add_dims(isl.dim_type.param, 1)
            space = space.set_dim_name(isl.dim_type.param, at, name)
        return space

    def _without(self, space: isl.Space) -> isl.Space:
        """A space with the parameters dropped."""
        for name in self._names():
            space = space.drop_dims(isl.dim_type.param, _place(space, name), 1)
        return space

    def _large(self) -> isl.Set:
        text = " and ".join(f"{name} >= {_LEAST}" for name in self._names())
        return isl.Set.read_from_str(context(), f"[{', '.join(self._names())}] -> {{ : {text} }}")

    # -- from numbers to parameters and back ------------------------------------------------------

    def _map(self, relation: isl.Map) -> isl.Map:
        wide = relation.compute_divs().align_params(self._space(relation.get_space().params()))
        found = isl.Map.empty(wide.get_space())
        for part in wide.get_basic_maps():
            changed = isl.BasicMap.universe(wide.get_space())
            for constraint in part.get_constraints():
                changed = changed.add_constraint(self._constraint(constraint))
            found = found.union(isl.Map.from_basic_map(changed))
        return found

    def _constraint(self, constraint: isl.Constraint) -> isl.Constraint:
        number = constraint.get_constant_val().to_python()
        for value, name in zip(self.values, self._names(), strict=True):
            if abs(abs(number) - value) <= _NEAR:
                sign = 1 if number > 0 else -1
                at = _place(constraint.get_space(), name)
                one = isl.Val.int_from_si(context(), sign)
                rest = isl.Val.int_from_si(context(), number - sign * value)
                constraint = constraint.set_coefficient_val(isl.dim_type.param, at, one)
                return constraint.set_constant_val(rest)
        return constraint

    def _number_function(self, function: isl.PwAff) -> isl.PwAff:
        zero = isl.Val.zero(context())
        found: isl.PwAff | None = None
        for where, what in pieces_in(function):
            for value, name in zip(self.values, self._names(), strict=True):
                at = _place(where.get_space(), name)
                number = isl.Val.int_from_si(context(), value)
                where = where.fix_val(isl.dim_type.param, at, number)
                where = where.project_out(isl.dim_type.param, at, 1)
                factor = what.get_coefficient_val(isl.dim_type.param, at)
                what = what.set_coefficient_val(isl.dim_type.param, at, zero)
                what = what.add_constant_val(factor.mul(number))
                what = what.drop_dims(isl.dim_type.param, at, 1)
            piece = isl.PwAff.alloc(where, what)
            found = piece if found is None else found.union_add(piece)
        assert found is not None
        return found


def large_numbers(instances: isl.UnionSet) -> Numbers:
    """The sizes among the numbers in conditions on instances."""
    found: set[int] = set()
    for part in sets_in(instances):
        for basic in part.get_basic_sets():
            numbers = (c.get_constant_val().to_python() for c in basic.get_constraints())
            found.update(abs(number) for number in numbers)
    return Numbers(tuple(_apart(n for n in sorted(found) if n >= _LEAST)))


def _apart(numbers: Iterable[int]) -> list[int]:
    """Of numbers in rising order the last ones of those near to each other."""
    found: list[int] = []
    first = 0
    for number in numbers:
        if found and number - first <= _NEAR:
            found[-1] = number
        else:
            found.append(number)
            first = number
    return found


def _place(space: isl.Space, name: str) -> int:
    return int(space.find_dim_by_name(isl.dim_type.param, name))
