"""Rows and columns exchanged by formats: a square pattern that is symmetric keeps its index arrays.

Two formats are partners where each is compressed along the dimension in which the other keeps
indices, as csr and csc are, whatever they are called: descriptors tell. Between partners a tensor
of symmetric pattern needs neither counters nor new index arrays (see pairs); whether it is one
shows as the values are moved. Where it is not, nothing has been done that anybody sees, and the
tensor is converted as any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopwright.diagnostics import UsageError
from loopwright.ir.dtypes import DType, dtype_of
from loopwright.runtime.scratch import Loan

from .format import Format, Index
from .format import index as declare_index
from .pairs import pairing, shared_pairing
from .spf.shared_run import LEAST
from .synthesis.numbering import told_by
from .synthesis.source import plain_stream
from .synthesis.widths import counter_type, index_type
from .tensor import SparseTensor
from .uf import (
    Call,
    Constraint,
    Formula,
    IntegerSet,
    Linear,
    Sym,
    Var,
    parse_implication,
    substitute,
)

__all__ = [
    "LEAST_ENTRIES",
    "Compressed",
    "Partners",
    "compressed",
    "exchanged",
    "partners",
    "transposed",
]

Array = NDArray[Any]

LEAST_ENTRIES = 1 << 14  # fewer are converted in no time, without more code to compile
_PROBE = 1 << 10  # entries of the first rows, in which most other patterns show themselves
_TURN = 1 << 19  # entries after which it is time to ask whether the pattern is one
_WORDS = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


@dataclass(frozen=True)
class Partners:
    """Index arrays of two formats that are each other's with rows and columns exchanged."""

    pointers: tuple[str, str]  # of source and target
    indices: tuple[str, str]

    def __str__(self) -> str:
        same = " and ".join(f"{new} is {old}" for old, new in (self.pointers, self.indices))
        return (
            f"of {LEAST_ENTRIES} entries or more in a square of symmetric pattern {same}, "
            "and values change places in pairs"
        )


@lru_cache(maxsize=256)
def partners(source: Format, target: Format) -> Partners | None:
    """How two formats correspond, if one is the other with rows and columns exchanged."""
    one, other = compressed(source), compressed(target)
    if one is None or other is None or one.major == other.major:
        return None
    return Partners((one.pointer, other.pointer), (one.index, other.index))


@dataclass(frozen=True)
class Compressed:
    """A format with a pointer for each coordinate of one dimension, and indices of the other."""

    major: int
    pointer: str
    index: str


@lru_cache(maxsize=256)
def compressed(format: Format) -> Compressed | None:
    """What makes a format compressed rows or columns: its tuples are x, k and what these tell.

    0 <= x < S,  ptr(x) <= k < ptr(x+1), in all each k once;  the coordinates are x and index(k),
    which ascend in that order, no two alike;  k is the place of the value.
    """
    is_plain = format.is_unique and format.padding is None and not format.defined
    if not is_plain or (format.rank, len(format.indices), len(format.counts)) != (2, 2, 1):
        return None
    stream = plain_stream(format)
    if stream is None:
        return None
    number, count = stream.numbering, Linear.of(Sym(format.counts[0]))
    if number is None or stream.place != number.number or number.total != count:
        return None
    k, x = number.number, Linear.of(Var(stream.domain.variables[0]))
    told = told_by(str(k), stream.domain)
    where = [substitute(stream.coordinates[c], told) for c in format.coordinates]
    for major, (pointer, index) in product((0, 1), permutations(format.indices)):
        order = tuple(Linear.of(Var(format.coordinates[d])) for d in (major, 1 - major))
        lies = (where[major], where[1 - major], format.order, format.places)
        wanted = (x, Linear.of(Call(index.name, (k,))), order, count)
        begins = Constraint.ge(k, Linear.of(Call(pointer.name, (x,))))
        is_there = lies == wanted and begins in stream.domain.conjs[0].constraints
        if is_there and _is_all(format, pointer, index, major):
            return Compressed(major, pointer.name, index.name)
    return None


