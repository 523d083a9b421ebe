"""The fast look at index arrays before code runs on them agrees with the whole check."""

import numpy as np
import pytest

from loopwright.diagnostics import UsageError
from loopwright.sparse.tensor import SparseTensor, sparse_tensor
from loopwright.sparse.validate_arrays import limits, require_valid_arrays
from loopwright.sparse.validate_tensor import validate_tensor
from sparse.synthesis.pairs import FORMATS_2D, FORMATS_3D
from sparse_builders import of_dense

ARRAY = np.array([[1, 0, 2, 0], [0, 0, 0, 0], [3, 4, 0, 5], [0, 0, 6, 0]])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_limits(dtype: str) -> None:
    info = np.iinfo(dtype)
    for values in ([5], [3, 1, 2], [info.max, info.min, 0], list(range(100))):
        array = np.array(values, dtype)
        assert limits(array) == (min(values), max(values))
        assert limits(np.repeat(array, 2)[::2]) == (min(values), max(values))


def test_limits_of_many_dimensions() -> None:
    array = np.arange(-6, 6, dtype=np.int32).reshape(3, 4)
    assert limits(array) == limits(array.T) == (-6, 5)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("name", "rank"), [*((f, 2) for f in FORMATS_2D), *((f, 3) for f in FORMATS_3D)]
)
def test_sound_tensors_pass(name: str, rank: int) -> None:
    shape = (4, 4) if rank == 2 else (2, 4, 2)
    require_valid_arrays(of_dense(name, ARRAY.reshape(shape)))
    require_valid_arrays(of_dense(name, np.zeros((0, 3, 2)[:rank])))


def spoilt(tensor: SparseTensor, seed: int) -> SparseTensor:
    """The tensor with one number of one index array changed."""
    rng = np.random.default_rng(seed)
    arrays = {key: array.copy() for key, array in tensor.arrays.items()}
    filled = [name for name, array in arrays.items() if array.size]
    array = arrays[filled[rng.integers(len(filled))]]
    info = np.iinfo(array.dtype)
    worst = (-1, -5, 1, 2, 4, 5, 100, info.max, info.min)
    array.reshape(-1)[rng.integers(array.size)] = np.array(worst[rng.integers(len(worst))]).astype(
        array.dtype
    )
    return sparse_tensor(tensor.format, tensor.shape, arrays, tensor.values, symbols=tensor.symbols)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("name", "rank"), [*((f, 2) for f in FORMATS_2D), *((f, 3) for f in FORMATS_3D)]
)
def test_what_passes_stays_inside(name: str, rank: int) -> None:
    """Of spoilt tensors only such pass as the whole check lets pass, but for what pads them.

    Coordinates that are sorted are looked at later, where it is found out what they are.
    """
    tensor = of_dense(name, ARRAY.reshape((4, 4) if rank == 2 else (2, 4, 2)))
    refused = 0
    for seed in range(60):
        bad = spoilt(tensor, seed)
        try:
            require_valid_arrays(bad)
        except UsageError:
            refused += 1
            continue
        if name != "scoo" and not is_padding_wrong(bad):
            validate_tensor(bad)
    assert refused > 5


def is_padding_wrong(tensor: SparseTensor) -> bool:
    """Whether something stands in a padded index array where nothing is read."""
    try:
        validate_tensor(tensor)
    except UsageError as error:
        return "is padding" in str(error)
    return False


@pytest.mark.parametrize(
    ("name", "array", "value", "told"),
    [
        ("csr", "rowptr", [0, 2, 5, 3, 6], "csr: rowptr is not increasing"),
        ("csr", "rowptr", [0, 2, 2, 5, 7], r"csr: rowptr\[4\] = 7 is outside its range"),
        ("csr", "rowptr", [0, 2, 2, 5, 5], r"rowptr\(NR\) = NNZ"),
        ("csr", "rowptr", [1, 2, 2, 5, 6], r"rowptr\(0\) = 0"),
        ("csr", "col", [0, 2, 0, 1, -1, 2], r"csr: col\[4\] = -1 is outside its range"),
        ("csc", "row", [0, 2, 2, 0, 3, 4], r"csc: row\[5\] = 4 is outside its range"),
        ("coo", "row", [0, 0, 2, 2, 2, 9], r"coo: row\[5\] = 9 is outside its range"),
        ("dia", "off", [-2, -1, 0, 0, 7], "outside its range|not strictly increasing"),
        ("lil", "start", [0, 2, 2, 9, 6], r"lil: start\[3\] = 9 is outside its range"),
        ("lil", "len", [2, 0, 4, 1], "lil: an invariant is violated"),
    ],
)
def test_the_place_is_named(name: str, array: str, value: list[int], told: str) -> None:
    good = of_dense(name, ARRAY)
    value = value[: len(good.arrays[array])]
    arrays = dict(good.arrays) | {array: np.array(value, np.int32)}
    bad = sparse_tensor(name, good.shape, arrays, good.values, symbols=good.symbols)
    with pytest.raises(UsageError, match=told):
        require_valid_arrays(bad)
