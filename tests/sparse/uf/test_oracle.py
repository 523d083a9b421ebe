"""Facts and the oracle: proofs hold for every function, and those that formats need are found."""

import itertools
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.diagnostics import UsageError
from loopwright.sparse.uf import (
    NO_FACTS,
    Conj,
    Constraint,
    Facts,
    FunctionFacts,
    Monotone,
    Relation,
    Sym,
    Term,
    TupleVar,
    evaluate,
    holds,
    parse_rules,
    parse_set,
)
from loopwright.sparse.uf.ackermann import _laws
from loopwright.sparse.uf.oracle import (
    implies,
    is_empty,
    is_function,
    is_injective,
    witness,
)
from uf_brute import SIZE, World, conjs, relations, terms, worlds

NAMES = ("x", "y")
N_IS_POSITIVE = Facts(known=(Constraint.ge(Sym("N"), 1),))
quick = settings(max_examples=some(40), deadline=None)


def box(conj: Conj, world: World) -> list[dict[str, int]]:
    """The points of the box where a conjunction without variables that exist holds."""
    points = ({"x": x, "y": y, "N": world.n} for x, y in itertools.product(range(SIZE), repeat=2))
    return [p for p in points if all(holds(c, p, world.functions) for c in conj.constraints)]


@quick
@given(conjs(NAMES), terms(NAMES), worlds)
def test_every_answer_is_sound(conj: Conj, term: Term, world: World) -> None:
    points = box(conj, world)
    if points:
        assert not is_empty(conj, N_IS_POSITIVE)
    values = [evaluate(term, point, world.functions) for point in points]
    if implies(conj, Constraint.ge(term), N_IS_POSITIVE):
        assert all(value >= 0 for value in values)
    if implies(conj, Constraint.eq(term), N_IS_POSITIVE):
        assert set(values) <= {0}


@quick
@given(conjs(NAMES))
def test_witness_obeys_the_constraints(conj: Conj) -> None:
    found = witness(conj)
    if found is None:
        return
    for constraint in conj.constraints:
        if all(atom in found for atom, _ in constraint.term.terms):
            value = sum(found[a] * f for a, f in constraint.term.terms) + constraint.term.constant
            assert value == 0 if constraint.is_equality else value >= 0


@quick
@given(relations("x", "y"), worlds)
def test_functions_and_injections_are_sound(r: Relation, world: World) -> None:
    pairs = world.pairs(r)
    if is_function(r, N_IS_POSITIVE):
        assert len({a for a, _ in pairs}) == len(pairs)
    if is_injective(r, N_IS_POSITIVE):
        assert len({b for _, b in pairs}) == len(pairs)


DOMAIN = parse_set("{[x] : 0 <= x <= 3}")
KINDS = {
    "up": Monotone(),
    "down": Monotone(is_increasing=False),
    "strictly up": Monotone(is_strict=True),
    "strictly down": Monotone(is_increasing=False, is_strict=True),
}


def orders(values: tuple[int, ...], kind: str) -> bool:
    pairs = list(itertools.pairwise(values))
    return {
        "up": all(a <= b for a, b in pairs),
        "down": all(a >= b for a, b in pairs),
        "strictly up": all(a < b for a, b in pairs),
        "strictly down": all(a > b for a, b in pairs),
    }[kind]


@settings(max_examples=some(60), deadline=None)
@given(
    conjs(NAMES),
    st.sampled_from(sorted(KINDS)),
    st.tuples(*[st.integers(-1, 4)] * 4),
    st.tuples(*[st.integers(-1, 3)] * 8),
)
def test_facts_prove_nothing_that_a_function_with_them_refutes(
    conj: Conj, kind: str, inside: tuple[int, ...], outside: tuple[int, ...]
) -> None:
    inside = tuple(sorted(inside, reverse="down" in kind))
    if not orders(inside, kind):
        return
    table = dict(enumerate(inside))
    world = World(1, (0,), (0, 1, 2, 1))
    functions = {
        **world.functions,
        "f": lambda a: table[a] if a in table else outside[a % 8],
    }
    facts = Facts(
        (FunctionFacts("f", domain=DOMAIN, monotone=(KINDS[kind],)),),
        known=(Constraint.eq(Sym("N"), 1),),
    )
    for x, y in itertools.product(range(SIZE), repeat=2):
        point = {"x": x, "y": y, "N": 1}
        if all(holds(c, point, functions) for c in conj.constraints):
            assert not is_empty(conj, facts)


