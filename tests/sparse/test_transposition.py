"""Rows and columns exchanged: symmetric patterns share their index arrays, all others do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from drawn import some
from loopwright.diagnostics import UsageError
from loopwright.sparse import transposition
from loopwright.sparse.convert_tensor import convert_tensor
from loopwright.sparse.explain_conversion import explain
from loopwright.sparse.format import Format, declare, index
from loopwright.sparse.formats import BUILT_IN, find
from loopwright.sparse.tensor import SparseTensor, same, sparse_tensor
from loopwright.sparse.transposition import Partners, exchanged, partners, transposed

CSR, CSC = find("csr"), find("csc")
THREADS = (1, 2, 3)
Rows = list[list[int]]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few entries be many: probes, shares and the road itself are for large tensors."""
    monkeypatch.setattr(transposition, "LEAST_ENTRIES", 0)
    monkeypatch.setattr(transposition, "LEAST", 1)
    monkeypatch.setattr(transposition, "_PROBE", 1)
    monkeypatch.setattr(transposition, "_TURN", 7)


def compressed(
    rows: Rows, values: Any = None, *, dtype: str = "int32", to: str = "csr"
) -> SparseTensor:
    """Rows of columns, as they are, in a square."""
    size = len(rows)
    ptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(dtype)
    col = np.array([j for row in rows for j in row], dtype)
    data = np.arange(1.0, len(col) + 1) if values is None else values
    names = {"csr": ("rowptr", "col"), "csc": ("colptr", "row")}[to]
    arrays = dict(zip(names, (ptr, col), strict=True))
    return sparse_tensor(to, (size, size), arrays, data)


def bits(tensor: SparseTensor) -> list[bytes]:
    return [*(array.tobytes() for array in tensor.arrays.values()), tensor.values.tobytes()]


def generally(tensor: SparseTensor, target: Format, threads: int = 1) -> SparseTensor | str:
    """The result without this road, or the error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transposition, "LEAST_ENTRIES", 1 << 62)
        return attempted(tensor, target, threads)


def attempted(tensor: SparseTensor, target: Format, threads: int) -> SparseTensor | str:
    try:
        return convert_tensor(tensor, target, threads=threads)
    except UsageError as error:
        return str(error)


def agree(tensor: SparseTensor) -> None:
    """Both roads give one result, bit by bit, or one error; the tensor stays as it was."""
    target = CSC if tensor.format == CSR else CSR
    before = bits(tensor)
    right = generally(tensor, target)
    for threads in THREADS:
        found = attempted(tensor, target, threads)
        if isinstance(right, SparseTensor):
            assert isinstance(found, SparseTensor)
            assert same(found, right)
            assert {k: a.dtype for k, a in found.arrays.items()} == {
                k: a.dtype for k, a in right.arrays.items()
            }
            assert bits(found) == bits(right)
        else:
            assert found == right
    assert bits(tensor) == before


@st.composite
def symmetric(draw: st.DrawFn, most: int = 9) -> Rows:
    size = draw(st.integers(1, most))
    cells = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    chosen = draw(st.sets(cells, max_size=3 * size))
    whole = chosen | {(j, i) for i, j in chosen}
    return [sorted(j for i, j in whole if i == row) for row in range(size)]


@settings(max_examples=some(60))
@given(symmetric(), st.sampled_from(["csr", "csc"]))
def test_a_symmetric_pattern_shares_its_index_arrays(rows: Rows, to: str) -> None:
    tensor = compressed(rows, to=to)
    target = CSC if to == "csr" else CSR
    agree(tensor)
    for threads in THREADS:
        found = transposed(tensor, target, threads)
        if not len(tensor.values):
            assert found is None
            continue
        assert found is not None
        old, new = tensor.arrays.values(), found.arrays.values()
        assert all(x is y for x, y in zip(old, new, strict=True))
        assert not np.shares_memory(found.values, tensor.values)
        found.check()


@settings(max_examples=some(150))
@given(symmetric(), st.data())
def test_a_pattern_that_is_nearly_symmetric_is_converted_as_any_other(
    rows: Rows, data: st.DataObject
) -> None:
    """One entry taken away, put in, moved or doubled; first, last and between."""
    size = len(rows)
    places = [(i, at) for i, row in enumerate(rows) for at in range(len(row))]
    kind = data.draw(st.sampled_from(["gone", "new", "other", "twice", "swapped"]))
    changed = [list(row) for row in rows]
    i, at = data.draw(st.sampled_from(places)) if places else (0, 0)
    column = data.draw(st.integers(-2, size + 1))
    if kind == "gone" and places:
        del changed[i][at]
    elif kind == "other" and places:
        changed[i][at] = column
    elif kind == "twice" and places:
        changed[i].insert(at, changed[i][at])
    elif kind == "swapped" and places:
        changed[i].reverse()
    else:
        changed[i].insert(data.draw(st.integers(0, len(changed[i]))), column)
    agree(compressed(changed))


@settings(max_examples=some(100))
@given(symmetric(5), st.data())
def test_no_faulty_pointer_passes(rows: Rows, data: st.DataObject) -> None:
    tensor = compressed(rows, dtype=data.draw(st.sampled_from(["int32", "int64"])))
    pointer = tensor.arrays["rowptr"].copy()
    at = data.draw(st.integers(0, len(pointer) - 1))
    info = np.iinfo(pointer.dtype)
    pointer[at] = data.draw(
        st.sampled_from([*range(-2, len(tensor.values) + 3), info.min, info.max])
    )
    agree(replace(tensor, arrays={**tensor.arrays, "rowptr": pointer}))


@settings(max_examples=some(60))
@given(symmetric(6), st.data())
def test_wide_indices_are_proven_too(rows: Rows, data: st.DataObject) -> None:
    """Formats of one's own with 64 bits, in which natural numbers could be taken for others."""
    tensor = compressed(rows, dtype="int64")
    wide_csr, wide_csc = own(CSR, "wide_rows", "int64"), own(CSC, "wide_columns", "int64")
    column = tensor.arrays["col"].copy()
    if len(column) and data.draw(st.booleans()):
        strange = data.draw(st.sampled_from([-1, len(rows), -(1 << 63), (1 << 63) - 1, 1 << 32]))
        column[data.draw(st.integers(0, len(column) - 1))] = strange
    arrays = {"rowptr": tensor.arrays["rowptr"], "col": column}
    given_ = sparse_tensor(wide_csr, tensor.shape, arrays, tensor.values)
    right = generally(given_, wide_csc)
    for threads in THREADS:
        found = attempted(given_, wide_csc, threads)
        if isinstance(right, SparseTensor):
            assert isinstance(found, SparseTensor)
            assert bits(found) == bits(right)
        else:
            assert found == right


