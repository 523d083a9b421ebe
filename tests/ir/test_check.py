"""Every invariant of programs and nests, each broken once."""

from dataclasses import replace

import pytest

from ir.examples import (
    ONE,
    access,
    gemm,
    isl_set,
    isl_tree,
    load,
    loop,
    nest_of,
    running_sum,
    store,
    vector,
)
from loopwright.diagnostics import InternalError
from loopwright.ir import check
from loopwright.ir.check import SeenLoops, check_nest, check_program
from loopwright.ir.check_expr import Scope
from loopwright.ir.dtypes import BOOL, DTYPES, FLOAT32, FLOAT64, INT64
from loopwright.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from loopwright.ir.loops import (
    Alloc,
    Axis,
    Block,
    Buffer,
    Copy,
    For,
    If,
    Let,
    LoopNest,
    Mark,
    Space,
    Stmt,
)
from loopwright.ir.program import Array, Program, Role

i, n = Var("i"), Var("n")
one, single = Const(1.0, FLOAT64), Const(1.0, FLOAT32)
INT32 = DTYPES["int32"]


def program_fault(program: Program) -> str:
    with pytest.raises(InternalError) as caught:
        check_program(program)
    assert caught.value.dump.startswith("program ")
    return caught.value.message.removeprefix(f"program {program.name} is not valid: ")


def nest_fault(nest: LoopNest) -> str:
    with pytest.raises(InternalError) as caught:
        check_nest(nest)
    assert caught.value.dump.startswith("nest ")
    return caught.value.message.removeprefix(f"nest {nest.name} is not valid: ")


def with_statement(**changes: object) -> Program:
    program = running_sum()
    return replace(program, statements=(replace(program.statements[0], **changes),))  # type: ignore[arg-type]


@pytest.mark.parametrize("program", [gemm(), gemm(INT32), running_sum()], ids=["f", "i", "sum"])
def test_valid_programs(program: Program) -> None:
    check_program(program)


EXPRESSIONS: list[tuple[Expr, str]] = [
    (Binary("add", one, single), "operands are float64 and float32, in 1.0 + 1.0"),
    (Binary("and", one, one), "'and' does not take float64, in 1.0 & 1.0"),
    (Binary("div", ONE, ONE), "'div' does not take int64, in 1 / 1"),
    (Binary("shift", one, one), "'shift' is no operator or function, in shift(1.0, 1.0)"),
    (Unary("not", one), "'not' does not take float64, in ~1.0"),
    (Unary("neg", Const(True, BOOL)), "'neg' does not take bool, in -True"),
    (Select(one, one, one), "condition is float64, not bool, in 1.0 if 1.0 else 1.0"),
    (Select(i < n, one, single), "operands are float64 and float32, in 1.0 if i < n else 1.0"),
    (Call("sqrt", (one, one)), "sqrt takes 1 arguments, not 2, in sqrt(1.0, 1.0)"),
    (Call("sine", (one,)), "'sine' is no operator or function, in sine(1.0)"),
    (Call("sqrt", (ONE,)), "'sqrt' does not take int64, in sqrt(1)"),
    (Call("fma", (one, one, single)), "operands are float64 and float32, in fma(1.0, 1.0, 1.0)"),
    (Const(300, DTYPES["int8"]), "300 is not a value of int8, in 300"),
    (Const(True), "True is not a value of int64, in True"),
    (Const(1, BOOL), "1 is not a value of bool, in 1"),
    (Var("q", FLOAT64), "variable q is not in scope, in q"),
    (Var("n", FLOAT64), "variable n is int64, not float64, in n"),
    (load("q", i), "array q is not declared, in q[i]"),
    (load("x", i, dtype=FLOAT32), "array x is float64, not float32, in x[i]"),
    (load("x", i, i), "2 subscripts for rank 1"),
    (load("x", Cast(i, INT32)), "bounds, sizes and subscripts are int64, not int32, in int32(i)"),
    (load("x", Binary("add", i, single)), "operands are int64 and float32, in i + 1.0"),
]


@pytest.mark.parametrize(("value", "told"), EXPRESSIONS)
def test_expressions_of_statements(value: Expr, told: str) -> None:
    place = "\nat S[i] : 0 < i < n:\n    s[i] = "
    assert program_fault(with_statement(value=value)).startswith(told + place)


def test_complex_number_in_a_real_place() -> None:
    assert program_fault(with_statement(value=Const(1j, FLOAT64))).startswith("1j is not a value")


