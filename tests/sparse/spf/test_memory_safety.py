"""Computations whose index arrays lead outside: refused before anything is written."""

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright.diagnostics import SubscriptError, UsageError
from loopwright.sparse import computations as spf
from loopwright.sparse.format import Format, declare, index
from loopwright.sparse.frozen import freeze
from loopwright.sparse.spf.computation import Computation
from loopwright.sparse.uf import Facts, FunctionFacts, parse_set

SPACES = (
    "in rowptr[NR+1]: int32, in col[NNZ]: int32, in val[NNZ]: float64, in x[NC]: float64,"
    " out y[NR]: float64"
)
PRODUCT = """
    zero: {[i] : 0<=i<NR} at (0, i, 0): y(i) = 0
    add: {[i,k] : 0<=i<NR && rowptr(i)<=k<rowptr(i+1)} at (1, i, 0, k, 0): y(i) += val(k)*x(col(k))
"""


def product(*, knows: bool) -> Computation:
    if not knows:
        return spf.computation("plain", SPACES, PRODUCT)
    found = spf.computation("product", SPACES, PRODUCT, facts=lw.sparse.find("csr"))
    return spf.parallelise(spf.fuse(found, "zero", "add", 1), "add")


def guarded(count: int, dtype: Any = np.float64) -> tuple[Any, Any]:
    """An array inside a larger one, both full of sevens."""
    whole = np.full(count + 128, 7, dtype)
    return whole, whole[64 : 64 + count]


def multiply(made: Computation, rowptr: list[int], col: list[int], threads: int = 1) -> Any:
    whole, y = guarded(3)
    arrays = {
        "rowptr": np.array(rowptr, np.int32),
        "col": np.array(col, np.int32),
        "val": np.ones(len(col)),
        "x": np.ones(4),
        "y": y,
    }
    sizes = {"NR": 3, "NC": 4, "NNZ": len(col)}
    try:
        spf.compile_computation(made)(arrays, sizes, threads)
    except UsageError:
        assert (whole == 7).all()  # nothing was written, inside or outside
        raise
    assert (whole[:64] == 7).all()
    assert (whole[67:] == 7).all()
    return y


