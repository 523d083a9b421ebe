"""Steps are legal or refused with the dependence that forbids them; none changes a result."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir import expr as ir
from loopwright.ir.dtypes import INT32, INT64
from loopwright.ir.program import Role
from loopwright.sparse.spf.array_dependences import dependences
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt
from loopwright.sparse.spf.rescheduling import (
    distribute,
    fuse,
    interchange,
    parallelise,
    reschedule,
    shift,
    tile,
)
from loopwright.sparse.spf.term_exprs import element
from loopwright.sparse.uf import Facts, FunctionFacts, Monotone, parse_linear, parse_set
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

ILLEGAL: tuple[tuple[Step, str], ...] = (
    (
        lambda: fuse(assembly(), "zero", "histogram", 1),
        "flow dependence of histogram on zero through count",
    ),
    (
        lambda: reschedule(assembly(), {"prefix": (3, "-i", 0)}),
        "flow dependence of prefix on prefix through start",
    ),
    (
        lambda: reschedule(assembly(), {"copy": (2, "i", 0, "k", 0)}),
        "flow dependence of copy on first through start",
    ),
    (
        lambda: shift(fuse(assembly(), "prefix", "copy", 1), "copy", 1, -1),
        "flow dependence of copy on prefix through start",
    ),
    (
        lambda: interchange(computation(WAVE), "wave", 1, 2),
        "flow dependence of wave on wave through A",
    ),
    (
        lambda: tile(computation(WAVE), ["wave"], {1: 2, 2: 2}),
        "flow dependence of wave on wave through A",
    ),
    (
        lambda: interchange(computation(SUM), "sum_all", 1, 2),
        "flow dependence of sum_all on sum_all through total",
    ),
    (
        lambda: distribute(computation(BACK, FORTH), "back", 1),
        "flow dependence of back on forth through b",
    ),
    (
        lambda: parallelise(assembly(), "histogram"),
        "flow dependence of histogram on histogram through count",
    ),
    (
        lambda: parallelise(computation(PUT, facts=Facts((KEYS, ROWS))), "put"),
        "output dependence of put on put through out",
    ),
    (
        lambda: parallelise(computation(FILL, facts=Facts()), "fill"),
        "output dependence of fill on fill through out",
    ),
)


def fuse_later(made: Computation) -> Computation:
    """`ahead` in the loop of `clear`, two iterations late."""
    return reschedule(made, {"ahead": (0, "i+2", 1)})


@pytest.mark.parametrize(("step", "told"), ILLEGAL)
def test_refused(step: Step, told: str) -> None:
    with pytest.raises(IllegalStep, match=rf"\): the {told} (would be reversed|joins two it)"):
        step()


def test_whole_message() -> None:
    with pytest.raises(IllegalStep) as error:
        reschedule(assembly(), {"prefix": (3, "-i", 0)})
    assert str(error.value).splitlines()[0] == (
        "reschedule(prefix): the flow dependence of prefix on prefix through start "
        "would be reversed (prefix[0] -> prefix[1])"
    )
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


OWN_SPACES = (
    DataSpace.of("f", INT64, ["N"], Role.IN),
    DataSpace.of("p", INT64, ["N"], Role.IN),
    DataSpace.of("ptr", INT64, ["N+1"], Role.IN),
    DataSpace.of("a", INT64, ["2*N"], Role.INOUT),
    DataSpace.of("b", INT64, ["2*N"], Role.INOUT),
)
BY_NAME = {space.name: space for space in OWN_SPACES}
BELOW = parse_set("{[x] : 0 <= x < N}")
FACTS = Facts(
    (
        FunctionFacts("f", domain=BELOW, range=BELOW),
        FunctionFacts("p", domain=BELOW, range=BELOW, is_injective=True),
        FunctionFacts(
            "ptr",
            domain=parse_set("{[x] : 0 <= x <= N}"),
            range=parse_set("{[x] : 0 <= x <= N}"),
            monotone=(Monotone(),),
        ),
    )
)
LOOP = "{[i] : 0 <= i < N}"
SEGMENTS = "{[i,k] : 0 <= i < N && ptr(i) <= k < ptr(i+1)}"
PLACES = {LOOP: ("i", "f(i)", "p(i)", "N-1-i", "i+1", "0"), SEGMENTS: ("i", "k", "N+i", "f(i)")}
TIMES = {
    LOOP: ("i", "-i", "i+1", "i+2", "floor(i/2)", "N-i"),
    SEGMENTS: ("i", "-i", "i+1", "floor(i/2)"),
}


@st.composite
def statements(draw: st.DrawFn, number: int) -> Stmt:
    domain = draw(st.sampled_from((LOOP, LOOP, SEGMENTS)))
    names = parse_set(domain).variables

    def place() -> str:
        return draw(st.sampled_from(PLACES[domain]))

    def load(space: str, at: str) -> ir.Expr:
        return element(space, [parse_linear(at, names)], BY_NAME)

    target, at = draw(st.sampled_from(("a", "b"))), place()
    value = load(draw(st.sampled_from(("a", "b"))), place()) * 3 + (number + 1) + ir.Var("i")
    if draw(st.booleans()):
        value = ir.Binary("add", load(target, at), value)
    start = draw(st.sampled_from((0, 0, number)))
    return Stmt.of(f"S{number}", domain, times(start, "i", number, names), f"{target}({at})", value)


def times(start: int, outer: str, number: int, names: tuple[str, ...]) -> tuple[int | str, ...]:
    """A total order: `start`, an outer time, the variables."""
    return (start, outer, number, *(entry for name in names for entry in (name, 0)))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Computation, dict[str, tuple[int | str, ...]]]:
    count = draw(st.integers(1, 3))
    made = tuple(draw(statements(n)) for n in range(count))
    schedules = {}
    for place, stmt in enumerate(made):
        if draw(st.booleans()):
            text = LOOP if len(stmt.variables) == 1 else SEGMENTS
            outer = draw(st.sampled_from(TIMES[text]))
            start = draw(st.integers(0, 2))
            schedules[stmt.name] = times(start, outer, 2 - place, stmt.variables)
    return Computation("random", OWN_SPACES, made, ("N",), FACTS), schedules


def random_data(size: int, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    inner = np.sort(random.integers(0, size + 1, max(size - 1, 0)))
    return {
        "f": random.integers(0, size, size) if size else np.zeros(0, np.int64),
        "p": random.permutation(size),
        "ptr": np.concatenate([[0], inner, [size]])[: size + 1].astype(np.int64),
        "a": random.integers(0, 50, 2 * size),
        "b": random.integers(0, 50, 2 * size),
    }


def assert_equal(before: Computation, after: Computation, size: int, seed: int) -> None:
    arrays = random_data(size, seed)
    expected = run(before, arrays, {"N": size}, range(-1, 8))
    found = interpreted(after, arrays, {"N": size}, seed=seed)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@settings(max_examples=some(40), deadline=None)
@given(cases(), st.integers(2, 4), st.integers(0, 1000))
def test_accepted_schedules_compute_the_same(
    case: tuple[Computation, dict[str, tuple[int | str, ...]]], size: int, seed: int
) -> None:
    made, schedules = case
    try:
        after = reschedule(made, schedules)
    except IllegalStep:
        after = made
    assert_equal(made, after, size, seed)


@settings(max_examples=some(25), deadline=None)
@given(cases(), st.integers(2, 4), st.integers(0, 1000))
def test_accepted_parallel_loops_have_no_races(
    case: tuple[Computation, dict[str, tuple[int | str, ...]]], size: int, seed: int
) -> None:
    made, _ = case
    after = made
    for stmt in made.statements:
        try:
            after = parallelise(after, stmt.name)
        except IllegalStep:
            continue
    assert_equal(made, after, size, seed)