def own(of: Format, name: str, dtype: str) -> Format:
    indices = tuple(replace(i, dtype=dtype) for i in of.indices)
    return replace(of, name=name, indices=indices)


@pytest.mark.drawn(4)
@pytest.mark.parametrize(
    "values",
    [
        np.array([0x7FF8000000000001, 0xFFF0DEADBEEF0001, 1 << 63, 7], np.uint64).view(np.float64),
        np.array([1 + 2j, 3, complex(0, np.nan), -0.0]),
        np.array([True, False, True, True]),
        np.array([1, -2, 3, 4], np.int8),
        np.array([1, 2, 3, 4], np.float16),
    ],
    ids=lambda values: str(values.dtype),
)
def test_values_keep_their_bits(values: NDArray[Any]) -> None:
    tensor = compressed([[0, 2], [], [0, 2]], values)
    agree(tensor)
    found = transposed(tensor, CSC)
    assert found is not None
    assert found.values.tobytes() == values[[0, 2, 1, 3]].tobytes()


def test_values_of_unknown_types_are_refused_as_ever() -> None:
    tensor = compressed([[0]], np.array(["x"]))
    assert transposed(tensor, CSC) is None
    agree(tensor)


def test_arrays_of_any_layout_are_read() -> None:
    values = np.arange(8.0)[::2]
    tensor = compressed([[0, 2], [], [0, 2]], values)
    strided = np.repeat(tensor.arrays["col"], 2)[::2]
    agree(replace(tensor, arrays={**tensor.arrays, "col": strided}))


