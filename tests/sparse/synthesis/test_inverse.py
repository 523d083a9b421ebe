"""Maps turned round: coordinates and ranks give back every variable, index and place."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.diagnostics import UsageError
from loopwright.sparse.curves import CURVES
from loopwright.sparse.enumerate_sets import enumerate_points, values_of
from loopwright.sparse.format import declare, index
from loopwright.sparse.formats import find
from loopwright.sparse.synthesis.inverse import determines, invert
from loopwright.sparse.tensor_entries import environment_of
from loopwright.sparse.uf import Term, UFCall, evaluate, parse_linear
from sparse.synthesis.pairs import FORMATS_2D, FORMATS_3D, scattered
from sparse_builders import of_dense


@pytest.mark.parametrize(
    ("name", "rank"), [*((f, 2) for f in FORMATS_2D), *((f, 3) for f in FORMATS_3D)]
)
def test_the_inverse_gives_back_the_storage(name: str, rank: int) -> None:
    """For every stored tuple: what the inverse says of it is what stands in the arrays."""
    tensor = of_dense(name, scattered(rank, (7, 6, 5)[:rank], 0.3))
    format, around = tensor.format, environment_of(tensor)
    conj = format.map.conjs[0].conjoined(format.access.conjs[0].constraints)
    order = (*format.map.variables, *format.access.outputs)
    columns = enumerate_points(conj, order, around)
    found = invert(format)
    assert len(columns["i"]) >= tensor.nnz > 0
    assert {name for name, _ in found.values} | {r.name for r in found.levels} == set(
        format.variables
    )
    known = {n: columns[n] for n in (*format.coordinates, *(r.name for r in found.levels))}
    for variable, term in (*found.values, (format.access.outputs[0], found.place)):
        assert (values_of(term, known, around) == columns[variable]).all(), variable
    for stored in found.stored:
        here = values_of(Term.of(stored.element), known, around)
        assert np.array_equal(here, values_of(stored.value, known, around)), str(stored)


@pytest.mark.parametrize(
    ("name", "rank", "numbers"),
    [
        ("coo", 2, ["n numbers (i, j)"]),
        ("csr", 2, ["k numbers (i, j)"]),
        ("csc", 2, ["k numbers (j, i)"]),
        ("dia", 2, ["d numbers (-i+j)"]),
        ("bcsr(2,3)", 2, ["kb numbers (floor(i/2), floor(j/3))"]),
        ("csf", 3, ["p0 numbers (i)", "p1 numbers (i, j)", "p2 numbers (i, j, k)"]),
    ],
)
def test_what_ranks_number(name: str, rank: int, numbers: list[str]) -> None:
    told = str(invert(find(name, rank))).splitlines()
    assert [line for line in told if " numbers " in line] == numbers


def test_ranks_and_their_bounds() -> None:
    csf = invert(find("csf", 3))
    assert [(r.bound.count, r.bound.pointer) for r in csf.levels] == [
        ("M0", ""),
        ("", "ptr0"),
        ("", "ptr1"),
    ]
    assert [r.is_entry for r in csf.levels] == [False, False, True]
    ell = invert(find("ell(row)")).level("w")
    assert ell.bound.is_local
    assert isinstance(ell.bound.length, UFCall)
    assert str(ell.bound.length) == "rlen(i)"
    assert not invert(find("bcsr(2,2)")).level("kb").is_entry


def one_array(map: str, **more: Any) -> Any:
    """A format with one index array f over the entries."""
    return declare(
        "mine",
        map,
        "{[n,ii,jj] -> [n]}",
        index("f", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}"),
        places="NNZ",
        **more,
    )


def test_a_coordinate_that_nothing_stores_is_refused() -> None:
    """Two entries of one column cannot be told apart, so there is no way back to the row."""
    format = one_array("{[n,ii,jj] -> [i,j] : i=ii && j=jj && jj=f(n) && 0<=n<NNZ && 0<=ii<NR}")
    found = invert(format)
    assert not found.level("n").is_entry


def test_a_variable_without_an_equality_is_refused() -> None:
    format = declare(
        "mine",
        "{[n,w,ii,jj] -> [i,j] : i=ii && j=jj && ii=f(n) && jj=f(n) && 0<=n<NNZ && 0<=w<NR}",
        "{[n,w,ii,jj] -> [n]}",
        index("f", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}"),
        places="NNZ",
    )
    with pytest.raises(UsageError, match="mine: 'w' does not follow from the coordinates"):
        invert(format)


def test_a_range_that_is_not_understood_is_refused() -> None:
    format = one_array(
        "{[n,ii,jj] -> [i,j] : i=ii && j=jj && ii=f(n) && jj=f(n) && 3<=n<NNZ && 0<=i<NR}"
    )
    with pytest.raises(UsageError, match="mine: the range of 'n' is not understood"):
        invert(format)


def test_unions_are_refused() -> None:
    text = "{[n,ii,jj] -> [i,j] : i=ii && j=jj && ii=f(n) && jj=f(n) && 0<=n<NNZ}"
    other = text.replace("ii=f(n)", "ii=f(n)+1")
    with pytest.raises(UsageError, match="mine stores entries in several ways at once"):
        invert(one_array(f"{text} union {other}"))


TERMS = (
    "i",
    "j",
    "j-i",
    "i+j",
    "floor(i/2)",
    "i mod 2",
    "floor(j/3)",
    "j mod 3",
    "2*i",
    "MORTON(i,j)",
)


@given(st.lists(st.sampled_from(TERMS), max_size=4))
def test_determines_is_never_wrong(texts: list[str]) -> None:
    """Where it says yes, no two coordinates agree in all terms."""
    terms = [parse_linear(text, ("i", "j")) for text in texts]
    if not determines(terms, ("i", "j")):
        return
    seen = {
        tuple(evaluate(term, {"i": i, "j": j}, CURVES) for term in terms)
        for i, j in itertools.product(range(8), repeat=2)
    }
    assert len(seen) == 64


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (("i", "j"), True),
        (("i", "j-i"), True),
        (("floor(i/2)", "i mod 2", "j"), True),
        (("MORTON(i,j)",), True),
        (("i",), False),
        (("floor(i/2)", "j"), False),
        (("i mod 2", "j"), False),
    ],
)
def test_determines(texts: tuple[str, ...], says: bool) -> None:
    assert determines([parse_linear(t, ("i", "j")) for t in texts], ("i", "j")) is says
