"""The loop scanner: readable nests, the hazards of index arrays as parameters, refusals."""

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from drawn import HUNTS
from loopwright.diagnostics import UsageError
from loopwright.ir import expr as ir
from loopwright.ir.check import check_nest
from loopwright.ir.dtypes import INT32
from loopwright.ir.program import Role
from loopwright.ir.text import nest_text
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt
from loopwright.sparse.spf.scan import scan
from loopwright.sparse.uf import Facts, FunctionFacts, Monotone, parse_set
from loopwright.sparse.uf.axioms import parse_rules
from spf_instances import assert_traces_equal, interpreted, traced

SPACES = (
    DataSpace.of("ptr", INT32, ["N+1"], Role.IN),
    DataSpace.of("col", INT32, ["K"], Role.IN),
    DataSpace.of("f", INT32, ["N"], Role.IN),
)
SYMBOLS = ("N", "M", "K")
FACTS = Facts(
    (
        FunctionFacts(
            "ptr",
            domain=parse_set("{[x] : 0 <= x <= N}"),
            range=parse_set("{[x] : 0 <= x <= K}"),
            monotone=(Monotone(),),
        ),
        FunctionFacts(
            "col", domain=parse_set("{[x] : 0 <= x < K}"), range=parse_set("{[x] : 0 <= x < M}")
        ),
        FunctionFacts(
            "f", domain=parse_set("{[x] : 0 <= x < N}"), range=parse_set("{[x] : 0 <= x < M}")
        ),
    )
)
ROWS = "0 <= i < N && ptr(i) <= k < ptr(i+1)"


