"""Rows and columns exchanged: symmetric patterns share their index arrays, all others do not."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from drawn import some
from loopwright import options
from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DTYPES
from loopwright.sparse import transposition
from loopwright.sparse.convert_tensor import convert_tensor
from loopwright.sparse.format import Format, declare, index
from loopwright.sparse.formats import BUILT_IN, find
from loopwright.sparse.spf.compile_computation import CompiledComputation
from loopwright.sparse.tensor import SparseTensor, same, sparse_tensor
from loopwright.sparse.transposition import (
    Partners,
    exchanged,
    pairing,
    partners,
    shared_pairing,
    transposed,
)

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


def test_what_is_not_square_or_says_other_sizes_is_left_alone() -> None:
    tensor = compressed([[0, 1], [0, 1]])
    wide = sparse_tensor("csr", (2, 3), tensor.arrays, tensor.values)
    assert transposed(wide, CSC) is None
    agree(wide)
    for lie in ({"NR": 3}, {"NNZ": 3}, {"NC": 1}):
        assert transposed(replace(tensor, symbols={**tensor.symbols, **lie}), CSC) is None
    short = replace(tensor, values=tensor.values[:2])
    assert transposed(short, CSC) is None


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


Numbers = list[int]


@lru_cache(maxsize=8)
def checked(is_shared: bool, word: str) -> CompiledComputation:
    """Code that tells when it leaves an array."""
    types = DTYPES[word], DTYPES[word], DTYPES["uint64"]
    found = (shared_pairing if is_shared else pairing)(*types)
    own = CompiledComputation(found.computation)
    with options.override(boundscheck=True, cache=False):
        assert own.kernel is not None
    return own


@st.composite
def arrays(draw: st.DrawFn) -> tuple[Numbers, Numbers]:
    """Pointers from 0 to the number of entries, and columns: often symmetric, often nearly so."""
    size = draw(st.integers(1, 7))
    near, half = st.integers(-1, size), 1 << 31
    cells = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))
    chosen = draw(st.sets(cells, min_size=1, max_size=2 * size))
    chosen |= {(j, i) for i, j in chosen}
    col = [j for _, j in sorted(chosen)]
    ptr = [sum(1 for i, _ in chosen if i < row) for row in range(size + 1)]
    strange = near | st.sampled_from([-half, half - 1, -2, 1 << 20])
    for _ in range(draw(st.integers(0, 2))):
        if draw(st.booleans()):
            col[draw(st.integers(0, len(col) - 1))] = draw(strange)
        elif size > 1:
            ptr[draw(st.integers(1, size - 1))] = draw(strange | st.integers(0, len(col)))
    return ptr, col


def swapped(ptr: Numbers, col: Numbers) -> Numbers | None:
    """The place whose value comes to each place, of a symmetric pattern stored in order."""
    size = len(ptr) - 1
    if any(ptr[i] > ptr[i + 1] for i in range(size)):
        return None
    places = {(i, col[k]): k for i in range(size) for k in range(ptr[i], ptr[i + 1])}
    in_order = [at for at, _ in sorted(places.items())]
    given_ = [(i, col[k]) for i in range(size) for k in range(ptr[i], ptr[i + 1])]
    if in_order != given_ or {(j, i) for i, j in places} != {*places}:
        return None
    return [places[j, i] for i, j in given_]


@pytest.mark.drawn(2)
@pytest.mark.parametrize("word", ["uint32", "uint64"])
@settings(max_examples=some(120))
@given(arrays(), st.integers(1, 4), st.data())
def test_every_input_is_right_or_refused(
    word: str, given_: tuple[Numbers, Numbers], shares: int, data: st.DataObject
) -> None:
    ptr, col = given_
    size, count = len(ptr) - 1, len(col)
    right = swapped(ptr, col)
    held: dict[str, NDArray[np.generic]] = {
        "ptr": np.array(ptr, np.int64).astype(word),
        "col": np.array(col, np.int64).astype(word),
        "values": np.arange(count, dtype=np.uint64),
        "out": np.full(count, 99, np.uint64),
        "cur": np.array(
            data.draw(st.lists(st.integers(0, 255), min_size=size, max_size=size)), word
        ),
    }
    bad = np.zeros(1, np.bool_)
    known = {"N": size, "NNZ": count}
    checked(False, word).run(held | {"bad": bad}, {"FIRST": 0, "STOP": size, "PROBE": 0, **known})
    assert bool(bad[0]) == (right is None)
    if right is not None:
        assert held["out"].tolist() == right
    held["out"][...] = 99
    inner = sorted(
        data.draw(st.lists(st.integers(0, size), min_size=shares - 1, max_size=shares - 1))
    )
    each = np.zeros(shares, np.bool_)
    cut = np.array([0, *inner, size])
    more = {"cut": cut, "last": np.empty(shares, np.int64), "bad": each}
    checked(True, word).run(held | more, {**known, "SHARES": shares}, 2)
    assert bool(each.any()) == (right is None)
    if right is not None:
        assert held["out"].tolist() == right