def test_a_pattern_of_late_difference_is_found() -> None:
    """Later than the probe, in the first and in the last of the shares."""
    size = 40
    band = [[j for j in (i - 1, i, i + 1) if 0 <= j < size] for i in range(size)]
    assert transposed(compressed(band), CSC, 3) is not None
    for row in (3, size // 2, size - 1):
        broken = [list(columns) for columns in band]
        broken[row].remove(row - 1)
        assert all(transposed(compressed(broken), CSC, t) is None for t in THREADS)
        agree(compressed(broken))


def test_pairs_between_distant_shares_meet() -> None:
    """An arrow: every share has partners in the first one, and all in the last."""
    size = 30
    rows = [[0, i, size - 1] if 0 < i < size - 1 else list(range(size)) for i in range(size)]
    tensor = compressed(rows)
    for threads in (1, 2, 3, 7):
        found = transposed(tensor, CSC, threads)
        assert found is not None
        assert np.array_equal(found.to_dense(), tensor.to_dense())


def test_triangles_are_seen_in_their_first_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """No entry of an upper triangle meets another: the probe asks what is missing."""
    monkeypatch.setattr(transposition, "_PROBE", 60)
    ran: list[int] = []
    size = 50
    code = transposition.pairing

    class Told:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def run(self, arrays: Any, symbols: Any, threads: int = 1) -> None:
            ran.append(symbols["STOP"])
            self.inner.run(arrays, symbols, threads)

    monkeypatch.setattr(transposition, "pairing", lambda *types: Told(code(*types)))
    for rows in ([[*range(i, size)] for i in range(size)], [[*range(i + 1)] for i in range(size)]):
        ran.clear()
        assert transposed(compressed(rows), CSC) is None
        assert ran
        assert max(ran) < size


def test_what_is_not_square_or_says_other_sizes_is_left_alone() -> None:
    tensor = compressed([[0, 1], [0, 1]])
    wide = sparse_tensor("csr", (2, 3), tensor.arrays, tensor.values)
    assert transposed(wide, CSC) is None
    agree(wide)
    for lie in ({"NR": 3}, {"NNZ": 3}, {"NC": 1}):
        assert transposed(replace(tensor, symbols={**tensor.symbols, **lie}), CSC) is None
    short = replace(tensor, values=tensor.values[:2])
    assert transposed(short, CSC) is None


def test_few_entries_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = compressed([[0, 1], [0, 1]])
    monkeypatch.setattr(transposition, "LEAST_ENTRIES", 5)
    assert transposed(tensor, CSC) is None


def test_partners_are_told_by_descriptors() -> None:
    assert partners(CSR, CSC) == Partners(("rowptr", "colptr"), ("col", "row"))
    assert partners(CSC, CSR) == Partners(("colptr", "rowptr"), ("row", "col"))
    for name, family in BUILT_IN.items():
        if 2 in family.ranks and name != "csc":
            assert partners(CSR, find(name)) is None, name
    mine = declare(
        "my_columns",
        "{[b,e,a] -> [x,y] : x=a && y=b && 0<=b<W && begin(b)<=e<begin(b+1) && 0<=e<K"
        " && a=at(e) && 0<=x<H}",
        "{[b,e,a] -> [e]}",
        index("begin", "{[z] : 0<=z<=W}", "{[q] : 0<=q<=K}", monotone="increasing"),
        index("at", "{[z] : 0<=z<K}", "{[q] : 0<=q<H}"),
        places="K",
        order=("y", "x"),
        invariants=(
            "begin(0) = 0",
            "begin(W) = K",
            "forall b,e: 0<=b<W && begin(b)<=e<begin(b+1)-1 => at(e)<at(e+1)",
        ),
        sizes=("H", "W"),
    )
    assert partners(CSR, mine) == Partners(("rowptr", "begin"), ("col", "at"))
    assert partners(CSC, mine) is None
    assert partners(CSR, replace(mine, invariants=mine.invariants[:2])) is not None
    assert partners(CSR, replace(mine, invariants=mine.invariants[1:])) is None
    assert partners(CSR, replace(mine, order=mine.order[:1])) is None
    assert partners(CSR, replace(mine, is_unique=False)) is None
    assert partners(CSR, replace(mine, order=mine.order[::-1])) is None
    tensor = compressed([[0, 1], [0, 1]])
    found = exchanged(tensor, mine, Partners(("rowptr", "begin"), ("col", "at")))
    assert found is not None
    assert np.array_equal(found.to_dense(), tensor.to_dense())
    assert found.check().symbols == {"K": 4, "H": 2, "W": 2}


def test_formats_that_promise_more_are_no_partners() -> None:
    """What they promise is checked where they are converted as any other."""
    begin, at = CSR.indices
    rule = "forall k: 0<=k<NNZ => col(k)<NNZ"
    told = declare(
        "more", str(CSR.map), str(CSR.access), begin, at, places="NNZ", invariants=(rule,)
    )
    assert partners(replace(CSR, invariants=(*CSR.invariants, *told.invariants)), CSC) is None
    narrow = index("col", "{[x] : 0<=x<NNZ}", "{[y] : 1<=y<NC}")
    assert partners(replace(CSR, indices=(begin, narrow)), CSC) is None
    strict = replace(begin, monotone="strictly increasing")
    assert partners(replace(CSR, indices=(strict, at)), CSC) is None
    assert partners(replace(CSR, name="same"), CSC) is not None


def test_the_descriptor_of_the_documentation_is_a_partner() -> None:
    """Constraints that index arrays promise anyway may be left out of a map."""
    rows = declare(
        "rows",
        "{[ii,k,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && rowptr(ii)<=k<rowptr(ii+1)"
        " && jj=col(k)}",
        "{[ii,k,jj] -> [k]}",
        *CSR.indices,
        places="NNZ",
        order=("i", "j"),
        invariants=[rule.text for rule in CSR.invariants],
    )
    assert partners(rows, CSC) == partners(CSR, CSC)


def test_it_is_explained() -> None:
    told = "in a square of symmetric pattern colptr is rowptr and row is col"
    assert told in str(explain("csr", "csc"))
    assert "symmetric" not in str(explain("csr", "dia"))
