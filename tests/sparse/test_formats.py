"""Formats: each means what its slow builder stores; names, sizes, facts and code of all of them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn import some
from loopwright.diagnostics import LoopwrightError, UsageError
from loopwright.sparse import unverified_formats
from loopwright.sparse.bounds_proof import find_overrun, invariants_read_inside
from loopwright.sparse.convert_tensor import convert, convert_tensor
from loopwright.sparse.format import Format, Invariant, declare, index
from loopwright.sparse.format_symbols import check_sizes, solve_symbols, symbol_solver
from loopwright.sparse.formats import BUILT_IN, find, is_built_in
from loopwright.sparse.formats.canonical_formats import canonical_format, is_verified
from loopwright.sparse.invariants import facts_of
from loopwright.sparse.synthesis.renaming import rename_format
from loopwright.sparse.tensor import SparseTensor, sparse_tensor
from loopwright.sparse.uf import holds, parse_implication
from loopwright.sparse.uf.oracle import is_function, is_injective
from loopwright.sparse.validate_tensor import check_lengths
from sparse.synthesis.pairs import FORMATS_2D, FORMATS_3D
from sparse_builders import build, of_dense

MATRICES = (*FORMATS_2D, "bcsr(3,2)", "hicoo(128)", "sell(2,3)", "sell(32,128)")
TENSORS = ("coo", "scoo", "mcoo3", "csf", "hicoo(2)", "alto")


def test_every_built_in_format_is_tested() -> None:
    tested = {name.split("(")[0] for name in (*MATRICES, *TENSORS)}
    assert tested == set(BUILT_IN)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("format", MATRICES)
def test_patterns_of_two_by_three(format: str) -> None:
    for bits in list(itertools.product((0, 1), repeat=6))[::3]:
        array = np.reshape(bits, (2, 3)) * np.arange(1.0, 7.0).reshape(2, 3)
        tensor = of_dense(format, array).check()
        assert tensor.to_dense().tolist() == array.tolist()


@pytest.mark.drawn(3)
@pytest.mark.parametrize("format", TENSORS)
@settings(max_examples=15)
@given(st.data())
def test_tensors_of_three_dimensions(format: str, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=3, max_size=3)))
    at = st.tuples(*(st.integers(0, size - 1) for size in shape))
    entries = data.draw(st.lists(st.tuples(at, st.integers(-5, 5))))
    expected = np.zeros(shape)
    for place, value in entries:
        expected[place] += value
    tensor = build(format, shape, entries).check()
    assert tensor.to_dense().tolist() == expected.tolist()


def test_csr_is_told_in_full() -> None:
    assert str(find("csr")) == (
        "csr: {[ii,k,jj] -> [i,j] : i = ii && j = jj && jj = col(k) && ii < NR && ii >= 0 && "
        "j < NC && j >= 0 && k < NNZ && k < rowptr(ii+1) && k >= 0 && k >= rowptr(ii)}\n"
        "  values: {[ii,k,jj] -> [k_1] : k = k_1}, NNZ places\n"
        "  rowptr: {[x] : x <= NR && x >= 0} -> {[y] : y <= NNZ && y >= 0}: increasing\n"
        "  col: {[x] : x < NNZ && x >= 0} -> {[y] : y < NC && y >= 0}\n"
        "  rowptr(0) = 0\n"
        "  rowptr(NR) = NNZ\n"
        "  forall x,k: 0<=x<NR && rowptr(x)<=k<rowptr(x+1)-1 => col(k)<col(k+1)\n"
        "  order: i, j"
    )


@pytest.mark.parametrize(
    ("text", "rank", "told"),
    [
        ("crs", 2, "unknown format 'crs'\ntry: one of coo, scoo, mcoo2"),
        ("csr(", 2, "unknown format 'csr('"),
        (
            "csr",
            3,
            "the format csr holds tensors of 2 dimensions, not 3\ntry: for 3",
        ),
        (
            "csr(3)",
            2,
            "wrong parameters for the format csr\nnote: found csr(3)\ntry: write",
        ),
        ("bcsr(0,2)", 2, "bcsr: the sides of a block are whole numbers from 1 to 2147483647"),
        ("bcsr(a)", 2, "bcsr: the sides of a block are whole numbers from 1 to 2147483647"),
        ("hicoo(3)", 3, "hicoo: the side of a block is a power of two"),
        ("hicoo(1)", 3, "hicoo: the side of a block is a power of two, from 2 on"),
        ("sell(4294967296,1)", 2, "sell: the rows of a slice and of a window are whole numbers"),
        ("ell(diagonal)", 2, "ell: unknown layout 'diagonal'"),
        ("sell(0,1)", 2, "sell: the rows of a slice and of a window are whole numbers from 1"),
    ],
)
def test_unknown_names(text: str, rank: int, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        find(text, rank)
    assert str(caught.value).startswith(told)


def upper() -> Format:
    """A format of one's own: the rows of an upper triangle behind each other, all places stored."""
    return declare(
        "upper",
        "{[ii,w,jj] -> [i,j] : i=ii && j=jj && 0<=ii<NR && 0<=w<NC-ii && jj=ii+w}",
        "{[ii,w,jj] -> [p] : p=start(ii)+w}",
        index("start", "{[x] : 0<=x<=NR}", "{[y] : 0<=y<=NP}", monotone="increasing"),
        places="NP",
        order=("i", "j"),
        invariants=("start(0)=0", "forall x: 0<=x<NR && x<NC => start(x+1)=start(x)+NC-x"),
    )


