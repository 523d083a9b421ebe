"""A format as a stream: the entries that its descriptor means, in the order it promises."""

import numpy as np
import pytest

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import BOOL, FLOAT64, INT32
from loopwright.ir.expr import Binary, Const, Load
from loopwright.sparse.convert_tensor import convert
from loopwright.sparse.enumerate_sets import enumerate_points, values_of
from loopwright.sparse.format import declare, index
from loopwright.sparse.formats import find
from loopwright.sparse.invariants import loop_facts
from loopwright.sparse.synthesis.entry_iterator import entry_iterator
from loopwright.sparse.synthesis.stages import Builder
from loopwright.sparse.tensor import sparse_tensor
from loopwright.sparse.tensor_entries import entries, environment_of
from loopwright.sparse.uf import Conj, Constraint, Sym, Term
from sparse.synthesis.pairs import FORMATS_2D, FORMATS_3D, scattered
from sparse_builders import of_dense


def builder_of(name: str, rank: int = 2) -> Builder:
    format = find(name, rank)
    builder = Builder(INT32, loop_facts(format))
    for found in format.indices:
        builder.given(found.name, INT32, found.extents)
    return builder


@pytest.mark.parametrize(
    ("name", "rank"), [*((f, 2) for f in FORMATS_2D), *((f, 3) for f in FORMATS_3D)]
)
def test_streams_are_what_descriptors_mean(name: str, rank: int) -> None:
    """The points of the domain, one after the other, have the coordinates and places of entries."""
    tensor = of_dense(name, scattered(rank + 7, (6, 7, 5)[:rank], 0.3))
    iterator = entry_iterator(tensor.format, "values", FLOAT64, builder_of(name, rank))
    around = environment_of(tensor)
    columns = enumerate_points(iterator.domain.conjs[0], iterator.domain.variables, around)
    expected = entries(tensor)
    for coordinate, right in zip(tensor.format.coordinates, expected.coordinates, strict=True):
        found = values_of(iterator.coordinates[coordinate], columns, around)
        assert np.array_equal(found, right), coordinate
    assert np.array_equal(values_of(iterator.place, columns, around), expected.places)
    if iterator.count is not None:
        assert values_of(iterator.count, {}, around) == expected.count
    where = dict(zip(tensor.format.coordinates, expected.coordinates, strict=True))
    keys = [values_of(key, where, around) for key in iterator.order]
    listed = list(zip(*(np.broadcast_to(key, expected.count) for key in keys), strict=True))
    assert listed == sorted(listed)


@pytest.mark.parametrize(
    ("name", "count"), [("coo", "NNZ"), ("alto", "NNZ"), ("csr", None), ("dia", None)]
)
def test_lists_are_known_as_such(name: str, count: str | None) -> None:
    iterator = entry_iterator(find(name), "values", FLOAT64, builder_of(name))
    assert (None if iterator.count is None else str(iterator.count)) == count


def test_padding_is_passed_over() -> None:
    """Where the map reaches padding, entries are the values other than the fill."""
    for name, dtype, zero in (("dia", FLOAT64, 0), ("bcsr(2,2)", BOOL, False)):
        guard = entry_iterator(find(name), "values", dtype, builder_of(name)).guard
        assert isinstance(guard, Binary)
        assert guard.op == "ne"
        assert isinstance(guard.x, Load)
        assert guard.x.array == "values"
        assert guard.y == Const(zero, dtype)
    assert entry_iterator(find("ell(row)"), "values", FLOAT64, builder_of("ell(row)")).guard is None


def test_a_coordinate_that_does_not_follow_is_refused() -> None:
    format = declare(
        "mine",
        "{[n,ii] -> [i,j] : i=ii && ii=f(n) && 0<=n<NNZ && 0<=j<NC}",
        "{[n,ii] -> [n]}",
        index("f", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NR}"),
        places="NNZ",
    )
    with pytest.raises(UsageError, match="'j' does not follow from the storage") as told:
        entry_iterator(format, "values", FLOAT64, Builder(INT32))
    assert "found j < NC && j >= 0" in str(told.value)
    assert "an equality that gives 'j' by n, ii" in str(told.value)


def test_a_coordinate_may_follow_from_another() -> None:
    """Row by row in one number: the column is what the row leaves of it."""
    format = declare(
        "numbered",
        "{[n] -> [j,i] : j=at(n)-NC*i && i=floor(at(n)/NC) && 0<=n<NNZ}",
        "{[n] -> [n]}",
        index("at", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NR*NC}", monotone="strictly increasing"),
        places="NNZ",
        order=("i", "j"),
        sizes=("NC", "NR"),
    )
    tensor = sparse_tensor(format, (3, 2), {"at": [0, 2, 4]}, [1.0, 2.0, 3.0])
    assert convert(tensor, "csr").to_dense().tolist() == [[1, 0], [0, 3], [2, 0]]
    assert convert(tensor.to_dense(), format).arrays["at"].tolist() == [0, 2, 4]


def test_facts_are_those_of_the_arrays() -> None:
    facts = loop_facts(find("dcsr"))
    rptr = next(f for f in facts.functions if f.name == "rptr")
    assert [(m.is_increasing, m.is_strict) for m in rptr.monotone] == [(True, True)]
    known = Conj.of(facts.known).constraints
    assert Constraint.ge(Term.of(Sym("NZR"))) in known
    assert Constraint.ge(Term.of(Sym("NNZ"))) in known
