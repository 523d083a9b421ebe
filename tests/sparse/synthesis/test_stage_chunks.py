"""Conversions by several threads: every array is that of one thread, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drawn import drawn
from loopwright.sparse.convert_tensor import conversion, convert_tensor, with_sortedness
from loopwright.sparse.explain_conversion import explain
from loopwright.sparse.format import Format, Padding, declare, index
from loopwright.sparse.formats import find
from loopwright.sparse.spf import chunk_plan
from loopwright.sparse.spf.chunk_plan import ChunkedComputation
from loopwright.sparse.synthesis import bucket_partition, stage_loops
from loopwright.sparse.tensor import SparseTensor, same, sparse_tensor
from sparse.synthesis.pairs import FORMATS_2D, scattered, targets_of, told
from sparse_builders import build, of_dense

LARGER = (
    scattered(1, (17, 23), 0.15),
    scattered(3, (19, 31), 0.02),
    np.where(np.arange(24)[:, None] % 5 == 0, scattered(5, (24, 17), 0.8), 0),
    np.zeros((17, 18)),
)


@pytest.fixture(autouse=True)
def _small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry is enough for a share, and rows may be as long as they like."""
    monkeypatch.setattr(chunk_plan, "LEAST", 1)
    monkeypatch.setattr(chunk_plan, "LEAST_LIGHT", 1)
    monkeypatch.setattr(chunk_plan, "ROWS", 1 << 40)


def _assert_same(source: SparseTensor, target: str | Format, teams: tuple[int, ...] = (3,)) -> None:
    wanted = find(target, source.ndim)
    one = convert_tensor(source, wanted, threads=1)
    for threads in teams:
        several = convert_tensor(source, wanted, threads=threads)
        if not same(one, several):
            raise AssertionError(
                f"{source.format.name} -> {target}, {threads} threads\n{told(source)}\n"
                f"gives\n{told(several)}\none thread\n{told(one)}"
            )


@pytest.mark.drawn(16)
@pytest.mark.parametrize("source", FORMATS_2D)
def test_pairs(source: str) -> None:
    """Every source with a target of its own; in the hunt all pairs."""
    for number, target in enumerate(targets_of(source, FORMATS_2D, 16), FORMATS_2D.index(source)):
        for array in drawn(LARGER, 4, number):
            _assert_same(of_dense(source, array), target)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("target", ["csr", "dia", "mcoo2"])
def test_repeated_entries_are_summed_in_their_order(target: str) -> None:
    """Runs of equal coordinates are longer than shares; rounding tells the order of a sum."""
    rng = np.random.default_rng(3)
    values = rng.random(60) * 10.0 ** rng.integers(-12, 12, 60)
    places = [(int(i), int(j)) for i, j in rng.integers(0, 3, (60, 2))]
    tensor = build("coo", (17, 18), list(zip(places, values, strict=True)))
    _assert_same(tensor, target, (2, 3, 9))


def _large(count: int, rows: int, columns: int) -> SparseTensor:
    rng = np.random.default_rng(5)
    arrays = {
        "row": rng.integers(0, rows, count).astype(np.int32),
        "col": rng.integers(0, columns, count).astype(np.int32),
    }
    return sparse_tensor("coo", (rows, columns), arrays, rng.random(count))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("target", ["csr", "dia"])
def test_parts_are_shared_out(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many entries are dealt out into parts first, which threads share."""
    monkeypatch.setattr(bucket_partition, "_WORTH_PARTITIONING", 1)
    tensor = _large(45_000, 300, 290)
    found = conversion(with_sortedness(tensor), find(target))
    cut = [
        x.chunked.range_.pointers
        for x in found.chunked_stages
        if isinstance(x.chunked, ChunkedComputation)
    ]
    assert ("starts",) in cut
    _assert_same(tensor, target)


def test_several_threads_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """All stages of csr -> csc, and as many shares as there are threads."""
    used: list[int] = []
    count = stage_loops.chunk_count

    def watched(*given: Any) -> int:
        used.append(count(*given))
        return used[-1]

    monkeypatch.setattr(stage_loops, "chunk_count", watched)
    convert_tensor(of_dense("csr", LARGER[0]), find("csc"), threads=3)
    assert used == [3, 3]  # the last stage takes over the shares of the first
    used.clear()
    convert_tensor(of_dense("csr", LARGER[0]), find("csc"), threads=1)
    assert used == []


def test_places_of_an_unknown_format_are_not_trusted() -> None:
    """Its tuples may share places, as far as anybody knows: one thread fills it."""
    own = declare(
        "own",
        "{[ii,jj,d] -> [i,j] : i=ii && j=jj && 0<=ii<NR && 0<=d<ND && jj=ii+off(d)}",
        "{[ii,jj,d] -> [ND*ii+d]}",
        index("off", "{[x] : 0<=x<ND}", "{[y] : -NR<y<NC}", monotone="strictly increasing"),
        places="NR*ND",
        order=("i", "j"),
        padding=Padding(0, is_mapped=True),
    )
    for target, trusts in ((find("dia"), True), (own, False)):
        found = explain("csr", target).conversion
        assert found is not None
        assert found.stages[-1].computation.name.startswith("fill")
        assert isinstance(found.chunked_stages[-1].chunked, ChunkedComputation) is trusts
        assert bool(found.stages[-1].disjoint_writes) is trusts
    _assert_same(of_dense("csr", LARGER[0]), own)


def test_it_is_told_what_threads_do() -> None:
    text = str(explain("csr", "csc"))
    assert "in chunks, where entries outnumber NC+1: to_colptr is counted per chunk" in text
    assert "cursors cursors of each chunk start behind" in text
