"""Array arguments: what is taken as it is, what is copied, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.diagnostics import DtypeError, UsageError
from loopwright.runtime.array_arguments import (
    as_operand,
    check_out,
    element_strides,
    overlap,
    takes_results,
)


class Foreign:
    """An array of another library."""

    def __init__(self, array: np.ndarray, fails: bool = False) -> None:
        self.array, self.fails = array, fails

    def __dlpack__(self, **options: object) -> object:
        if self.fails:
            raise BufferError("cannot export")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_arrays_are_not_copied() -> None:
    for array in (np.ones((3, 4)), np.ones((3, 4))[::-1, ::2], np.asfortranarray(np.ones((3, 4)))):
        assert as_operand(array, "x") is array


def test_arrays_of_other_libraries_are_not_copied() -> None:
    array = np.arange(5.0)
    assert np.shares_memory(as_operand(Foreign(array), "x"), array)


def test_what_kernels_cannot_address_is_copied() -> None:
    unaligned = np.zeros(33, np.uint8)[1:].view("float64")
    record = np.zeros(4, np.dtype([("x", "f8"), ("y", "i1")]))["x"]
    for array in (unaligned, record):
        array[...] = 7
        taken = as_operand(array, "x")
        assert not np.shares_memory(taken, array)
        assert taken.flags.aligned
        assert np.all(taken == 7)
        assert element_strides(taken) == (1,)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([[1], [1, 2]], "operand 3 is no array of numbers\nnote: found list"),
        (
            Foreign(np.ones(2), fails=True),
            "operand 3 is no array of numbers\nnote: found Foreign: cannot export",
        ),
        (object(), "operand 3 has dtype 'object'\ntry: an array of numbers"),
        (
            np.zeros(1, "f4,f4"),
            "operand 3 has dtype '[('f0', '<f4'), ('f1', '<f4')]'\ntry: an array of numbers",
        ),
    ],
)
def test_refused_operands(value: object, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        as_operand(value, "operand 3")
    assert str(caught.value) == text
    assert isinstance(caught.value, DtypeError) == ("dtype" in text)


def test_numbers_of_another_byte_order_are_copied() -> None:
    array = as_operand(np.arange(3, dtype=">i4"), "operand 3")
    assert array.dtype == np.int32
    assert array.tolist() == [0, 1, 2]


def test_out_that_kernels_may_write() -> None:
    memory = np.zeros(40)
    assert takes_results(memory[:10], memory.dtype, (memory[10:],))
    assert not takes_results(memory[:10], memory.dtype, (memory[9:],))
    assert not takes_results(memory[:10], np.dtype("f4"), ())
    assert not takes_results(np.zeros(9, np.uint8)[1:].view("f8"), memory.dtype, ())


def test_out_that_can_be_written() -> None:
    memory = np.zeros((8, 8))
    for out in (memory, memory.T, memory[::2, ::-3], memory[:0], memory[3:4]):
        assert check_out(out, out.shape) is out


def test_an_empty_out_overlaps_nothing() -> None:
    out = np.lib.stride_tricks.as_strided(np.ones(4), (2, 0), (0, 8))
    assert check_out(out, (2, 0)) is out


@pytest.mark.parametrize(
    ("shape", "strides"), [((2, 3), (8, 8)), ((2, 2), (0, 8)), ((3, 3), (16, 8))]
)
def test_out_whose_elements_coincide(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    out = np.lib.stride_tricks.as_strided(np.zeros(20), shape, strides)
    with pytest.raises(UsageError) as caught:
        check_out(out, shape)
    assert str(caught.value) == "elements of out share memory\ntry: pass a fresh array"


def test_overlap() -> None:
    memory = np.zeros(40)
    assert overlap(memory[:10], memory[9:])
    assert not overlap(memory[:10], memory[10:])
    assert not overlap(memory[::2], memory[1::2])
    assert overlap(memory[::2], memory[::3])
    assert not overlap(memory, np.zeros(40))


def test_an_overlap_too_hard_to_decide_counts_as_one() -> None:
    memory = np.zeros(1 << 16, np.int8)
    x = np.lib.stride_tricks.as_strided(memory, (9, 9, 9, 9, 9), (1201, 733, 401, 97, 13))
    y = np.lib.stride_tricks.as_strided(memory[5:], (9, 9, 9, 9, 9), (1193, 727, 409, 89, 17))
    assert overlap(x, y)
