"""Computations as machine code: the numbers of the interpreter; what leaves an array is refused."""

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright.diagnostics import SubscriptError, UsageError
from loopwright.ir.dtypes import INT32
from loopwright.ir.program import Role
from loopwright.sparse import computations as spf
from loopwright.sparse.format import Format, declare, index
from loopwright.sparse.spf.compile_computation import compile_computation
from loopwright.sparse.spf.computation import Computation, DataSpace
from loopwright.sparse.spf.rescheduling import fuse, parallelise
from loopwright.sparse.uf import Facts, FunctionFacts, parse_set
from spf_assembly import CLEAR, ROW_SUM, computation
from spf_instances import interpreted, traced

Arrays = dict[str, np.ndarray]


def example(rows: int, count: int, seed: int = 0) -> tuple[Arrays, dict[str, int]]:
    random = np.random.default_rng(seed)
    row = np.sort(random.integers(0, rows, count)).astype(np.int32)
    ptr = np.searchsorted(row, np.arange(rows + 1)).astype(np.int32)
    arrays = {
        "row": row,
        "ptr": ptr,
        "val": random.random(count),
        "start": np.zeros(rows + 1, np.int32),
        "out": np.zeros(count),
        "y": np.zeros(rows),
    }
    return arrays, {"N": rows, "M": 0, "K": count}


def of(made: Computation, arrays: Arrays) -> Arrays:
    names = {space.name for space in made.spaces}
    return {name: array.copy() for name, array in arrays.items() if name in names}


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_by_threads(threads: int) -> None:
    made = parallelise(fuse(computation(CLEAR, ROW_SUM), "clear", "row_sum", 1), "clear")
    arrays, symbols = example(200, 3000)
    given = of(made, arrays)
    compile_computation(made)(given, symbols, threads)
    expected = np.add.reduceat(np.append(arrays["val"], 0.0), arrays["ptr"][:-1])
    expected[np.diff(arrays["ptr"]) == 0] = 0.0
    np.testing.assert_allclose(given["y"], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("domains", "schedules"),
    [
        (["{[i,j] : 0 <= i < N && i <= j < 7}"], [(0, "floor(i/2)", "floor(j/3)", "i", "j")]),
        (["{[i] : 0 <= i < N or 2 <= i < 9}", "{[i] : 1 <= i < 5}"], [("i",), ("i+1",)]),
        (
            ["{[i,k] : 0 <= i < N && ptr(i) <= k < ptr(i+1)}", "{[i] : ptr(i) = 1 && 0 <= i < N}"],
            [("i", "k"), ("i", 1)],
        ),
    ],
    ids=["tiles", "union", "rows"],
)
def test_traces(domains: list[str], schedules: list[tuple[int | str, ...]]) -> None:
    spaces = (DataSpace.of("ptr", INT32, ["N+1"], Role.IN),)
    made = traced(domains, schedules, spaces, ("N",))
    given = {"ptr": np.array([0, 1, 1, 3, 4], np.int32), "trace": np.array(1)}
    expected = interpreted(made, given, {"N": 4})
    compile_computation(made)(given, {"N": 4})
    assert given["trace"] == expected["trace"]


def test_faulty_calls_are_told() -> None:
    made = computation(CLEAR, ROW_SUM)
    code = compile_computation(made)
    arrays, symbols = example(4, 6)
    given = of(made, arrays)
    faults: list[tuple[Arrays, dict[str, int], str]] = [
        ({**given, "y": given["y"][:-1]}, symbols, r"it is y\[N\], so \(4,\)"),
        (
            {**given, "ptr": given["ptr"].astype(np.int64)},
            symbols,
            "'ptr' must be an array of int32",
        ),
        ({**given, "y": given["val"][:4]}, symbols, "'y' shares memory with 'val'"),
        ({**given, "val": np.zeros(12)[::2]}, symbols, "'val' is not laid out row by row"),
        (given, {"N": 4}, "takes the symbols K, M, N"),
        ({"y": given["y"]}, symbols, "takes the arrays ptr, val, y"),
    ]
    for wrong, values, told in faults:
        with pytest.raises(UsageError, match=told):
            code(wrong, values)
    given["y"].flags.writeable = False
    with pytest.raises(UsageError, match="'y' is read-only"):
        code(given, symbols)


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


def run(spaces: str, text: str, arrays: dict[str, Any], **symbols: int) -> None:
    spf.compile_computation(spf.computation("made", spaces, text))(arrays, symbols)


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
