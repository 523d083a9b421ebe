"""Statements dropped, temporaries made scalars, computations inlined: the meaning stays."""

import itertools

import numpy as np
import pytest

from drawn import combined
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir import expr as ir
from loopwright.ir.dtypes import FLOAT64
from loopwright.ir.program import Role
from loopwright.sparse import computations as spf
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt
from loopwright.sparse.spf.eliminate import as_scalar, drop_dead, drop_redundant
from loopwright.sparse.spf.inline_computation import inline
from loopwright.sparse.spf.rescheduling import fuse
from loopwright.sparse.uf import parse_linear
from spf_assembly import (
    CLEAR,
    COPY,
    FIRST,
    HISTOGRAM,
    PREFIX,
    ROW_SUM,
    ZERO,
    assembly,
    computation,
    load,
    real,
)
from spf_instances import interpreted, run

# t[i] = 2*b[i]; y[i] = t[i] + t[i]
DOUBLE = Stmt.of(
    "double",
    "{[i] : 0 <= i < N}",
    (0, "i", 0),
    "t(i)",
    ir.Binary("mul", load("b", "i", of="i"), real(2.0)),
)
ADD = Stmt.of(
    "add",
    "{[i] : 0 <= i < N}",
    (0, "i", 1),
    "y(i)",
    ir.Binary("add", load("t", "i", of="i"), load("t", "i", of="i")),
)
NEXT = Stmt.of("next", "{[i] : 0 <= i < N-1}", (1, "i", 0), "y(i)", load("t", "i+1", of="i"))
LATE = Stmt.of("late", "{[i] : 0 <= i < N}", (1, "i", 0), "y(i)", load("t", "i", of="i"))


def named(stmt: Stmt, name: str, *schedule: int | str) -> Stmt:
    times = tuple(
        parse_linear(entry if isinstance(entry, str) else str(entry), stmt.variables)
        for entry in schedule
    )
    return Stmt(name, stmt.domain, times, stmt.target, stmt.index, stmt.value)


def assert_same(before: Computation, after: Computation) -> None:
    symbols = {"N": 3, "M": 4, "K": 6}
    arrays = {
        "row": np.array([2, 0, 0, 2, 1, 2], np.int32),
        "ptr": np.array([0, 2, 2, 6], np.int32),
        "val": np.arange(1.0, 7.0),
        "start": np.zeros(4, np.int32),
        "out": np.zeros(6),
        "y": np.full(3, 9.0),
        "A": np.arange(12.0).reshape(3, 4),
        "b": np.array([4.0, 5.0, 7.0]),
        "total": np.array(0.0),
    }
    given = {s.name: arrays[s.name] for s in before.spaces if s.role is not Role.LOCAL}
    expected = run(before, given, symbols, range(-1, 8))
    found = interpreted(after, given, symbols)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def names(made: Computation) -> list[str]:
    return [stmt.name for stmt in made.statements]


def test_what_a_domain_reads_is_alive() -> None:
    made = assembly()
    assert names(drop_dead(made, {"out"})) == names(made)
    assert names(drop_dead(made, {"start"})) == ["zero", "histogram", "first", "prefix"]
    assert names(drop_dead(made, set())) == []


@pytest.mark.parametrize(
    "made",
    [
        computation(CLEAR, ROW_SUM, named(CLEAR, "again", 2, "i", 0)),
        computation(ROW_SUM, named(ROW_SUM, "again", 2, "i", 0, "k", 0)),
        computation(ZERO, HISTOGRAM, named(ZERO, "again", 2, "i", 0), FIRST, PREFIX, COPY),
    ],
    ids=["read between", "update", "written between"],
)
def test_what_is_needed_stays(made: Computation) -> None:
    assert drop_redundant(made) == made


SCHEDULES = ("i, j", "-i, j", "i, -j", "j, i", "-j, i", "i+j, i", "j, -i", "0, 0")
PLACES = ("i", "i+j", "0", "3*i+j", "col(i)")


