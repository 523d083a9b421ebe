"""Scalar promotion: in straight-line code only, with a binding for every value."""

from __future__ import annotations

from textwrap import dedent

from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import FLOAT64, INT64
from loopwright.ir.expr import Const, Var
from loopwright.ir.loops import Alloc, Block, Buffer, For, LoopNest, Space, Stmt, Store
from loopwright.ir.program import Array, Role
from loopwright.ir.text import stmt_text
from loopwright.lower.values.promote_registers import promote_scalars
from programs import parse

ARRAYS = {
    "a": Array("a", FLOAT64, (Var("n"),), Role.INOUT),
    "t": Array("t", FLOAT64, (), Role.LOCAL),
    "u": Array("u", FLOAT64, (), Role.LOCAL),
}


def store(target: str, value: str) -> Store:
    place = parse(target, ARRAYS, INT64)
    return Store(place.array, place.index, parse(value, ARRAYS, FLOAT64))


def alloc(name: str, *body: Stmt, space: Space = Space.STACK) -> Alloc:
    return Alloc(Buffer(name, FLOAT64, (), space, writable=True), (), Block(body))


def promoted(body: Stmt) -> str:
    buffer = Buffer("a", FLOAT64, (Const(1),), writable=True)
    nest = promote_scalars(LoopNest("f", (buffer,), ("n", "t_2"), body))
    check_nest(nest)
    return stmt_text(nest.body)


def test_golden() -> None:
    row = alloc(
        "t",
        store("t", "a[0] + 1"),
        alloc("u", store("u", "t * 2"), store("a[1]", "u + t"), store("t", "t + u")),
        store("a[2]", "t"),
    )
    # t_2 is an argument of the nest.
    assert (
        promoted(row)
        == dedent("""
        let t: float64 = a[0] + 1.0
        let u: float64 = t * 2.0
        a[1] = u + t
        let t_3: float64 = t + u
        a[2] = t_3
        """).strip()
    )


def test_loads_happen_where_the_scalar_was_stored() -> None:
    row = alloc("t", store("t", "a[0]"), store("a[0]", "5"), store("a[1]", "t"))
    assert promoted(row) == "let t: float64 = a[0]\na[0] = 5.0\na[1] = t"


def test_loops_keep_their_memory() -> None:
    update = store("t", "t + a[0]")
    loop = For("i", Const(0), Var("n"), update, Const(1))
    body = alloc("t", store("t", "0"), loop, store("a[0]", "t"))
    assert promoted(body).startswith("alloc stack t")


def test_unset_scalars_keep_their_memory() -> None:
    assert promoted(alloc("t", store("a[0]", "t"))).startswith("alloc stack t")


def test_shared_scalars_keep_their_memory() -> None:
    body = alloc("t", store("t", "1"), store("a[0]", "t"), space=Space.SCRATCH)
    assert promoted(body).startswith("alloc scratch t")
