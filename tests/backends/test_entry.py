"""The place of the data pointer in a NumPy array object, which emitted entry points rely on."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from loopwright.backends.llvm.llvm_entry import DATA_OFFSET


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(3),
        np.zeros((4, 5), np.int8)[::-2, 1:],
        np.array(7.0),
        np.zeros((0, 3)),
        np.asfortranarray(np.zeros((2, 3), np.complex64)),
        np.broadcast_to(np.zeros(1), (5, 5)),
    ],
)
def test_data_pointer_is_where_we_read_it(array: np.ndarray) -> None:
    read = ctypes.c_void_p.from_address(id(array) + DATA_OFFSET).value
    assert (read or 0) == array.ctypes.data
