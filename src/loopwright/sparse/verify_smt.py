"""Claims about descriptors shown by an SMT solver: z3, where it is installed.

isl is asked about finitely many instances of the promises; z3 has them with their quantifiers, and
knows some arithmetic of products. "Unsatisfiable" is a proof; the effort is bounded by a count of
z3's steps, not by a clock.
"""

from __future__ import annotations

from typing import Any

from .uf import Atom, Call, Conj, Constraint, Floor, Linear, Product, Sym, Var
from .uf.facts import Clause, Facts

__all__ = ["has_z3", "proved_by_z3"]

_STEPS = 20_000_000  # z3's own count of resources, for one case


def has_z3() -> bool:
    """Whether z3 can be imported."""
    from importlib.util import find_spec  # lazy: only verification asks

    return find_spec("z3") is not None


def proved_by_z3(cases: tuple[Conj, ...], facts: Facts) -> bool:
    """Whether z3 shows that no case has a solution, whatever the functions are that obey facts."""
    return all(_is_impossible(case, facts) for case in cases)


def _is_impossible(case: Conj, facts: Facts) -> bool:
    # Quantifiers keep z3 from its arithmetic of products, so that it is asked without them first.
    plain = Facts(known=facts.known)
    return any(_Translation(known).is_impossible(case) for known in (plain, facts))


class _Translation:
    """Terms as those of z3, functions and symbols by name."""

    def __init__(self, facts: Facts) -> None:
        import z3  # lazy: an extra, and slow to load

        self._z3: Any = z3
        self._solver: Any = z3.Solver()
        self._solver.set("rlimit", _STEPS)
        for rule in facts.rules:
            variables = [z3.Int(f"v {name}") for name in rule.variables]
            clause = self._clause(rule.clause)
            self._solver.add(z3.ForAll(variables, clause) if variables else clause)

    def is_impossible(self, case: Conj) -> bool:
        self._solver.add(*map(self._constraint, case.constraints))
        return bool(self._solver.check() == self._z3.unsat)

    def _clause(self, clause: Clause) -> Any:
        z3 = self._z3
        ends = [z3.And(*map(self._constraint, end)) for end in clause.conclusions]
        return z3.Implies(z3.And(*map(self._constraint, clause.premises)), z3.Or(*ends))

    def _constraint(self, constraint: Constraint) -> Any:
        term = self._term(constraint.term)
        return term == 0 if constraint.is_equality else term >= 0

    def _term(self, term: Linear) -> Any:
        return self._z3.Sum(
            self._z3.IntVal(term.constant),
            *(self._z3.IntVal(factor) * self._atom(atom) for atom, factor in term.terms),
        )

    def _atom(self, atom: Atom) -> Any:
        z3 = self._z3
        match atom:
            case Var(name=name):
                return z3.Int(f"v {name}")
            case Sym(name=name):
                return z3.Int(f"s {name}")
            case Call(name=name, args=args, result=result):
                sorts = [z3.IntSort()] * (len(args) + 1)
                return z3.Function(f"f {name} {result}", *sorts)(*map(self._term, args))
            case Floor(x=x, by=by):
                # z3 rounds down for positive divisors, and all of ours are.
                return self._term(x) / self._term(by)
            case Product(factors=factors):
                return z3.Product(*map(self._atom, factors))