def _is_all(format: Format, pointer: Index, index: Index, major: int) -> bool:
    """Whether a compressed format promises just that, which the exchange proves, and no more."""
    size, other, count = format.sizes[major], format.sizes[1 - major], format.counts[0]
    promised = (
        declare_index(
            pointer.name,
            f"{{[x] : 0<=x<={size}}}",
            f"{{[y] : 0<=y<={count}}}",
            monotone="increasing",
        ),
        declare_index(index.name, f"{{[x] : 0<=x<{count}}}", f"{{[y] : 0<=y<{other}}}"),
    )
    ptr, at = pointer.name, index.name
    rules = (
        f"{ptr}(0) = 0",
        f"{ptr}({size}) = {count}",
        f"forall x,k: 0<=x<{size} && {ptr}(x)<=k<{ptr}(x+1)-1 => {at}(k)<{at}(k+1)",
        f"forall k,x: 0<=x<{size} && {ptr}(x)<=k<{ptr}(x+1)-1 => {at}(k)<{at}(k+1)",
    )
    known = {_plain(*parse_implication(text)) for text in rules}
    return all(
        (given.extents, given.monotone, given.inverse, given.pad, _plain_set(given.domain))
        == (said.extents, said.monotone, said.inverse, said.pad, _plain_set(said.domain))
        and _plain_set(given.range) == _plain_set(said.range)
        for given, said in zip((pointer, index), promised, strict=True)
    ) and all(_plain(r.variables, r.premise, r.conclusion) in known for r in format.rules)


def _plain_set(of: IntegerSet) -> tuple[Formula, ...]:
    return _plain(of.variables, of.conjs)


def _plain(variables: tuple[str, ...], *parts: Formula) -> tuple[Formula, ...]:
    """Formulas with their variables called by their numbers."""
    names = {name: f"w{at}" for at, name in enumerate(variables)}
    return tuple(tuple(conj.rename(names) for conj in part) for part in parts)


def transposed(tensor: SparseTensor, target: Format, threads: int = 1) -> SparseTensor | None:
    """The tensor in a format with rows and columns exchanged, if its pattern is symmetric.

    Index arrays are shared with it. None of any other tensor, also of one that is faulty.
    """
    if len(tensor.values) < LEAST_ENTRIES:
        return None
    found = partners(tensor.format, target)
    return None if found is None else exchanged(tensor, target, found, threads)


def exchanged(
    tensor: SparseTensor, target: Format, found: Partners, threads: int = 1
) -> SparseTensor | None:
    """The same for a tensor with any number of entries."""
    given = _given(tensor, target, found)
    if given is None or not _may_be_symmetric(given):
        return None
    out = np.empty(len(given.values), given.words.dtype)
    memory = Loan()
    try:
        block = memory.lend((tensor.shape[0] * given.pointer.itemsize,), np.dtype(np.uint8))
        is_symmetric = _run(given, out, block, threads)
    finally:
        memory.give_back()
    if not is_symmetric:
        return None
    size, count = tensor.shape[0], len(out)
    symbols = {target.counts[0]: count, target.sizes[0]: size, target.sizes[1]: size}
    shared = {found.pointers[1]: given.pointer, found.indices[1]: given.index}
    return SparseTensor(target, tensor.shape, shared, symbols, out.view(given.values.dtype))


@dataclass(frozen=True, slots=True)
class _Given:
    """Arrays that code may be run on; what stands in them nobody has looked at."""

    pointer: Array
    index: Array
    values: Array

    @property
    def words(self) -> Array:
        """The values as they are moved: types of one width share code."""
        word = _WORDS.get(self.values.itemsize)
        return self.values if word is None else self.values.view(word)

    def arrays(self, out: Array, block: Array) -> dict[str, Array]:
        """Arrays of the code, indices as natural numbers; cursors lie in a block of bytes."""
        pointer, index = (a.view(_WORDS[a.itemsize]) for a in (self.pointer, self.index))
        cursors = block[: block.size - block.size % pointer.itemsize].view(pointer.dtype)
        return {"ptr": pointer, "col": index, "values": self.words, "out": out, "cur": cursors}


