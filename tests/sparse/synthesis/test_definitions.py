"""What every index array is; arrays that do not follow from the entries are named."""

import pytest

from loopwright.diagnostics import UsageError
from loopwright.sparse.convert_tensor import convert
from loopwright.sparse.format import Format, Index, declare, index
from loopwright.sparse.formats import find
from loopwright.sparse.synthesis.definitions import (
    CountArray,
    CountSymbol,
    LastSymbol,
    MaxArray,
    MaxSymbol,
    PermutationArray,
    PointerArray,
    RunningSumArray,
    StoredArray,
    define_arrays,
)
from loopwright.sparse.synthesis.inverse import invert
from sparse.synthesis.pairs import FORMATS_2D, FORMATS_3D
from sparse_builders import of_dense

KINDS = {
    "coo": [StoredArray, StoredArray, CountSymbol],
    "csr": [PointerArray, StoredArray, CountSymbol],
    "csc": [PointerArray, StoredArray, CountSymbol],
    "dia": [StoredArray, CountSymbol],
    "ell(row)": [CountArray, StoredArray, MaxSymbol],
    "bcsr(2,2)": [PointerArray, StoredArray, CountSymbol],
    "dcsr": [StoredArray, PointerArray, StoredArray, CountSymbol, CountSymbol],
    "lil": [CountArray, RunningSumArray, StoredArray, LastSymbol],
    "sell(2,4)": [CountArray, PermutationArray, MaxArray, RunningSumArray, StoredArray, LastSymbol],
    "alto": [StoredArray, CountSymbol],
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds(name: str) -> None:
    assert [type(found) for found in define_arrays(invert(find(name)))] == KINDS[name]


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


def test_how_rows_are_sorted() -> None:
    """SELL: rows stay in their window, longer ones come first, equal ones keep their order."""
    (found,) = (
        d for d in define_arrays(invert(find("sell(2,4)"))) if isinstance(d, PermutationArray)
    )
    assert (found.array, found.inverse, str(found.count)) == ("perm", "pos", "NR")
    keys = [(str(key.term), key.falls) for key in found.keys]
    assert keys[:2] == [("floor(place/4)", False), ("rlen(place)", True)]
    assert all(key == ("place", False) for key in keys[2:])


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


def test_an_array_that_nothing_defines_is_named() -> None:
    with pytest.raises(UsageError, match="mine: 'weight' does not follow from the entries") as told:
        define_arrays(invert(with_extra(WEIGHT)))
    assert "nothing is said of it" in str(told.value)
    assert "an invariant that gives 'weight'" in str(told.value)


def test_what_is_said_of_it_is_told() -> None:
    rule = "forall x: 0<=x<NR && weight(x)>=1 => rowptr(x+1)>=1"
    with pytest.raises(UsageError) as told:
        convert(of_dense("coo", [[0, 1.0]]), with_extra(WEIGHT, rule))
    assert "'weight' does not follow" in str(told.value)
    assert rule in str(told.value)


@pytest.mark.parametrize(
    ("entries", "name", "said"),
    [
        ("0<=n<NNZ && ii=row(n) && jj=2*f(n)", "f", r"jj = 2\*f\(n\)"),
        ("0<=ii<NR && f(ii)<=n<g(ii) && 0<=n<NNZ && jj=row(n)", "f", r"n >= f\(ii\)"),
    ],
    ids=["twice", "begin"],
)
def test_what_a_map_says_of_it_is_told(entries: str, name: str, said: str) -> None:
    arrays = [index(a, "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NR}") for a in ("row", "f", "g")]
    used = [array for array in arrays if f"{array.name}(" in entries]
    format = declare(
        "mine",
        f"{{[ii,n,jj] -> [i,j] : i=ii && j=jj && {entries}}}",
        "{[ii,n,jj] -> [n]}",
        *used,
        places="NNZ",
        is_unique=False,
    )
    told = rf"mine: '{name}' does not follow from the entries.*\nnote: found .*{said}"
    with pytest.raises(UsageError, match=told):
        define_arrays(invert(format))


def test_rules_that_wait_for_each_other_are_refused() -> None:
    """a is a running sum of b and b one of a: neither can come first."""
    csr = find("csr")
    sums = [
        index(name, "{[x] : 0<=x<=NR}", "{[y] : 0<=y<=NNZ}", monotone="increasing")
        for name in ("a", "b")
    ]
    format = declare(
        "mine",
        str(csr.map),
        str(csr.access),
        *csr.indices,
        *sums,
        places="NNZ",
        invariants=(
            *(rule.text for rule in csr.invariants),
            "forall x: 0<=x<NR => a(x+1)=a(x)+b(x)",
            "forall x: 0<=x<NR => b(x+1)=b(x)+a(x)",
        ),
    )
    with pytest.raises(UsageError, match=r"'a' does not follow from the entries \(nor do b\)"):
        define_arrays(invert(format))


def test_a_running_sum_of_one_s_own() -> None:
    """An array that the map does not need is made by its rule: squares of nothing but lengths."""
    twice = index("twice", "{[x] : 0<=x<=NR}", "{[y] : 0<=y}", monotone="increasing")
    rule = "forall x: 0<=x<NR => twice(x+1)=twice(x)+2*rowptr(x+1)-2*rowptr(x)"
    result = convert(of_dense("csc", [[0, 1.0, 2], [0, 0, 0], [3, 0, 0]]), with_extra(twice, rule))
    assert result.arrays["twice"].tolist() == [0, 4, 4, 6]
    result.check()


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
