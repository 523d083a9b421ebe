"""Sets and relations: their syntax, and operations that mean what they do point by point."""

import pytest
from hypothesis import assume, given, settings

from drawn import some
from loopwright.diagnostics import UsageError
from loopwright.sparse.formats import BUILT_IN, find
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

DESCRIPTORS = [
    str(relation)
    for family in BUILT_IN.values()
    for found in (find(family.example, family.ranks[0]),)
    for relation in (found.map, found.access)
]


@pytest.mark.parametrize("text", DESCRIPTORS)
def test_descriptors_round_trip(text: str) -> None:
    relation = parse_relation(text)
    assert parse_relation(str(relation)) == relation


@settings(max_examples=some(30), deadline=None)
@given(relations("xy", "z"), relations("z", "xw"))
def test_any_relation_round_trips(inner: Relation, outer: Relation) -> None:
    made = compose(outer, inner)
    assert parse_relation(str(made)) == made


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("{[x] : 0 <= x < NNZ}", "{[x] : x < NNZ && x >= 0}"),
        ("{[x]}", "{[x]}"),
        ("{[]}", "{[]}"),
        ("{[x] : false}", "{[x] : false}"),
        ("{[x] : 2*x >= 3 and 2*x <= 4}", "{[x] : x = 2}"),
        ("{[x] : x >= 1 && x >= 3 && x <= 9 && x <= 7}", "{[x] : x <= 7 && x >= 3}"),
        ("{[x] : x >= 3 && x >= 1 && x <= 7 && x <= 9}", "{[x] : x <= 7 && x >= 3}"),
        ("{[x] : 2*x = 3}", "{[x] : false}"),
        ("{[x] : x >= 3 && x < 3}", "{[x] : false}"),
        ("{[x] : x != N}", "{[x] : x < N} union {[x] : x > N}"),
        ("{[x] : (x + 1)*2 <= N || (x = 3)}", "{[x] : 2*x+2 <= N} union {[x] : x = 3}"),
        ("{[x] : x % 4 = ceil(N/2)}", "{[x] : x+floor((-N)/2) = 4*floor(x/4)}"),
        ("{[x] : exists e: x = 2*e && e >= 0}", "{[x] : exists e: (2*e = x && e >= 0)}"),
        (
            "{[x] : exists e: (x = 2*e) && exists e: (x = 3*e)}",
            None,
        ),
        ("{[x] : P(x,1)[1] = f()}", "{[x] : P(x,1)[1] = f()}"),
        ("{[x,x] : x > 0}", "{[x,x_1] : x = x_1 && x > 0}"),
        ("{[x+1,x] : N = 1}", "{[o0,x] : N = 1 && o0 = x+1}"),
        ("{[x] : x = 1} union {[y] : y = 2}", "{[x] : x = 1} union {[x] : x = 2}"),
        (
            "{[x] : x = 1} union {[y] : exists x: y = 2*x}",
            "{[x] : x = 1} union {[x] : exists x_1: (x = 2*x_1)}",
        ),
    ],
)
def test_sets(text: str, written: str | None) -> None:
    if written is None:
        with pytest.raises(UsageError, match="has a meaning already"):
            parse_set(text)
        return
    assert str(parse_set(text)) == written
    assert parse_set(written) == parse_set(text)


FAULTS = [
    ("{[n] -> [i : i = n}", "expected ',' or ']' in the tuple", ":", 11),
    ("{[i] -> [j] : i/2 = 3}", "a quotient must be rounded", "/", 15),
    ("{[i] -> [j] : f(i) }", "expected a comparison: = != < <= > or >=", "}", 19),
    ("{[i] -> [j] : i mod 0 = 1}", "a quotient is rounded down only", "mod", 16),
    ("{[i] -> [j] : $}", "a character that has no meaning here", "$", 14),
    ("{[i] -> [j] : i = }", "expected a term", "}", 18),
    ("{[i] : i = 1}", "a set where a relation is needed", ":", 5),
    ("{[i] -> [j] : i = j", "expected '}', 'and' or 'or'", "", 19),
    ("{[i] -> [j]} union {[i] -> [j,k]}", "the two sides of a union", "union", 13),
    ("{[i] -> [j]} {[i] -> [j]}", "expected the end of the text", "{", 13),
    ("{[i] -> [j] : exists i: i = 1}", "the variable 'i' has a meaning already", "i", 21),
    ("{[i] -> [j] : floor(i+1/2) = j}", "expected '/' and a divisor", "+", 21),
    ("[i] -> [j]", "expected '{'", "[", 0),
]


@pytest.mark.parametrize(("text", "message", "word", "column"), FAULTS)
def test_faults_stand_under_the_text(text: str, message: str, word: str, column: int) -> None:
    with pytest.raises(UsageError) as error:
        parse_relation(text)
    told, line, carets = error.value.message.split("\n")
    assert told.startswith(message)
    assert line == "    " + text
    assert carets == "    " + " " * column + "^" * max(1, len(word))
    assert error.value.found == (f"'{word}'" if word else "the end of the text")


def test_relation_as_set_is_refused() -> None:
    with pytest.raises(UsageError, match="a relation where a set is needed"):
        parse_set("{[i] -> [j]}")


def test_noun_refuses_names_without_meaning() -> None:
    conj = parse_set("{[x] : x = N}").conjs
    with pytest.raises(UsageError, match="'x' is a variable of no tuple"):
        Relation(("y",), (), conj)
    with pytest.raises(UsageError, match="'N' has two meanings"):
        Relation(("x", "N"), (), conj)
    with pytest.raises(UsageError, match="'x' stands twice"):
        Relation(("x",), ("x",), conj)


def test_deep_nesting_is_refused() -> None:
    assert parse_linear("-" * 3001 + "x") == parse_linear("-x")
    assert parse_linear("(" * 100 + "x" + ")" * 100) == parse_linear("x")
    with pytest.raises(UsageError) as caught:
        parse_linear("(" * 400 + "x" + ")" * 400)
    shown = "(" * 400 + "x" + ")" * 400
    assert str(caught.value) == (
        "more than 100 brackets stand around each other\n"
        f"    {shown}\n    {' ' * 100}^\nnote: found '('"
    )


@pytest.mark.parametrize(
    ("condition", "first"),
    [("i" + " != 1" * 9, "i"), (" and ".join(["(i = 1 or i = 2)"] * 9), "(")],
)
def test_conditions_of_many_pieces_are_refused(condition: str, first: str) -> None:
    """Their number doubles with every part."""
    with pytest.raises(UsageError) as caught:
        parse_set(f"{{[i] : {condition}}}")
    assert str(caught.value) == (
        f"a condition of more than 256 pieces\n    {{[i] : {condition}}}\n           ^\n"
        f"note: found '{first}'\n"
        "try: every != is two pieces, and conditions joined by `and` multiply theirs"
    )
    assert len(parse_set("{[i] : i" + " != 1" * 8 + "}").conjs) <= 256


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


def test_projection_under_a_function_is_refused_with_the_place() -> None:
    with pytest.raises(UsageError) as error:
        project_out(parse_set("{[d,j] : off(d) = j && 0 <= d < ND}"), "d")
    assert error.value.message == "the variable 'd' cannot be projected out exactly"
    assert error.value.found.startswith("it stands inside off(d) in exists d: (")
    with pytest.raises(UsageError, match="'q' is no variable"):
        project_out(parse_set("{[d]}"), "q")


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
