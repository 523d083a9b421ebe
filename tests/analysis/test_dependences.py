"""Dependences: known relations, and every relation of small random programs by enumeration."""

import islpy as isl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import brute_force
import loopwright.analysis.dependences as analysis
from loopwright.analysis.dependences import (
    Dependences,
    dependences,
    flow_through,
    known_dependences,
    memory_dependences,
)
from loopwright.ir.analysis_manager import AnalysisManager
from loopwright.ir.islkit import QuotaExceeded, quota
from loopwright.ir.program import Program
from programs import (
    Do,
    For,
    dot,
    jacobi,
    matmul,
    program,
)


def relation(text: str) -> isl.UnionMap:
    return isl.UnionMap(text)


def enumerated(found: isl.UnionMap, known: Program, params: dict[str, int]) -> brute_force.Pairs:
    """The pairs of a relation for given parameters."""
    fixed = isl.Set.universe(known.context.get_space())
    for position, name in enumerate(known.params):
        value = isl.Val.int_from_si(fixed.get_ctx(), params[name])
        fixed = fixed.fix_val(isl.dim_type.param, position, value)
    pairs: brute_force.Pairs = set()

    def visit(part: isl.Map) -> None:
        ends = [part.get_tuple_name(kind) for kind in (isl.dim_type.in_, isl.dim_type.out)]
        cut = part.dim(isl.dim_type.in_)
        flat = part.wrap().flatten()

        def add(point: isl.Point) -> None:
            kind, count = isl.dim_type.set, flat.dim(isl.dim_type.set)
            at = tuple(point.get_coordinate_val(kind, k).to_python() for k in range(count))
            pairs.add(((ends[0], at[:cut]), (ends[1], at[cut:])))

        flat.foreach_point(add)

    found.intersect_params(fixed).foreach_map(visit)
    return pairs


def assert_enumerated(known: Program, params: dict[str, int]) -> None:
    expected = brute_force.dependences(known, params)
    by_array = known_dependences(AnalysisManager(known))
    for kind, found in (*dependences(known).kinds, *by_array.kinds):
        assert enumerated(found, known, params) == expected[kind], kind


def test_dependences_of_one_reduction() -> None:
    found = dependences(dot())
    chain = "[n] -> { S0[] -> S1[0] : n > 0; S1[k] -> S1[k + 1] : 0 <= k < n - 1 }"
    step = "[n] -> { S1[k] -> S1[k + 1] : 0 <= k < n - 1 }"
    assert found.flow.is_equal(relation(chain))
    assert found.output.is_equal(relation(chain))
    assert found.anti.is_equal(relation(step))
    assert found.all_.is_equal(relation(chain))
    assert found.on_itself("S1").all_.is_equal(relation(step))
    assert found.edges() == {("S0", "S1")}


def test_flow_through_one_array() -> None:
    found = flow_through(jacobi(), "B")
    expected = "[n, m] -> { S0[t, i] -> S1[t, i] : 0 <= t < m and 0 < i < n - 1 }"
    assert found.is_equal(relation(expected))


def test_memory_dependences_are_all_pairs() -> None:
    found = memory_dependences(dot(), {"s"})
    pairs = "[n] -> { S0[] -> S1[k] : 0 <= k < n; S1[k] -> S1[j] : 0 <= k < j < n }"
    assert found.flow.is_equal(relation(pairs))
    assert found.output.is_equal(relation(pairs))
    assert found.anti.is_equal(relation("[n] -> { S1[k] -> S1[j] : 0 <= k < j < n }"))


def test_restriction_keeps_the_program() -> None:
    known = dot()
    found = dependences(known).where(lambda r: r.subtract(r))
    assert isinstance(found, Dependences)
    assert found.is_empty
    assert found.program is known


@st.composite
def subscripts(draw: st.DrawFn, loops: tuple[str, ...]) -> str:
    """An affine expression over some loops."""
    names = draw(st.lists(st.sampled_from(loops), max_size=2)) if loops else []
    terms = [f"{draw(st.sampled_from([1, 1, 1, 2, -1]))} * {name}" for name in names]
    return " + ".join([*terms, str(draw(st.integers(-1, 1)))])


@st.composite
def nodes(draw: st.DrawFn, loops: tuple[str, ...], budget: list[int]) -> list[For | Do]:
    """One or two consecutive loops or statements."""
    found: list[For | Do] = []
    for _ in range(draw(st.integers(1, 2))):
        budget[0] -= 1
        if len(loops) < 3 and budget[0] > 0 and draw(st.booleans()):
            var = f"l{len(loops)}_{budget[0]}"
            inner = draw(nodes((*loops, var), budget))
            outer_bounds = ["n", "3", *loops]
            if draw(st.booleans()):
                found.append(For(var, 0, draw(st.sampled_from(outer_bounds)), *inner))
            else:
                found.append(For(var, draw(st.sampled_from(outer_bounds)), -1, *inner, step=-1))
        else:
            sub = subscripts(loops)
            reads = draw(st.lists(st.tuples(st.sampled_from("AB"), sub), max_size=2))
            value = " + ".join(["1", *(f"{a}[{i}]" for a, i in reads)])
            found.append(Do(f"{draw(st.sampled_from('AB'))}[{draw(sub)}]", value))
    return found


@given(st.data(), st.integers(0, 3))
def test_random_programs_by_enumeration(data: st.DataObject, n: int) -> None:
    body = data.draw(nodes((), [5]))
    arrays = {"A": "inout int64 [n]", "B": "inout int64 [n]"}
    assert_enumerated(program("random", arrays, *body), {"n": n})


def ring() -> Program:
    """Every element is the sum of its neighbours on a ring, pass by pass: reads in many pieces."""
    arrays = {"A": "inout float64 [n]", "B": "inout float64 [n]", "s": "local float64 []"}
    inner = ("i - 1", "i + 1", "0 < i and i < n - 1")
    cases = (inner, ("n - 1", "i + 1", "i = 0"), ("i - 1", "0", "i = n - 1"))
    sums = [Do("s", f"A[{x}] + A[{y}]", where=where) for x, y, where in cases]
    keep = For("i", 0, "n", *sums, Do("B[i]", "A[i] + s"))
    back = For("i", 0, "n", Do("A[i]", "B[i]"), Do("A[0]", "A[0] + A[n - 1 - i]"))
    return program("ring", arrays, For("t", 0, "2", keep, back))


@pytest.mark.parametrize("pieces", [0, 2, 100])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_pieces_of_accesses_one_by_one(
    pieces: int, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, "_FEW_PIECES", pieces)
    assert_enumerated(ring(), {"n": n})
    assert_enumerated(halves(), {"n": n})


def halves() -> Program:
    """One statement that reads one array in several pieces."""
    near = Do("A[i]", "A[i] + A[n - 1 - i] + A[0]", where="(i < 2 or i > 3)")
    return program("halves", {"A": "inout float64 [n]"}, For("t", 0, "2", For("i", 0, "n", near)))


def test_quota_ends_the_analysis_at_any_place() -> None:
    known = matmul()
    ended = 0
    for operations in range(1, 6000, 97):
        try:
            with quota(operations):
                dependences(known)
        except QuotaExceeded:
            ended += 1
    assert ended > 50
