"""Passes over entries without their rows: which stages have one, and that nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.sparse.convert_tensor import convert_tensor
from loopwright.sparse.explain_conversion import explain
from loopwright.sparse.format import declare
from loopwright.sparse.formats import find
from loopwright.sparse.synthesis.conversion import Conversion
from loopwright.sparse.synthesis.stages import Stage
from loopwright.sparse.uf import parse_set
from sparse_builders import of_dense


def conversion(source: str, target: str) -> Conversion:
    found = explain(source, target).conversion
    assert found is not None
    return found


def stage(of: Conversion, name: str) -> Stage:
    return next(s for s in of.stages if s.computation.name.startswith(name))


def test_what_asks_for_numbers_alone_is_one_loop() -> None:
    count = stage(conversion("csr", "csc"), "count")
    assert count.collapsed is not None
    (stmt,) = count.collapsed.statements
    assert stmt.domain == parse_set("{[from_k] : 0 <= from_k < from_NNZ}")
    assert "from_rowptr" not in stmt.reads
    # Shares of the counting pass are those of the pass whose cursors start from them.
    (whole,) = count.computation.statements
    assert whole.variables == ("from_ii", "from_k", "from_jj")
    assert (count.collapsed.spaces, count.collapsed.symbols) == (
        count.computation.spaces,
        count.computation.symbols,
    )


@pytest.mark.parametrize(
    ("source", "target", "name"),
    [
        ("csr", "csc", "fill"),  # stores rows
        ("csr", "csc", "sum"),  # is no pass over entries
        ("csr", "dia", "count"),  # marks differences of rows and columns
        ("coo", "csc", "digits"),  # has no rows
        ("ell", "csc", "count"),  # has padding, so that numbers are not places
    ],
)
def test_what_asks_for_more_stays(source: str, target: str, name: str) -> None:
    found = [s for s in conversion(source, target).stages if s.computation.name.startswith(name)]
    assert all(s.collapsed is None for s in found)


def test_without_the_ends_of_pointers_rows_are_visited() -> None:
    csr = find("csr")
    invariants = [rule.text for rule in csr.invariants if not rule.text.startswith("rowptr(0)")]
    texts = str(csr.map), str(csr.access)
    loose = declare(
        "loose", *texts, *csr.indices, places="NNZ", order=("i", "j"), invariants=invariants
    )
    found = explain(loose, "csc").conversion
    assert found is not None
    assert stage(found, "count").collapsed is None


@pytest.mark.drawn(3)
@pytest.mark.parametrize("source", ["csr", "csc", "dcsr", "csf"])
@pytest.mark.parametrize("target", ["csr", "csc", "dcsr", "ell"])
def test_results_are_those_of_the_matrix(source: str, target: str) -> None:
    whole = np.random.default_rng(3).integers(0, 3, (7, 5)).astype(float)
    whole[2] = whole[:, 1] = 0
    tensor = of_dense(find(source), whole)
    found = convert_tensor(tensor, find(target)).check()
    assert np.array_equal(found.to_dense(), whole)
