"""What `einsum` refuses: the full text, and that nothing was touched."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse

import loopwright as lw
from loopwright.diagnostics import DtypeError, UsageError

A, B = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
DTYPE_LIST = (
    "bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64, "
    "complex64, complex128"
)
GRAMMAR = "try: letters, ',' between operands, '...' once in each, and '->' before the output"
PATHS = (
    "try: True, False, 'greedy', 'optimal', (name, elements), a path, or an optimizer of opt_einsum"
)


def read_only() -> np.ndarray:
    out = np.ones((2, 4))
    out.flags.writeable = False
    return out


def unaligned() -> np.ndarray:
    return np.ones(65, np.uint8)[1:].view(float).reshape(2, 4)


def broadcast() -> np.ndarray:
    return np.lib.stride_tricks.as_strided(np.ones(4), (2, 4), (0, 8))


TEXTS: dict[str, tuple[Callable[[], object], str]] = {
    # -- subscripts
    "no operand": (
        lambda: lw.einsum("ij,jk"),
        "einsum needs at least one operand",
    ),
    "too few operands": (
        lambda: lw.einsum("ij,jk->ik", A),
        "einsum 'ij,jk->ik' names 2 operands\n"
        "note: found 1 array given\n"
        "try: one comma-separated group of letters per array",
    ),
    "too many operands": (
        lambda: lw.einsum("ij", A, B),
        "einsum 'ij' names 1 operand\n"
        "note: found 2 arrays given\n"
        "try: one comma-separated group of letters per array",
    ),
    "rank": (
        lambda: lw.einsum("ijk,jk->i", A, B),
        "einsum 'ijk,jk->i': operand 1 has 2 dimensions\n"
        "note: found 'ijk' names 3\n"
        "try: one letter per dimension",
    ),
    "rank of an ellipsis": (
        lambda: lw.einsum("...ijk->i", A),
        "einsum '...ijk->i': operand 1 has 2 dimensions\n"
        "note: found '...ijk' names 3\n"
        "try: one letter per dimension",
    ),
    "a digit": (
        lambda: lw.einsum("i1,jk", A, B),
        "einsum 'i1,jk': '1' is no subscript\n    i1,jk\n     ^\n" + GRAMMAR,
    ),
    "two dots": (
        lambda: lw.einsum("i..,jk", A, B),
        "einsum 'i..,jk': an ellipsis is three dots, once per operand\n"
        "    i..,jk\n     ^\n" + GRAMMAR,
    ),
    "a semicolon": (
        lambda: lw.einsum("i k;kj->ij", A, B),
        "einsum 'i k;kj->ij': ';' is no subscript\n    i k;kj->ij\n       ^\n" + GRAMMAR,
    ),
    "a letter of another alphabet": (
        lambda: lw.einsum("i\u0436,jk", A, B),
        "einsum 'i\u0436,jk': '\u0436' is no subscript, at character 2\n" + GRAMMAR,
    ),
    "two outputs": (
        lambda: lw.einsum("ij,jk->i,k", A, B),
        "einsum 'ij,jk->i,k': the output is one group of letters\n"
        "    ij,jk->i,k\n            ^\n" + GRAMMAR,
    ),
    "two arrows": (
        lambda: lw.einsum("ij->ji->ij", A),
        "einsum 'ij->ji->ij': '->' must stand at most once\n"
        "    ij->ji->ij\n          ^^\n" + GRAMMAR,
    ),
    "half an arrow": (
        lambda: lw.einsum("ij-", A),
        "einsum 'ij-': '->' must stand whole\n    ij-\n      ^\n" + GRAMMAR,
    ),
    "output twice": (
        lambda: lw.einsum("ij->ii", A),
        "einsum 'ij->ii': the output names 'i' twice\n    ij->ii\n         ^",
    ),
    "output of nowhere": (
        lambda: lw.einsum("ij->ik", A),
        "einsum 'ij->ik': the output names 'k', which no operand has\n    ij->ik\n         ^",
    ),
    "output without ellipsis": (
        lambda: lw.einsum("i...->i", A),
        "einsum 'i...->i': the output must hold '...' as well, since broadcast loops remain",
    ),
    "sizes": (
        lambda: lw.einsum("ij,ij->", A, B),
        "einsum 'ij,ij->': index 'i' has two sizes\n"
        "note: found 2 in operand 1, 3 in operand 2\n"
        "try: operands that agree, or a size of 1",
    ),
    "diagonal": (
        lambda: lw.einsum("ii", A),
        "einsum 'ii->': index 'i' has two sizes\n"
        "note: found 2 and 3 in operand 1\n"
        "try: a diagonal of equal sizes",
    ),
    "diagonal of size 1": (
        lambda: lw.einsum("ii->i", np.ones((1, 5))),
        "einsum 'ii->i': index 'i' has two sizes\n"
        "note: found 1 and 5 in operand 1\n"
        "try: a diagonal of equal sizes",
    ),
    "index list": (
        lambda: lw.einsum(A, [0, 52]),
        "an index list holds whole numbers and Ellipsis\nnote: found 52\ntry: 0 to 51",
    ),
    "index list of words": (
        lambda: lw.einsum(A, ["i", "j"]),
        "an index list holds whole numbers and Ellipsis\nnote: found 'i'\ntry: 0 to 51",
    ),
    "no index list": (
        lambda: lw.einsum(A, 5),
        "einsum takes a string of subscripts, or arrays and index lists in turn\n"
        "note: found int in the place of an index list\n"
        "try: einsum('ij,jk->ik', a, b), or einsum(a, [0, 1], b, [1, 2], [0, 2])",
    ),
    # -- operands
    "objects": (
        lambda: lw.einsum("i->", np.array([1, None])),
        "operand 1 has dtype 'object'\ntry: an array of numbers",
    ),
    "records": (
        lambda: lw.einsum("i,i", A[0], np.zeros(3, [("x", "f8")])),
        "operand 2 has dtype '[('x', '<f8')]'\ntry: an array of numbers",
    ),
    "words": (
        lambda: lw.einsum("i->", np.array(["a", "b"])),
        f"dtype '<U1' is not supported; accepted: {DTYPE_LIST}",
    ),
    "dates": (
        lambda: lw.einsum("i->", np.array(["2024-01-01"], "datetime64[D]")),
        f"dtype 'datetime64[D]' is not supported; accepted: {DTYPE_LIST}",
    ),
    "a matrix of SciPy": (
        lambda: lw.einsum("ij,jk->ik", A, scipy.sparse.csr_array(B)),
        "operand 2 is sparse\nnote: found csr_array\ntry: lw.sparse.einsum, or a dense array",
    ),
    "a sparse tensor": (
        lambda: lw.einsum("ij,jk->ik", lw.sparse.from_dense(A), B),
        "operand 1 is sparse\nnote: found SparseTensor\ntry: lw.sparse.einsum, or a dense array",
    ),
    "ragged": (
        lambda: lw.einsum("ij", [[1, 2], [3]]),
        "operand 1 is no array of numbers\nnote: found list",
    ),
    "nothing": (
        lambda: lw.einsum("i", None),
        "operand 1 has dtype 'object'\ntry: an array of numbers",
    ),
    # -- out
    "out is no array": (
        lambda: lw.einsum("ij,jk->ik", A, B, out=[[0] * 4] * 2),
        "out must be a NumPy array\nnote: found list",
    ),
    "out shape": (
        lambda: lw.einsum("ij,jk->ik", A, B, out=np.ones((4, 2))),
        "out has shape (4, 2)\ntry: the result has shape (2, 4)",
    ),
    "out is read-only": (
        lambda: lw.einsum("ij,jk->ik", A, B, out=read_only()),
        "out is read-only\ntry: pass a writable array, or a copy of it",
    ),
    "out overlaps itself": (
        lambda: lw.einsum("ij,jk->ik", A, B, out=broadcast()),
        "elements of out share memory\ntry: pass a fresh array",
    ),
    "out dtype": (
        lambda: lw.einsum("ij,jk->ik", A, B, out=np.ones((2, 4), int)),
        "out has dtype int64\ntry: the result has dtype float64",
    ),
    "out of complex": (
        lambda: lw.einsum("ij,jk->ik", A + 1j, B, out=np.ones((2, 4))),
        "out has dtype float64\ntry: the result has dtype complex128",
    ),
    # -- scaling
    "accumulate without out": (
        lambda: lw.einsum("ij,jk->ik", A, B, accumulate=True),
        "accumulate and beta need the array they add to\ntry: pass out=",
    ),
    "beta without out": (
        lambda: lw.einsum("ij,jk->ik", A, B, beta=2),
        "accumulate and beta need the array they add to\ntry: pass out=",
    ),
    "alpha over another semiring": (
        lambda: lw.einsum("ij,jk->ik", A, B, semiring="min_plus", alpha=2),
        "alpha and beta scale sums of products, not semiring 'min_plus'\n"
        "try: leave alpha 1 and beta 0 or 1",
    ),
    "alpha is a word": (
        lambda: lw.einsum("ij,jk->ik", A, B, alpha="2"),
        "alpha must be a number\nnote: found '2'",
    ),
    "beta is an array": (
        lambda: lw.einsum("ij,jk->ik", A, B, beta=[1, 2], out=np.ones((2, 4))),
        "beta must be a number\nnote: found [1, 2]",
    ),
    "alpha of whole numbers": (
        lambda: lw.einsum("ij->", np.ones((2, 2), int), alpha=0.5),
        "alpha is no value of int64, the type of the sums\n"
        "note: found 0.5\n"
        "try: an accum_dtype that holds it",
    ),
    "alpha out of range": (
        lambda: lw.einsum("ij->", np.ones((2, 2), np.int8), alpha=300),
        "alpha is no value of int8, the type of the sums\n"
        "note: found 300\n"
        "try: an accum_dtype that holds it",
    ),
    "complex alpha": (
        lambda: lw.einsum("ij->", A, alpha=1j),
        "alpha is no value of float64, the type of the sums\n"
        "note: found 1j\n"
        "try: an accum_dtype that holds it",
    ),
    "accumulate and beta": (
        lambda: lw.einsum("ij->", A, accumulate=True, beta=2, out=np.zeros(())),
        "accumulate stands for beta = 1\nnote: found beta = 2",
    ),
    # -- NumPy's keywords
    "casting of nowhere": (
        lambda: lw.einsum("ij->", A, casting="some"),
        "unknown casting\nnote: found 'some'\ntry: no, equiv, safe, same_kind, unsafe",
    ),
    "order of nowhere": (
        lambda: lw.einsum("ij->", A, order="W"),
        "unknown order\nnote: found 'W'\ntry: C, F, A or K",
    ),
    "order of another kind": (
        lambda: lw.einsum("ij->", A, order=1),
        "order must be a letter\nnote: found 1\ntry: C, F, A or K",
    ),
    "dtype of nowhere": (
        lambda: lw.einsum("ij->", A, dtype="floaty"),
        "dtype is no dtype\nnote: found 'floaty'",
    ),
    "dtype that loses values": (
        lambda: lw.einsum("ij,jk->ik", A.astype("f4"), B, dtype="f4"),
        "operand 2 has dtype float64, which does not become float32 by the rule 'safe'\n"
        "try: another casting= or dtype=",
    ),
    "casting of none": (
        lambda: lw.einsum("ij,jk->ik", A.astype("f4"), B, casting="no"),
        "operand 1 has dtype float32, which does not become float64 by the rule 'no'\n"
        "try: another casting= or dtype=",
    ),
    "dtype and accum_dtype": (
        lambda: lw.einsum("ij->", A, dtype="f8", accum_dtype="f8"),
        "dtype and accum_dtype exclude each other\ntry: dtype=, as in NumPy",
    ),
    "search of nowhere": (
        lambda: lw.einsum("ij,jk->ik", A, B, optimize="best"),
        "optimize names no search\nnote: found 'best'\n" + PATHS,
    ),
    "no path": (
        lambda: lw.einsum("ij,jk->ik", A, B, optimize=[0, 1]),
        "optimize is no path\nnote: found [0, 1]\n" + PATHS,
    ),
    "no group": (
        lambda: lw.einsum("ij,jk->ik", A, B, optimize=["einsum_path", (0, "b")]),
        "a path holds groups\nnote: found (0, 'b')\n"
        "try: tuples of positions, counted from 0 as in numpy.einsum_path",
    ),
    "an operand twice": (
        lambda: lw.einsum("ij,jk->ik", A, B, optimize=["einsum_path", (1, 1)]),
        "a path takes an operand twice\nnote: found (1, 1)",
    ),
    "a path too short": (
        lambda: lw.einsum("ij,jk,kl->il", A, B, B.T, optimize=["einsum_path", (0, 1)]),
        "the path leaves 2 operands\nnote: found ['einsum_path', (0, 1)]\n"
        "try: a path ends with one result",
    ),
    "a path too long": (
        lambda: lw.einsum("ij,jk,kl->il", A, B, B.T, optimize=["einsum_path", (0, 3), (0, 1)]),
        "the path takes position 3 where 3 operands are left\n"
        "note: found ['einsum_path', (0, 3), (0, 1)]\n"
        "try: positions count from 0; the result of a group goes to the end",
    ),
    # -- types, semirings, threads
    "accum_dtype": (
        lambda: lw.einsum("ij->", A, accum_dtype="int64"),
        "accum_dtype int64 cannot hold products of float64",
    ),
    "accum_dtype of nowhere": (
        lambda: lw.einsum("ij->", A, accum_dtype="floaty"),
        f"'floaty' is no dtype; accepted: {DTYPE_LIST}",
    ),
    "semiring": (
        lambda: lw.einsum("ij->", A, semiring="min_plsu"),
        "no semiring is named 'min_plsu'\n"
        "try: did you mean 'min_plus'? accepted: plus_times, min_plus, max_plus, max_times, "
        "min_times, min_max, max_min, or_and, xor_and",
    ),
    "semiring of another kind": (
        lambda: lw.einsum("ij,jk->ik", A, B, semiring=["min_plus"]),
        "a semiring is named by a string\nnote: found ['min_plus']",
    ),
    "semiring and dtype": (
        lambda: lw.einsum("ij->", A, semiring="or_and"),
        "semiring 'or_and' does not take float64\n"
        "try: accepted: bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64",
    ),
    "no threads": (
        lambda: lw.einsum("ij->", A, threads=0),
        "threads must be a whole number\nnote: found 0\ntry: 1 to 256",
    ),
    "too many threads": (
        lambda: lw.einsum("ij,jk->ik", A, B, threads=257),
        "threads must be a whole number\nnote: found 257\ntry: 1 to 256",
    ),
    "half a thread": (
        lambda: lw.einsum("ij,jk->ik", A, B, threads=1.5),
        "threads must be a whole number\nnote: found 1.5\ntry: 1 to 256",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_refusal(name: str) -> None:
    call, text = TEXTS[name]
    before = A.copy(), B.copy()
    lw.einsum("ij,jk->ik", A, B)
    for _ in range(2):  # a remembered call must not forget to refuse
        with pytest.raises(UsageError) as caught:
            call()
        assert str(caught.value) == text
    head = text.split("\n")[0]
    is_about_types = "dtype" in head and not head.startswith("accum") and "exclude" not in head
    assert isinstance(caught.value, DtypeError) == (is_about_types or "does not take" in text)
    np.testing.assert_array_equal(A, before[0])
    np.testing.assert_array_equal(B, before[1])


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="no longer doubles here")
def test_long_doubles() -> None:
    with pytest.raises(DtypeError) as caught:
        lw.einsum("i->", np.ones(3, np.longdouble))
    name = np.dtype(np.longdouble).name
    assert str(caught.value) == f"dtype '{name}' is not supported; accepted: {DTYPE_LIST}"


def test_a_remembered_call_still_checks_out() -> None:
    """Read-only, overlapping, unaligned: whatever the key of a remembered call cannot tell."""
    out = np.zeros((2, 4))
    for _ in range(2):
        lw.einsum("ij,jk->ik", A, B, out=out)
    np.testing.assert_array_equal(out, A @ B)
    out.flags.writeable = False
    with pytest.raises(UsageError, match="out is read-only"):
        lw.einsum("ij,jk->ik", A, B, out=out)
    memory = np.arange(20.0)
    left, target = memory[:6].reshape(2, 3), memory[4:12].reshape(2, 4)
    expected = left.copy() @ B
    lw.einsum("ij,jk->ik", left, B, out=target)
    np.testing.assert_array_equal(target, expected)
    place = unaligned()
    lw.einsum("ij,jk->ik", A, B, out=place)
    np.testing.assert_array_equal(place, A @ B)
