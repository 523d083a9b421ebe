"""A sparse tensor: NumPy arrays read through the descriptor of a format."""

from __future__ import annotations

import html
import math
import operator
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass

from .format import Format
from .format_symbols import check_sizes, fixed_symbols, solve_symbols, symbol_solver
from .formats import find
from .formats.canonical_formats import is_verified
from .frozen import freeze
from .spy import spy_svg
from .tensor_entries import Entries, dense, entries, without_padding
from .validate_tensor import check_lengths, validate_tensor

__all__ = ["SparseTensor", "from_dense", "index_dtype", "same", "sparse_tensor"]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False, repr=False, init=False)
class SparseTensor:
    """Views of arrays that a format gives a meaning; made by `sparse_tensor`."""

    format: Format
    shape: tuple[int, ...]
    arrays: Mapping[str, NDArray[Any]]  # one for each index of the format, by name
    symbols: Mapping[str, int]  # sizes, what follows from them, and counts
    values: NDArray[Any]  # of one dimension
    __array_ufunc__: ClassVar[None] = None  # NumPy would make an array of one object of a tensor

    def __init__(
        self,
        format: Format,
        shape: tuple[int, ...],
        arrays: Mapping[str, NDArray[Any]],
        symbols: Mapping[str, int],
        values: NDArray[Any],
    ) -> None:
        keep = object.__setattr__
        keep(self, "format", format)
        keep(self, "shape", shape)
        keep(self, "arrays", MappingProxyType(_copied(arrays)))
        keep(self, "symbols", MappingProxyType(_copied(symbols)))
        keep(self, "values", values)

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and pickles: the views of the mappings can be neither copied nor pickled.
        parts = (self.format, self.shape, dict(self.arrays), dict(self.symbols), self.values)
        return SparseTensor, parts

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        raise UsageError(
            f"the {self.format.name} tensor is no dense array",
            hint="to_dense() makes one, loopwright.sparse.einsum multiplies without",
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays; memory that they share with others is counted."""
        return self.values.nbytes + sum(array.nbytes for array in self.arrays.values())

    @property
    def nnz(self) -> int:
        """How many entries are stored, explicit zeros included, padding not.

        Where the map reaches padding (dia, bcsr), zeros are padding.
        """
        padding = self.format.padding
        if padding is None:
            return len(self.values)
        if padding.is_mapped and is_verified(self.format):
            return int(np.count_nonzero(self.values))
        return self.entries().count

    def entries(self) -> Entries:
        """The coordinates of the entries and their places, found from the descriptor; slow."""
        return without_padding(entries(self), self.values, self.format)

    def to_dense(self) -> NDArray[Any]:
        """The tensor as a NumPy array, found from the descriptor; slow."""
        return dense(self)

    def check(self) -> SparseTensor:
        """Validate every invariant of the format; returns the tensor itself."""
        validate_tensor(self)
        return self

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.shape))
        return f"<SparseTensor {self.format.name}, {size}, {self.dtype}, {_summary(self)}>"

    def _repr_html_(self) -> str:
        size = " × ".join(map(str, self.shape))
        title = html.escape(f"{self.format.name}, {size}")
        lines = [f"<b>{title}</b>", html.escape(str(self.dtype)), html.escape(_summary(self))]
        lines += [
            f"<code>{html.escape(name)}</code> {html.escape(f'{array.dtype} {array.shape}')}"
            for name, array in (*self.arrays.items(), ("values", self.values))
        ]
        picture = spy_svg(self.shape, self.entries().coordinates, f"entries of {title}")
        return (
            '<div style="display:flex;gap:1em;align-items:flex-start">'
            f"{picture}<div>{'<br/>'.join(lines)}</div></div>"
        )


def _copied(given: Mapping[str, Any]) -> dict[str, Any]:
    # Those of another tensor have a copy() that is three times as fast.
    return given.copy() if type(given) is MappingProxyType else dict(given)


def _summary(tensor: SparseTensor) -> str:
    stored = len(tensor.values)
    cells = math.prod(tensor.shape)
    density = f", density {stored / cells:.2g}" if cells else ""
    what = "stored" if tensor.format.padding is None else "places"
    return f"{stored} {what}, {_bytes(tensor.nbytes)}{density}"


def _bytes(count: int) -> str:
    size, units = float(count), ["B", "KiB", "MiB", "GiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{count} B" if units[0] == "B" else f"{size:.1f} {units[0]}"


def index_dtype(largest: int) -> np.dtype[Any]:
    """The narrowest of int32 and int64 that holds the numbers up to `largest`."""
    return np.dtype(np.int32 if largest < 1 << 31 else np.int64)


def sparse_tensor(
    format: str | Format,
    shape: Sequence[SupportsIndex],
    arrays: Mapping[str, ArrayLike],
    values: ArrayLike,
    *,
    symbols: Mapping[str, int] | None = None,
) -> SparseTensor:
    """Make a tensor of arrays, kept without a copy if they are NumPy's in the machine's byte order.

    Names, types and lengths are checked here; `check` validates every index. Symbols that do not
    follow from the lengths of the arrays must be given.
    """
    sizes = _sizes(shape)
    descriptor = find(format, len(sizes))
    kept = {name: _native(array) for name, array in arrays.items()}
    data = _native(values)
    if symbols is None:
        settled = symbol_solver(descriptor)(sizes, kept, data)
        if settled is not None:
            return SparseTensor(descriptor, sizes, kept, settled, data)
    check_sizes(descriptor, sizes)
    for index in descriptor.indices:
        if index.name not in kept:
            raise UsageError(
                f"{descriptor.name} needs the index array {index.name}",
                found=", ".join(kept) or "none",
                hint=f"its domain is {index.domain}",
            )
        if kept[index.name].ndim != index.rank:
            raise UsageError(
                f"{descriptor.name}: {index.name} must have {index.rank} dimensions",
                found=f"shape {kept[index.name].shape}",
            )
    if symbols is None:
        known = solve_symbols(descriptor, sizes, kept, data.size)
    else:
        known = {**fixed_symbols(descriptor, sizes), **{k: int(v) for k, v in symbols.items()}}
    tensor = SparseTensor(descriptor, sizes, kept, known, data)
    check_lengths(tensor)
    return tensor


def _native(array: ArrayLike) -> NDArray[Any]:
    """A NumPy array in the byte order of the machine, which is all that compiled code reads."""
    found = np.asarray(array)
    return found if found.dtype.isnative else found.astype(found.dtype.newbyteorder("="))


def _sizes(shape: Sequence[SupportsIndex]) -> tuple[int, ...]:
    try:
        sizes = tuple(map(operator.index, shape))
    except TypeError as error:
        raise UsageError("a shape is a tuple of whole numbers", found=repr(shape)) from error
    if min(sizes, default=0) < 0:
        dimension = next(d for d, size in enumerate(sizes) if size < 0)
        raise UsageError(
            f"dimension {dimension} of the shape is {sizes[dimension]}",
            hint="sizes are not negative",
        )
    return sizes


def from_dense(array: ArrayLike) -> SparseTensor:
    """The entries of an array that are not 0, as sorted coordinates, which are read-only."""
    whole = np.asarray(array)
    format = find("scoo", whole.ndim)
    dtype = index_dtype(max(whole.shape, default=0))
    places = np.nonzero(whole)
    arrays = {
        index.name: freeze(place.astype(dtype))
        for index, place in zip(format.indices, places, strict=True)
    }
    return sparse_tensor(format, whole.shape, arrays, whole[places])


def same(left: SparseTensor, right: SparseTensor) -> bool:
    """Whether two tensors have one format, shape and symbols, equal indices and equal bits."""
    return (
        left.format == right.format
        and left.shape == right.shape
        and dict(left.symbols) == dict(right.symbols)
        and left.arrays.keys() == right.arrays.keys()
        and all(np.array_equal(left.arrays[name], right.arrays[name]) for name in left.arrays)
        and left.values.dtype == right.values.dtype
        and left.values.tobytes() == right.values.tobytes()
    )
