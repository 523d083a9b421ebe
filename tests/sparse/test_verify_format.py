"""Descriptors that are sound are shown to be; those that are not fail with an example."""

from __future__ import annotations

from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest

from loopwright.diagnostics import UsageError
from loopwright.sparse.convert_tensor import convert
from loopwright.sparse.format import Format, declare, index
from loopwright.sparse.formats import find
from loopwright.sparse.invariants import facts_of
from loopwright.sparse.tensor import sparse_tensor
from loopwright.sparse.verify_claims import claims_of, has_z3, proved_by_isl, proved_by_z3
from loopwright.sparse.verify_format import Status, Verification, verify
from loopwright.sparse.verify_search import Search, storages

ROWPTR = index("rowptr", "{[x] : 0<=x<=NR}", "{[y] : 0<=y<=NNZ}", monotone="increasing")
COL = index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}")
ENDS = ("rowptr(0) = 0", "rowptr(NR) = NNZ")
SORTED = "forall x,k: 0<=x<NR && rowptr(x)<=k<rowptr(x+1)-1 => col(k)<col(k+1)"
MAP = "{[ii,k,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && rowptr(ii)<=k<rowptr(ii+1) && jj=col(k)}"


def csr_like(
    map: str = MAP,
    access: str = "{[ii,k,jj] -> [k]}",
    rowptr: Any = ROWPTR,
    col: Any = COL,
    **other: Any,
) -> Format:
    """CSR, with something in another way."""
    given = {"places": "NNZ", "order": ("i", "j"), "invariants": (*ENDS, SORTED)} | other
    return declare("like_csr", map, access, rowptr, col, **given)


LOOSE = index("rowptr", "{[x] : 0<=x<=NR}", "{[y] : 0<=y<=NNZ}")
SHORT = index("rowptr", "{[x] : 0<=x<NR}", "{[y] : 0<=y<=NNZ}", monotone="increasing")
ENDLESS = index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y}")
WIDE = index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<=NC}")
BOUNDED = MAP.replace("}", " && 0<=j<NC}")

# what is wrong, the descriptor, the obligation that fails, what its example says
WRONG = (
    ("monotonicity dropped", csr_like(rowptr=LOOSE), "access", "two tuples share a place"),
    (
        "domain one too short",
        csr_like(rowptr=SHORT, invariants=("rowptr(0) = 0", SORTED)),
        "calls",
        "rowptr(ii+1) reads rowptr at 1, outside its 1 places",
    ),
    (
        "access not injective",
        csr_like(access="{[ii,k,jj] -> [p] : p=jj}", places="NC"),
        "access",
        "two tuples share a place",
    ),
    ("wrong order key", csr_like(order=("j", "i")), "order", "not in the order"),
    ("bound missing", csr_like(col=ENDLESS), "shape", "j = 1 lies outside the shape"),
    ("range one too wide", csr_like(map=BOUNDED, col=WIDE), "reached", "no tuple reaches"),
    (
        "coordinates swapped",
        csr_like(map=MAP.replace("i=ii && j=jj", "i=jj && j=ii"), order=("j", "i")),
        "shape",
        "lies outside the shape",
    ),
    (
        "coordinates swapped under bounds",
        csr_like(
            map=MAP.replace("i=ii && j=jj", "i=jj && j=ii && 0<=i<NR && 0<=j<NC"), order=("j", "i")
        ),
        "bounds",
        "needs rowptr",
    ),
    (
        "columns may repeat",
        csr_like(invariants=ENDS),
        "injective",
        "two tuples hold one coordinate",
    ),
    ("order not total", csr_like(order=("i",)), "total", "keys are equal"),
    ("too few values", csr_like(places="NNZ-1"), "places", "lies outside"),
)


@cache
def report_of(format: Format) -> Verification:
    return verify(format, side=2)