def test_a_format_of_ones_own() -> None:
    from loopwright.sparse.tensor import sparse_tensor

    tensor = sparse_tensor(upper(), (3, 3), {"start": [0, 3, 5, 6]}, np.arange(1, 7)).check()
    assert tensor.to_dense().tolist() == [[1, 2, 3], [0, 4, 5], [0, 0, 6]]
    with pytest.raises(UsageError, match=r"an invariant is violated: forall x: 0<=x<NR"):
        sparse_tensor(upper(), (3, 3), {"start": [0, 3, 4, 6]}, np.arange(1, 7)).check()


MAP = "{[n,ii] -> [i] : i=ii && 0<=n<NNZ && ii=f(n) && 0<=i<NR}"
ACCESS = "{[n,ii] -> [n]}"


def test_faulty_declarations() -> None:
    f = index("f", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NR}")
    with pytest.raises(UsageError, match="format a: the function f is not declared"):
        declare("a", MAP, ACCESS, places="NNZ")
    with pytest.raises(UsageError, match="format a: an index array is declared twice"):
        declare("a", MAP, ACCESS, f, f, places="NNZ")
    with pytest.raises(UsageError, match="the access must take the tuple of the map to one place"):
        declare("a", MAP, "{[n] -> [n]}", f, places="NNZ")
    with pytest.raises(UsageError, match="1 dense coordinates need as many sizes"):
        declare("a", MAP, ACCESS, f, places="NNZ", sizes=("NR", "NC"))
    with pytest.raises(UsageError, match=r"format a: f\(n,n\) has 2 arguments"):
        declare("a", MAP.replace("f(n)", "f(n,n)"), ACCESS, f, places="NNZ")
    with pytest.raises(UsageError, match="the extent of its array along w does not follow"):
        index("g", "{[x,w] : 0<=x<NR && 0<=w<f(x)}", "{[y] : 0<=y<NR}")
    with pytest.raises(UsageError, match="index array g: unknown monotone 'up'"):
        index("g", "{[x] : 0<=x<NR}", "{[y] : 0<=y<NR}", monotone="up")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="index array g: unknown dtype 'float64'"):
        index("g", "{[x] : 0<=x<NR}", "{[y] : 0<=y<NR}", dtype="float64")
    with pytest.raises(UsageError, match="its range has one variable"):
        index("g", "{[x] : 0<=x<NR}", "{[y,z] : 0<=y<NR}")
    with pytest.raises(UsageError, match="index array g: uint8 cannot hold the pad -1"):
        index("g", "{[x] : 0<=x<NR}", "{[y] : 0<=y<NR}", dtype="uint8", pad=-1)
    with pytest.raises(UsageError, match="format a: the order names q, no coordinate and no size"):
        declare("a", MAP, ACCESS, f, places="NNZ", order=("i", "q"))


