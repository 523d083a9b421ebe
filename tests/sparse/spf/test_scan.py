"""The loop scanner: readable nests, the hazards of index arrays as parameters, refusals."""

from dataclasses import replace

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
from loopwright.sparse.spf.computation import Computation, DataSpace, Stmt, computation_text
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


def test_rows() -> None:
    found = check(
        ["{[i,k,j] : ROWS && 0 <= k < K && j = col(k) && 0 <= j < M}"],
        [(0, "i", 0, "k", 0, "j", 0)],
    )
    assert found == (
        "for i in range(N):\n"
        "    for k in range(int64(ptr[i]), int64(ptr[i + 1])):\n"
        "        let j: int64 = int64(col[k])\n"
        "        trace[] = trace[] * 31 + 1000 + i * 11 + k * 24 + j * 37"
    )


def test_lines_ahead_of_stores_are_asked_for() -> None:
    """A hint has no meaning, but code for it is other code."""
    plain = Stmt.of("put", "{[i] : 0 <= i < N}", ("i",), "y(f(i))", ir.Const(1, INT32))
    spaces = (*SPACES, DataSpace.of("y", INT32, ["M"], Role.INOUT))
    hinted, bare = (
        Computation("kernel", spaces, (replace(plain, ahead=n),), SYMBOLS) for n in (16, 0)
    )
    assert "prefetch L1 write y[int64(f[i]) + 16]" in nest_text(scan(hinted))
    assert "prefetch" not in nest_text(scan(bare))
    assert computation_text(hinted) != computation_text(bare)


def test_without_facts_nothing_is_dropped() -> None:
    found = check(
        ["{[i,k,j] : ROWS && 0 <= k < K && j = col(k) && 0 <= j < M}"],
        [(0, "i", 0, "k", 0, "j", 0)],
        facts=Facts(),
    )
    assert "range(max(0, int64(ptr[i])), min(K, int64(ptr[i + 1])))" in found
    assert "if j < M" in found


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


def test_tests_of_some_statements_end_no_loop() -> None:
    facts = Facts(FACTS.functions, parse_rules(ASCENT))
    both = [spelled(UP_TO), spelled("{[i,k] : ROWS && 0 <= k < K}")]
    times = [(0, "i", 0, "k", 0), (0, "i", 0, "k", 1)]
    computation = traced(both, times, SPACES, SYMBOLS, facts)
    assert "until" not in nest_text(scan(computation))


# -- the four hazards of taking calls for parameters --------------------------------------------


def test_hazard_guard_of_one_statement_stays_inside() -> None:
    """{S[i,k] : rows; T[i] : the row is not empty}: the test is made for every i."""
    found = check(
        ["{[i,k] : ROWS}", "{[i] : 0 <= i < N && ptr(i) < ptr(i+1)}"],
        [(0, "i", 0, "k", 0), (0, "i", 1)],
    )
    assert found.startswith("for i in range(N):\n")
    assert found.index("for i") < found.index("if int64(ptr[i]) < int64(ptr[i + 1])")


def test_hazard_guard_alone_stays_inside() -> None:
    found = check(["{[i] : 0 <= i < N && ptr(i) < ptr(i+1)}"], [(0, "i", 0)])
    assert found == (
        "for i in range(N):\n"
        "    if int64(ptr[i]) < int64(ptr[i + 1]):\n"
        "        trace[] = trace[] * 31 + 1000 + i * 11"
    )


def test_hazard_interchange_reads_no_bound_outside_its_loop() -> None:
    with pytest.raises(UsageError) as error:
        check(["{[i,k] : ROWS}"], [(0, "k", 0, "i", 0)])
    assert str(error.value) == (
        "the loop over 'k' of statement 'S0' has no lower bound by the variables outside of it\n"
        "note: found k < ptr(i+1) && k >= ptr(i)\n"
        "try: bound it in the domain, or schedule it inside the variables that its bounds need"
    )


def test_hazard_interchange_with_a_bound_tests_rows_inside() -> None:
    found = check(["{[i,k] : ROWS && 0 <= k < K}"], [(0, "k", 0, "i", 0)])
    assert found.startswith("for k in range(K):\n    for i in range(N):\n")


def test_hazard_range_of_a_call_is_tested_where_it_is_known() -> None:
    found = check(["{[i,k] : ROWS && 1 <= col(k) && 0 <= k < K}"], [(0, "i", 0, "k", 0)])
    assert found.index("for k") < found.index("if 0 < int64(col[k])")


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


def test_value_of_an_empty_row_is_not_read() -> None:
    """col(ptr(i)) exists for rows that are not empty: a let must not run ahead of the loop."""
    check(
        ["{[i,k,j] : ROWS && 0 <= k < K && j = col(ptr(i))}"],
        [("i", "k", "j")],
    )


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


def test_bounds_of_a_sum_become_bounds_of_the_loop() -> None:
    """Diagonals: j = i + off(d) stays inside the matrix without a test in the inner loop."""
    found = check(
        ["{[d,i,j] : 0 <= d < N && 0 <= i < M && j = i + f(d) - 2 && 0 <= j < 3}"],
        [("d", "i", "j")],
    )
    assert found.startswith(
        "for d in range(N):\n    for i in range(max(0, 2 - int64(f[d])), min(M, 5 - int64(f[d]))):"
    )
    assert "if" not in found


def test_a_loop_of_constant_bounds_keeps_them() -> None:
    found = check(
        ["{[b,r,i] : 0 <= b < N && 0 <= r < 2 && i = 2*b + r && i < M}"], [("b", "r", "i")]
    )
    assert "for r in range(2):" in found


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


def test_a_value_is_read_after_its_writer_in_the_same_loop() -> None:
    spaces = (
        DataSpace.of("f", INT32, ["N"], Role.INOUT),
        DataSpace.of("y", INT32, ["N"], Role.OUT),
    )
    write = Stmt.of("write", "{[i] : 0 <= i < N}", (0, "i", 0), "f(i)", ir.Const(7, INT32))
    text = "{[i,v] : 0 <= i < N && v = f(i) && 5 <= v}"
    read = Stmt.of("read", text, (0, "i", 1, "v"), "y(i)", ir.Cast(ir.Var("v"), INT32))
    computation = Computation("rows", spaces, (write, read), ("N",))
    given = {"f": np.array([1, 9], np.int32), "y": np.zeros(2, np.int32)}
    assert interpreted(computation, given, {"N": 2})["y"].tolist() == [7, 7]


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
