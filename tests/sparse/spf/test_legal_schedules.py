"""Steps are legal or refused with the dependence that forbids them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir import expr as ir
from loopwright.ir.dtypes import INT32
from loopwright.ir.loops import For, Mark
from loopwright.ir.program import Role
from loopwright.ir.visit import statements
from loopwright.sparse.spf.array_dependences import dependences
from loopwright.sparse.spf.computation import Computation, Stmt
from loopwright.sparse.spf.rescheduling import (
    distribute,
    fuse,
    interchange,
    parallelise,
    reschedule,
    shift,
    tile,
)
from loopwright.sparse.spf.scan import scan
from loopwright.sparse.uf import Facts
from spf_assembly import (
    CLEAR,
    KEYS,
    ROW_SUM,
    ROWS,
    SPACES,
    add,
    assembly,
    computation,
    load,
    number,
    real,
)
from spf_instances import interpreted, run

# A[i,j] = A[i-1,j+1]: the distance (1, -1) forbids j outside and square tiles.
WAVE = Stmt.of(
    "wave",
    "{[i,j] : 1 <= i < N && 0 <= j < M-1}",
    (0, "i", 0, "j", 0),
    "A(i,j)",
    ir.Binary("mul", load("A", "i-1", "j+1", of="i j"), real(0.5)),
)
SUM = Stmt.of(
    "sum_all",
    "{[i,j] : 0 <= i < N && 0 <= j < M}",
    (0, "i", 0, "j", 0),
    "total()",
    add("total", (), load("A", "i", "j", of="i j"), "i j"),
)
COUNT = Stmt.of(
    "count_all",
    "{[i,j] : 0 <= i < N && 0 <= j < M}",
    (0, "i", 0, "j", 0),
    "sum()",
    add("sum", (), number("i*j", "i j"), "i j"),
)
PUT = Stmt.of("put", "{[n] : 0 <= n < K}", (0, "n", 0), "out(perm(n))", load("val", "n", of="n"))
FILL = Stmt.of(
    "fill",
    "{[i,k] : 0 <= i < N && ptr(i) <= k < ptr(i+1)}",
    (0, "i", 0, "k", 0),
    "out(k)",
    load("val", "k", of="i k"),
)
BACK = Stmt.of("back", "{[i] : 1 <= i < N}", (0, "i", 0), "y(i)", load("b", "i-1", of="i"))
FORTH = Stmt.of("forth", "{[i] : 0 <= i < N}", (0, "i", 1), "b(i)", load("y", "i", of="i"))
USE = Stmt.of("use", "{[i] : 0 <= i < N}", (1, "i", 0), "b(i)", load("y", "N-1-i", of="i"))
AHEAD = Stmt.of("ahead", "{[i] : 0 <= i < N-1}", (1, "i", 0), "b(i)", load("y", "i+1", of="i"))

Step = Callable[[], Computation]

ILLEGAL: dict[str, tuple[Step, str]] = {
    "a histogram needs all its zeros": (
        lambda: fuse(assembly(), "zero", "histogram", 1),
        "fuse(zero, histogram, 1): the flow dependence of histogram on zero through count "
        "would be reversed",
    ),
    "sums need the whole histogram": (
        lambda: fuse(assembly(), "histogram", "prefix", 1),
        "fuse(histogram, prefix, 1): the flow dependence of prefix on histogram through count "
        "would be reversed",
    ),
    "sums before the histogram": (
        lambda: reschedule(assembly(), {"prefix": (0, "i", 1)}),
        "reschedule(prefix): the flow dependence of prefix on histogram through count "
        "would be reversed",
    ),
    "a recurrence backwards": (
        lambda: reschedule(assembly(), {"prefix": (3, "-i", 0)}),
        "reschedule(prefix): the flow dependence of prefix on prefix through start "
        "would be reversed",
    ),
    "a domain before the array it reads": (
        lambda: reschedule(assembly(), {"copy": (2, "i", 0, "k", 0)}),
        "reschedule(copy): the flow dependence of copy on first through start would be reversed",
    ),
    "a domain in the loop that writes it": (
        lambda: shift(fuse(assembly(), "prefix", "copy", 1), "copy", 1, -1),
        "shift(copy, 1, -1): the flow dependence of copy on prefix through start would be reversed",
    ),
    "interchange against the distance": (
        lambda: interchange(computation(WAVE), "wave", 1, 2),
        "interchange(wave, 1, 2): the flow dependence of wave on wave through A would be reversed",
    ),
    "square tiles of a wave": (
        lambda: tile(computation(WAVE), ["wave"], {1: 2, 2: 2}),
        "the flow dependence of wave on wave through A would be reversed",
    ),
    "another order of a floating sum": (
        lambda: interchange(computation(SUM), "sum_all", 1, 2),
        "interchange(sum_all, 1, 2): the flow dependence of sum_all on sum_all through total "
        "would be reversed",
    ),
    "two loops that feed each other": (
        lambda: distribute(computation(BACK, FORTH), "back", 1),
        "distribute(back, 1): the flow dependence of back on forth through b would be reversed",
    ),
    "a consumer from the other end": (
        lambda: fuse(computation(CLEAR, USE), "clear", "use", 1),
        "fuse(clear, use, 1): the flow dependence of use on clear through y would be reversed",
    ),
    "a consumer of the next element": (
        lambda: fuse(computation(CLEAR, AHEAD), "clear", "ahead", 1),
        "fuse(clear, ahead, 1): the flow dependence of ahead on clear through y would be reversed",
    ),
    "a shift that is one short": (
        lambda: shift(shift(fuse_later(computation(CLEAR, AHEAD)), "ahead", 1, -1), "ahead", 1, -1),
        "the flow dependence of ahead on clear through y would be reversed",
    ),
    "a histogram by threads": (
        lambda: parallelise(assembly(), "histogram"),
        "parallelise(histogram, 1): the flow dependence of histogram on histogram through count "
        "joins two iterations",
    ),
    "a recurrence by threads": (
        lambda: parallelise(assembly(), "prefix"),
        "parallelise(prefix, 1): the flow dependence of prefix on prefix through start "
        "joins two iterations",
    ),
    "a scatter that may meet itself": (
        lambda: parallelise(computation(PUT, facts=Facts((KEYS, ROWS))), "put"),
        "parallelise(put, 1): the output dependence of put on put through out joins two iterations",
    ),
    "rows that may overlap": (
        lambda: parallelise(computation(FILL, facts=Facts()), "fill"),
        "parallelise(fill, 1): the output dependence of fill on fill through out "
        "joins two iterations",
    ),
}


def fuse_later(made: Computation) -> Computation:
    """`ahead` in the loop of `clear`, two iterations late."""
    return reschedule(made, {"ahead": (0, "i+2", 1)})


@pytest.mark.parametrize("case", ILLEGAL)
def test_refused(case: str) -> None:
    step, told = ILLEGAL[case]
    with pytest.raises(IllegalStep) as error:
        step()
    assert told in str(error.value)


def test_witness() -> None:
    with pytest.raises(IllegalStep) as error:
        reschedule(assembly(), {"prefix": (3, "-i", 0)})
    assert error.value.witness.startswith("(prefix[")


LEGAL: dict[str, tuple[Computation, Callable[[Computation], Computation]]] = {
    "clear and sum in one loop": (
        computation(CLEAR, ROW_SUM),
        lambda made: fuse(made, "clear", "row_sum", 1),
    ),
    "a domain right behind its writer": (
        assembly(),
        lambda made: fuse(made, "prefix", "copy", 1),
    ),
    "another order of an exact sum": (
        computation(COUNT),
        lambda made: interchange(made, "count_all", 1, 2),
    ),
    "tiles of an exact sum": (
        computation(COUNT),
        lambda made: tile(made, ["count_all"], {1: 2, 2: 3}),
    ),
    "a wave by rows": (computation(WAVE), lambda made: tile(made, ["wave"], {1: 2})),
    "a histogram backwards": (
        assembly(),
        lambda made: reschedule(made, {"histogram": (1, "-n", 0)}),
    ),
    "a consumer one iteration late": (
        computation(CLEAR, AHEAD),
        lambda made: reschedule(made, {"ahead": (0, "i+1", 1)}),
    ),
    "distribution": (
        computation(CLEAR, ROW_SUM),
        lambda made: distribute(fuse(made, "clear", "row_sum", 1), "clear", 1),
    ),
    "a scatter by a permutation": (computation(PUT), lambda made: parallelise(made, "put")),
    "rows by threads": (computation(FILL), lambda made: parallelise(made, "fill")),
    "rows and sums by threads": (
        computation(CLEAR, ROW_SUM),
        lambda made: parallelise(fuse(made, "clear", "row_sum", 1), "clear"),
    ),
}


@pytest.mark.parametrize("case", LEGAL)
def test_legal_steps_keep_the_meaning(case: str) -> None:
    made, step = LEGAL[case]
    after = step(made)
    assert after != made
    arrays, symbols = data(made)
    expected = run(made, arrays, symbols, range(-1, 9))
    found = interpreted(after, arrays, symbols, seed=1)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_parallel_loop_is_marked() -> None:
    nest = scan(parallelise(computation(FILL), "fill"))
    marks = [s.mark for s in statements(nest.body) if isinstance(s, For)]
    assert marks == [Mark.PARALLEL, Mark.SERIAL]


def test_one_parallel_loop_for_each_statement() -> None:
    made = computation(
        Stmt.of("set", "{[i,j] : 0 <= i < N && 0 <= j < M}", ("i", "j"), "A(i,j)", real(1.0))
    )
    with pytest.raises(UsageError, match="a loop around or inside is parallel already"):
        parallelise(parallelise(made, "set", 1), "set", 2)


def test_a_function_that_changes_is_no_function() -> None:
    """perm is injective as it was given; while it is written, two calls may give one place."""
    spaces = tuple(
        replace(space, role=Role.INOUT) if space.name == "perm" else space for space in SPACES
    )
    ones = Stmt.of("ones", "{[n] : 1 <= n < K}", (0, "n", 1), "perm(n-1)", ir.Const(1, INT32))
    made = replace(computation(PUT), spaces=spaces, statements=(PUT, ones))
    with pytest.raises(IllegalStep, match="output dependence of put on put through out"):
        parallelise(made, "put")


def test_a_moved_statement_is_serial_again() -> None:
    made = parallelise(computation(FILL), "fill")
    assert reschedule(made, {"fill": (1, "i", 0, "k", 0)}).marks == ()


def data(made: Computation) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Small arrays for the spaces of a computation."""
    symbols = {"N": 3, "M": 4, "K": 6}
    arrays = {
        "row": np.array([2, 0, 0, 2, 1, 2], np.int32),
        "ptr": np.array([0, 2, 2, 6], np.int32),
        "perm": np.array([3, 1, 0, 5, 4, 2], np.int32),
        "val": np.arange(1.0, 7.0),
        "start": np.zeros(4, np.int32),
        "out": np.zeros(6),
        "y": np.full(3, 9.0),
        "total": np.array(0.5),
        "sum": np.array(3),
        "A": np.arange(12.0).reshape(3, 4) ** 2,
        "b": np.array([4.0, 5.0, 7.0]),
    }
    names = {space.name for space in made.spaces}
    return {name: array for name, array in arrays.items() if name in names}, symbols


def test_dependences_of_an_assembly() -> None:
    found = [str(d) for d in dependences(assembly()) if d.kind == "flow"]
    assert found == [
        "flow zero -> histogram through count",
        "flow zero -> prefix through count",
        "flow histogram -> histogram through count, carried by loop 1",
        "flow histogram -> prefix through count",
        "flow first -> prefix through start",
        "flow first -> copy through start",
        "flow prefix -> prefix through start, carried by loop 1",
        "flow prefix -> copy through start",
    ]


def test_wrong_requests_are_told() -> None:
    with pytest.raises(UsageError, match="statement 'zero' has no loop 2"):
        fuse(assembly(), "zero", "histogram", 2)
    with pytest.raises(UsageError, match="has no statement 'none'"):
        interchange(assembly(), "none", 1, 2)
    with pytest.raises(UsageError, match="nothing stands behind it in loop 1"):
        distribute(assembly(), "zero", 1)
    with pytest.raises(UsageError, match="the loops are not consecutive"):
        tile(computation(COUNT), ["count_all"], {})