def _given(tensor: SparseTensor, target: Format, found: Partners) -> _Given | None:
    """The arrays of a square tensor, if their types and lengths are those of its partner."""
    values, size = tensor.values, tensor.shape[0]
    pointer, index = tensor.arrays[found.pointers[0]], tensor.arrays[found.indices[0]]
    count = len(values)
    if tensor.shape != (size, size) or not size or not count or values.ndim != 1:
        return None
    if pointer.shape != (size + 1,) or index.shape != (count,):
        return None
    of, symbols = tensor.format, tensor.symbols
    stated = [symbols.get(name) for name in (*of.sizes, *of.counts)]
    if stated != [size, size, count] or not _is_known(values.dtype):
        return None
    counter = counter_type(tensor.shape, count)
    wanted = (
        index_type(target.index(names[1]), counter) for names in (found.pointers, found.indices)
    )
    if [pointer.dtype, index.dtype] != [dtype.numpy for dtype in wanted]:
        return None
    if pointer[0] != 0 or pointer[-1] != count or size > 1 << (8 * index.itemsize - 1):
        return None
    return _Given(*(np.ascontiguousarray(array) for array in (pointer, index, values)))


@lru_cache(maxsize=64)
def _is_known(dtype: np.dtype[Any]) -> bool:
    try:
        dtype_of(dtype)
    except (KeyError, UsageError):
        return False  # refused where all types are
    return True


def _may_be_symmetric(given: _Given) -> bool:
    """Whether the first rows of a tensor with many entries leave that open."""
    pointer, count = given.pointer, len(given.values)
    if count <= 8 * _PROBE:
        return True
    rows = _reached(pointer, _PROBE)
    # The rest is left out, as if the tensor had one more row and no more entries.
    entries = int(pointer[rows])
    if not 0 < entries <= count:
        return False
    if entries > count // 4:
        return True  # one of them is long
    arrays = given.arrays(
        np.empty(entries, given.words.dtype), np.empty(rows * pointer.itemsize, np.uint8)
    )
    bad = arrays["bad"] = np.empty(1, np.bool_)
    known = {"FIRST": 0, "STOP": rows, "N": rows + 1, "NNZ": entries, "PROBE": 1}
    pairing(*_types(arrays)).run(arrays, known)
    return not bad[0]


def _run(given: _Given, out: Array, block: Array, threads: int) -> bool:
    """Move the values; whether the pattern turned out to be symmetric."""
    arrays = given.arrays(out, block)
    size, count = len(given.pointer) - 1, len(out)
    types, known = _types(arrays), {"N": size, "NNZ": count}
    shares = min(threads, count // LEAST)
    bad = arrays["bad"] = np.empty(max(shares, 1), np.bool_)
    if shares < 2:
        code, first = pairing(*types), 0
        for entries in range(_TURN, count + _TURN, _TURN):
            stop = size if entries >= count else max(first, _reached(given.pointer, entries))
            code.run(arrays, {"FIRST": first, "STOP": stop, "PROBE": 0, **known})
            if bad[0] or stop == size:
                break
            first = stop
        return not bad[0]
    inner = [_reached(given.pointer, count * t // shares) for t in range(1, shares)]
    # Faulty pointers give cuts in any order.
    arrays["cut"] = np.maximum.accumulate(np.array([0, *inner, size], np.int64))
    arrays["last"] = np.empty(shares, np.int64)
    shared_pairing(*types).run(arrays, {**known, "SHARES": shares}, threads)
    return not bad.any()


def _types(arrays: dict[str, Array]) -> tuple[DType, ...]:
    return tuple(dtype_of(arrays[name].dtype) for name in ("ptr", "col", "values"))


def _reached(pointer: Array, entries: int) -> int:
    """The first row before which there are so many entries."""
    wanted = pointer.dtype.type(entries)  # for a number of another type all would be converted
    return min(int(pointer.searchsorted(wanted)), len(pointer) - 1)
