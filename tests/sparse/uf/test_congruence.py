"""CongruenceClosure: its bounds are the strongest sums of bounds, and all it says is true."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.sparse.uf import (
    CongruenceClosure,
    Conj,
    Constraint,
    Facts,
    FunctionFacts,
    Monotone,
    Sym,
    Term,
    TupleVar,
    UFCall,
    evaluate,
    holds,
    parse_linear,
    parse_rules,
    parse_set,
)
from loopwright.sparse.uf.congruence import DifferenceBounds
from uf_brute import SIZE, World, conjs, terms, worlds

ROWPTR = FunctionFacts("rowptr", domain=parse_set("{[x] : 0 <= x <= NR}"), monotone=(Monotone(),))


def closed(text: str, facts: Facts | None = None) -> CongruenceClosure:
    return CongruenceClosure(parse_set(text).conjs[0], facts or Facts())


@settings(max_examples=60, deadline=None)
@given(conjs(("x", "y")), terms(("x", "y")), terms(("x", "y")), worlds)
def test_every_answer_is_sound(conj: Conj, s: Term, t: Term, world: World) -> None:
    closure = CongruenceClosure(conj, Facts(known=(Constraint.ge(Sym("N"), 1),)))
    points = [{"x": x, "y": y, "N": world.n} for x, y in itertools.product(range(SIZE), repeat=2)]
    points = [p for p in points if all(holds(c, p, world.functions) for c in conj.constraints)]
    if closure.is_contradictory:
        assert not points
        return
    bound = closure.bound(s, t)
    for point in points:
        first, second = (evaluate(term, point, world.functions) for term in (s, t))
        assert bound is None or first - second <= bound
        assert evaluate(closure.normal(s), point, world.functions) == first
        for equality in closure.equalities():
            assert holds(equality, point, world.functions)
        for other in closure.equals(s):
            assert evaluate(other, point, world.functions) == first
    for atom in conj.atoms[:3]:
        for found in closure.about(atom):
            for point in points:
                value = evaluate(Term.of(atom), point, world.functions)
                rest = evaluate(found.rest, point, world.functions)
                assert {"=": value == rest, "<=": value <= rest, ">=": value >= rest}[found.sign]


edges = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(-3, 6)), max_size=12)


@given(edges)
def test_differences_are_shortest_paths(bounds: list[tuple[int, int, int]]) -> None:
    found: DifferenceBounds[int] = DifferenceBounds()
    inf = float("inf")
    matrix = [[0 if x == y else inf for y in range(5)] for x in range(5)]
    for x, y, c in bounds:
        matrix[x][y] = min(matrix[x][y], c)
    for k, x, y in itertools.product(range(5), repeat=3):
        matrix[x][y] = min(matrix[x][y], matrix[x][k] + matrix[k][y])
    is_negative = any(matrix[x][x] < 0 for x in range(5))
    for x, y, c in bounds:
        found.add(x, y, c)
        if found.is_contradictory:
            break
    assert found.is_contradictory == is_negative
    if not is_negative:
        for x, y in itertools.product(found.nodes(), repeat=2):
            bound = found.bound(x, y)
            assert (inf if bound is None else bound) == matrix[x][y]


def test_offsets_are_kept() -> None:
    closure = closed("{[k,n,i] : k < rowptr(i+1) && rowptr(i+1) <= n + 3}")
    assert closure.bound(TupleVar("k"), TupleVar("n")) == 2
    assert closure.bound(TupleVar("n"), TupleVar("k")) is None


def test_congruence_reaches_through_offsets_and_nesting() -> None:
    closure = closed("{[x,y,z] : x = y + 1 && f(x) = 3 && z = f(y+1) + 2 && g(z,h(x)) >= u}")
    assert closure.is_equal(TupleVar("z"), 5)
    names = ["y"]
    assert closure.normal(parse_linear("g(f(y+1)+2, h(y+1))", names)) == closure.normal(
        parse_linear("g(5,h(y+1))", names)
    )
    assert closed("{[x,y] : x = y && f(x) > f(y)}").is_contradictory
    assert closed("{[x,y] : x = y && f(x) >= N && f(y) < N}").is_contradictory


def test_sides_with_several_atoms_are_vertices() -> None:
    closure = closed("{[i,j,d,e] : j = i + off(d) && off(e) = j - i}")
    off = [Term.of(UFCall("off", (Term.of(TupleVar(name)),))) for name in "de"]
    assert closure.is_equal(*off)
    assert str(closure.about(UFCall("off", (Term.of(TupleVar("d")),)))[0]).startswith("off(d)")


def test_monotone_facts_order_rows() -> None:
    text = (
        "{[i1,i2,k] : 0 <= i1 < i2 < NR && rowptr(i1) <= k < rowptr(i1+1)"
        " && rowptr(i2) <= k < rowptr(i2+1)}"
    )
    assert closed(text, Facts((ROWPTR,))).is_contradictory
    assert not closed(text).is_contradictory


def test_clause_counts_only_when_its_premises_follow() -> None:
    facts = Facts(further=parse_rules("forall x: x >= 5 => f(x) = 1"))
    assert closed("{[x] : x >= 6 && f(x) <= N}", facts).is_equal(
        UFCall("f", (Term.of(TupleVar("x")),)), 1
    )
    assert not closed("{[x] : x >= 4 && f(x) <= N}", facts).is_equal(
        UFCall("f", (Term.of(TupleVar("x")),)), 1
    )


def test_known_variables_are_preferred() -> None:
    conj = parse_set("{[n,i,k] : i = row(n) && k = i && i >= 0}").conjs[0]
    assert str(CongruenceClosure(conj, known=["n"]).normal(Term.of(TupleVar("k")))) == "row(n)"
    assert str(CongruenceClosure(conj).normal(Term.of(TupleVar("k")))) == "i"
    assert [str(t) for t in CongruenceClosure(conj, known=["n"]).equals(TupleVar("k"))] == [
        "row(n)",
        "i",
    ]
