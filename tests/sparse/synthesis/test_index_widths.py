"""Index arrays hold their numbers: wide enough while computed, narrow where they fit, never cut."""

from dataclasses import replace

import numpy as np
import pytest

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import INT32, INT64
from loopwright.sparse.convert_tensor import convert
from loopwright.sparse.format import Format, declare, index
from loopwright.sparse.formats import BUILT_IN, find
from loopwright.sparse.synthesis.index_widths import made_types
from sparse.synthesis.pairs import scattered


def short(dtype: str) -> Format:
    """Coordinates whose rows are stored in a type of few bits."""
    return declare(
        "short",
        "{[n,ii,jj] -> [i,j] : 0<=n<NNZ && ii=row(n) && jj=col(n) && i=ii && j=jj"
        " && 0<=i<NR && 0<=j<NC}",
        "{[n,ii,jj] -> [n]}",
        index("row", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NR}", dtype=dtype),
        index("col", "{[x] : 0<=x<NNZ}", "{[y] : 0<=y<NC}"),
        places="NNZ",
        is_unique=False,
    )


@pytest.mark.parametrize("name", [family.example for family in BUILT_IN.values()])
def test_only_sums_with_padding_are_unbounded(name: str) -> None:
    rank = 3 if name == "mcoo3" else 2
    format = find(name, rank)
    wide = [i for i, t in made_types(format, (1000,) * rank, 5000, INT32) if t == INT64]
    assert wide == {"sell(32,128)": ["cptr"], "alto": ["alto"]}.get(name, [])


def test_a_sum_is_stored_in_few_bits_where_it_fits() -> None:
    tensor = convert(scattered(1, (9, 7), 0.5), "sell(2,4)")
    assert tensor.arrays["cptr"].dtype == np.int32


@pytest.mark.parametrize(("dtype", "rows"), [("int8", 128), ("uint8", 256), ("int16", 1 << 15)])
def test_the_last_coordinate_that_fits(dtype: str, rows: int) -> None:
    format = short(dtype)
    assert dict(made_types(format, (rows, 3), 10, INT32))["row"].numpy == np.dtype(dtype)
    array = np.zeros((rows, 3))
    array[rows - 1, 1] = array[0, 2] = 1
    tensor = convert(array, format)
    assert tensor.arrays["row"].dtype == np.dtype(dtype)
    assert np.array_equal(tensor.to_dense(), array)


def test_a_coordinate_that_does_not_fit_is_refused() -> None:
    array = np.zeros((300, 3))
    array[3, 1] = array[128, 2] = 1
    with pytest.raises(UsageError, match=r"short: row\[1\] = 128 does not fit int8\n.*wider dtype"):
        convert(array, short("int8"))
    # A large shape alone is no reason to refuse.
    array[128, 2] = 0
    tensor = convert(array, short("int8"))
    assert tensor.arrays["row"].dtype == np.int8
    assert np.array_equal(tensor.to_dense(), array)


def test_a_sum_that_does_not_fit_is_refused() -> None:
    plain = find("sell(8,8)")
    indices = tuple(replace(i, dtype="int8" if i.name == "cptr" else "") for i in plain.indices)
    own = replace(plain, name="own", indices=indices)
    few, many = np.eye(16), np.ones((16, 16))
    assert np.array_equal(convert(few, own).to_dense(), few)
    with pytest.raises(UsageError, match=r"own: cptr\[1\] = 128 does not fit int8"):
        convert(many, own)


def test_room_that_no_memory_has() -> None:
    with pytest.raises(MemoryError):
        convert(np.eye(3), "bcsr(2147483647,2147483647)")
