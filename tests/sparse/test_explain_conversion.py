"""What an explanation tells: descriptors, relation, definitions, order, loops, and failures."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.diagnostics import UsageError
from loopwright.sparse.convert_tensor import convert
from loopwright.sparse.explain_conversion import explain
from loopwright.sparse.format import Format, declare, index
from loopwright.sparse.formats import BUILT_IN
from loopwright.sparse.tensor import from_dense
from loopwright.sparse.uf import parse_relation


def test_every_step_from_csr_to_csc_is_told() -> None:
    text = str(explain("csr", "csc"))
    for part in (
        "from csr: {[ii,k,jj] -> [i,j]",
        "to csc: {[jj,k,ii] -> [i,j]",
        "to_k numbers (j, i)",
        "to_row: to_row(to_k) = i, for every entry",
        "to_colptr: to_k runs from to_colptr(x) to to_colptr(x+1) under parent x",
        "to_NNZ: how many numbers to_k has",
        "to_k is taken from a cursor of its parent",
        "order: (j, i) from (i, j): by j",
        "make to_colptr[NC+1] of int32, all 0",
        "for (long from_ii = 0; from_ii < NR; from_ii++)",
    ):
        assert part in text, part


def test_the_composed_relation_is_one() -> None:
    composed = explain("csr", "dia").composed
    assert composed.inputs == ("from_ii", "from_k", "from_jj")
    assert composed.outputs == ("to_ii", "to_d", "to_jj")
    assert parse_relation(str(composed)) == composed
    assert {"from_rowptr", "from_col", "to_off"} == {call.name for call in composed.calls}


def test_what_is_shared_is_told() -> None:
    whole = np.eye(4)
    found = explain(from_dense(whole), "csr")
    assert found.shared == ("col", "values")
    assert "shared with the source: col, values" in str(found)
    assert "nothing is sorted" in str(found)
    assert explain("csr", "csc").shared == ()


def test_a_tensor_is_explained_as_what_it_is() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    shuffled = sparse.coo_array(([1.0, 2.0], ([1, 0], [0, 1])), shape=(2, 2))
    assert "order: any" in str(explain(shuffled, "csr"))
    ordered = sparse.coo_array(([1.0, 2.0], ([0, 1], [1, 0])), shape=(2, 2))
    assert "values" in explain(ordered, "csr").shared


@pytest.mark.drawn(8)
@pytest.mark.parametrize("name", [name for name, family in BUILT_IN.items() if 2 in family.ranks])
def test_every_target_has_all_its_arrays_defined(name: str) -> None:
    found = explain("scoo", name)
    assert found.failure is None
    text = str(found)
    for one in found.target.indices:
        assert f"\n  to_{one.name}: " in text
    for count in found.target.counts:
        assert f"\n  to_{count}: " in text


def test_more_dimensions() -> None:
    text = str(explain("coo", "csf", rank=3))
    assert "to_ptr0: to_p1 runs from" in text
    assert "to_idx2: to_idx2(to_p2) = k" in text


def mysterious() -> Format:
    """COO with an array of which nothing says what stands in it."""
    return declare(
        "mysterious",
        "{[n,ii,jj] -> [i,j] : 0<=n<NNZ && ii=row(n) && jj=col(n) && i=ii && j=jj && 0<=n+salt(n)}",
        "{[n,ii,jj] -> [n]}",
        index("row", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NR}"),
        index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}"),
        index("salt", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<9}"),
        places="NNZ",
        order=("i", "j"),
        is_unique=False,
        invariants=("forall n: 0<=n<NNZ-1 => salt(n)+row(n)<=salt(n+1)+row(n+1)",),
    )


def test_a_failed_synthesis_names_the_array_and_what_is_said_of_it() -> None:
    found = explain("csr", mysterious())
    assert found.conversion is None
    assert found.failure is not None
    text = str(found)
    assert repr(found) == text
    assert "no conversion was found:" in text
    assert "salt' does not follow from the entries" in text
    assert "salt(n)+row(n)<=salt(n+1)+row(n+1)" in text
    with pytest.raises(UsageError, match="salt"):
        convert(np.eye(3), mysterious())


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(UsageError, match="unknown format 'crs'"):
        explain("crs", "csc")
    with pytest.raises(UsageError, match="unknown format 'ccs'"):
        explain("csr", "ccs")
    with pytest.raises(UsageError, match="holds tensors of 2 dimensions"):
        explain("csf", "csr", rank=3)
