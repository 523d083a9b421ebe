"""The exact algebra of integer sets and relations with uninterpreted functions.

What needs isl stands apart, for those who need it: `oracle` and `prove`.
"""

from loopwright.sparse.uf.closure import Closure
from loopwright.sparse.uf.conj import Conj, fresh, meet
from loopwright.sparse.uf.constraint import FALSE, TRUE, Constraint
from loopwright.sparse.uf.evaluate import Function, Functions, evaluate, holds
from loopwright.sparse.uf.facts import (
    NO_FACTS,
    Clause,
    Facts,
    FunctionFacts,
    Monotone,
    Rule,
    parse_rules,
)
from loopwright.sparse.uf.ops import (
    apply,
    compose,
    domain_of,
    identity,
    intersect,
    inverse,
    range_of,
    rename_apart,
    renamed,
    restrict_domain,
    restrict_range,
    substituted,
    union,
)
from loopwright.sparse.uf.parse import (
    Formula,
    parse_implication,
    parse_linear,
    parse_relation,
    parse_set,
)
from loopwright.sparse.uf.project import project_out, quantifier_free
from loopwright.sparse.uf.relation import IntegerSet, Relation
from loopwright.sparse.uf.solve import Isolated, definition, isolate, settled, solve_for
from loopwright.sparse.uf.terms import Atom, Call, Floor, Linear, Product, Sym, Var
from loopwright.sparse.uf.visit import (
    atoms,
    atoms_within,
    calls,
    rename,
    replace_atoms,
    substitute,
    symbols,
    variables,
)

__all__ = [
    "FALSE",
    "NO_FACTS",
    "TRUE",
    "Atom",
    "Call",
    "Clause",
    "Closure",
    "Conj",
    "Constraint",
    "Facts",
    "Floor",
    "Formula",
    "Function",
    "FunctionFacts",
    "Functions",
    "IntegerSet",
    "Isolated",
    "Linear",
    "Monotone",
    "Product",
    "Relation",
    "Rule",
    "Sym",
    "Var",
    "apply",
    "atoms",
    "atoms_within",
    "calls",
    "compose",
    "definition",
    "domain_of",
    "evaluate",
    "fresh",
    "holds",
    "identity",
    "intersect",
    "inverse",
    "isolate",
    "meet",
    "parse_implication",
    "parse_linear",
    "parse_relation",
    "parse_rules",
    "parse_set",
    "project_out",
    "quantifier_free",
    "range_of",
    "rename",
    "rename_apart",
    "renamed",
    "replace_atoms",
    "restrict_domain",
    "restrict_range",
    "settled",
    "solve_for",
    "substitute",
    "substituted",
    "symbols",
    "union",
    "variables",
]
