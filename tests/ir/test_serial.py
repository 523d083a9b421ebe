"""Expressions, arrays and contractions survive the way to JSON text and back."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.ir.contraction import ACCUMULATOR, Contraction, LoopRange, Operand
from loopwright.ir.dtypes import DTYPES, FLOAT64
from loopwright.ir.expr import (
    BINARY_OPS,
    FUNCTIONS,
    UNARY_OPS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
)
from loopwright.ir.program import Access, Array, Role
from loopwright.ir.serial import Malformed, read_array, read_contraction, read_expr, to_json

NAMES = st.sampled_from(["i", "A", "n_0", "ä"])
DTYPE = st.sampled_from(list(DTYPES.values()))
NUMBERS = st.booleans() | st.integers() | st.floats() | st.complex_numbers()


def compound(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    index = st.lists(inner, max_size=2).map(tuple)
    call = st.sampled_from(sorted(FUNCTIONS)).flatmap(
        lambda name: st.tuples(*[inner] * FUNCTIONS[name]).map(lambda args: Call(name, args))
    )
    return st.one_of(
        st.builds(Load, NAMES, index, DTYPE),
        st.builds(Unary, st.sampled_from(sorted(UNARY_OPS)), inner),
        st.builds(Binary, st.sampled_from(sorted(BINARY_OPS)), inner, inner),
        st.builds(Select, inner, inner, inner),
        st.builds(Cast, inner, DTYPE),
        call,
    )


EXPRESSIONS = st.recursive(
    st.builds(Const, NUMBERS, DTYPE) | st.builds(Var, NAMES, DTYPE), compound, max_leaves=12
)

i, k, n = Var("i"), Var("k"), Var("n")
MATVEC = Contraction(
    statement="S0",
    plus="add",
    times="mul",
    zero=0.0,
    dtype=FLOAT64,
    batch=(),
    i=(LoopRange("i", Const(0), n),),
    j=(),
    p=(LoopRange("k", Const(1), n - 1),),
    out=Access("y", (i,), FLOAT64),
    left=Operand(Access("A", (i, k + 1), FLOAT64), Unary("abs", Load("A", (i, k + 1), FLOAT64))),
    right=Operand(Access("x", (k,), FLOAT64), Load("x", (k,), FLOAT64)),
    initial=Const(-0.0, FLOAT64),
    final=Binary("max", Var(ACCUMULATOR, FLOAT64), Const(0.0, FLOAT64)),
    reassoc=False,
    covers=("S0", "S1"),
)


def through_text(data: object) -> object:
    return json.loads(json.dumps(data))


@given(EXPRESSIONS)
def test_expressions_come_back(expr: Expr) -> None:
    # repr tells signed zeros and the types of numbers apart and nans equal; == does not.
    assert repr(read_expr(through_text(to_json(expr)))) == repr(expr)


@pytest.mark.parametrize("role", Role)
def test_arrays_come_back(role: Role) -> None:
    array = Array("A", FLOAT64, (n, n + 1), role)
    assert read_array(through_text(to_json(array))) == array


@pytest.mark.parametrize(
    "found", [MATVEC, replace(MATVEC, right=None, p=()), replace(MATVEC, batch=MATVEC.p, j=())]
)
def test_contractions_come_back(found: Contraction) -> None:
    back = read_contraction(through_text(to_json(found)))
    assert back == found
    assert repr(back) == repr(found)


def test_the_form_is_plain() -> None:
    assert to_json(Load("A", (i + 1,), FLOAT64)) == [
        "load",
        "A",
        [["binary", "add", ["var", "i", "int64"], ["const", 1, "int64"]]],
        "float64",
    ]
    assert to_json(Const(0.1, FLOAT64)) == ["const", "0x1.999999999999ap-4", "float64"]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (None, "not an expression: None"),
        ([], "not an expression: []"),
        (["var", "i"], "not an expression: ['var', 'i']"),
        (["var", 1, "int64"], "not an expression: ['var', 1, 'int64']"),
        (["var", "i", "int65"], "not a dtype: 'int65'"),
        (["var", "i", ["int64"]], "not a dtype: ['int64']"),
        (["const", "ten", "int64"], "not a number: 'ten'"),
        (["const", "0x1p9999", "float64"], "not a number: '0x1p9999'"),
        (["const", None, "int64"], "not a number: None"),
        (["const", 1.5, "float64"], "not a number: 1.5"),
        (
            ["unary", "system", ["const", 1, "int64"]],
            "not an expression: ['unary', 'system', ['const', 1, 'int64']]",
        ),
        (["call", "fma", []], "not an expression: ['call', 'fma', []]"),
        (["binary", "add", ["const", 1, "int64"], 1], "not an expression: 1"),
    ],
)
def test_anything_else_is_malformed(data: object, told: str) -> None:
    with pytest.raises(Malformed) as refusal:
        read_expr(data)
    assert str(refusal.value) == told


@pytest.mark.parametrize("data", [["array", "A", "float64", [], "inner"], ["array", "A"], {}])
def test_malformed_arrays(data: object) -> None:
    with pytest.raises(Malformed, match="not an array"):
        read_array(data)


@pytest.mark.parametrize(
    "change",
    [
        {"operators": ["add", "system"]},
        {"operators": ["add"]},
        {"bundles": [[], [], []]},
        {"bundles": [[], [], [], [["loop", "k", ["const", 0, "int64"]]]]},
        {"out": ["load", "y", [], "float64"]},
        {"left": None},
        {"left": ["operand", None, None]},
        {"reassoc": 1},
        {"covers": [1]},
    ],
)
def test_malformed_contractions(change: dict[str, object]) -> None:
    with pytest.raises(Malformed):
        read_contraction({**to_json(MATVEC), **change})
