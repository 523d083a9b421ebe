"""Element types: the table agrees with NumPy, and foreign types are refused with the list."""

import numpy as np
import pytest

from loopwright.diagnostics import DtypeError
from loopwright.ir.dtypes import DTYPES, DType, dtype_of


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_rows_agree_with_numpy(dtype: DType) -> None:
    numpy = np.dtype(dtype.name)
    assert dtype.numpy == numpy
    assert (dtype.kind, dtype.bytes) == (numpy.kind, numpy.itemsize)
    assert dtype_of(numpy) is dtype
    assert dtype_of(numpy.type) is dtype
    assert str(dtype) == dtype.name


def test_parts_of_complex_numbers() -> None:
    assert DTYPES["complex64"].real.name == "float32"
    assert DTYPES["complex128"].real.name == "float64"
    assert DTYPES["int8"].real.name == "int8"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            np.dtype("f4").newbyteorder("S"),
            "byte order of dtype '{}' is not the machine's; try a.astype('float32')",
        ),
        ("U5", "dtype '{}' is not supported; accepted: " + ", ".join(DTYPES)),
        ("M8[s]", "dtype '{}' is not supported; accepted: " + ", ".join(DTYPES)),
    ],
)
def test_foreign_types(given: object, told: str) -> None:
    with pytest.raises(DtypeError) as caught:
        dtype_of(given)
    assert str(caught.value) == told.format(np.dtype(given))  # type: ignore[call-overload]
