"""What a conversion must give: the target built by hand, array by array."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from drawn import drawn
from loopwright.sparse.convert_tensor import convert_tensor
from loopwright.sparse.format import Format
from loopwright.sparse.formats import find
from loopwright.sparse.formats.coordinates import names
from loopwright.sparse.tensor import SparseTensor, same, sparse_tensor

FORMATS_2D = (
    "coo",
    "scoo",
    "mcoo2",
    "csr",
    "csr_unsorted",
    "csc",
    "dia",
    "ell(row)",
    "ell(column)",
    "bcsr(2,2)",
    "dcsr",
    "lil",
    "csf",
    "hicoo(2)",
    "alto",
    "sell(2,4)",
)
FORMATS_3D = ("coo", "scoo", "mcoo3", "csf", "hicoo(2)", "alto")


def patterns(most: int, least: int = 1) -> Iterator[np.ndarray[Any, Any]]:
    """Every pattern of matrices with `least` to `most` rows and columns, with values told apart."""
    for rows, columns in itertools.product(range(least, most + 1), repeat=2):
        count = rows * columns
        values = np.arange(1.0, count + 1).reshape(rows, columns)
        for bits in range(1 << count):
            chosen = np.array([bits >> n & 1 for n in range(count)]).reshape(rows, columns)
            yield values * chosen


def scattered(
    seed: int, shape: tuple[int, ...], density: float, dtype: Any = np.float64
) -> np.ndarray[Any, Any]:
    """A random array with few entries."""
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 100, shape) * rng.choice((-1, 1), shape)
    return np.where(rng.random(shape) < density, values, 0).astype(dtype)


def assert_converts(source: SparseTensor, target: str | Format, expected: SparseTensor) -> None:
    """The conversion gives `expected`, every array alike; coo keeps the order of the source."""
    before = [array.copy() for array in (*source.arrays.values(), source.values)]
    result = convert_tensor(source, find(target, source.ndim), threads=1)
    if result.format.name == "coo" and source.format.name != "coo":
        expected = in_order_of(source)
    if not same(result, expected):
        raise AssertionError(
            f"{source.format.name} -> {result.format.name}\n{told(source)}\n"
            f"gives\n{told(result)}\nexpected\n{told(expected)}"
        )
    for array, old in zip((*source.arrays.values(), source.values), before, strict=True):
        assert array.tobytes() == old.tobytes(), f"{source.format.name} was written to"


def in_order_of(source: SparseTensor) -> SparseTensor:
    """Coordinates in the order in which a tensor holds them; padding that is mapped left out."""
    found = source.entries()
    values = source.values[found.places]
    padding = source.format.padding
    kept = np.ones(len(values), bool)
    if padding is not None and padding.is_mapped:
        kept = values != padding.fill
    columns = [column[kept].astype(np.int32) for column in found.coordinates]
    arrays = dict(zip(names(source.ndim), columns, strict=True))
    return sparse_tensor("coo", source.shape, arrays, values[kept])


def told(tensor: SparseTensor) -> str:
    """All that `same` looks at."""
    lines = [f"{tensor!r} {dict(tensor.symbols)}"]
    lines += [f"  {name} = {array.tolist()}" for name, array in tensor.arrays.items()]
    return "\n".join([*lines, f"  values = {tensor.values.tolist()}"])


def targets_of(source: str, formats: tuple[str, ...], one_in: int = 8) -> list[str]:
    """Formats that `source` is converted to: one in so many; as many sources meet a target.

    `source` itself is among them only where all are.
    """
    return drawn(formats, one_in, formats.index(source) + 1)