ARRAY = np.array([[1, 0, 2, 0], [0, 0, 0, 0], [3, 4, 0, 5], [0, 0, 6, 0]])
ALL = [*((name, 2) for name in FORMATS_2D), *((name, 3) for name in FORMATS_3D)]


def by_definition(
    format: Format, shape: tuple[int, ...], arrays: dict[str, Any], values: Any
) -> dict[str, int] | None:
    try:
        check_sizes(format, shape)
        symbols = solve_symbols(format, shape, arrays, values.size)
        check_lengths(SparseTensor(format, shape, arrays, symbols, values))
    except (LoopwrightError, KeyError, ValueError):
        return None
    return symbols


@settings(max_examples=some(200), deadline=None)
@given(st.sampled_from(ALL), st.data())
def test_settled_as_solved(chosen: tuple[str, int], data: st.DataObject) -> None:
    """Tensors with something else in place of one of their parts."""
    name, rank = chosen
    format = find(name, rank)
    good = of_dense(name, ARRAY.reshape((4, 4) if rank == 2 else (2, 4, 2)))
    shape, arrays, values = good.shape, dict(good.arrays), good.values
    match data.draw(st.sampled_from(("none", "shape", "huge", "array", "dtype", "rank", "values"))):
        case "shape":
            shape = tuple(data.draw(st.integers(0, 6)) for _ in shape)
        case "huge":
            shape = tuple(data.draw(st.sampled_from((4, 1 << 33, 1 << 63))) for _ in shape)
        case "array":
            which = data.draw(st.sampled_from(sorted(arrays)))
            arrays[which] = np.resize(arrays[which], data.draw(st.integers(0, 9)))
        case "dtype":
            which = data.draw(st.sampled_from(sorted(arrays)))
            arrays[which] = arrays[which].astype(
                data.draw(st.sampled_from(("f4", "i8", "?", "u2")))
            )
        case "rank":
            which = data.draw(st.sampled_from(sorted(arrays)))
            arrays[which] = arrays[which][None]
        case "values":
            values = np.resize(values, data.draw(st.sampled_from((0, 3, 8, 9, (2, 3)))))
    found = symbol_solver(format)(shape, arrays, values)
    wanted = by_definition(format, shape, arrays, values)
    if max(shape) < 1 << 31:  # larger ones may be left to the definition
        assert found == wanted
        assert found is None or list(found) == list(wanted or ())
    assert found is None or found == wanted


def test_symbols_that_do_not_follow_must_be_given() -> None:
    """A count that no length has: written code knows nothing of such tensors."""
    format = declare(
        "boxed",
        "{[n,ii,jj] -> [i,j] : i=ii && j=jj && ii=row(n) && jj=col(n) && 0<=n<NNZ}",
        "{[n,ii,jj] -> [n]}",
        index("row", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<BOX}"),
        index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}"),
        places="NNZ",
        is_unique=False,
    )
    arrays = {"row": np.array([0, 1]), "col": np.array([1, 0])}
    assert symbol_solver(format)((2, 2), arrays, np.ones(2)) is None
    with pytest.raises(UsageError, match="BOX does not follow"):
        sparse_tensor(format, (2, 2), arrays, np.ones(2))
    assert sparse_tensor(format, (2, 2), arrays, np.ones(2), symbols={"NNZ": 2, "BOX": 2}).nnz == 2


TWINNED_TENSORS = (
    ("coo", 3),
    ("csf", 3),
    ("csf", 5),
    ("hicoo(128)", 3),
    ("mcoo3", 3),
    ("alto", 4),
)


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
@pytest.mark.parametrize(
    ("name", "rank"),
    [*((name, 2) for name in MATRICES), *TWINNED_TENSORS],
)
def test_twins_are_known_to_be_right(name: str, rank: int) -> None:
    own = find(name, rank)
    other = twin(own)
    assert canonical_format(own) == canonical_format(other)
    assert not is_built_in(other)
    assert is_verified(other)
    assert not unverified_formats.is_unverified(other)


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