def test_dot_takes_narrow_factors() -> None:
    narrow = Const(1.0, DTYPES["float16"])
    check_program(with_statement(value=Call("dot", (narrow, narrow, one))))


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (with_statement(value=single), "float64 element gets a float32 value"),
        (with_statement(write=access("x", i)), "array x is read only"),
        (with_statement(write=access("q", i)), "array q is not declared, in q[i]"),
        (with_statement(write=access("s", i, i)), "2 subscripts for rank 1"),
        (with_statement(write=access("s", i * i)), "subscript is not affine: i * i"),
        (with_statement(value=load("x", i * n)), "subscript is not affine: i * n"),
        (with_statement(name="T"), "the domain is that of S[i]"),
        (with_statement(iterators=("j",)), "the domain is that of S[i]"),
        (
            with_statement(domain=isl_set("[n, m] -> { S[i] : m <= i < n }")),
            "the domain uses names that are no parameters",
        ),
        (
            with_statement(domain=isl_set("{ S[n] : 1 <= n < 5 }"), iterators=("n",)),
            "iterator n is declared twice",
        ),
    ],
)
def test_statements(program: Program, told: str) -> None:
    assert program_fault(program).startswith(told + "\nat ")


NAMELESS = """{ domain: "[n] -> { S[i] : 1 <= i < n }",
                child: { schedule: "[n] -> [{ S[i] -> [(i)] }]" } }"""
DOUBLE = """{ domain: "[n] -> { S[i] : 1 <= i < n }",
              child: { schedule: "[n] -> b[{ S[i] -> [(i)] }, { S[i] -> [(0)] }]" } }"""
SHORT = '{ domain: "[n] -> { S[i] : 2 <= i < n }" }'


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"params": ("n", "n")}, "name n is declared twice"),
        ({"params": ("n", "x")}, "name x is declared twice"),
        (
            {"context": isl_set("[m] -> { : m > 0 }")},
            "the context uses names that are no parameters",
        ),
        (
            {"schedule": isl_tree(SHORT)},
            "the schedule does not order exactly the points of the statements",
        ),
        ({"schedule": isl_tree(NAMELESS)}, "band '' has 1 members; each has one, and a name"),
        ({"schedule": isl_tree(DOUBLE)}, "band 'b' has 2 members; each has one, and a name"),
        (
            {"arrays": (Array("x", FLOAT64, (Var("m"),), Role.IN),)},
            "variable m is not in scope, in m\nat array x",
        ),
        (
            {"arrays": (Array("x", FLOAT64, (one,), Role.IN),)},
            "bounds, sizes and subscripts are int64, not float64, in 1.0\nat array x",
        ),
    ],
)
def test_whole_programs(changes: dict[str, object], told: str) -> None:
    assert program_fault(replace(running_sum(), **changes)) == told  # type: ignore[arg-type]


def test_statement_names_are_unique() -> None:
    program = running_sum()
    twice = replace(program, statements=program.statements * 2)
    assert program_fault(twice) == "statement S is declared twice"


FOUR = Const(4)


def alloc(space: Space, body: Stmt, *, shape: Expr = FOUR, name: str = "t") -> Alloc:
    return Alloc(Buffer(name, FLOAT64, (ONE,), space), (shape,), body)


@pytest.mark.parametrize(("value", "told"), EXPRESSIONS)
def test_expressions_of_nests(value: Expr, told: str) -> None:
    body = loop("i", 0, n, Let("v", value, Block(())))
    if value.dtype == FLOAT64 and isinstance(value, Const):
        body = loop("i", 0, n, If(i < n, store("y", i, value)))
    assert nest_fault(nest_of(body)).startswith(told)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (store("y", 0, single), "float64 element gets a float32 value\nat y[0] = 1.0"),
        (store("q", 0, one), "buffer q is not declared\nat q[0] = 1.0"),
        (
            store("y", one, one),
            "bounds, sizes and subscripts are int64, not float64, in 1.0\nat y[1.0] = 1.0",
        ),
        (
            For("i", Const(0), one, Block(()), ONE),
            "bounds, sizes and subscripts are int64, not float64, in 1.0"
            "\nat for i in range(1.0):\n    pass",
        ),
        (
            For("i", Const(0), Const(8), Block(()), Const(1), Mark.UNROLL, copies=2),
            "a unroll loop has copies of its own\nat unroll for i in range(8):\n    pass",
        ),
        (
            For("i", Const(0), Const(8), Block(()), Const(1), in_order=True),
            "iterations of a serial loop are not kept in order\nat for i in range(8):\n    pass",
        ),
        *(
            (
                Alloc(
                    Buffer("z", DTYPES[name], (Const(1),), Space.PRIVATE, planes=count),
                    (Const(8),),
                    Block(()),
                ),
                f"{name} memory has no planes of {count}\nat alloc private z: {name}[8] strides [1]"
                "\npass",
            )
            for name, count in (("float64", 4), ("complex64", 3))
        ),
        (
            For("i", Const(0), n, Block(()), ONE, axis=Axis.X),
            "a serial loop is laid along an axis\nat x for i in range(n):\n    pass",
        ),
    ],
)
def test_nests(body: Stmt, told: str) -> None:
    """What no text of a nest says; `nests/checked.txt` has all other rules."""
    assert nest_fault(nest_of(body)) == told


