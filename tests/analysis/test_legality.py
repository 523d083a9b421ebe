"""Legality: known orders, witnesses in full, random orders against enumeration."""

from dataclasses import replace

import islpy as isl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import brute_force
from loopwright.analysis.dependences import dependences
from loopwright.analysis.legality import carried_by, carried_witness, keeps, violation, witness
from loopwright.analysis.reductions import relaxed_dependences
from loopwright.diagnostics import UsageError
from loopwright.ir.islkit import context
from loopwright.ir.program import Program
from loopwright.ir.schedule_tree import loop_names
from programs import (
    Do,
    For,
    floyd_warshall,
    in_sequence,
    jacobi,
    lu,
    matmul,
    matmul_in_nest,
    orders,
    program,
    rank5,
    seidel,
    triangular_solve,
)


def nested(known: Program, *times: str) -> isl.Schedule:
    """One band per time function, outermost first, for all statements at once; isl text."""
    tree = isl.Schedule.from_domain(known.schedule.get_domain())
    for depth, time in reversed(list(enumerate(times))):
        text = f"[{', '.join(known.params)}] -> t{depth}[{{ {time} }}]"
        tree = tree.insert_partial_schedule(isl.MultiUnionPwAff.read_from_str(context(), text))
    return tree


def test_reversed_reduction_is_refused_with_a_witness() -> None:
    known = matmul()
    point = "S0[i, j, k] -> "
    tree = nested(known, f"{point}[(i)]", f"{point}[(j)]", f"{point}[(-k)]")
    found = violation(dependences(known), tree)
    assert found is not None
    text = "would reverse flow S0[0, 0, 0] -> S0[0, 0, 1] (matmul.py:1 -> matmul.py:1)"
    assert str(found) == text
    assert found.params == (("n", 1), ("m", 1), ("q", 2))
    assert violation(relaxed_dependences(known), tree) is not None
    free = replace(known, reassoc=True)
    assert violation(relaxed_dependences(free), tree) is None


def test_instances_at_one_time_are_not_ordered() -> None:
    known = matmul()
    found = violation(dependences(known), nested(known, "S0[i, j, k] -> [(i)]"))
    text = "would not order flow S0[0, 0, 0] -> S0[0, 0, 1] (matmul.py:1 -> matmul.py:1)"
    assert str(found) == text


def test_reversed_sequence_is_refused() -> None:
    known = matmul_in_nest()
    tree = in_sequence(known, ("S1", "ijk"), ("S0", "ij"))
    found = violation(dependences(known), tree)
    assert str(found) == "would reverse flow S0[0, 0] -> S1[0, 0, 0] (matmul.py:1 -> matmul.py:2)"
    assert violation(dependences(known), in_sequence(known, ("S0", "ji"), ("S1", "kji"))) is None


def test_children_of_a_set_have_no_order() -> None:
    known = matmul_in_nest()
    text = (
        f'{{ domain: "{known.schedule.get_domain()}",'
        ' child: { set: [ { filter: "{ S0[i, j] }" }, { filter: "{ S1[i, j, k] }",'
        ' child: { schedule: "[{ S1[i, j, k] -> [(k)] }]" } } ] } }'
    )
    found = violation(dependences(known), isl.Schedule.read_from_str(context(), text))
    text = "would not order flow S0[0, 0] -> S1[0, 0, 0] (matmul.py:1 -> matmul.py:2)"
    assert str(found) == text


def test_witness_without_spans() -> None:
    known = matmul()
    bare = replace(known, statements=tuple(replace(s, span=None) for s in known.statements))
    found = witness(dependences(bare))
    assert str(found) == "would reverse flow S0[0, 0, 0] -> S0[0, 0, 1]"


def test_witness_where_parameters_have_no_smallest_value() -> None:
    body = For("k", "a", "a + 2", Do("s", "s + x[k]"))
    arrays = {"x": "in float64 [n]", "s": "inout float64 []"}
    known = program("shifted", arrays, body, params="n a")
    found = witness(dependences(known))
    assert found is not None
    (name, start), (first,), (second,) = found.params[0], found.source.point, found.target.point
    assert (name, first, second) == ("a", start, start + 1)


@pytest.mark.parametrize(
    ("known", "parallel"),
    [
        (matmul("kij"), "ij"),
        (matmul_in_nest(), "ij"),
        (jacobi(), "ij"),
        (seidel(), ""),
        (floyd_warshall(), ""),
        (lu(), "ij"),
        (rank5(), "abcde"),
    ],
    ids=lambda x: getattr(x, "name", None),
)
def test_parallel_loops(known: Program, parallel: str) -> None:
    found = dependences(known)
    names = loop_names(known.schedule)
    carried = [x for x in names if not carried_by(found, known.schedule, x).is_empty]
    for loop in names:
        first = witness(carried_by(found, known.schedule, loop))
        assert carried_witness(found, known.schedule, loop) == first
    assert carried == [x for x in names if x not in parallel]


def test_unknown_loop() -> None:
    known = matmul()
    with pytest.raises(UsageError) as caught:
        carried_by(dependences(known), known.schedule, "x")
    assert str(caught.value) == "no such loop in the schedule\nnote: found x\ntry: i, j, k"


@given(st.data(), st.sampled_from([jacobi(), seidel(), triangular_solve(), lu(), matmul_in_nest()]))
def test_random_orders_against_enumeration(data: st.DataObject, known: Program) -> None:
    tree = data.draw(orders(known))
    found = violation(dependences(known), tree)
    assert keeps(dependences(known).all_, tree) == (found is None)
    reordered = replace(known, schedule=tree)
    sizes = dict.fromkeys(known.params, 4) if found is None else dict(found.params)
    params = {name: sizes.get(name, 4) for name in known.params}
    place = {x: k for k, x in enumerate(brute_force.instances(reordered, params))}
    pairs = brute_force.dependences(known, params)
    if found is None:
        assert all(place[s] < place[t] for kind in pairs.values() for s, t in kind)
        return
    ends = [(x.statement, x.point) for x in (found.source, found.target)]
    assert tuple(ends) in pairs[found.kind]
    assert place[ends[0]] >= place[ends[1]]