@pytest.mark.parametrize(
    ("format", "claim", "text"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG]
)
def test_wrong_descriptors_fail_with_an_example(format: Format, claim: str, text: str) -> None:
    report = report_of(format)
    assert not report.is_sound
    failed = report.obligation(claim)
    assert failed.status is Status.FAILED
    assert failed.example is not None
    assert text in str(failed.example)
    assert "WRONG" in str(report)
    assert failed.hint in str(report)
    assert repr(report) == str(report)
    with pytest.raises(UsageError, match="the descriptor of like_csr is wrong") as caught:
        report.require()
    assert "\ufffd" not in str(caught.value)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("name", "rank"),
    [("coo", 2), ("dia", 2), ("ell(column)", 2)],
)
def test_built_in_formats_are_sound(name: str, rank: int) -> None:
    report = verify(name, rank=rank, side=2)
    assert report.is_sound
    assert all(o.status is not Status.OPEN for o in report.obligations)


# What isl proves of each built-in format for all sizes; others hold by construction or by search.
@pytest.mark.drawn(6)
@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("coo", set()),
        ("mcoo2", set()),
        ("csr", set()),
        ("csr_unsorted", set()),
        ("dia", {"places"}),
        ("ell", set()),
        ("bcsr(2,3)", set()),
        ("dcsr", set()),
        ("lil", set()),
        ("alto", set()),
    ],
)
def test_what_isl_proves(name: str, missing: set[str]) -> None:
    format = find(name)
    assert {c.name for c in claims_of(format) if not proved_by_isl(c, format)} == missing


@pytest.mark.drawn(2)
@pytest.mark.parametrize("name", ["csr", "dia", "ell", "sell(2,2)"])
def test_storages_are_tensors_that_pass_the_check(name: str) -> None:
    format = find(name)
    found = list(islice(storages(format, Search()), 25))
    assert len({str((s.shape, [a.tolist() for a in s.arrays.values()])) for s in found}) == 25
    for storage in found:
        tensor = sparse_tensor(
            format, storage.shape, storage.arrays, storage.values, symbols=storage.symbols
        )
        tensor.check()


def test_a_format_that_cannot_be_filled_stays_open() -> None:
    """What a rank numbers does not follow: synthesis refuses, and the report says so."""
    format = csr_like(
        map="{[ii,k,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && rowptr(ii)<=k<rowptr(ii+2)-1"
        " && k=rowptr(ii) && jj=col(k)}",
        invariants=("forall x: 0<=x<NR => rowptr(x+1)=rowptr(x)+1", *ENDS),
        rowptr=index("rowptr", "{[x] : 0<=x<=NR+1}", "{[y] : y>=0}", monotone="increasing"),
    )
    report = verify(format, side=2)
    assert report.obligation("stored").status is Status.OPEN


@pytest.mark.drawn(2)
@pytest.mark.skipif(not has_z3(), reason="z3 is not installed")
@pytest.mark.parametrize("name", ["csr", "csc", "ell", "dcsr", "lil"])
def test_z3_agrees_with_isl(name: str) -> None:
    format = find(name)
    for claim in claims_of(format):
        if claim.name in ("access", "shape", "calls"):
            assert proved_by_z3(claim.cases, facts_of(format)), claim.name


def test_no_code_is_made_for_arrays_without_room() -> None:
    """Code for such a format would write past the end of rowptr."""
    swapped = MAP.replace("i=ii && j=jj", "i=jj && j=ii && 0<=i<NR && 0<=j<NC")
    with pytest.raises(UsageError, match="are too short for some coordinate") as error:
        convert(np.ones((1, 3)), csr_like(map=swapped, order=("j", "i")))
    assert "in a tensor of 1 x 2 the entry (0, 1) needs rowptr" in str(error.value)
    own = csr_like()
    np.testing.assert_array_equal(convert(np.eye(2, 3), own).to_dense(), np.eye(2, 3))


def test_the_descriptor_before_it_was_spoilt_is_sound() -> None:
    report = verify(csr_like(), side=2).require()
    assert report.is_sound
    proved = {o.name for o in report.obligations if o.status is Status.PROVED}
    assert proved >= {"function", "injective", "access", "calls", "shape", "places", "bounds"}
    assert "like_csr: sound" in str(report)
    with pytest.raises(UsageError, match="no obligation is called 'speed'"):
        report.obligation("speed")
