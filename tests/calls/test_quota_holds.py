"""isl's quota holds wherever isl works; beyond it code is slower, or refused, never wrong."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest

import loopwright as lw
from calls.comparison import assert_as_python, whole
from frontends.kernels import define
from loopwright import options, pipeline, targets
from loopwright.calls import polyhedral_function
from loopwright.calls.polyhedral_function import PolyhedralFunction
from loopwright.calls.splice import optimise_region
from loopwright.diagnostics import UsageError
from loopwright.frontends.c import read_c
from loopwright.frontends.extract import extract, program_of
from loopwright.ir import islkit
from loopwright.ir.expr import Binary, Const, Var
from loopwright.ir.islkit import GaveUp, bounded, condition, context, isl
from loopwright.kernels import Unproven
from loopwright.lower.astgen import generate_loops
from loopwright.machines.host import host
from loopwright.machines.machine_argument import target_gpu, target_mesh
from loopwright.targets import TARGETS
from loopwright.transform.isl_scheduler import is_schedulable
from loopwright.transform.plan import initial_schedule
from no_kernels import forget_kernels

SOURCE = """
void rows(int n, double a[n][n], double b[n][n], double s[n]) {
#pragma scop
for (int i = 1; i < n; i++)
  for (int j = 1; j < n; j++)
    if (i % 3 != 1)
      a[i][j] = a[i - 1][j] * 0.5 + b[j][i];
for (int i = 0; i < n; i++)
  for (int j = 0; j <= i; j++)
    s[i] += a[i][j];
#pragma endscop
}
"""
SIMPLE = "void f(int n, double a[n]) {\n#pragma scop\nfor (int i = 0; i < n; i++) a[i] *= 2;\n"
SIMPLE += "#pragma endscop\n}\n"
MACHINES: dict[str, Callable[[], Any]] = {
    "openmp": host,
    "cuda": lambda: target_gpu(None),
    "athread": lambda: target_mesh(None),
}
# What projects, searches, simplifies or generates code; the rest of isl takes no time.
SETS = "coalesce subtract complement lexmin lexmax dim_min dim_max dim_min_val dim_max_val"
SETS += " is_empty is_subset is_equal project_out gist sample_point foreach_point"
MAPS = "coalesce subtract is_empty deltas lexmin lexmax is_injective is_single_valued apply_range"
HARD: dict[type, str] = {
    isl.Set: SETS,
    isl.Map: f"{MAPS} is_subset project_out",
    isl.UnionMap: "coalesce subtract apply_range is_empty is_injective is_subset",
    isl.UnionAccessInfo: "compute_flow",
    isl.AstBuild: "node_from_schedule",
    isl.ScheduleConstraints: "compute_schedule",
}


@pytest.fixture
def unbounded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What isl is asked for outside of any quota; checks of the suite belong to no compilation."""
    found: list[str] = []

    def watched(kind: type, name: str) -> Callable[..., Any]:
        own = getattr(kind, name)

        def asked(self: Any, *args: Any, **named: Any) -> Any:
            if not islkit._local.quotas:
                where = "|".join(f"{x[0][-22:]}:{x.name}" for x in traceback.extract_stack()[-9:-1])
                found.append(f"{kind.__name__}.{name} by {where}")
            return own(self, *args, **named)

        return asked

    islkit.context()
    for kind, names in HARD.items():
        for name in names.split():
            monkeypatch.setattr(kind, name, watched(kind, name))
    return found


@pytest.mark.parametrize("target", MACHINES)
def test_regions(target: str, unbounded: list[str]) -> None:
    assert set(MACHINES) <= set(TARGETS)
    with options.override(check=False):
        file = read_c(SOURCE)
        (region,) = file.regions
        optimise_region(file, region, TARGETS[target].planner, MACHINES[target](), target=target)
    assert not unbounded, "\n".join(sorted(set(unbounded)))