# -- the proofs that formats need -----------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "{[x] : 2*x = 2*f(x) + 1}",
        "{[x,y] : f(x) = 1 && x = y && f(y) = 2}",
        "{[x,y] : f(f(x)) = 1 && f(x) = y && f(y) = 2}",
        "{[x,y] : x <= y <= x && g(x,3) < g(y,3)}",
        "{[x] : N >= 1 && x >= 1 && x*N < x}",
        "{[x] : N = M && x*N < x*M}",
        "{[x,y] : N >= 2 && x >= 1 && N*x <= x}",
        "{[x,y] : x = y + 1 && N*x < N*y + N}",
    ],
)
def test_contradictions_are_found(text: str) -> None:
    assert all(is_empty(conj) for conj in parse_set(text).conjs)


def test_laws_of_products_hold() -> None:
    """Every clause about a*q is true of all small integers."""
    a, q = Term.of(TupleVar("a")), Term.of(TupleVar("q"))
    for clause in _laws(a, q):
        for values in itertools.product(range(-4, 5), repeat=2):
            point = dict(zip("aq", values, strict=True))
            if all(holds(c, point, {}) for c in clause.premises):
                assert any(all(holds(c, point, {}) for c in end) for end in clause.conclusions)


def rules(**properties: object) -> list[str]:
    domain = parse_set("{[x] : 0 <= x < N}")
    return [str(r) for r in FunctionFacts("f", domain=domain, **properties).rules]  # type: ignore[arg-type]


def test_rules_of_properties() -> None:
    inside = "x0 < N && x0 >= 0"
    both = "x0 < N && x0 <= y0 && x0 >= 0 && y0 < N && y0 >= 0"
    assert rules(range=parse_set("{[y] : 0 <= y <= M}")) == [
        f"forall x0: {inside} => f(x0) <= M && f(x0) >= 0"
    ]
    assert rules(monotone=(Monotone(),)) == [f"forall x0,y0: {both} => f(x0) <= f(y0)"]
    # Without gaps in the domain a strictly growing function grows by at least the distance.
    assert rules(monotone=(Monotone(is_strict=True),)) == [
        f"forall x0,y0: {both} => x0+f(y0) >= y0+f(x0)"
    ]
    assert rules(monotone=(Monotone(is_increasing=False),)) == [
        f"forall x0,y0: {both} => f(x0) >= f(y0)"
    ]
    assert rules(is_injective=True) == [
        "forall x0,y0: f(x0) = f(y0) && x0 < N && x0 >= 0 && y0 < N && y0 >= 0 => x0 = y0"
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FunctionFacts("f", arity=2, domain=parse_set("{[x]}")), "the domain of 'f' has"),
        (lambda: FunctionFacts("f", range=parse_set("{[x,y]}")), "the range of 'f' has the wrong"),
        (
            lambda: FunctionFacts("f", domain=parse_set("{[x] : exists e: x = 2*e}")),
            "the domain of 'f' says that a variable exists",
        ),
        (lambda: FunctionFacts("f", monotone=(Monotone(1),)), "'f' is declared monotone in"),
        (
            lambda: Facts((FunctionFacts("f"), FunctionFacts("f", width=8))),
            "'f' is described twice",
        ),
        (lambda: parse_rules("forall x: exists e: x = 2*e"), "a rule says that a variable exists"),
        (lambda: parse_rules("forall x < y => f(x) = 1"), "expected ':' after the variables"),
    ],
    ids=["domain", "range", "exists", "argument", "twice", "rule", "colon"],
)
def test_wrong_facts_are_refused(make: object, message: str) -> None:
    with pytest.raises(UsageError) as error:
        make()  # type: ignore[operator]
    assert message in error.value.message


def test_facts_join_and_travel() -> None:
    one, two = Facts((FunctionFacts("f"),)), Facts((FunctionFacts("f"), FunctionFacts("g")))
    assert (one | two).functions == two.functions
    assert (one | NO_FACTS) == one
    hash(one)
    assert pickle.loads(pickle.dumps(one)) == one


def test_domains_and_ranges_of_calls() -> None:
    ends, numbers = parse_set("{[x] : 0 <= x <= NR}"), parse_set("{[n] : 0 <= n <= NNZ}")
    facts = Facts((FunctionFacts("rowptr", domain=ends, range=numbers, monotone=(Monotone(),)),))
    row = parse_set("{[i] : rowptr(i) >= 2}").conjs[0]
    assert str(facts.bounded(row)) == ("i <= NR && i >= 0 && rowptr(i) <= NNZ && rowptr(i) >= 2")