def copy_between(source: Buffer) -> LoopNest:
    body = Copy("y", (ONE,), source.name, (ONE,) * len(source.strides), (ONE,))
    return LoopNest("f", (source, vector("y", writable=True)), (), body)


def test_copies_need_equal_dtypes_and_no_more_dimensions() -> None:
    narrow = copy_between(vector("x", dtype=FLOAT32))
    assert nest_fault(narrow).startswith("copy of float32 elements to float64\nat copy")
    rows = copy_between(Buffer("x", FLOAT64, (ONE, ONE)))
    check_nest(rows)
    assert isinstance(rows.body, Copy)
    flat = replace(rows, body=replace(rows.body, shape=(ONE, ONE)))
    assert nest_fault(flat).startswith("a copy has more dimensions than a buffer\nat copy")


@pytest.mark.parametrize(
    ("buffers", "scalars", "told"),
    [
        ((vector("x"), vector("x")), (), "name x is bound twice"),
        ((vector("n"),), ("n",), "name n is bound twice"),
        ((), ("n", "n"), "scalar n is declared twice"),
        (
            (Buffer("x", FLOAT64, (n,)),),
            (),
            "variable n is not in scope, in n\nat buffer x",
        ),
        (
            (Buffer("x", FLOAT64, (ONE,), Space.STACK),),
            (),
            "an argument lives in global memory or in the table\nat buffer x",
        ),
        (
            (Buffer("x", FLOAT64, (ONE,), Space.TABLE),),
            (),
            "the table holds int64 and is read only\nat buffer x",
        ),
    ],
)
def test_arguments(buffers: tuple[Buffer, ...], scalars: tuple[str, ...], told: str) -> None:
    assert nest_fault(LoopNest("f", buffers, scalars, Block(()))) == told


def test_table_is_an_argument() -> None:
    table = Buffer("x", INT64, (ONE,), Space.TABLE)
    value = Cast(load("x", n, dtype=INT64), FLOAT64)
    check_nest(LoopNest("f", (table, vector("y", writable=True)), ("n",), store("y", 0, value)))


def test_loads_through_conversions_are_typed() -> None:
    value = Cast(Load("x", (Cast(single, INT64),), FLOAT64), FLOAT64)
    check_nest(nest_of(store("y", 0, value)))


def test_loops_that_were_seen_are_checked_again_where_other_things_stand_around_them() -> None:
    fill = loop("k", 0, 4, store("t", Var("k"), one))
    seen = SeenLoops()
    whole = nest_of(alloc(Space.STACK, fill))
    check_nest(whole, seen)
    check_nest(whole, seen)
    with pytest.raises(InternalError, match="buffer t is not declared"):
        check_nest(nest_of(fill), seen)
    with pytest.raises(InternalError, match="name k is bound twice"):
        check_nest(nest_of(alloc(Space.STACK, Let("k", Const(0), fill))), seen)


def test_loops_that_were_seen_are_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Expr] = []
    ask = check.check_expr

    def noted(expr: Expr, scope: Scope) -> None:
        asked.append(expr)
        ask(expr, scope)

    monkeypatch.setattr(check, "check_expr", noted)
    value = load("x", 0) + one
    fill = loop("k", 0, 4, store("t", Var("k"), value))
    seen = SeenLoops()
    check_nest(nest_of(alloc(Space.STACK, fill)), seen)
    assert value in asked
    asked.clear()
    check_nest(nest_of(alloc(Space.STACK, Block((fill, fill)))), seen)
    assert asked
    assert value not in asked
