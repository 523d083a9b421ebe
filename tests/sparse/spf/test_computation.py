"""The nouns: faulty computations are told, terms and expressions say the same."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.diagnostics import UsageError
from loopwright.ir import expr as ir
from loopwright.ir.dtypes import FLOAT64, INT32, INT64
from loopwright.ir.evaluate import evaluate as evaluate_expr
from loopwright.ir.program import Role
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt, computation_text
from loopwright.sparse.spf.implied import KnownConstraints
from loopwright.sparse.spf.scan_pieces import eliminated
from loopwright.sparse.spf.term_exprs import as_condition, as_expr, as_term
from loopwright.sparse.uf import Constraint, Sym, Term, TupleVar, evaluate, holds, parse_linear

SPACES = (
    DataSpace.of("f", INT32, ["N"], Role.IN),
    DataSpace.of("a", FLOAT64, ["N", "M"], Role.OUT),
)
BY_NAME = {space.name: space for space in SPACES}
ONE = ir.Const(1.0, FLOAT64)


def made(stmt: Stmt) -> Computation:
    return Computation("c", SPACES, (stmt,), ("N", "M"))


@pytest.mark.parametrize(
    ("stmt", "told"),
    [
        (
            lambda: Stmt.of("S", "{[i] : 0 <= i < N}", ("i",), "f(i)", ir.Const(0, INT32)),
            "statement 'S' writes 'f', which is an input",
        ),
        (
            lambda: Stmt.of("S", "{[i] : 0 <= i < K}", ("i",), "a(i,0)", ONE),
            "'K' in the domain of statement 'S' is not declared",
        ),
        (
            lambda: Stmt.of("S", "{[i] : 0 <= i < g(0)}", ("i",), "a(i,0)", ONE),
            "'g' in the domain of statement 'S' is not declared",
        ),
        (
            lambda: Stmt.of("S", "{[i] : 0 <= i < N}", ("i",), "a(i)", ONE),
            "'a' has 1 subscripts in the target of statement 'S'",
        ),
        (
            lambda: Stmt.of("S", "{[i] : 0 <= i < N}", ("i",), "a(i,0)", ir.Var("i")),
            "the value of statement 'S' is int64, its target 'a' holds float64",
        ),
        (
            lambda: Stmt.of("S", "{[i] : 0 <= i < N}", ("j",), "a(i,0)", ONE),
            "'j' in the schedule of statement 'S' is not declared",
        ),
        (
            lambda: Stmt.of("S", "{[M] : 0 <= M < N}", ("M",), "a(M,0)", ONE),
            "'M' names a variable of statement 'S' and something else",
        ),
        (
            lambda: Stmt.of("S", "{[i] : 0 <= i < N}", ("i",), "i+1", ONE),
            "the target of statement 'S' is no element of a data space",
        ),
        (
            lambda: Stmt.of(
                "S", "{[i] : 0 <= i < N}", ("i",), "a(i,0)", ir.Cast(ir.Var("k"), FLOAT64)
            ),
            "'k' in the value of statement 'S' is not declared",
        ),
    ],
    ids=[
        "input",
        "symbol",
        "function",
        "rank",
        "dtype",
        "schedule",
        "two meanings",
        "target",
        "value",
    ],
)
def test_faults_are_told(stmt: object, told: str) -> None:
    assert callable(stmt)
    with pytest.raises(UsageError, match=told):
        made(stmt())


def test_names_are_declared_once() -> None:
    with pytest.raises(UsageError, match="the name 'f' is declared twice"):
        Computation("c", (SPACES[0], SPACES[0]), ())


def test_text_holds_everything() -> None:
    stmt = Stmt.of("S", "{[i] : 0 <= i < N}", ("i",), "a(i,0)", ONE)
    texts = {
        computation_text(made(stmt)),
        computation_text(made(Stmt.of("S", "{[i] : 0 <= i < N}", ("-i",), "a(i,0)", ONE))),
        computation_text(made(Stmt.of("S", "{[i] : 0 <= i < N}", ("i",), "a(i,1)", ONE))),
        computation_text(made(Stmt.of("S", "{[i] : 0 <= i < M}", ("i",), "a(i,0)", ONE))),
    }
    assert len(texts) == 4


# -- terms and expressions --------------------------------------------------------------------

TERMS = (
    "2*i - 3*j + 4",
    "-i - 1",
    "f(i) + f(f(j))",
    "floor((i - 5)/3) - j mod 4",
    "N*i + j*j - 7",
    "f(i)*j + floor(f(j)/2)",
    "-f(3)",
)


@pytest.mark.parametrize("text", TERMS)
def test_terms_and_expressions_agree(text: str) -> None:
    term = parse_linear(text, ("i", "j"))
    expr = as_expr(term, BY_NAME)
    assert as_term(expr, ("i", "j")) == term
    table = np.array([3, 0, 2, 1], np.int32)
    for i, j in product(range(4), repeat=2):
        values = {"i": i, "j": j, "N": 4, "M": 2}
        expected = evaluate(term, values, {"f": table})
        assert evaluate_expr(expr, values, {"f": table}) == expected
        for test in (Constraint.ge(term), Constraint.gt(term), Constraint.eq(term)):
            found = evaluate_expr(as_condition(test, BY_NAME), values, {"f": table})
            assert bool(found) == holds(test, values, {"f": table})


def test_what_the_algebra_cannot_say() -> None:
    i = ir.Var("i")
    assert as_term(i.min(3), ("i",)) is None
    assert as_term(ir.Cast(ir.Binary("add", ONE, ONE), INT64), ("i",)) is None
    narrow = ir.Load("f", (i,), INT32)
    assert as_term(ir.Cast(ir.Binary("add", narrow, narrow), INT64), ("i",)) is None


# -- what follows -----------------------------------------------------------------------------

NAMES = ("x", "y", "z")
BOX = range(-3, 4)


@st.composite
def constraints(draw: st.DrawFn) -> Constraint:
    factors = [draw(st.integers(-2, 2)) for _ in NAMES]
    terms = ((TupleVar(n), f) for n, f in zip(NAMES, factors, strict=True))
    term = Term.sum(terms, draw(st.integers(-3, 3)))
    return Constraint.eq(term) if draw(st.integers(0, 5)) == 0 else Constraint.ge(term)


def points(given_: list[Constraint]) -> list[dict[str, int]]:
    every = (dict(zip(NAMES, entries, strict=True)) for entries in product(BOX, repeat=3))
    return [point for point in every if all(holds(c, point, {}) for c in given_)]


@settings(max_examples=some(100), deadline=None)
@given(st.lists(constraints(), max_size=4), constraints())
def test_what_is_implied_holds(known: list[Constraint], wanted: Constraint) -> None:
    if KnownConstraints(tuple(known)).implies(wanted):
        assert all(holds(wanted, point, {}) for point in points(known))


@settings(max_examples=some(100), deadline=None)
@given(st.lists(constraints(), max_size=4), st.sampled_from(NAMES))
def test_elimination_keeps_every_point(known: list[Constraint], name: str) -> None:
    less = eliminated(known, [name])
    for point in points(known):
        rest = {n: v for n, v in point.items() if n != name}
        assert all(holds(c, rest, {}) for c in less)


def test_sums_are_found() -> None:
    x, y, n = TupleVar("x"), TupleVar("y"), Sym("N")
    known = KnownConstraints((Constraint.ge(x), Constraint.lt(x, y), Constraint.le(y, n)))
    assert known.implies(Constraint.lt(x, n))
    assert known.implies(Constraint.gt(Term.of(n) + x))
    assert not known.implies(Constraint.lt(y, n))
