"""Whether the arrays of a call obey the facts that a computation relies on.

Facts about arrays that are given and not written are validated, those about arrays that the
computation makes itself are not: no proof about memory uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError
from loopwright.ir.program import Role
from loopwright.sparse.enumerate_sets import (
    IndexEnvironment,
    enumerate_points,
    solvable_order,
    values_of,
)
from loopwright.sparse.spf.computation import Computation
from loopwright.sparse.uf import (
    Conj,
    Constraint,
    Facts,
    Formula,
    FunctionFacts,
    IntegerSet,
    Rule,
    TupleVar,
    UFCall,
    calls,
    symbols,
)

__all__ = ["given_facts", "rule_calls", "validate_facts"]

Ints: TypeAlias = NDArray[np.int64]
Columns: TypeAlias = Mapping[str, Ints]


def given_facts(computation: Computation) -> Facts:
    """The facts about arrays that are given and not written, and about symbols of a call."""
    facts = computation.facts
    given = {space.name for space in computation.spaces if space.role is Role.IN}
    known = set(computation.symbols)

    def is_known(constraints: Iterator[Constraint], names: set[str]) -> bool:
        terms = [c.term for c in constraints]
        return all(
            symbols(t) <= known and all(call.name in names for call in calls(t)) for t in terms
        )

    ranks = {space.name: space.rank for space in computation.spaces}
    functions = tuple(
        f
        for f in facts.functions
        if f.name in given
        and (f.arity, f.results) == (ranks[f.name], 1)
        and (f.inverse is None or _can_be_undone(f))
        and is_known(_constraints_of(f), given)
    )
    names = {f.name for f in functions} | {f.inverse for f in functions if f.inverse}
    return Facts(
        functions,
        tuple(rule for rule in facts.further if is_known(_rule_constraints(rule), names | given)),
        tuple(c for c in facts.known if is_known(iter((c,)), names | given)),
    )


def _can_be_undone(function: FunctionFacts) -> bool:
    """Whether an inverse can be made: of one argument, onto a range in one piece."""
    return function.arity == 1 and function.range is not None and len(function.range.conjs) == 1


def _constraints_of(function: FunctionFacts) -> Iterator[Constraint]:
    for of in (function.domain, function.range):
        for conj in () if of is None else of.conjs:
            yield from conj.constraints


def _rule_constraints(rule: Rule) -> Iterator[Constraint]:
    yield from rule.clause.premises
    for end in rule.clause.conclusions:
        yield from end


def rule_calls(rule: Rule) -> Iterator[UFCall]:
    """Every call in a rule."""
    return (call for constraint in _rule_constraints(rule) for call in calls(constraint.term))


def validate_facts(
    name: str, facts: Facts, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, int]
) -> None:
    """Raise UsageError with the first element that breaks one of the facts that `given_facts` gave.

    `name` is that of the computation.
    """
    wanted = {function.name for function in facts.functions}
    wanted |= {function.inverse for function in facts.functions if function.inverse}
    wanted |= {call.name for rule in facts.further for call in rule_calls(rule)}
    env = IndexEnvironment(
        values,
        {n: array for n, array in arrays.items() if n in wanted and array.dtype.kind in "iu"},
    )
    work = _Validation(name, facts, env)
    for constraint in facts.known:
        work.symbols_obey(constraint)
    inverses: dict[str, NDArray[Any]] = {}
    for function in facts.functions:
        inverses |= work.function(function)
    last = _Validation(name, facts, IndexEnvironment(values, {**env.arrays, **inverses}))
    for rule in facts.further:
        last.rule(rule if rule.quick is None else rule.quick, str(rule.quick or rule))


class _Validation:
    """Tests facts one by one in one environment."""

    def __init__(self, name: str, facts: Facts, env: IndexEnvironment) -> None:
        self.name = name
        self.facts = facts
        self.env = env

    def refuse(self, what: str, found: str = "", hint: str = "") -> None:
        raise UsageError(f"the facts of computation '{self.name}' do not hold: {what}", found, hint)

    def symbols_obey(self, constraint: Constraint) -> None:
        if not bool(np.all(_true((Conj.of((constraint,)),), {}, self.env, 1))):
            self.refuse(str(constraint), self._spelled(symbols(constraint.term)))

    def _spelled(self, names: Sequence[str] | frozenset[str]) -> str:
        return ", ".join(f"{name} = {self.env.symbols[name]}" for name in sorted(names))

    def function(self, facts: FunctionFacts) -> dict[str, NDArray[Any]]:
        """Test the facts about one array; the array of its inverse, where one is named."""
        array = self.env.arrays[facts.name]
        at = self._domain(facts, array)
        value = array[tuple(at)]
        if value.dtype == np.uint64 and (value >= 1 << 62).any():
            self._element(facts, at, value, value >= 1 << 62, "is no signed 64-bit number")
        value = value.astype(np.int64)
        if facts.range is not None:
            inside = self._members(facts.range, value)
            hint = f"allowed are {facts.range}"
            self._element(facts, at, value, ~inside, "is outside its range", hint)
        for growth in facts.monotone:
            self._grows(facts, at, value, growth.argument, growth.is_increasing, growth.is_strict)
        if facts.is_injective or facts.inverse is not None:
            _, first = np.unique(value, return_index=True)
            again = np.ones(value.shape, np.bool_)
            again[first] = False
            self._element(facts, at, value, again, "stands there twice")
        if facts.inverse is None:
            return {}
        inverse = self._inverse(facts, at[0], value)
        given = self.env.arrays.get(facts.inverse)
        if given is not None and not (
            given.shape == inverse.shape and np.array_equal(given, inverse)
        ):
            self.refuse(f"{facts.inverse} does not undo {facts.name}")
        return {facts.inverse: inverse}

    def _domain(self, facts: FunctionFacts, array: NDArray[Any]) -> list[Ints]:
        """The points of the domain by dimension, which must lie within the array."""
        if facts.domain is None:
            return [column.ravel() for column in np.indices(array.shape)]
        names = facts.domain.variables
        found = [
            enumerate_points(conj, solvable_order(conj, names), self.env)
            for conj in facts.domain.conjs
        ]
        at = [np.concatenate([columns[name] for columns in found]) for name in names]
        for column, extent in zip(at, array.shape, strict=True):
            if len(column) and not 0 <= int(column.min()) <= int(column.max()) < extent:
                self.refuse(
                    f"{facts.name} has no element for each point of {facts.domain}",
                    f"shape {array.shape}, {self._spelled(self._named(facts.domain))}",
                )
        return at

    def _named(self, of: IntegerSet) -> frozenset[str]:
        return frozenset().union(*(symbols(c.term) for conj in of.conjs for c in conj.constraints))

    def _members(self, allowed: IntegerSet, value: Ints) -> NDArray[np.bool_]:
        # Numbers beyond any range, with which a term could leave 64 bits.
        small = (value < 1 << 48) & (value > -(1 << 48))
        columns = {allowed.variables[0]: np.where(small, value, 0)}
        return small & _true(allowed.conjs, columns, self.env, len(value))

    def _grows(
        self,
        facts: FunctionFacts,
        at: list[Ints],
        value: Ints,
        argument: int,
        is_increasing: bool,
        is_strict: bool,
    ) -> None:
        """Test neighbours along one argument; the others stay."""
        order = np.lexsort([at[argument], *(c for n, c in enumerate(at) if n != argument)])
        rows, sorted_values = [column[order] for column in at], value[order]
        together = np.ones(max(len(order) - 1, 0), np.bool_)
        for number, column in enumerate(rows):
            if number != argument:
                together &= column[1:] == column[:-1]
        before, after = sorted_values[:-1], sorted_values[1:]
        if not is_increasing:
            before, after = after, before
        wrong = together & ~(before < after if is_strict else before <= after)
        if wrong.any():
            n = int(np.argmax(wrong))
            spelled = [
                f"{facts.name}[{', '.join(str(c[k]) for c in rows)}] = {sorted_values[k]}"
                for k in (n, n + 1)
            ]
            way = "increasing" if is_increasing else "decreasing"
            strictly = "strictly " if is_strict else ""
            self.refuse(f"{facts.name} is not {strictly}{way}", " and ".join(spelled))

    def _inverse(self, facts: FunctionFacts, at: Ints, value: Ints) -> NDArray[Any]:
        assert facts.range is not None
        (conj,) = facts.range.conjs
        wanted = enumerate_points(conj, facts.range.variables, self.env)
        count = len(wanted[facts.range.variables[0]])
        if count != len(value):
            self.refuse(
                f"{facts.name} has {len(value)} numbers, its range {count}",
                hint=f"{facts.inverse} undoes it: each number of {facts.range} stands once",
            )
        if len(value) and int(value.min()) < 0:
            self._element(facts, [at], value, value < 0, "cannot be undone")
        inverse = np.full(int(value.max(initial=-1)) + 1, -1, np.int64)
        inverse[value] = at
        return inverse

    def _element(
        self,
        facts: FunctionFacts,
        at: Sequence[Ints],
        value: NDArray[Any],
        wrong: NDArray[np.bool_],
        what: str,
        hint: str = "",
    ) -> None:
        """Refuse the first wrong element."""
        if wrong.any():
            n = int(np.argmax(wrong))
            place = ", ".join(str(column[n]) for column in at)
            names = self._named(facts.range) if facts.range is not None else frozenset[str]()
            self.refuse(f"{facts.name}[{place}] = {value[n]} {what}", self._spelled(names), hint)

    def rule(self, rule: Rule, text: str) -> None:
        """Test a rule at every point of its premises."""
        conj = self._within_domains(rule)
        if conj.is_false:
            return
        at = enumerate_points(conj, solvable_order(conj, rule.variables), self.env)
        count = len(at[rule.variables[0]]) if rule.variables else 1
        if not rule.variables and not np.all(_true((conj,), {}, self.env, 1)):
            return
        ends = tuple(Conj.of(end) for end in rule.clause.conclusions)
        wrong = ~_true(ends, at, self.env, count)
        if wrong.any():
            n = int(np.argmax(wrong))
            self.refuse(text, ", ".join(f"{name} = {at[name][n]}" for name in rule.variables))

    def _within_domains(self, rule: Rule) -> Conj:
        """The premises where they mean something: variables that calls are made at are in range."""
        conj = Conj.of(rule.clause.premises)
        ends = [call for end in rule.clause.conclusions for c in end for call in calls(c.term)]
        bounds: list[Constraint] = []
        for call in dict.fromkeys((*conj.calls, *ends)):
            steps = [argument - argument.constant for argument in call.args]
            is_stepped = all(isinstance(step.atom, TupleVar) for step in steps)
            if is_stepped and (call in conj.calls or steps == list(call.args)):
                bounds += self._domain_at(call)
        return conj.conjoined(bounds)

    def _domain_at(self, call: UFCall) -> Iterator[Constraint]:
        function = self.facts.function(call.name)
        if function is not None and function.domain is not None:
            inside = function.in_domain(call.args)
            yield from inside[0].constraints if len(inside) == 1 else ()
        elif call.name in self.env.arrays:
            for argument, extent in zip(call.args, self.env.arrays[call.name].shape, strict=True):
                yield Constraint.ge(argument)
                yield Constraint.lt(argument, extent)


def _true(
    formula: Formula, columns: Columns, env: IndexEnvironment, count: int
) -> NDArray[np.bool_]:
    """Where one of some conjunctions holds."""
    result = np.zeros(count, np.bool_)
    tests: dict[bool, Callable[[Ints], Any]] = {True: lambda x: x == 0, False: lambda x: x >= 0}
    for conj in formula:
        one = np.ones(count, np.bool_)
        for constraint in conj.constraints:
            one &= tests[constraint.is_equality](values_of(constraint.term, columns, env))
        result |= one
    return result
