"""Statements that run where a condition holds in any of the lanes of a vector.

    flag = False
    for v in range(lanes): flag = flag or cond(v)
    if flag: body

Lanes that a vector computes for nothing take no time where the condition rarely holds. The form
has the meaning of its loops; backends know it and ask all lanes at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopwright.ir.dtypes import BOOL
from loopwright.ir.expr import Binary, Const, Expr, Load
from loopwright.ir.loops import Alloc, Block, Buffer, For, If, Let, Mark, Space, Stmt, Store
from loopwright.ir.visit import constant_trips
from loopwright.lazy_dataclass import dataclass

__all__ = ["AnyLane", "LaneTest", "any_lane", "where_any_lane"]

_FALSE = Const(False, BOOL)


@dataclass(frozen=True, slots=True)
class LaneTest:
    """A condition on a lane, and the values it is computed from, in order."""

    values: tuple[Let, ...]  # each with those behind it in its body
    cond: Expr


@dataclass(frozen=True, slots=True)
class AnyLane:
    """`body` where one of the conditions holds in an iteration of `lanes`, a loop without body."""

    flag: str
    lanes: For
    tests: tuple[LaneTest, ...]
    body: Stmt


def where_any_lane(flag: str, lanes: For, tests: Sequence[LaneTest], body: Stmt) -> Stmt:
    """`body` where a test holds in any iteration of a loop."""
    own = Load(flag, (), BOOL)
    found: list[Stmt] = []
    for test in tests:
        stmt: Stmt = Store(flag, (), Binary("or", own, test.cond))
        for value in reversed(test.values):
            stmt = Let(value.name, value.value, stmt)
        found.append(stmt)
    asked = For(lanes.var, lanes.start, lanes.stop, Block(tuple(found)), lanes.step)
    buffer = Buffer(flag, BOOL, (), Space.STACK, writable=True)
    parts = (Store(flag, (), _FALSE), asked, If(own, body))
    return Alloc(buffer, (), Block(parts))


def any_lane(stmt: Stmt) -> AnyLane | None:
    """What `where_any_lane` has made; None where a statement is something else."""
    match stmt:
        case Alloc(
            buffer=Buffer(name=flag, dtype=dtype),
            shape=(),
            body=Block(
                body=(
                    Store(buffer=cleared, value=value),
                    For(mark=Mark.SERIAL, until=None) as loop,
                    If(cond=Load(array=asked, index=()), body=body, orelse=None),
                )
            ),
        ) if dtype == BOOL and value == _FALSE and cleared == asked == flag:
            if constant_trips(loop) is None:
                return None
            tests = tuple(_tests(flag, loop.body))
            return None if None in tests else AnyLane(flag, loop, tests, body)  # type: ignore[arg-type]
    return None


def _tests(flag: str, body: Stmt) -> Iterator[LaneTest | None]:
    """The tests of a loop over lanes, None for anything else in it."""
    for stmt in body.body if isinstance(body, Block) else (body,):
        values: list[Let] = []
        while isinstance(stmt, Let):
            values.append(stmt)
            stmt = stmt.body
        match stmt:
            case Store(buffer=name, index=(), value=Binary(op="or", x=Load(array=own), y=cond)) if (
                name == own == flag
            ):
                yield LaneTest(tuple(values), cond)
            case _:
                yield None
