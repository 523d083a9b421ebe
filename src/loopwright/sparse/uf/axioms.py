"""What is known of uninterpreted functions and symbolic constants.

Facts are quantified rules over integers. A function is total; its domain says where its declared
properties hold, so that each rule made from them has the domain among its premises.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import computed_once
from loopwright.sparse.uf.constraints import Conj, Constraint
from loopwright.sparse.uf.linear_terms import Atom, CachedHash, Term, TupleVar, UFCall, atoms
from loopwright.sparse.uf.relation import IntegerSet
from loopwright.sparse.uf.set_parser import Formula, parse_implication

__all__ = ["NO_FACTS", "Clause", "Facts", "FunctionFacts", "Monotone", "Rule", "parse_rules"]


@dataclass(frozen=True)
class Clause(CachedHash):
    """If every premise holds, so do all constraints of one of the conclusions."""

    premises: tuple[Constraint, ...]
    conclusions: tuple[tuple[Constraint, ...], ...]  # without any, the premises are never all true

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        ends = " or ".join(" && ".join(map(str, end)) or "true" for end in self.conclusions)
        start = " && ".join(map(str, self.premises))
        return f"{start} => {ends or 'false'}" if start else ends or "false"


@dataclass(frozen=True)
class Rule(CachedHash):
    """A clause that holds for all integers in place of its variables."""

    variables: tuple[str, ...]
    clause: Clause
    # A rule that is true of just the same functions, and of fewer points.
    quick: Rule | None = None

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        names = f"forall {','.join(self.variables)}: " if self.variables else ""
        return f"{names}{self.clause}"


@dataclass(frozen=True)
class Monotone:
    """How a function grows with one argument while the others stay."""

    argument: int = 0
    is_increasing: bool = True
    is_strict: bool = False


@dataclass(frozen=True)
class FunctionFacts:
    """The properties of one function, on its domain."""

    name: str
    arity: int = 1
    results: int = 1
    domain: IntegerSet | None = None  # of its arguments; None: everywhere
    range: IntegerSet | None = None  # of its results, for arguments in the domain
    monotone: tuple[Monotone, ...] = ()
    is_injective: bool = False
    inverse: str | None = None  # the function is a bijection of domain and range, this undoes it
    width: int | None = None  # bits of an entry where the function is stored as an array

    def __post_init__(self) -> None:
        for what, found, count in (
            ("domain", self.domain, self.arity),
            ("range", self.range, self.results),
        ):
            if found is None:
                continue
            if len(found.variables) != count:
                raise UsageError(
                    f"the {what} of '{self.name}' has the wrong number of dimensions",
                    str(found),
                    f"'{self.name}' needs {count}",
                )
            if any(conj.exists for conj in found.conjs):
                raise UsageError(
                    f"the {what} of '{self.name}' says that a variable exists",
                    str(found),
                    "use floor or mod instead",
                )
        wrong = [m.argument for m in self.monotone if not 0 <= m.argument < self.arity]
        if wrong:
            raise UsageError(
                f"'{self.name}' is declared monotone in an argument it does not have",
                f"argument {wrong[0]} of {self.arity}",
                "count arguments from 0",
            )

    def call(self, args: Sequence[Term], result: int = 0) -> Term:
        return Term.of(UFCall(self.name, tuple(args), result))

    def in_domain(self, args: Sequence[Term]) -> Formula:
        """When the arguments lie in the domain."""
        return _membership(self.domain, args)

    def in_range(self, values: Sequence[Term]) -> Formula:
        """When values lie in the range."""
        return _membership(self.range, values)

    @computed_once
    def rules(self) -> tuple[Rule, ...]:
        """The declared properties as rules."""
        found = [*self._range_rules()]
        for growth in self.monotone:
            found += self._monotone_rules(growth)
        if self.is_injective or self.inverse is not None:
            found += self._injective_rules()
        if self.inverse is not None:
            found += self._inverse_rules(self.inverse)
        return tuple(found)

    def _range_rules(self) -> Iterable[Rule]:
        if self.range is None:
            return
        names, x = _variables("x", self.arity)
        values = [self.call(x, result) for result in range(self.results)]
        yield from _rules(names, [self.in_domain(x)], self.in_range(values))

    def _monotone_rules(self, growth: Monotone) -> Iterable[Rule]:
        """x <= y => f(x) <= f(y); what grows strictly without gaps grows at least as fast as x."""
        names, x = _variables("x", self.arity)
        other = TupleVar("y0")
        y = [*x]
        y[growth.argument] = Term.of(other)
        first, second = (self.call(x), self.call(y))
        low, high = (first, second) if growth.is_increasing else (second, first)
        before = x[growth.argument]
        gap = Term.of(0)
        order = (Conj.of([Constraint.le(before, other)]),)
        if growth.is_strict and self._has_no_gaps(growth.argument):
            gap = y[growth.argument] - before
        elif growth.is_strict:
            gap, order = Term.of(1), (Conj.of([Constraint.lt(before, other)]),)
        yield from _rules(
            (*names, other.name),
            [order, self.in_domain(x), self.in_domain(y)],
            (Conj.of([Constraint.ge(high, low + gap)]),),
        )

    def _has_no_gaps(self, argument: int) -> bool:
        """Whether with two arguments all integers between them lie in the domain, syntactically."""
        if self.domain is None:
            return True
        name = TupleVar(self.domain.variables[argument])
        return len(self.domain.conjs) == 1 and all(
            sum(atom == name for atom in atoms(c.term)) == (c.term.coefficient(name) != 0)
            for c in self.domain.conjs[0].constraints
        )

    def _injective_rules(self) -> Iterable[Rule]:
        """f(x) = f(y) => x = y"""
        names, x = _variables("x", self.arity)
        others, y = _variables("y", self.arity)
        same = [
            Constraint.eq(self.call(x, result), self.call(y, result))
            for result in range(self.results)
        ]
        yield from _rules(
            (*names, *others),
            [(Conj.of(same),), self.in_domain(x), self.in_domain(y)],
            (Conj.of(map(Constraint.eq, x, y)),),
        )

    def _inverse_rules(self, inverse: str) -> Iterable[Rule]:
        """g(f(x)) = x on the domain; f(g(y)) = y and g(y) in the domain for y in the range."""
        names, x = _variables("x", self.arity)
        image = tuple(self.call(x, result) for result in range(self.results))
        back = (Constraint.eq(UFCall(inverse, image, at), x[at]) for at in range(self.arity))
        yield from _rules(names, [self.in_domain(x)], (Conj.of(back),))
        names, y = _variables("y", self.results)
        origin = [Term.of(UFCall(inverse, tuple(y), at)) for at in range(self.arity)]
        forth = Conj.of(
            Constraint.eq(self.call(origin, result), y[result]) for result in range(self.results)
        )
        ends = tuple(forth.conjoined(conj.constraints) for conj in self.in_domain(origin))
        yield from _rules(names, [self.in_range(y)], ends)


@dataclass(frozen=True)
class Facts(CachedHash):
    """All that is known: functions, further rules, and constraints on symbolic constants."""

    functions: tuple[FunctionFacts, ...] = ()
    further: tuple[Rule, ...] = ()
    known: tuple[Constraint, ...] = ()  # without variables, such as NR >= 0

    def __post_init__(self) -> None:
        names = [function.name for function in self.functions]
        if again := sorted({name for name in names if names.count(name) > 1}):
            raise UsageError(
                f"the function '{again[0]}' is described twice",
                ", ".join(names),
                "rename one of the two",
            )

    def __hash__(self) -> int:
        return self._hash

    @computed_once
    def rules(self) -> tuple[Rule, ...]:
        """Every rule, those of the functions first."""
        known = (Rule((), Clause((), ((constraint,),))) for constraint in self.known)
        made = (rule for function in self.functions for rule in function.rules)
        return tuple(dict.fromkeys((*known, *made, *self.further)))

    @computed_once
    def _by_name(self) -> dict[str, FunctionFacts]:
        return {function.name: function for function in self.functions}

    def function(self, name: str) -> FunctionFacts | None:
        return self._by_name.get(name)

    def inverse_of(self, name: str) -> str | None:
        """The inverse of the function `name`, looked up in both directions."""
        found = self.function(name)
        if found is not None and found.inverse is not None:
            return found.inverse
        return next((f.name for f in self.functions if f.inverse == name), None)

    def bounded(self, conj: Conj) -> Conj:
        """`conj` with the domain and range of every call in it as constraints.

        That is the same set only where calls are made inside their domains, which is for the
        caller to know. A domain or range in several pieces adds nothing.
        """
        more: list[Constraint] = []
        for call in conj.calls:
            function = self.function(call.name)
            if function is None or len(call.args) != function.arity:
                continue
            results = [function.call(call.args, result) for result in range(function.results)]
            for formula in (function.in_domain(call.args), function.in_range(results)):
                if len(formula) == 1:
                    more += formula[0].constraints
        return conj.conjoined(more)

    def __or__(self, other: Facts) -> Facts:
        """Both together; a function described alike in both stands once."""
        return Facts(
            tuple(dict.fromkeys((*self.functions, *other.functions))),
            tuple(dict.fromkeys((*self.further, *other.further))),
            tuple(dict.fromkeys((*self.known, *other.known))),
        )


NO_FACTS = Facts()


def parse_rules(text: str) -> tuple[Rule, ...]:
    """The rules that `forall x,y: premise => conclusion` spells, one per case of the premise."""
    variables, premise, conclusion = parse_implication(text)
    for conj in (*premise, *conclusion):
        if conj.exists:
            raise UsageError(
                "a rule says that a variable exists", text, "quantify it with forall, or use mod"
            )
    return tuple(_rules(variables, [premise], conclusion))


def _variables(stem: str, count: int) -> tuple[tuple[str, ...], list[Term]]:
    names = tuple(f"{stem}{at}" for at in range(count))
    return names, [Term.of(TupleVar(name)) for name in names]


def _membership(of: IntegerSet | None, values: Sequence[Term]) -> Formula:
    if of is None:
        return (Conj(),)
    put: dict[Atom, Term] = {
        TupleVar(name): value for name, value in zip(of.variables, values, strict=True)
    }
    return tuple(conj.substitute(put) for conj in of.conjs)


def _rules(
    variables: tuple[str, ...], premises: Sequence[Formula], conclusion: Formula
) -> Iterable[Rule]:
    """One rule for each choice of a case in every premise."""
    ends = tuple(conj.constraints for conj in conclusion if not conj.is_false)
    for cases in product(*premises):
        whole = Conj.of(constraint for case in cases for constraint in case.constraints)
        if not whole.is_false:
            yield Rule(variables, Clause(whole.constraints, ends))