def test_loops_of_a_mesh_that_are_too_hard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the loops as they were written, which a mesh keeps: the region stays, or the call ends."""
    file = read_c(SOURCE)
    machine = target_mesh(None)
    monkeypatch.setattr(targets, "ISL_QUOTA", 1)
    planner = TARGETS["athread"].planner
    found = optimise_region(file, file.regions[0], planner, machine, target="athread")
    assert found.text is None
    assert found.reason == "its loops are too hard to write down (more than 1 isl operations)"
    program = program_of(read_c(SOURCE).regions[0].tree, reassoc=False)
    with pytest.raises(UsageError) as caught:
        pipeline.compile_program(program, machine, 1, target="athread")
    assert str(caught.value) == (
        "the loops of 'rows' are too hard to write down\n"
        "note: found more than 1 isl operations\n"
        "try: simpler conditions, or several functions"
    )


def test_what_is_too_much_for_the_scheduler() -> None:
    """Its unknowns are those of all dependences, which isl does not count: it is not asked."""
    loops = "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) for (int k = 0; k < n; k++)"
    bodies = " ".join("a[i][j][k] += 1;" for _ in range(9))
    text = f"void f(int n, double a[n][n][n]) {{\n#pragma scop\n{loops} {{ {bodies} }}\n"
    program = program_of(read_c(f"{text}#pragma endscop\n}}\n").regions[0].tree, reassoc=False)
    names = [statement.name for statement in program.statements]
    assert [is_schedulable(program, names[:count]) for count in (1, 8, 9)] == [True, True, False]


T = TypeVar("T")


@pytest.fixture
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Compile everything anew."""
    forget_kernels(monkeypatch)
    with options.override(cache=False):
        yield


def shifted(x, y):
    for i in range(x.shape[0]):
        for j in range(1, x.shape[1]):
            x[i, j] = y[i, j - 1]


def matvec(y, A, x):
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            y[i] += A[i, j] * x[j]


@pytest.mark.usefixtures("_nothing_kept")
def test_planning_beyond_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    args = whole(5, 7), whole(5, 7, seed=1)
    monkeypatch.setattr("loopwright.planner.generic._QUOTA", 10)
    monkeypatch.setattr("loopwright.planner.generic._QUOTAS", {})
    compiled = assert_as_python(shifted, *args)
    assert compiled.explain(*args).endswith("\nloops in source order")


@pytest.mark.usefixtures("_nothing_kept")
def test_plans_that_are_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """... nor run as one without a proof."""

    def prove(*_: object, **__: object) -> None:
        raise Unproven

    args = whole(5), np.asfortranarray(whole(5, 7)), whole(7)  # rows in order are loops anyway
    monkeypatch.setattr(PolyhedralFunction, "kernel_nest", prove)
    asked: list[bool] = []
    compiled = PolyhedralFunction.compiled
    monkeypatch.setattr(
        PolyhedralFunction, "compiled", lambda *a, **b: asked.append(True) or compiled(*a, **b)
    )
    assert assert_as_python(matvec, *args).specialise(*args).is_contracted(args)
    assert asked == [True, True]