def example(lengths: list[int], seed: int = 0) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Index arrays with rows of these lengths."""
    random = np.random.default_rng(seed)
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    count, rows, columns = int(ptr[-1]), len(lengths), 4
    arrays = {
        "ptr": ptr,
        "col": random.integers(0, columns, count).astype(np.int32),
        "f": random.integers(0, columns, rows).astype(np.int32),
    }
    return arrays, {"N": rows, "M": columns, "K": count}


def spelled(domain: str) -> str:
    """The text of a domain, with the rows of ptr written out."""
    return domain.replace("ROWS", ROWS)


def body(nest_lines: str) -> str:
    """The loops of a nest, without its arguments."""
    lines = nest_lines.splitlines()
    start = next(n for n, line in enumerate(lines) if "trace: " in line) + 1
    return "\n".join(line[4:] for line in lines[start:])


def check(
    domains: list[str], schedules: list[tuple[int | str, ...]], *, facts: Facts = FACTS
) -> str:
    """The loops of traced statements, which were run on rows of several lengths."""
    computation = traced([spelled(d) for d in domains], schedules, SPACES, SYMBOLS, facts)
    nest = scan(computation)
    check_nest(nest)
    for lengths in ([2, 0, 1, 3], [0], [], [0, 0, 4], [1, 1]):
        assert_traces_equal(computation, *example(lengths))
    return body(nest_text(nest))


ASCENT = "forall x,k: 0<=x<N && ptr(x)<=k<ptr(x+1)-1 => col(k)<col(k+1)"
UP_TO = "{[i,k] : ROWS && 0 <= k < K && col(k) < i}"


@pytest.mark.parametrize("rule", ["", ASCENT, ASCENT.replace("col(k)<", "col(k)>")])
def test_a_loop_ends_where_no_later_iteration_passes_its_test(rule: str) -> None:
    facts = Facts(FACTS.functions, parse_rules(rule) if rule else ())
    computation = traced([spelled(UP_TO)], [(0, "i", 0, "k", 0)], SPACES, SYMBOLS, facts)
    nest = scan(computation)
    check_nest(nest)
    head = "    for k in range(int64(ptr[i]), int64(ptr[i + 1]))"
    found = body(nest_text(nest))
    if rule == ASCENT:
        assert f"{head} until i <= int64(col[k]):\n        trace[]" in found
    else:
        assert f"{head}:\n        if int64(col[k]) < i:\n" in found
    arrays, symbols = example([2, 0, 1, 3, 4])
    col = arrays["col"]
    for first, end in zip(arrays["ptr"], arrays["ptr"][1:], strict=False):
        col[first:end] = np.arange(end - first)[:: -1 if ">" in rule else 1]
    assert_traces_equal(computation, arrays, symbols)


# -- the four hazards of taking calls for parameters --------------------------------------------


def test_hazard_interchange_reads_no_bound_outside_its_loop() -> None:
    with pytest.raises(UsageError) as error:
        check(["{[i,k] : ROWS}"], [(0, "k", 0, "i", 0)])
    assert str(error.value) == (
        "the loop over 'k' of statement 'S0' has no lower bound by the variables outside of it\n"
        "note: found k < ptr(i+1) && k >= ptr(i)\n"
        "try: bound it in the domain, or schedule it inside the variables that its bounds need"
    )


# -- shapes ---------------------------------------------------------------------------------------


@pytest.mark.drawn(6)
@pytest.mark.parametrize(
    ("domains", "schedules"),
    [
        (["{[i] : 0 <= i < N}", "{[j] : 1 <= j < M}"], [(0, "i", 0), (0, "j", 1)]),
        (["{[i,j] : 0 <= i < N && i <= j < M}"], [(0, "j", 0, "i", 0)]),
        (["{[i] : 0 <= i < M}"], [(0, "floor(i/2)", 0, "-i", 0)]),
        (["{[i,j] : 0 <= i < N && 0 <= j < M}"], [(0, "i+j", 0, "j", 0)]),
        (["{[i,j] : 0 <= i < N && 0 <= j < M}"], [(0, "floor(i/2)", "floor(j/3)", "i", "j")]),
        (["{[i] : 0 <= i < N or 2 <= i < M}"], [(0, "i", 0)]),
        (["{[i,k] : ROWS or 0 <= i < N && k = f(i)}"], [(0, "i", 0, "k")]),
        (["{[i] : exists e: (i = 2*e + 1 && 0 <= i < M)}"], [(0, "i")]),
        (["{[i] : 0 <= i < M && i mod 3 = 1}"], [("i",)]),
        (["{[i,b] : 0 <= i < M && b = floor(i/2)}"], [("b", "i")]),
        (["{[i] : i = 3}", "{[i] : 0 <= i < M}"], [(0, "i"), (0, "i")]),
        (["{[] : N >= 2}", "{[i] : 0 <= i < N}"], [(1,), ("i", 3)]),
        (["{[i,v] : 0 <= i < N && v = f(i)}"] * 2, [(0, "i", 0, "v", 0), (0, "i", 0, "v", 1)]),
        (["{[i,v] : 0 <= i < N && v = f(i)}", "{[i] : 0 <= i < N}"], [("i", "v"), ("i", 1)]),
        (["{[i] : 0 <= 2*i < N}", "{[i] : 0 <= i < N}"], [("2*i",), ("i",)]),
        (["{[i] : 0 <= i < N && 1 <= f(i)}", "{[i,k] : ROWS}"], [("i", 0), ("i", 0, "k")]),
        (["{[i,k] : ROWS && f(i) = 1}", "{[i,k] : ROWS}"], [("i", "k")] * 2),
        (["{[i,k] : 0 <= i < 6 && i < N && ptr(i) <= k < ptr(i+1)}"], [("i", "k")]),
        (["{[i] : 0 <= i < 0}", "{[i] : 5 <= i < 5}"], [("i",), ("i",)]),
        (["{[i,k] : 0 <= i < 6 && 0 <= k < 2}", "{[i,k] : ROWS}"], [("i", "k")] * 2),
    ],
)
def test_every_instance_once_and_in_order(
    domains: list[str], schedules: list[tuple[int | str, ...]]
) -> None:
    check(domains, schedules)
    check(domains, schedules, facts=Facts())


@pytest.mark.parametrize(
    ("domain", "schedule", "told"),
    [
        ("{[i] : 0 <= i}", ("i",), "the loop over 'i' of statement 'S0' has no upper bound"),
        (
            "{[i,j] : 0 <= i < N && 0 <= j < M}",
            ("i",),
            "the schedule of statement 'S0' leaves the order of j open",
        ),
        (
            "{[i,k] : 0 <= i < N && f(k) = i}",
            ("i", "k"),
            "the loop over 'k' of statement 'S0' has no lower bound",
        ),
    ],
)
def test_refusals(domain: str, schedule: tuple[int | str, ...], told: str) -> None:
    computation = traced([domain], [schedule], SPACES, SYMBOLS, FACTS)
    with pytest.raises(UsageError, match=told):
        scan(computation)


def test_a_domain_that_changes_is_refused() -> None:
    spaces = (DataSpace.of("ptr", INT32, ["N"], Role.INOUT), DataSpace.of("x", INT32, [], Role.OUT))
    value = ir.Const(1, INT32)
    rows = "{[i,k] : 0 <= i < N && 0 <= k < ptr(i)}"
    use = Stmt.of("use", rows, (0, "i", 0, "k", 0), "x()", value)
    change = Stmt.of(
        "change", "{[i,k] : 0 <= i < N && 0 <= k < 3}", (0, "i", 0, "k", 1), "ptr(i)", value
    )
    with pytest.raises(UsageError) as error:
        scan(Computation("changing", spaces, (use, change), ("N",)))
    assert str(error.value) == (
        "the domain of statement 'use' reads 'ptr' before 'change' has written it\n"
        "note: found {[i,k] : i < N && i >= 0 && k < ptr(i) && k >= 0}\n"
        "try: schedule 'use' in a later stage, or make it a guard"
    )


def test_a_domain_may_follow_its_writer_row_by_row() -> None:
    """ptr(i+1) = max(ptr(i), ptr(i+1)) as a sweep: each test sees what was written before it."""
    text = "{[i] : 0 <= i < N-1 && ptr(i+1) < ptr(i)}"
    sweep = Stmt.of("sweep", text, (0, "i"), "ptr(i+1)", ir.Load("ptr", (ir.Var("i"),), INT32))
    spaces = (DataSpace.of("ptr", INT32, ["N"], Role.INOUT),)
    computation = Computation("sweeps", spaces, (sweep,), ("N",))
    found = interpreted(computation, {"ptr": np.array([0, 3, 1, 2, 5], np.int32)}, {"N": 5})
    assert found["ptr"].tolist() == [0, 3, 3, 3, 5]


# -- random computations ---------------------------------------------------------------------------

GUARDS = ("1 <= i", "f(i) <= 2", "i mod 2 = 0", "ptr(i) < ptr(i+1)", "f(i) != 1", "i < 3")
DOMAINS = (
    (("i",), "0 <= i < N"),
    (("i", "k"), ROWS),
    (("i", "k", "j"), ROWS + " && 0 <= k < K && j = col(k)"),
    (("i", "j"), "0 <= i < N && 0 <= j < M"),
    (("i", "j"), "0 <= i < N && i <= j < M"),
    (("i", "j"), "0 <= i < N && 0 <= j <= f(i)"),
    (("i", "v"), "0 <= i < N && v = f(i)"),
)


@st.composite
def statements(draw: st.DrawFn) -> tuple[str, tuple[int | str, ...]]:
    names, formula = draw(st.sampled_from(DOMAINS))
    guards = draw(st.lists(st.sampled_from(GUARDS), max_size=2))
    schedule: list[int | str] = []
    for name in names:
        schedule.append(draw(st.integers(0, 1)))
        schedule.append(draw(st.sampled_from((name, name, name, f"{name}+1", f"floor({name}/2)"))))
    schedule += [draw(st.integers(0, 2)), *names]
    text = " && ".join([formula, *(f"({guard})" for guard in guards)])
    return f"{{[{','.join(names)}] : {text}}}", tuple(schedule)


@settings(max_examples=400 if HUNTS else 15, deadline=None)
@given(
    st.lists(statements(), min_size=1, max_size=3),
    st.lists(st.integers(0, 3), max_size=4),
    st.booleans(),
    st.integers(0, 100),
)
def test_random_computations(
    chosen: list[tuple[str, tuple[int | str, ...]]], lengths: list[int], has_facts: bool, seed: int
) -> None:
    domains, schedules = zip(*chosen, strict=True)
    facts = FACTS if has_facts else Facts()
    computation = traced(domains, schedules, SPACES, SYMBOLS, facts)
    try:
        nest = scan(computation)
    except UsageError:
        reject()
    check_nest(nest)
    assert_traces_equal(computation, *example(lengths, seed))