@pytest.mark.drawn(8)
@pytest.mark.parametrize(("place", "value"), combined(PLACES, ["x(i)", "x(i+j)", "4"], one_in=2))
def test_a_repeated_store_goes_only_where_results_stay(place: str, value: str) -> None:
    """Against the interpreter, for every pair of orders of the two statements."""
    given = {"col": np.array([1, 0, 1]), "x": np.arange(2.0, 14.0), "y": np.zeros(12)}
    dropped = 0
    for one, other in itertools.product(SCHEDULES, repeat=2):
        made = spf.computation(
            "pair",
            "in x[12]: float64, in col[N]: int64, out y[12]: float64",
            f"""
            a: {{[i,j] : 0<=i<N && 0<=j<N}} at (0, {one}): y({place}) = {value}
            b: {{[i,j] : 0<=i<N && 0<=j<N}} at (1, {other}): y({place}) = {value}
            """,
        )
        after = drop_redundant(made)
        if after == made:
            continue
        dropped += 1
        if "0, 0" not in (one, other):  # the order of what runs at one time is nobody's
            before = run(made, given, {"N": 3}, range(-1, 6))
            np.testing.assert_array_equal(interpreted(after, given, {"N": 3})["y"], before["y"])
    least = {"4": len(SCHEDULES) ** 2}.get(value, 7)
    assert dropped >= least, (place, value)


def test_temporary_within_an_iteration_becomes_a_scalar() -> None:
    made = computation(DOUBLE, ADD)
    after = as_scalar(made, "t")
    assert after.space("t").shape == ()
    assert_same(made, after)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (computation(DOUBLE, LATE), "late does not share the loops of double"),
        (
            fuse(computation(DOUBLE, LATE), "double", "late", 1).with_statements(
                [DOUBLE, named(NEXT, "next", 0, "i", 1)]
            ),
            "next may read what double has not written in the same iteration",
        ),
        (computation(named(DOUBLE, "double", 0, "i", 2), ADD), "add does not stand behind double"),
        (
            computation(DOUBLE, named(DOUBLE, "again", 0, "i", 1), ADD),
            "one statement must write it, not double, again",
        ),
        (computation(CLEAR, ROW_SUM), "'t' is no temporary"),
    ],
    ids=["loops", "iteration", "order", "writers", "no temporary"],
)
def test_scalars_refused(made: Computation, told: str) -> None:
    with pytest.raises(IllegalStep, match=told):
        as_scalar(made, "t")


# -- inlining ----------------------------------------------------------------------------------

SCALE = Computation(
    "scale",
    (
        DataSpace.of("x", FLOAT64, ["L"], Role.IN),
        DataSpace.of("z", FLOAT64, ["L"], Role.OUT),
        DataSpace.of("t", FLOAT64, ["L"], Role.LOCAL),
    ),
    (
        Stmt.of(
            "twice",
            "{[i] : 0 <= i < L}",
            (0, "i"),
            "t(i)",
            ir.Binary("mul", ir.Load("x", (ir.Var("i"),), FLOAT64), real(2.0)),
        ),
        Stmt.of(
            "store", "{[i] : 0 <= i < L}", (1, "i"), "z(i)", ir.Load("t", (ir.Var("i"),), FLOAT64)
        ),
    ),
    ("L",),
)


def test_inlined_for_every_row() -> None:
    rows = computation(
        Stmt.of("one", "{[i,j] : i = 0 && j = 0}", (9, "i", "j"), "A(i,j)", real(1.0))
    )
    after = inline(
        rows, SCALE, (0, "i"), {"x": "A(i)", "z": "A(i+1)"}, {"L": "M"}, "{[i] : 0 <= i < N-1}"
    )
    given = {"A": np.array([[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]])}
    found = interpreted(after, given, {"N": 3, "M": 2, "K": 0})
    assert found["A"].tolist() == [[1.0, 2.0], [2.0, 4.0], [4.0, 8.0]]


@pytest.mark.parametrize(
    ("arguments", "symbols", "told"),
    [
        ({"x": "b"}, {"L": "N"}, "needs a space for its argument 'z'"),
        ({"x": "b", "z": "A"}, {"L": "N"}, "'A' cannot stand for the argument"),
        ({"x": "b", "z": "y"}, {"L": "i"}, "has another size at every point"),
    ],
)
def test_inlining_refused(arguments: dict[str, str], symbols: dict[str, str], told: str) -> None:
    made = computation(
        CLEAR,
        DOUBLE,
        ADD,
        Stmt.of("one", "{[i,j] : i = 0 && j = 0}", (9, "i", "j"), "A(i,j)", real(1.0)),
    )
    with pytest.raises(UsageError, match=told):
        inline(made, SCALE, (5, "i"), arguments, symbols, "{[i] : 0 <= i < N}")