@pytest.mark.usefixtures("_nothing_kept")
@pytest.mark.parametrize(
    ("quotas", "told"),
    [
        ([10], "the conditions of 'shifted' are too hard to analyse"),
        ([5_000_000, 10], "the subscripts of 'shifted' are too hard to check"),
    ],
)
def test_reading_beyond_the_quota(
    quotas: list[int], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = iter(quotas)

    def small(work: Callable[[], T], otherwise: Callable[[GaveUp], T]) -> T:
        return bounded(work, otherwise, next(rest))

    monkeypatch.setattr(polyhedral_function, "bounded", small)
    with pytest.raises(UsageError) as error:
        lw.jit(shifted)(whole(5, 7), whole(5, 7))
    assert str(error.value) == f"{told}\ntry: simpler conditions, or several functions"


# What isl 0.28 fails at: dataflow on a domain whose lower bound follows from a division, and the
# smallest point of a set whose parameters were moved among its dimensions.
DATAFLOW = """
def f(A, B, C, n):
    s = 0
    for i in range(0, n, 2):
        for j in range(min(i + 2, n)):
            for k in range(n):
                if 0 < i <= i:
                    s += B[i]
                else:
                    C[i] = 0
                s += B[i]
    return s
"""
SMALLEST = """
def f(A, B, C, n):
    for i in range(0, n, 3):
        if i // 2 != n - 2 and n > 1:
            A[i, i], B[i] = A[i + i, i + 0], B[i]
        else:
            C[i // 2] = 0
        for j in range(i, n - 1):
            if (i + j) % 2 == 0:
                A[j + 0, -1] = 4
            else:
                C[2 * j] = 4
"""


@pytest.mark.parametrize("text", [DATAFLOW, SMALLEST])
@pytest.mark.parametrize("n", [0, 1, 7])
def test_faults_of_isl(text: str, n: int) -> None:
    function: Callable[..., Any] = define(text)
    assert_as_python(function, whole(16, 16), whole(16, seed=1), whole(16, seed=2), n)


PRIMES = (3, 5, 7, 11, 13, 17, 19, 23)
TEXT = """void f(int n, double a[n]) {{
#pragma scop
    for (int i = 0; i < n; i++)
        {guard}
            a[i] = a[i] * 2;
#pragma endscop
}}
"""


def guarded(count: int, how: str) -> str:
    tests = [f"i % {p} != {k % p}" for k, p in enumerate(PRIMES[:count])]
    if how == "nested":
        return TEXT.format(guard=" ".join(f"if ({test})" for test in tests))
    return TEXT.format(guard=f"if ({' && '.join(tests)})")


def admitted(count: int, n: int) -> list[int]:
    pairs = list(enumerate(PRIMES[:count]))
    return [i for i in range(n) if all(i % p != k % p for k, p in pairs)]


@pytest.mark.parametrize("how", ["nested", "joined"])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_a_domain_is_one_piece(count: int, how: str) -> None:
    (region,) = read_c(guarded(count, how), compiler="").regions
    (statement,) = extract(region.tree).statements
    assert statement.domain.n_basic_set() == 1
    fixed = statement.domain.fix_val(isl.dim_type.param, 0, isl.Val(60, context=context()))
    points: list[isl.Point] = []
    fixed.foreach_point(points.append)
    values = [p.get_coordinate_val(isl.dim_type.set, 0).to_python() for p in points]
    assert sorted(values) == admitted(count, 60)


@pytest.mark.parametrize("how", ["nested", "joined"])
@pytest.mark.parametrize("count", [3, 8])
def test_many_guards_are_compiled(count: int, how: str) -> None:
    """Three did not end within a minute when joined; what is left undone is no search of isl's."""
    kernel = lw.compile(guarded(count, how))
    found = np.ones(200)
    kernel(200, found)
    assert np.nonzero(found == 2)[0].tolist() == admitted(count, 200)


@pytest.mark.parametrize("value", [-4, -1, 0, 2, 3, 4])
def test_any_remainder_and_any_sign(value: int) -> None:
    """Equal to the comparison as isl makes it, for all integers and any number."""
    space = isl.Space.set_alloc(context(), 0, 1).set_dim_name(isl.dim_type.set, 0, "i")
    rest = Binary("mod", Var("i") - 2, Const(3))
    wanted = condition(Binary("eq", rest, Const(value)), space).complement()
    for found in (Binary("ne", rest, Const(value)), Binary("ne", Const(value), rest)):
        assert condition(found, space).is_equal(wanted)
        assert condition(found, space).n_basic_set() == 1


def test_nests_of_very_many_loops_are_left_as_they_are() -> None:
    """isl's work on 60 loops is exponential, and counted by no quota."""
    loops = "".join(f"for (int i{k} = 0; i{k} < n; i{k}++) " for k in range(60))
    text = TEXT.format(guard="").replace("for (int i = 0; i < n; i++)", loops)
    (region,) = read_c(text.replace("a[i]", "a[i0]"), compiler="").regions
    with pytest.raises(GaveUp, match="60 loops around a statement are more than 32"):
        generate_loops(initial_schedule(extract(region.tree)))


def test_many_remainders_of_sums_are_refused() -> None:
    """isl took for ever over the subscripts, the dependences and the sizes of such a nest."""
    guard = "(2 * i + j) % 7 < 3 && (i + 3 * j) % 5 < 4 && (i + j) % 11 > 2"
    guard += " && (j + 5 * i) % 13 < 9"
    text = TEXT.format(guard=f"for (int j = 0; j < n; j++) if ({guard})")
    with pytest.raises(UsageError) as caught:
        lw.compile(text)(20, np.ones(20))
    assert str(caught.value) == (
        "the loops of 'f' are too hard to write down\n"
        "note: found statement S0 stands under many remainders of sums\n"
        "try: simpler conditions, or several functions"
    )
