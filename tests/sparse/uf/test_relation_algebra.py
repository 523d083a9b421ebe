"""Operations on relations agree with what they mean, point by point."""

import pytest
from hypothesis import assume, given, settings

from drawn import some
from loopwright.diagnostics import UsageError
from loopwright.sparse.uf import (
    Facts,
    FunctionFacts,
    IntegerSet,
    Relation,
    Sym,
    Term,
    TupleVar,
    UFCall,
    apply,
    compose,
    domain_of,
    identity,
    intersect,
    inverse,
    isolate,
    parse_linear,
    parse_relation,
    parse_set,
    project_out,
    range_of,
    rename_apart,
    restrict_domain,
    restrict_range,
    solve_for,
    substituted,
    union,
)
from uf_brute import World, relations, sets, worlds
from uf_descriptors import MAPS

quick = settings(max_examples=some(25), deadline=None)


@quick
@given(relations("xy", "z"), relations("ab", "c"), worlds)
def test_unary_and_pointwise(r: Relation, s: Relation, world: World) -> None:
    pairs, others = world.pairs(r), world.pairs(s)
    assert world.pairs(inverse(r)) == {(b, a) for a, b in pairs}
    assert world.points(domain_of(r)) == {a for a, _ in pairs}
    assert world.points(range_of(r)) == {b for _, b in pairs}
    assert world.pairs(intersect(r, s)) == pairs & others
    assert world.pairs(union(r, s)) == pairs | others
    assert world.pairs(rename_apart(r, "xz")) == pairs


@quick
@given(relations("xy", "z"), relations("z", "xw"), worlds)
def test_compose(inner: Relation, outer: Relation, world: World) -> None:
    wanted = {(a, c) for a, b in world.pairs(inner) for b2, c in world.pairs(outer) if b == b2}
    assert world.pairs(compose(outer, inner)) == wanted


@quick
@given(relations("x", "yz"), sets("x"), sets("xy"), worlds)
def test_restrict_and_apply(r: Relation, s: IntegerSet, t: IntegerSet, world: World) -> None:
    pairs, first, second = world.pairs(r), world.points(s), world.points(t)
    assert world.pairs(restrict_domain(r, s)) == {(a, b) for a, b in pairs if a in first}
    assert world.pairs(restrict_range(r, t)) == {(a, b) for a, b in pairs if b in second}
    assert world.points(apply(r, s)) == {b for a, b in pairs if a in first}
    assert world.pairs(identity(t)) == {(a, a) for a in second}


@settings(max_examples=some(60), deadline=None)
@given(sets("xyz"), worlds)
def test_projection_is_exact_or_refused(s: IntegerSet, world: World) -> None:
    try:
        less = project_out(s, "y")
    except UsageError:
        assume(False)
    assert world.points(less) == {(x, z) for x, _, z in world.points(s)}


def test_most_projections_succeed() -> None:
    assert str(project_out(parse_set("{[i,j] : i <= j <= i+1 && f(j) = 3}"), "i")) == (
        "{[j] : f(j) = 3}"
    )
    assert str(project_out(parse_set("{[i,j] : 3*i = f(j)}"), "i")) == (
        "{[j] : f(j) = 3*floor(f(j)/3)}"
    )
    assert str(project_out(parse_set("{[i,j] : 2*i = 3*j && j >= 1}"), "j")) == (
        "{[i] : 2*i = 3*floor((2*i)/3) && floor((2*i)/3) > 0}"
    )
    assert str(project_out(parse_set("{[i,j] : N <= 3*i <= f(j)}"), "i")) == (
        "{[j] : floor((-N)/3)+floor(f(j)/3) >= 0}"
    )
    assert str(project_out(parse_set("{[i,j] : i = f(j) && g(i) >= N}"), "i")) == (
        "{[j] : g(f(j)) >= N}"
    )


def test_projection_under_a_function_is_refused_with_the_place() -> None:
    with pytest.raises(UsageError) as error:
        project_out(parse_set("{[d,j] : off(d) = j && 0 <= d < ND}"), "d")
    assert error.value.message == "the variable 'd' cannot be projected out exactly"
    assert error.value.found.startswith("it stands inside off(d) in exists d: (")
    with pytest.raises(UsageError, match="'q' is no variable"):
        project_out(parse_set("{[d]}"), "q")


def test_composition_of_descriptors_resolves_the_dense_tuple() -> None:
    dense = compose(inverse(parse_relation(MAPS["csr"])), parse_relation(MAPS["coo"]))
    assert str(dense) == (
        "{[n,ii,jj] -> [ii_1,k,jj_1] : ii = ii_1 && ii = row1(n) && jj = col1(n) && jj = jj_1"
        " && jj_1 = col2(k) && ii < NR && ii >= 0 && ii_1 < NR && ii_1 >= 0 && jj < NC && jj >= 0"
        " && k < NNZ && k < rowptr(ii_1+1) && k >= 0 && k >= rowptr(ii_1) && n < NNZ && n >= 0}"
    )
    relations = [parse_relation(text) for text in MAPS.values()]
    for first in relations:
        for second in relations:
            if len(first.outputs) == len(second.outputs):
                made = compose(inverse(second), first)
                assert all(not conj.exists for conj in made.conjs)


def test_tuples_of_other_lengths_are_refused() -> None:
    r, s = parse_relation("{[i] -> [j]}"), parse_relation("{[i] -> [j,k]}")
    for wrong in (
        lambda: compose(r, s),
        lambda: union(r, s),
        lambda: intersect(r, s),
        lambda: restrict_domain(r, parse_set("{[i,j]}")),
    ):
        with pytest.raises(UsageError, match="tuples of different lengths"):
            wrong()


def test_solve_for() -> None:
    names = ["i", "j", "d"]
    equal = parse_set("{[i,j,d] : j = i + off(d) - 2}").conjs[0].constraints[0]
    off = UFCall("off", (Term.of(TupleVar("d")),))
    assert solve_for(equal, off) == parse_linear("j - i + 2", names)
    assert solve_for(equal, TupleVar("d")) is None
    facts = Facts((FunctionFacts("off", inverse="where"),))
    assert solve_for(equal, TupleVar("d"), facts) == parse_linear("where(j - i + 2)", names)
    back = parse_set("{[i,j,d] : where(j + 1) = i}").conjs[0].constraints[0]
    assert solve_for(back, TupleVar("j"), facts) == parse_linear("off(i) - 1", names)
    itself = parse_set("{[i] : i = f(i)}").conjs[0].constraints[0]
    assert solve_for(itself, TupleVar("i")) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2*i <= N", "i <= floor(N/2)"),
        ("2*i >= N", "i >= -floor((-N)/2)"),
        ("i < f(j)", "i <= f(j)-1"),
        ("i + 3 = j", "i = j-3"),
        ("2*i = j", "None"),
        ("i <= f(i)", "None"),
    ],
)
def test_isolate(text: str, told: str) -> None:
    (constraint,) = parse_set(f"{{[i,j] : {text}}}").conjs[0].constraints
    assert str(isolate(constraint, TupleVar("i"))) == told


def test_substitution_reaches_symbols_and_not_tuples() -> None:
    s = parse_set("{[i] : 0 <= i < N && f(N) = i}")
    assert str(substituted(s, {Sym("N"): Term.of(4)})) == "{[i] : i = f(4) && i <= 3 && i >= 0}"
    with pytest.raises(UsageError, match="'i' is a tuple variable"):
        substituted(s, {TupleVar("i"): Term.of(4)})
