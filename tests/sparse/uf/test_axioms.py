"""Facts: declared properties become the rules that they mean, and rules meet the right calls."""

import pickle

import pytest

from loopwright.diagnostics import UsageError
from loopwright.sparse.uf import (
    NO_FACTS,
    Constraint,
    Facts,
    FunctionFacts,
    Monotone,
    Sym,
    UFCall,
    parse_linear,
    parse_rules,
    parse_set,
)
from loopwright.sparse.uf.ackermann import consistency, instances


def rules(**properties: object) -> list[str]:
    domain = parse_set("{[x] : 0 <= x < N}")
    return [str(r) for r in FunctionFacts("f", domain=domain, **properties).rules]  # type: ignore[arg-type]


def present(*texts: str) -> list[UFCall]:
    found = []
    for text in texts:
        atom = parse_linear(text, ["i", "j", "k", "m"]).atom
        assert isinstance(atom, UFCall)
        found.append(atom)
    return found


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


def test_strict_growth_over_gaps_is_by_one_only() -> None:
    domain = parse_set("{[x] : x mod 2 = 0}")
    (rule,) = FunctionFacts("f", domain=domain, monotone=(Monotone(is_strict=True),)).rules
    assert str(rule).endswith("x0 < y0 => f(x0) < f(y0)")


def test_inverse_of_several_results() -> None:
    place = FunctionFacts("P", arity=2, results=1, inverse="Q")
    assert [str(rule) for rule in place.rules][1:] == [
        "forall x0,x1: x0 = Q(P(x0,x1)) && x1 = Q(P(x0,x1))[1]",
        "forall y0: y0 = P(Q(y0),Q(y0)[1])",
    ]
    facts = Facts((place,))
    assert facts.inverse_of("P") == "Q"
    assert facts.inverse_of("Q") == "P"
    assert facts.inverse_of("R") is None


def test_cases_of_a_premise_are_rules_of_their_own() -> None:
    assert [str(r) for r in parse_rules("forall x,y: x != y => f(x) != f(y)")] == [
        "forall x,y: x < y => f(x) < f(y) or f(x) > f(y)",
        "forall x,y: x > y => f(x) < f(y) or f(x) > f(y)",
    ]


def test_rule_meets_calls_with_offsets() -> None:
    facts = Facts(further=parse_rules("forall i: 0 <= i < N => ptr(i) <= ptr(i+1)"))
    # ptr(k+1) is ptr(i) of i = k+1 and ptr(i+1) of i = k; the first needs a call that is not there.
    assert [str(c) for c in instances(facts, present("ptr(k+1)", "ptr(k)"), 0)] == [
        "k < N && k >= 0 => ptr(k) <= ptr(k+1)"
    ]
    assert len(instances(facts, present("ptr(k+1)", "ptr(k)"), 1)) == 3


def test_rule_meets_nested_calls_and_several_arguments() -> None:
    facts = Facts(further=parse_rules("forall a,w: e(a,w) < len(a)"))
    assert [str(c) for c in instances(facts, present("e(i+1,2*j)", "len(i+1)", "len(k)"), 0)] == [
        "e(i+1,2*j) < len(i+1)"
    ]
    nested = Facts(further=parse_rules("forall n: M(row(n)) = n"))
    assert [str(c) for c in instances(nested, present("M(row(3*i))", "row(3*i)"), 0)] == [
        "3*i = M(row(3*i))"
    ]


def test_ground_rules_always_count() -> None:
    facts = Facts(further=parse_rules("ptr(0) = 0"), known=(Constraint.ge(Sym("N")),))
    assert [str(c) for c in instances(facts, (), 0)] == ["N >= 0", "ptr(0) = 0"]


def test_consistency_is_about_calls_of_one_function_and_result() -> None:
    made = [str(c) for c in consistency(present("f(i)", "f(j)", "f(i)[1]", "g(i)", "f(i,j)"))]
    assert made == ["i = j => f(i) = f(j)"]
    assert list(consistency(present("f(1)", "f(2)"))) == []


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
