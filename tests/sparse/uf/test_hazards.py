"""A call is not a constant of the whole set: where taking it for one would give wrong code.

Each test is one of the mistakes that come of handing `rowptr(i)` to an affine library as a
parameter. The algebra has to refuse, or to answer with what holds for every i.
"""

import pytest

from loopwright.diagnostics import UsageError
from loopwright.sparse.uf import (
    Constraint,
    Sym,
    TupleVar,
    domain_of,
    parse_relation,
    parse_set,
    project_out,
    range_of,
)
from loopwright.sparse.uf.oracle import implies, is_empty
from uf_descriptors import CSR

S = parse_set("{[i,k] : 0 <= i < NR && rowptr(i) <= k < rowptr(i+1)}")
T = parse_set("{[i] : 0 <= i < NR && rowptr(i) < rowptr(i+1)}")


def test_a_guard_on_a_call_stays_inside_the_loop_beside_another_statement() -> None:
    # What of T is outside i must not mention the call; the loop over S fixes the one row only.
    inner = project_out(S, "k")
    assert inner == T
    with pytest.raises(UsageError, match="'i' cannot be projected out exactly"):
        project_out(inner, "i")


def test_b_guard_on_a_call_stays_inside_the_loop_alone() -> None:
    with pytest.raises(UsageError, match="'i' cannot be projected out exactly"):
        project_out(T, "i")
    # One row with something in it says nothing about another.
    conj = parse_set("{[i,m] : 0 <= i < NR && rowptr(i) < rowptr(i+1) && 0 <= m < NR}").conjs[0]
    other = parse_set("{[i,m] : rowptr(m) < rowptr(m+1)}").conjs[0].constraints
    assert not implies(conj, other, CSR)
    assert implies(conj, Constraint.ge(Sym("NNZ"), 1), CSR)


def test_c_interchange_finds_no_bounds_of_k_that_need_i() -> None:
    with pytest.raises(UsageError, match="'i' cannot be projected out exactly"):
        project_out(S, "i")
    outer = range_of(parse_relation("{[i,k] -> [k] : 0 <= i < NR && rowptr(i) <= k < rowptr(i+1)}"))
    assert [conj.exists for conj in outer.conjs] == [("i",)]


def test_d_range_fact_holds_where_its_call_is_made() -> None:
    with_call = parse_set(
        "{[i,k] : 0 <= i < NR && rowptr(i) <= k < rowptr(i+1) && col2(k) = N}"
    ).conjs[0]
    assert implies(with_call, Constraint.ge(Sym("NC"), 1), CSR)
    # No stored place, no column: the fact about col2 is no guard of the loop over rows.
    without = parse_set("{[i] : 0 <= i < NR && NC = 0}").conjs[0]
    assert not is_empty(without, CSR)
    outside = parse_set("{[k] : k >= NNZ && col2(k) = NC + 7}").conjs[0]
    assert not is_empty(outside, CSR)


def test_domains_keep_what_exists() -> None:
    # Whether some d has off(d) = j - i is a search: it is said as such, not dropped.
    dia = parse_relation("{[i,d,j] -> [i,j] : j = i + off(d) && 0 <= d < ND}")
    image = range_of(dia)
    assert image.conjs[0].exists == ("d",)
    assert domain_of(dia).conjs[0].exists == ()
    assert TupleVar("d") in image.conjs[0].atoms
