"""Random computations under random steps: what is not refused computes the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.diagnostics import IllegalStep, UsageError
from loopwright.ir import expr as ir
from loopwright.ir.dtypes import INT64
from loopwright.ir.program import Role
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt
from loopwright.sparse.spf.rescheduling import parallelise, reschedule
from loopwright.sparse.spf.term_exprs import element
from loopwright.sparse.uf import Facts, FunctionFacts, Monotone, parse_linear, parse_set
from spf_instances import interpreted, run

SPACES = (
    DataSpace.of("f", INT64, ["N"], Role.IN),
    DataSpace.of("p", INT64, ["N"], Role.IN),
    DataSpace.of("ptr", INT64, ["N+1"], Role.IN),
    DataSpace.of("a", INT64, ["2*N"], Role.INOUT),
    DataSpace.of("b", INT64, ["2*N"], Role.INOUT),
)
BY_NAME = {space.name: space for space in SPACES}
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
ROWS = "{[i,k] : 0 <= i < N && ptr(i) <= k < ptr(i+1)}"
PLACES = {LOOP: ("i", "f(i)", "p(i)", "N-1-i", "i+1", "0"), ROWS: ("i", "k", "N+i", "f(i)")}
TIMES = {
    LOOP: ("i", "-i", "i+1", "i+2", "floor(i/2)", "N-i"),
    ROWS: ("i", "-i", "i+1", "floor(i/2)"),
}


@st.composite
def statements(draw: st.DrawFn, number: int) -> Stmt:
    domain = draw(st.sampled_from((LOOP, LOOP, ROWS)))
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
    made = tuple(draw(statements(number)) for number in range(count))
    schedules = {}
    for number, stmt in enumerate(made):
        if draw(st.booleans()):
            text = LOOP if len(stmt.variables) == 1 else ROWS
            outer = draw(st.sampled_from(TIMES[text]))
            start = draw(st.integers(0, 2))
            schedules[stmt.name] = times(start, outer, 2 - number, stmt.variables)
    return Computation("random", SPACES, made, ("N",), FACTS), schedules


def data(size: int, seed: int) -> dict[str, np.ndarray]:
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
    arrays = data(size, seed)
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


def test_parallel_marks_are_refused_for_unknown_loops() -> None:
    made = Computation(
        "one",
        SPACES,
        (Stmt.of("S", LOOP, (0, "i"), "a(i)", ir.Const(1)),),
        ("N",),
        FACTS,
    )
    with pytest.raises(UsageError, match="statement 'S' has no loop 2"):
        parallelise(made, "S", 2)
