"""What index arrays are: maps turned round, definitions, widths, entries in their order."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawn import combined
from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import FLOAT64, INT32
from loopwright.sparse.convert_tensor import convert
from loopwright.sparse.curves import CURVES
from loopwright.sparse.enumerate_sets import enumerate_points, values_of
from loopwright.sparse.executors.sparse_einsum import einsum
from loopwright.sparse.format import Format, Index, Padding, declare, index
from loopwright.sparse.formats import find
from loopwright.sparse.invariants import loop_facts
from loopwright.sparse.synthesis.definitions import (
    CountSymbol,
    LastSymbol,
    MaxSymbol,
    define_arrays,
)
from loopwright.sparse.synthesis.entry_iterator import entry_iterator
from loopwright.sparse.synthesis.index_widths import made_types
from loopwright.sparse.synthesis.inverse import determines, invert
from loopwright.sparse.synthesis.stages import Builder
from loopwright.sparse.tensor import SparseTensor, sparse_tensor
from loopwright.sparse.tensor_entries import entries, environment_of
from loopwright.sparse.uf import Term, evaluate, parse_linear
from sparse.synthesis.pairs import FORMATS_2D, FORMATS_3D, scattered
from sparse_builders import of_dense


@pytest.mark.parametrize(
    ("name", "rank"), [*((f, 2) for f in FORMATS_2D), *((f, 3) for f in FORMATS_3D)]
)
def test_every_array_and_count_is_defined_once(name: str, rank: int) -> None:
    format = find(name, rank)
    found = define_arrays(invert(format))
    defined = [
        d.symbol if isinstance(d, CountSymbol | MaxSymbol | LastSymbol) else d.array for d in found
    ]
    assert sorted(defined) == sorted([*(i.name for i in format.indices), *format.counts])


# -- what does not follow -------------------------------------------------------------------------


def with_extra(extra: Index, *invariants: str) -> Format:
    """CSR with one more index array."""
    csr = find("csr")
    return declare(
        "mine",
        str(csr.map),
        str(csr.access),
        *csr.indices,
        extra,
        places="NNZ",
        order=("i", "j"),
        invariants=(*(rule.text for rule in csr.invariants), *invariants),
    )


WEIGHT = index("weight", "{[x] : 0<=x<NR}", "{[y] : 0<=y<=NC}")


def test_what_is_said_of_it_is_told() -> None:
    rule = "forall x: 0<=x<NR && weight(x)>=1 => rowptr(x+1)>=1"
    with pytest.raises(UsageError) as told:
        convert(of_dense("coo", [[0, 1.0]]), with_extra(WEIGHT, rule))
    assert "'weight' does not follow" in str(told.value)
    assert rule in str(told.value)


@pytest.mark.parametrize("first", [1, 5])
def test_a_running_sum_may_start_anywhere(first: int) -> None:
    start = index("first", "{[x] : 0<=x<=NR}", "{[y] : 0<=y}", monotone="increasing")
    invariants = (
        f"first(0) = {first}",
        "forall x: 0<=x<NR => first(x+1)=first(x)+rowptr(x+1)-rowptr(x)",
    )
    result = convert(
        of_dense("csc", [[0, 1.0, 2], [0, 0, 0], [3, 0, 0]]), with_extra(start, *invariants)
    )
    assert result.arrays["first"].tolist() == [first, first + 2, first + 2, first + 3]
    result.check()


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


def short(dtype: str) -> Format:
    """Coordinates whose rows are stored in a type of few bits."""
    return declare(
        "short",
        "{[n,ii,jj] -> [i,j] : 0<=n<NNZ && ii=row(n) && jj=col(n) && i=ii && j=jj"
        " && 0<=i<NR && 0<=j<NC}",
        "{[n,ii,jj] -> [n]}",
        index("row", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NR}", dtype=dtype),
        index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}"),
        places="NNZ",
        is_unique=False,
    )


@pytest.mark.parametrize(("dtype", "rows"), [("int8", 128), ("uint8", 256), ("int16", 1 << 15)])
def test_the_last_coordinate_that_fits(dtype: str, rows: int) -> None:
    format = short(dtype)
    assert dict(made_types(format, (rows, 3), 10, INT32))["row"].numpy == np.dtype(dtype)
    array = np.zeros((rows, 3))
    array[rows - 1, 1] = array[0, 2] = 1
    tensor = convert(array, format)
    assert tensor.arrays["row"].dtype == np.dtype(dtype)
    assert np.array_equal(tensor.to_dense(), array)


def test_a_coordinate_that_does_not_fit_is_refused() -> None:
    array = np.zeros((300, 3))
    array[3, 1] = array[128, 2] = 1
    with pytest.raises(UsageError, match=r"short: row\[1\] = 128 does not fit int8\n.*wider dtype"):
        convert(array, short("int8"))
    # A large shape alone is no reason to refuse.
    array[128, 2] = 0
    tensor = convert(array, short("int8"))
    assert tensor.arrays["row"].dtype == np.int8
    assert np.array_equal(tensor.to_dense(), array)


def test_a_sum_that_does_not_fit_is_refused() -> None:
    plain = find("sell(8,8)")
    indices = tuple(replace(i, dtype="int8" if i.name == "cptr" else "") for i in plain.indices)
    own = replace(plain, name="own", indices=indices)
    few, many = np.eye(16), np.ones((16, 16))
    assert np.array_equal(convert(few, own).to_dense(), few)
    with pytest.raises(UsageError, match=r"own: cptr\[1\] = 128 does not fit int8"):
        convert(many, own)


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


SHARED = {  # arrays of the source that a conversion hands on: index arrays, values
    ("csr", "coo"): 2,
    ("csr", "scoo"): 2,
    ("csr", "dcsr"): 2,
    ("csr", "csf"): 2,
    ("csr_unsorted", "coo"): 2,
    ("csc", "coo"): 2,
    ("dcsr", "csr"): 2,
    ("dcsr", "csf"): 2,
    ("csf", "csr"): 2,
    ("csf", "dcsr"): 2,
    ("hicoo(2)", "mcoo2"): 1,
    ("mcoo2", "hicoo(2)"): 1,
    ("alto", "coo"): 1,
    ("csr", "alto"): 0,
}


@pytest.mark.drawn(7)
@pytest.mark.parametrize(("source", "target"), SHARED)
def test_what_keeps_its_place_is_shared(source: str, target: str) -> None:
    array = scattered(3, (13, 11), 0.3)
    given = convert(array, source)
    made = convert(given, target, copy=False)
    assert np.array_equal(made.to_dense(), array)
    assert len(shared(made, given)) == SHARED[source, target]


def shared(made: SparseTensor, given: SparseTensor) -> list[str]:
    theirs = (*given.arrays.values(), given.values)
    ours = {**made.arrays, "values": made.values}
    return [n for n, x in ours.items() if any(np.shares_memory(x, y) for y in theirs)]


def filtered_list(constraint: str) -> Format:
    """Coordinates of which only some are entries."""
    return declare(
        "some",
        "{[n,ii,jj] -> [i,j] : i=ii && j=jj && 0<=n<NNZ && ii=row(n) && jj=col(n)"
        f" && 0<=i<NR && 0<=j<NC && {constraint}}}",
        "{[n,ii,jj] -> [n]}",
        index("row", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NR}"),
        index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}"),
        places="NNZ",
        is_unique=False,
        padding=Padding(),
    )


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("constraint", "target"),
    combined(
        ["jj<ii", "jj=ii", "jj<=ii", "n>=2", "jj<NC-1", "true"],
        ["coo", "csr", "csc", "dia", "mcoo2"],
        one_in=2,
    ),
)
def test_filters_of_lists(constraint: str, target: str) -> None:
    """Entries that the map leaves out stay out, although arrays could be shared otherwise."""
    rng = np.random.default_rng(5)
    places = {"row": rng.integers(0, 5, 12), "col": rng.integers(0, 5, 12)}
    format = filtered_list("0<=n" if constraint == "true" else constraint)
    same_as_dense(sparse_tensor(format, (5, 5), places, rng.random(12)), target)


def same_as_dense(tensor: SparseTensor, target: str) -> None:
    dense = tensor.to_dense()
    assert np.allclose(convert(tensor, target).to_dense(), dense)
    x = np.arange(1.0, 6.0)
    assert np.allclose(einsum("ij,j->i", tensor, x), dense @ x)
