"""Values that change places in pairs: right or refused, and never outside the arrays."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from drawn import some
from loopwright import options
from loopwright.ir.dtypes import DTYPES
from loopwright.sparse.spf.compile_computation import CompiledComputation
from loopwright.sparse.transposition import pairing, shared_pairing

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


@given(arrays(), st.data())
def test_the_first_rows_of_a_symmetric_pattern_may_be_some(
    given_: tuple[Numbers, Numbers], data: st.DataObject
) -> None:
    """A part is refused only if no rows after it could make the whole symmetric."""
    ptr, col = given_
    size, count = len(ptr) - 1, len(col)
    stop = data.draw(st.integers(0, size))
    held = {
        "ptr": np.array(ptr).astype(np.uint32),
        "col": np.array(col).astype(np.uint32),
        "values": np.zeros(count, np.uint64),
        "out": np.zeros(count, np.uint64),
        "cur": np.zeros(size, np.uint32),
    }
    bad = np.zeros(1, np.bool_)
    known = {"FIRST": 0, "STOP": stop, "N": size, "NNZ": count, "PROBE": 1}
    checked(False, "uint32").run(held | {"bad": bad}, known)
    if swapped(ptr, col) is not None:
        assert not bad[0]
    rows = [col[ptr[i] : ptr[i + 1]] for i in range(stop)]
    is_ordered = ptr == sorted(ptr) and all(row == sorted({*row}) for row in rows)
    if not bad[0] and is_ordered:
        assert all(i in rows[j] for i, row in enumerate(rows) for j in row if 0 <= j < stop)
