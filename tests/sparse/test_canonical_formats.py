"""Formats of the table declared under other names: the same code and checks, equal results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import loopwright as lw
from drawn import combined, drawn
from loopwright.diagnostics import UsageError
from loopwright.sparse import unverified_formats
from loopwright.sparse.bounds_proof import invariants_read_inside
from loopwright.sparse.convert_tensor import conversion, convert_tensor
from loopwright.sparse.executors import add
from loopwright.sparse.format import Format, Invariant, declare, index
from loopwright.sparse.formats import find, is_built_in
from loopwright.sparse.formats.canonical_formats import canonical_format, is_verified
from loopwright.sparse.quick_check import quick_check_of
from loopwright.sparse.spf.computation import Computation, computation_text
from loopwright.sparse.synthesis.renaming import canonical, rename_format
from loopwright.sparse.tensor import SparseTensor
from loopwright.sparse.uf import parse_implication
from loopwright.sparse.validate_arrays import index_names
from sparse_builders import of_dense

MATRICES = (
    "coo", "scoo", "mcoo2", "csr", "csr_unsorted", "csc", "dia", "ell(column)", "ell(row)",
    "bcsr(2,3)", "bcsr(3,3)", "dcsr", "lil", "csf", "hicoo(4)", "alto", "sell(2,4)", "sell(4,4)",
)  # fmt: skip
TENSORS = (("coo", 3), ("csf", 3), ("csf", 5), ("hicoo(128)", 3), ("mcoo3", 3), ("alto", 4))


def twin(format: Format) -> Format:
    """The format with another name for everything that has one."""
    rank = format.rank
    sizes, coordinates = ([f"{x}{n}" for n in range(rank)] for x in ("EXTENT", "at"))
    made = rename_format(format, "my_", tuple(coordinates), tuple(sizes))
    return replace(made, name="mine")


def dense(rank: int = 2) -> np.ndarray:
    random = np.random.default_rng(rank)
    made = (random.random((9, 7, 6, 5, 4)[:rank]) < 0.3) * random.integers(1, 9, (1,) * rank)
    return made.astype(float)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("name", "rank"), [*((name, 2) for name in MATRICES), *TENSORS])
def test_twins_are_known_to_be_right(name: str, rank: int) -> None:
    own = find(name, rank)
    other = twin(own)
    assert canonical_format(own) == canonical_format(other)
    assert not is_built_in(other)
    assert is_verified(other)
    assert not unverified_formats.is_unverified(other)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("name", "other"), combined(MATRICES, ["csr", "coo"], one_in=2))
def test_conversions_of_twins_are_the_same_code(name: str, other: str) -> None:
    own = of_dense(name, dense())
    mine = retold(own)
    plainly = of_dense(other, dense())
    for one, two in (
        (conversion(own, find(other)), conversion(mine, find(other))),
        (conversion(plainly, own.format), conversion(plainly, mine.format)),
    ):
        assert len(one.stages) == len(two.stages)
        for a, b in zip(one.stages, two.stages, strict=True):
            assert code_text(a.computation) == code_text(b.computation)
            assert (a.collapsed is None) == (b.collapsed is None)
            assert len(a.disjoint_writes) == len(b.disjoint_writes)


def code_text(computation: Computation) -> str:
    """The text of a computation under plain names, in no order of its spaces and symbols."""
    found = computation_text(canonical(computation).computation)
    return "\n".join(sorted(found.splitlines()))


def retold(tensor: SparseTensor) -> SparseTensor:
    """The same arrays under the descriptor of the twin."""
    made = twin(tensor.format)
    arrays = {f"my_{name}": array for name, array in tensor.arrays.items()}
    sizes = dict(zip(made.sizes, tensor.shape, strict=True))
    others = {
        f"my_{name}": value
        for name, value in tensor.symbols.items()
        if name not in tensor.format.sizes
    }
    return SparseTensor(made, tensor.shape, arrays, {**others, **sizes}, tensor.values)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", MATRICES)
def test_twins_are_validated_by_the_same_code(name: str) -> None:
    own, mine = (find(name), twin(find(name)))
    dtypes = tuple(np.dtype(i.dtype or "int32") for i in own.indices)
    looks = [quick_check_of(format, dtypes, False) for format in (own, mine)]
    assert (looks[0] is None) == (looks[1] is None)
    if looks[0] is not None and looks[1] is not None:
        assert len(looks[0].rest) == len(looks[1].rest)
    assert len(index_names(own)) == len(index_names(mine))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", drawn(MATRICES, 2))
def test_kernels_of_twins_are_the_same_loops(name: str) -> None:
    own = of_dense(name, dense())
    other = replace(own.format, name="mine")
    mine = SparseTensor(other, own.shape, own.arrays, own.symbols, own.values)
    x = np.arange(1.0, 8.0)
    one, two = (lw.sparse.compile_kernel("ij,j->i", t, x, threads=1) for t in (own, mine))
    assert one.inspect("loops") == two.inspect("loops")
    assert np.array_equal(one.run(), two.run())


@pytest.mark.drawn(9)
@pytest.mark.parametrize("name", drawn(MATRICES, 2, first=1))
def test_nothing_is_looked_at_by_hand(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither entries nor promises of a twin are gone through by NumPy."""

    def refuse(*_: object) -> None:
        raise AssertionError("a twin is looked at as a format that may be wrong")

    monkeypatch.setattr(unverified_formats, "entries", refuse)
    monkeypatch.setattr(unverified_formats, "validate_tensor", refuse)
    mine = twin(find(name))
    for source in ("csr", "coo"):
        given = of_dense(source, dense())
        made = convert_tensor(given, mine)
        back = convert_tensor(made, given.format)
        assert np.array_equal(back.to_dense(), dense())


