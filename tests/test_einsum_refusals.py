"""What `einsum` refuses: the full text, and that nothing was touched."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import loopwright as lw
from loopwright.diagnostics import DtypeError, UsageError

A, B = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
DTYPE_LIST = (
    "bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64, "
    "complex64, complex128"
)


def read_only() -> np.ndarray:
    out = np.ones((2, 4))
    out.flags.writeable = False
    return out


def unaligned() -> np.ndarray:
    return np.ones(65, np.uint8)[1:].view(float).reshape(2, 4)


def broadcast() -> np.ndarray:
    return np.lib.stride_tricks.as_strided(np.ones(4), (2, 4), (0, 8))


def overlapping() -> tuple[np.ndarray, np.ndarray]:
    memory = np.zeros(40)
    return memory[:6].reshape(2, 3), memory[4:12].reshape(2, 4)


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
        "einsum 'ijk,jk->i': operand 0 has 2 dimensions\n"
        "note: found 'ijk' names 3\n"
        "try: one letter per dimension",
    ),
    "rank of an ellipsis": (
        lambda: lw.einsum("...ijk->i", A),
        "einsum '...ijk->i': operand 0 has 2 dimensions\n"
        "note: found '...ijk' names 3\n"
        "try: one letter per dimension",
    ),
    "a digit": (
        lambda: lw.einsum("i1,jk", A, B),
        "einsum 'i1,jk': only letters\nnote: found '1'",
    ),
    "two dots": (
        lambda: lw.einsum("i..,jk", A, B),
        "einsum 'i..,jk': an ellipsis is three dots, once per operand\nnote: found '.'",
    ),
    "two arrows": (
        lambda: lw.einsum("ij->ji->ij", A),
        "einsum 'ij->ji->ij': '->' must stand at most once",
    ),
    "half an arrow": (
        lambda: lw.einsum("ij-", A),
        "einsum 'ij-': '->' must stand at most once",
    ),
    "output twice": (
        lambda: lw.einsum("ij->ii", A),
        "einsum 'ij->ii': the output names 'i' twice",
    ),
    "output of nowhere": (
        lambda: lw.einsum("ij->ik", A),
        "einsum 'ij->ik': the output names 'k', which no operand has",
    ),
    "output without ellipsis": (
        lambda: lw.einsum("i...->i", A),
        "einsum 'i...->i': the output must hold '...' as well, since broadcast loops remain",
    ),
    "sizes": (
        lambda: lw.einsum("ij,ij->", A, B),
        "einsum 'ij,ij->': index 'i' has two sizes\n"
        "note: found 2 in operand 0, 3 in operand 1\n"
        "try: operands that agree, or a size of 1",
    ),
    "diagonal": (
        lambda: lw.einsum("ii", A),
        "einsum 'ii->': index 'i' has two sizes\n"
        "note: found 2 and 3 in operand 0\n"
        "try: a diagonal of equal sizes",
    ),
    "diagonal of size 1": (
        lambda: lw.einsum("ii->i", np.ones((1, 5))),
        "einsum 'ii->i': index 'i' has two sizes\n"
        "note: found 1 and 5 in operand 0\n"
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
        lambda: lw.einsum(A, B),
        "einsum takes a string of subscripts, or arrays and index lists in turn",
    ),
    # -- operands
    "objects": (
        lambda: lw.einsum("i", np.array([1, None])),
        "operand 0 has dtype 'object'\ntry: an array of numbers",
    ),
    "records": (
        lambda: lw.einsum("i,i", A[0], np.zeros(3, [("x", "f8")])),
        "operand 1 has dtype '[('x', '<f8')]'\ntry: an array of numbers",
    ),
    "words": (
        lambda: lw.einsum("i", np.array(["a", "b"])),
        f"dtype '<U1' is not supported; accepted: {DTYPE_LIST}",
    ),
    "dates": (
        lambda: lw.einsum("i", np.array(["2024-01-01"], "datetime64[D]")),
        f"dtype 'datetime64[D]' is not supported; accepted: {DTYPE_LIST}",
    ),
    "byte order": (
        lambda: lw.einsum("i", np.ones(3, ">f8")),
        "byte order of dtype '>f8' is not the machine's; try a.astype('float64')",
    ),
    "ragged": (
        lambda: lw.einsum("ij", [[1, 2], [3]]),
        "operand 0 is no array of numbers\nnote: found list",
    ),
    "nothing": (
        lambda: lw.einsum("i", None),
        "operand 0 has dtype 'object'\ntry: an array of numbers",
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
    "out is unaligned": (
        lambda: lw.einsum("ij,jk->ik", A, B, out=unaligned()),
        "out is not aligned to its elements\ntry: pass a fresh array",
    ),
    "out overlaps itself": (
        lambda: lw.einsum("ij,jk->ik", A, B, out=broadcast()),
        "elements of out share memory\ntry: pass a fresh array",
    ),
    "out overlaps an operand": (
        lambda: lw.einsum("ij,jk->ik", overlapping()[0], B, out=same_memory()),
        "out shares memory with operand 0\ntry: pass a fresh array, or no out",
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

SHARED = overlapping()


def same_memory() -> np.ndarray:
    return SHARED[1]


@pytest.fixture(autouse=True)
def _one_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "overlapping", lambda: SHARED)


@pytest.mark.parametrize("name", TEXTS)
def test_refusal(name: str) -> None:
    call, text = TEXTS[name]
    before = A.copy(), B.copy()
    for _ in range(2):  # a remembered call must not forget to refuse
        with pytest.raises(UsageError) as caught:
            call()
        assert str(caught.value) == text
    is_about_types = "dtype" in text.split("\n")[0] and not text.startswith(("out", "accum"))
    assert isinstance(caught.value, DtypeError) == (is_about_types or "does not take" in text)
    np.testing.assert_array_equal(A, before[0])
    np.testing.assert_array_equal(B, before[1])


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="no longer doubles here")
def test_long_doubles() -> None:
    with pytest.raises(DtypeError) as caught:
        lw.einsum("i", np.ones(3, np.longdouble))
    name = np.dtype(np.longdouble).name
    assert str(caught.value) == f"dtype '{name}' is not supported; accepted: {DTYPE_LIST}"


@pytest.mark.parametrize(
    "arguments",
    [
        {"semiring": "min_plus", "alpha": 2},
        {"alpha": "x"},
        {"threads": 0},
        {"semiring": "no"},
        {"accum_dtype": "int8"},
        {"beta": 1j},
    ],
)
def test_out_is_untouched_after_a_refusal(arguments: dict[str, object]) -> None:
    out = np.full((2, 4), 7.0)
    with pytest.raises(UsageError):
        lw.einsum("ij,jk->ik", A, B, out=out, **arguments)
    assert np.all(out == 7)


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
    with pytest.raises(UsageError, match="out shares memory with operand 0"):
        lw.einsum("ij,jk->ik", left, B, out=target)
    with pytest.raises(UsageError, match="out is not aligned"):
        lw.einsum("ij,jk->ik", A, B, out=unaligned())
    np.testing.assert_array_equal(memory, np.arange(20.0))


def test_interleaved_memory_is_no_overlap() -> None:
    """Arrays that lie between each other's elements share none of them."""
    memory = np.zeros((2, 16))
    left, out = memory[:, :6:2], memory[:, 1:9:2]
    left[...] = A
    lw.einsum("ij,jk->ik", left, B, out=out)
    np.testing.assert_array_equal(out, A @ B)
    np.testing.assert_array_equal(left, A)