RANKS = {"mcoo3": 3, "csf": 3}


def test_order_of_neighbours_is_order_of_all() -> None:
    assert [str(rule) for rule in facts_of(find("csr")).further] == [
        "rowptr(0) = 0",
        "rowptr(NR) = NNZ",
        "forall x,k,k_1: k < k_1 && k >= rowptr(x) && k_1 < rowptr(x+1) && x < NR && x >= 0"
        " => k+col(k_1) >= k_1+col(k)",
    ]


@pytest.mark.parametrize("format", ["csr", "csf", "hicoo(2)", "lil", "mcoo2", "bcsr(2,2)", "dcsr"])
@given(st.integers(0, 2**12 - 1))
def test_rules_hold_for_sound_tensors(format: str, bits: int) -> None:
    """Every instance of every rule, over a box that covers the arrays, continued by a constant."""
    pattern = np.array([bits >> n & 1 for n in range(12)]).reshape(3, 4)
    tensor = of_dense(format, pattern)
    tables = {name: tabled(array) for name, array in tensor.arrays.items()}
    tables["MORTON"] = lambda i, j: int(f"{interleaved(i, j)}", 2)
    for rule in facts_of(tensor.format).further:
        for at in itertools.product(range(-1, 5), repeat=len(rule.variables)):
            values = {**tensor.symbols, **dict(zip(rule.variables, at, strict=True))}
            if all(holds(c, values, tables) for c in rule.clause.premises):
                assert any(
                    all(holds(c, values, tables) for c in end) for end in rule.clause.conclusions
                ), (str(rule), at)


def tabled(array: np.ndarray) -> object:
    return lambda x: int(array[x]) if 0 <= x < len(array) else 0


def interleaved(i: int, j: int) -> str:
    return "".join(a + b for a, b in zip(f"{i:08b}", f"{j:08b}", strict=True))


@pytest.mark.drawn(8)
@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_descriptors_are_proved(name: str) -> None:
    format = find(name, RANKS.get(name, 2))
    facts = facts_of(format)
    assert is_function(format.map, facts)
    assert is_function(format.access, facts)
    # The places of a slice advance by its height: no rule of the algebra reaches that far.
    is_provable = format.is_unique and name != "sell"
    assert is_injective(format.map, facts) == is_provable


COLUMNS = index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}")


def listed(rows: str, place: str, places: str = "NNZ") -> Format:
    return declare(
        "listed",
        "{[n,ii,jj] -> [i,j] : 0<=n<NNZ && ii=row(n) && jj=col(n) && i=ii && j=jj"
        " && 0<=i<NR && 0<=j<NC}",
        f"{{[n,ii,jj] -> [p] : p={place}}}",
        index("row", rows, "{[y] : 0<=y<NR}"),
        COLUMNS,
        places=places,
        is_unique=False,
    )


@pytest.mark.parametrize("name", [family.example for family in BUILT_IN.values()])
def test_formats_with_room(name: str) -> None:
    assert find_overrun(find(name, 3 if name == "mcoo3" else 2)) is None


@pytest.mark.parametrize(
    ("format", "told"),
    [
        (listed("{[x] : 0<=x<NNZ-1}", "n"), r"row\(n\) outside the domain"),
        (listed("{[x] : 0<=x<NNZ}", "n+1"), r"the place n\+1 among NNZ values"),
        (listed("{[x] : 0<=x<NNZ}", "n-1"), r"the place n-1 among NNZ values"),
        (listed("{[x] : 0<=x<NNZ}", "2*n"), r"the place 2\*n among NNZ values"),
        (
            replace(
                find("csr"),
                name="short_rows",
                indices=(
                    find("csr").index("rowptr"),
                    index("col", "{[x] : 0<=x<NNZ-1}", "{[y] : 0<=y<NC}"),
                ),
            ),
            r"col\(k\) outside the domain",
        ),
    ],
    ids=["index", "behind", "before", "twice", "pointers"],
)
def test_too_short(format: Format, told: str) -> None:
    with pytest.raises(UsageError, match=rf"an array is too short .*\n.*an entry needs {told}"):
        convert(np.eye(3), format)