@pytest.mark.parametrize("knows", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
def test_products(knows: bool, threads: int) -> None:
    made = product(knows=knows)
    assert multiply(made, [0, 1, 1, 3], [0, 1, 2], threads).tolist() == [1.0, 0.0, 2.0]


def test_facts_prove_what_they_can() -> None:
    """A product of validated rows is code without tests; one without facts has some."""
    assert spf.compile_computation(product(knows=True))._unproven == frozenset()
    assert spf.compile_computation(product(knows=False))._unproven == {"val", "col", "x"}


FAULTS = {
    "range": (
        ([0, 1, 2, 3], [0, 77, 2]),
        "the facts of computation 'product' do not hold: col[1] = 77 is outside its range\n"
        "note: found NC = 4\ntry: allowed are {[y] : y < NC && y >= 0}",
    ),
    "negative": (
        ([0, 1, 2, 3], [0, -1, 2]),
        "the facts of computation 'product' do not hold: col[1] = -1 is outside its range\n"
        "note: found NC = 4\ntry: allowed are {[y] : y < NC && y >= 0}",
    ),
    "falls": (
        ([0, 2, 1, 3], [0, 1, 2]),
        "the facts of computation 'product' do not hold: rowptr is not increasing\n"
        "note: found rowptr[1] = 2 and rowptr[2] = 1",
    ),
    "end": (
        ([0, 1, 2, 2], [0, 1, 2]),
        "the facts of computation 'product' do not hold: rowptr(NR) = NNZ",
    ),
    "order": (
        ([0, 3, 3, 3], [0, 2, 1]),
        "the facts of computation 'product' do not hold: forall x,k: k >= rowptr(x) && "
        "k+2 <= rowptr(x+1) && x < NR && x >= 0 => col(k) < col(k+1)\nnote: found x = 0, k = 1",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_facts_are_validated_in_every_call(name: str) -> None:
    (rowptr, col), told = FAULTS[name]
    made = product(knows=True)
    multiply(made, [0, 1, 2, 3], [0, 1, 2])
    with pytest.raises(UsageError) as caught:
        multiply(made, rowptr, col)
    assert str(caught.value) == told


def test_frozen_arrays_are_validated_once() -> None:
    code = spf.compile_computation(product(knows=True))
    own = {name: freeze(np.array(x, np.int32)) for name, x in (("rowptr", [0, 1]), ("col", [0]))}
    arrays = {**own, "val": np.ones(1), "x": np.ones(4), "y": np.zeros(1)}
    code(arrays, {"NR": 1, "NC": 4, "NNZ": 1})
    assert code._obey is not None
    with pytest.raises(UsageError, match=r"col\[0\] = 5 is outside"):
        code({**arrays, "col": np.array([5], np.int32)}, {"NR": 1, "NC": 4, "NNZ": 1})


@pytest.mark.parametrize("threads", [1, 2])
def test_ends_of_loops_that_no_array_reaches(threads: int) -> None:
    """A loop to 2^31 ends where the first access is outside."""
    with pytest.raises(SubscriptError) as caught:
        multiply(product(knows=False), [0, (1 << 31) - 1, 2, 3], [0, 1, 2], threads)
    assert str(caught.value) == (
        "computation 'plain' leaves 'val': the subscript is 3, 0 to 2 are inside\n"
        "note: found statement 'add' reads val(k)\n"
        "try: nothing was written; index arrays of other numbers, or a domain that leaves these out"
    )


def scatter(p: list[int], dtype: str = "int32") -> Any:
    made = spf.computation(
        "scatter",
        f"in p[N]: {dtype}, in x[N]: float64, out y[N]: float64",
        "move: {[i] : 0<=i<N} at (0,i): y(p(i)) = x(i)",
    )
    whole, y = guarded(len(p))
    arrays = {"p": np.array(p, dtype), "x": np.arange(1.0, len(p) + 1), "y": y}
    try:
        spf.compile_computation(made)(arrays, {"N": len(p)})
    finally:
        assert (whole[:64] == 7).all()
        assert (whole[64 + len(p) :] == 7).all()
    return y


def test_a_scattered_write_is_refused_before_the_first() -> None:
    assert scatter([2, 0, 1]).tolist() == [2.0, 3.0, 1.0]
    with pytest.raises(IndexError) as caught:
        scatter([0, 50, 2])
    assert str(caught.value) == (
        "computation 'scatter' leaves 'y': the subscript is 50, 0 to 2 are inside\n"
        "note: found statement 'move' writes y(p(i))\n"
        "try: nothing was written; index arrays of other numbers, or a domain that leaves these out"
    )
    with pytest.raises(IndexError, match="the subscript is -9223372036854775808"):
        scatter([0, -(1 << 63), 2], "int64")


def run(spaces: str, text: str, arrays: dict[str, Any], **symbols: int) -> None:
    spf.compile_computation(spf.computation("made", spaces, text))(arrays, symbols)


def test_reads_beyond_the_end() -> None:
    spaces = "in x[N]: float64, out y[N]: float64"
    text = "s: {[i] : 0<=i<N} at (0,i): y(i) = x(i+5)"
    with pytest.raises(SubscriptError, match=r"leaves 'x': the subscript is 9, 0 to 8 are inside"):
        run(spaces, text, {"x": np.ones(9), "y": np.ones(9)}, N=9)


def test_subscripts_that_the_computation_makes() -> None:
    spaces = "in key[N]: int64, inout n[M,2]: int64, local at: int64"
    text = """
        take: {[i] : 0<=i<N} at (0,i,0): at() = key(i)
        add: {[i] : 0<=i<N} at (0,i,1): n(at(),at()-1) += 1
    """
    whole, flat = guarded(6, np.int64)
    n = flat.reshape(3, 2)
    run(spaces, text, {"key": np.array([1, 2, 1]), "n": n}, N=3, M=3)
    assert n.tolist() == [[7, 7], [9, 7], [7, 8]]
    with pytest.raises(SubscriptError) as caught:
        run(spaces, text, {"key": np.array([1, 0]), "n": n}, N=2, M=3)
    assert str(caught.value).startswith(
        "computation 'made' leaves 'n': subscript 2 is -1, 0 to 1 are inside\n"
        "note: found statement 'add' writes n(at(), at()-1); "
    )
    assert n.tolist() == [[7, 7], [9, 7], [7, 8]]
    assert (whole[:64] == 7).all()


def test_sums_that_wrap_around() -> None:
    """2^63-1 + 1 is no subscript, although a test of the sum lets it through."""
    spaces = "in p[N]: int64, in q[N]: int64, out y[M]: float64"
    text = "s: {[i] : 0<=i<N && 1<=p(i)+q(i) && p(i)+q(i)<=M} at (0,i): y(p(i)+q(i)-1) = 1"
    y = np.zeros(4)
    run(spaces, text, {"p": np.array([1, 2]), "q": np.array([1, 2]), "y": y}, N=2, M=4)
    assert y.tolist() == [0.0, 1.0, 0.0, 1.0]
    far = np.array([(1 << 63) - 1, (1 << 63) - 1])
    try:
        run(spaces, text, {"p": far, "q": far, "y": y}, N=2, M=4)
    except SubscriptError:
        assert y.tolist() == [0.0, 1.0, 0.0, 1.0]


def test_temporaries_that_no_memory_holds() -> None:
    spaces = "out y[N]: float64, local t[N,M]: float64"
    text = "a: {[i] : 0<=i<N} at (0,i): t(i,0) = 1\nb: {[i] : 0<=i<N} at (1,i): y(i) = t(i,0)"
    with pytest.raises(MemoryError) as caught:
        run(spaces, text, {"y": np.ones(4)}, N=4, M=1 << 60)
    assert str(caught.value) == (
        "the temporary 't' takes 36893488147419103232 bytes\n"
        "note: found shape 4 x 1152921504606846976"
    )
    with pytest.raises(SubscriptError, match="leaves 't': subscript 2 is 0, it is empty"):
        run(spaces, text, {"y": np.ones(4)}, N=4, M=-5)


@pytest.mark.parametrize(
    ("value", "told"),
    [(2.5, "'N' must be a whole number\nnote: found 2.5"),
     (1 << 63, "'N' does not fit 64 bits\nnote: found 9223372036854775808")],
)  # fmt: skip
def test_symbols_are_whole_numbers(value: Any, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        run("out y[N]: float64", "s: {[i] : 0<=i<N} at (0,i): y(i) = 1", {"y": np.ones(4)}, N=value)
    assert str(caught.value) == told


def blocks() -> Format:
    """Compressed sparse blocks: a pointer for each pair of a row and a column of blocks."""
    return declare(
        "csb",
        "{[bi,bj,k,ii,jj] -> [i,j] : i=ii && j=jj && 0<=bi<NB && 0<=bj<NB"
        " && ptr(bi,bj)<=k<ptr(bi,bj+1) && ii=row(k) && jj=col(k) && bi=floor(ii/4)"
        " && bj=floor(jj/4) && 0<=i<NR && 0<=j<NC}",
        "{[bi,bj,k,ii,jj] -> [k]}",
        index("ptr", "{[x,y] : 0<=x<NB && 0<=y<=NB}", "{[z] : 0<=z<=NNZ}", monotone="increasing"),
        index("row", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NR}"),
        index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}"),
        places="NNZ",
        order=("floor(i/4)", "floor(j/4)"),
        defined={"NB": "floor((NR+3)/4)"},
    )


def test_pointers_of_two_arguments() -> None:
    with pytest.raises(UsageError) as caught:
        lw.sparse.convert(np.eye(8), blocks())
    assert str(caught.value) == (
        "csb: 'k' runs between elements of 'ptr', which has 2 arguments\n"
        "note: found k < ptr(bi,bj+1) && k >= ptr(bi,bj)\n"
        "try: a pointer has one argument, pointer(b) <= t < pointer(b+1): number the blocks"
    )
    assert "open     every small tensor" in str(lw.sparse.verify(blocks()))


def test_index_arrays_hold_integers() -> None:
    with pytest.raises(UsageError) as caught:
        spf.computation(
            "c",
            "in p[N]: float64, out y[N]: float64",
            "s: {[i] : 0<=i<N} at (i): y(p(i)) = 1",
        )
    assert str(caught.value) == (
        "'p' is called in the target of statement 's' and holds float64\n"
        "note: found in p[N]: float64\ntry: index arrays hold integers"
    )


PERMUTATION = FunctionFacts(
    "perm", domain=parse_set("{[x] : 0<=x<N}"), range=parse_set("{[x] : 0<=x<N}"), inverse="pos"
)


def test_inverses_that_are_made() -> None:
    made = spf.computation(
        "invert",
        "in perm[N]: int32, out pos[N]: int32",
        "s: {[i] : 0<=i<N} at (0,i): pos(perm(i)) = i",
        facts=Facts((PERMUTATION,)),
    )
    pos = np.full(3, 7, np.int32)
    spf.compile_computation(made)({"perm": np.array([2, 0, 1], np.int32), "pos": pos}, {"N": 3})
    assert pos.tolist() == [1, 2, 0]
    assert spf.compile_computation(made)._unproven == frozenset()


def test_inverses_undo() -> None:
    """What is known of an inverse that is given is validated too."""
    facts = Facts((PERMUTATION,))
    made = spf.computation(
        "undo",
        "in perm[N]: int32, in pos[N]: int32, out y[N]: float64",
        "s: {[i] : 0<=i<N} at (0,i): y(pos(i)) = perm(i)",
        facts=facts,
    )

    def call(perm: list[int], pos: list[int]) -> Any:
        y = np.zeros(len(perm))
        arrays = {"perm": np.array(perm, np.int32), "pos": np.array(pos, np.int32), "y": y}
        spf.compile_computation(made)(arrays, {"N": len(perm)})
        return y

    assert call([2, 0, 1], [1, 2, 0]).tolist() == [1.0, 2.0, 0.0]
    for perm, pos, told in (
        ([2, 0, 1], [1, 2, 50], "pos does not undo perm"),
        ([2, 0, 0], [1, 2, 0], r"perm\[2\] = 0 stands there twice"),
        ([2, 0, 3], [1, 2, 0], r"perm\[2\] = 3 is outside its range"),
    ):
        with pytest.raises(UsageError, match=told):
            call(perm, pos)