def test_sums_of_twins_are_merged_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = convert_tensor(of_dense("coo", dense()), twin(find("csr")))
    monkeypatch.setattr(add, "_merged", None)
    made = lw.sparse.add(mine, mine)
    assert np.array_equal(made.to_dense(), 2 * dense())


def test_what_differs_in_more_than_names_is_no_twin() -> None:
    csr, bcsr = find("csr"), find("bcsr(2,3)")
    assert not is_verified(replace(csr, invariants=csr.invariants[:2]))
    assert not is_verified(replace(csr, order=csr.order[::-1]))
    assert not is_verified(replace(csr, is_unique=False))
    wrong = declare(
        "wrong",
        "{[ii,k,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && rowptr(ii)<=k<rowptr(ii+1)"
        " && jj=col(k)}",
        "{[ii,k,jj] -> [k]}",
        index("rowptr", "{[x] : 0<=x<=NR}", "{[y] : 0<=y<=NNZ}", monotone="increasing"),
        index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NR}"),
        places="NNZ",
        order=("i", "j"),
        invariants=("rowptr(0) = 0", "rowptr(NR) = NNZ"),
    )
    assert not is_verified(wrong)
    assert canonical_format(bcsr) != canonical_format(find("bcsr(3,2)"))


def test_a_name_of_the_table_does_not_make_a_format_right() -> None:
    csc = find("csc")
    assert is_verified(replace(csc, name="csr"))  # it is right as what it says, not as its name
    assert not is_verified(replace(csc, name="csc", order=()))


BACKWARDS = declare(
    "backwards",
    "{[ii,k,jj] -> [i,j] : i=NR-1-ii && j=jj && 0<=ii<NR && rowptr(ii)<=k<rowptr(ii+1)"
    " && jj=col(k)}",
    "{[ii,k,jj] -> [k]}",
    index("rowptr", "{[x] : 0<=x<=NR}", "{[y] : 0<=y<=NNZ}", monotone="increasing"),
    index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}"),
    places="NNZ",
    order=("-i", "j"),
    invariants=(
        "rowptr(0) = 0",
        "rowptr(NR) = NNZ",
        "forall x,k: 0<=x<NR && rowptr(x)<=k<rowptr(x+1)-1 => col(k)<col(k+1)",
    ),
)


def test_formats_that_are_in_no_table_are_validated_by_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows from the last to the first: its promises are counted by code, the rest is proven."""
    assert not is_verified(BACKWARDS)
    monkeypatch.setattr(unverified_formats, "_MANY", 1)

    def refuse(*_: object) -> None:
        raise AssertionError("looked at by NumPy")

    for name in ("entries", "validate_tensor", "satisfies"):
        monkeypatch.setattr(unverified_formats, name, refuse)
    made = convert_tensor(of_dense("coo", dense()), BACKWARDS)
    assert np.array_equal(convert_tensor(made, find("csr")).to_dense(), dense())


def test_rules_that_may_read_anywhere_are_not_compiled() -> None:
    """The premise bounds k by no number that is known to lie in the array."""
    assert invariants_read_inside(BACKWARDS)
    for text in (
        "forall k: 0<=k<NC => col(k+1)<NC",
        "forall x: 0<=x<NR => col(rowptr(x))<NC",
        "forall x,k: 0<=x<=NR && rowptr(x)<=k<rowptr(x+1)-1 => col(k)<col(k+1)",
    ):
        rule = Invariant(*parse_implication(text), text)
        assert not invariants_read_inside(
            replace(BACKWARDS, invariants=(*BACKWARDS.invariants, rule))
        ), text


@pytest.mark.parametrize(("array", "at", "number"), [("col", 3, 99), ("rowptr", 2, 40)])
def test_broken_promises_of_such_formats_are_told(array: str, at: int, number: int) -> None:
    made = convert_tensor(of_dense("coo", dense()), BACKWARDS)
    arrays = {name: x.copy() for name, x in made.arrays.items()}
    broken = lw.sparse.sparse_tensor(BACKWARDS, made.shape, arrays, made.values)
    x = np.ones(7)
    wanted = dense() @ x
    assert np.array_equal(lw.sparse.spmv(broken, x), wanted)
    before = arrays[array][at]
    arrays[array][at] = number
    with pytest.raises(UsageError, match=array):
        convert_tensor(broken, find("csr"))
    with pytest.raises(UsageError, match=array):
        lw.sparse.spmv(broken, x)
    arrays[array][at] = before
    assert np.array_equal(lw.sparse.spmv(broken, x), wanted)
