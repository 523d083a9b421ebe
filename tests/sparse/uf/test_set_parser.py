"""The syntax: every known descriptor is read, what is read is written again, faults are shown."""

import subprocess
import sys

import pytest
from hypothesis import given, settings

from drawn import some
from loopwright.diagnostics import UsageError
from loopwright.sparse.uf import (
    Relation,
    compose,
    parse_implication,
    parse_linear,
    parse_relation,
    parse_set,
)
from uf_brute import relations
from uf_descriptors import ACCESSES, MAPS


@pytest.mark.parametrize("text", [*MAPS.values(), *ACCESSES.values()])
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


def test_two_variables_of_one_name_that_exist_are_told_apart() -> None:
    both = parse_set("{[x] : (exists e: x = 2*e) && (exists e: x = 3*e)}")
    assert str(both) == "{[x] : exists e,e_1: (2*e = x && 3*e_1 = x)}"


def test_entry_that_is_a_term_is_a_new_variable_equal_to_it() -> None:
    read = parse_relation("{[ii,d] -> [ND*ii + d, ii]}")
    assert read.outputs == ("o0", "ii_1")
    assert str(read) == "{[ii,d] -> [o0,ii_1] : d+ii*ND = o0 && ii = ii_1}"


def test_implication() -> None:
    names, premise, conclusion = parse_implication("forall a,b: a < b => f(a) <= f(b) or a = N")
    assert names == ("a", "b")
    assert [str(c) for c in premise] == ["a < b"]
    assert len(conclusion) == 2
    assert parse_implication("rowptr(0) = 0")[0] == ()


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


def test_second_line_is_shown() -> None:
    with pytest.raises(UsageError) as error:
        parse_set("{[i]\n  : i => 3}")
    assert error.value.message.split("\n")[1:] == ["      : i => 3}", "          ^^"]


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


def test_linear() -> None:
    assert str(parse_linear("2*(i - N) + f(i+1, g(i))", ["i"])) == "2*i+f(i+1,g(i))-2*N"


def test_the_algebra_alone_does_not_load_isl() -> None:
    program = "import sys, loopwright.sparse.uf; sys.exit('islpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


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
