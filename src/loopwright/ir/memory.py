"""Memory of the interpreters: every access is checked for bounds, definedness and races."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from operator import mul
from typing import Any, Self

import numpy as np

from loopwright.diagnostics import InternalError, UsageError
from loopwright.ir.dtypes import DType
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "AROUND",
    "Cells",
    "Heard",
    "Memory",
    "Races",
    "Turn",
    "Turns",
    "UndefinedRead",
    "element_strides",
    "flow_of",
    "poisoned",
]

Array = np.ndarray[Any, np.dtype[Any]]


class UndefinedRead(InternalError):  # noqa: N818, names what happened
    """An element was read before anything was stored to it."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What the pointer of an argument points at: offset 0 of its buffer is `data[base]`."""

    data: Array  # one dimension
    base: int = 0

    @classmethod
    def of(cls, array: Array) -> Memory:
        """The memory under an array of any strides, from its lowest to its highest element."""
        if array.size == 0:
            return cls(array.reshape(-1))
        strides = element_strides(array)
        reach = [stride * (extent - 1) for stride, extent in zip(strides, array.shape, strict=True)]
        base = -sum(r for r in reach if r < 0)
        # The ellipsis keeps an array of rank 0 an array: indexing it by () would copy the scalar.
        turned = (slice(None, None, -1) if s < 0 else slice(None) for s in strides)
        lowest = array[(*turned, ...)]
        data = np.lib.stride_tricks.as_strided(
            lowest, shape=(base + sum(r for r in reach if r > 0) + 1,), strides=(array.itemsize,)
        )
        return cls(data, base)


def element_strides(array: Array) -> tuple[int, ...]:
    """The strides of an array, counted in elements."""
    if any(stride % array.itemsize for stride in array.strides):
        raise UsageError("strides of the array are no multiples of its element size")
    return tuple(stride // array.itemsize for stride in array.strides)


def poisoned(shape: Sequence[int], dtype: DType) -> Array:
    """Fresh memory with contents that show up in results: NaN, or bytes 0x5A."""
    if dtype.kind in "fc":
        return np.full(shape, complex("nan+nanj") if dtype.is_complex else np.nan, dtype.name)
    data = np.full((*shape, dtype.bytes), 0x5A if dtype.is_integer else 1, "uint8")
    return data.view(dtype.numpy)[..., 0]


class Cells:
    """An array of a running program."""

    __slots__ = (
        "base", "data", "defined", "is_shared", "name", "rank", "shape", "size", "strides",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        data: Array,
        *,
        strides: Sequence[int] | None = None,  # None: `data` is indexed as it is
        shape: Sequence[int] | None = None,  # extents, where they are known
        base: int = 0,  # with strides: the place of element 0
        is_defined: bool = True,  # whether the contents on entry may be read
        is_shared: bool = False,  # whether other threads see it too
    ) -> None:
        self.name = name
        self.data = data
        # Python's integers: every access multiplies and compares them.
        self.strides = None if strides is None else tuple(map(int, strides))
        extents = None if shape is None else tuple(map(int, shape))
        self.shape = data.shape if strides is None else extents
        self.rank = data.ndim if strides is None else len(strides)
        self.size = data.size
        self.base = int(base)
        self.defined = None if is_defined else np.zeros(data.shape, bool)
        self.is_shared = is_shared

    def place(self, index: tuple[int, ...]) -> tuple[int, ...]:
        """Where in `data` the element lies; raises InternalError when it is outside."""
        if len(index) != self.rank:
            raise InternalError(f"{self._element(index)}: {self.name} has {self.rank} dimensions")
        shape, strides = self.shape, self.strides
        if shape is not None:
            for at, extent in zip(index, shape, strict=True):
                if not 0 <= at < extent:
                    raise InternalError(f"{self._element(index)} is outside, shape {list(shape)}")
        if strides is None:
            return index
        offset = self.base + sum(map(mul, index, strides))
        if not 0 <= offset < self.size:
            raise InternalError(
                f"{self._element(index)} is outside its memory: "
                f"place {offset} of {self.size} elements"
            )
        return (offset,)

    def read(self, index: tuple[int, ...]) -> np.generic:
        place = self.place(index)
        if self.defined is not None and not self.defined[place]:
            raise UndefinedRead(f"{self._element(index)} is read before it is written")
        value: np.generic = self.data[place]
        return value

    def write(self, index: tuple[int, ...], value: Any) -> None:
        place = self.place(index)
        dtype = self.data.dtype
        if value.dtype is not dtype and value.dtype != dtype:
            raise InternalError(f"{self._element(index)} of {self.data.dtype} gets a {value.dtype}")
        self.data[place] = value
        if self.defined is not None:
            self.defined[place] = True

    def snapshot(self) -> Self:
        """The memory as it is now: later writes do not show in it."""
        kept = copy(self)
        kept.data = self.data.copy()
        if self.defined is not None:
            kept.defined = self.defined.copy()
        return kept

    def copy_from(self, index: tuple[int, ...], source: Cells, start: tuple[int, ...]) -> None:
        """Take over one element with its definedness: block copies may carry padding along."""
        place, origin = self.place(index), source.place(start)
        if source.data.dtype != self.data.dtype:
            raise InternalError(f"copy of {source.data.dtype} {source.name} to {self.data.dtype}")
        self.data[place] = source.data[origin]
        is_defined = source.defined is None or source.defined[origin]
        if self.defined is not None:
            self.defined[place] = is_defined
        elif not is_defined:
            raise UndefinedRead(f"{source._element(start)} is read before it is written")

    def undefine(self, index: tuple[int, ...]) -> None:
        """Make one element undefined: a copy to it is under way."""
        place = self.place(index)
        if self.defined is not None:
            self.defined[place] = False

    def forget(self) -> None:
        """Make all contents undefined again."""
        if self.defined is not None:
            self.defined[...] = False

    def _element(self, index: tuple[int, ...]) -> str:
        return f"{self.name}[{', '.join(map(str, index))}]"


@dataclass(frozen=True, slots=True)
class Turn:
    """Who accesses memory at one level of concurrency, and when.

    Loops whose iterations run side by side lie inside each other: an access is known by one turn
    per level, from the outermost to the innermost.
    """

    group: int  # the team of threads, or what concurrent loops in one flow of control start
    member: int | str | None  # its iteration or thread, or AROUND; None: several of them
    phase: int  # barriers that the group has passed
    sent: int = 0  # messages that the flow has sent before


AROUND = "around"  # the member that is the flow of control around the concurrent loops
Turns = tuple[Turn, ...]
# How many messages of a flow, by the members that it is of, happened before something.
Heard = dict[tuple[tuple[int, int | str | None], ...], int]


def flow_of(turns: Turns) -> tuple[tuple[int, int | str | None], ...]:
    """Which flow of control has these turns, whatever it has passed."""
    return tuple((turn.group, turn.member) for turn in turns)


def _meeting(earlier: Turns, later: Turns, heard: Heard | None = None) -> int | None:
    """The level at which two accesses may happen in either order; None where they are ordered.

    Members of a group are ordered by its barriers, and by messages that the later one has `heard`.
    """
    for level, (one, other) in enumerate(zip(earlier, later, strict=False)):
        if one.group != other.group:
            return None
        if one.member is None or one.member != other.member:
            if heard and heard.get(flow_of(earlier), 0) > earlier[-1].sent:
                return None
            return level if one.phase == other.phase else None
    return None


def _joined(before: Turns, turns: Turns) -> Turns:
    """The accesses before and this one, as far as what follows must be ordered after them."""
    level = _meeting(before, turns)
    if level is None:
        return turns
    own = turns[level]
    return (*turns[:level], Turn(own.group, None, own.phase, own.sent))


class Races:
    """Who touched which shared element; raises where the order of two accesses is open.

    What is kept of an element is its last write, and the reads and atomic updates since. Of those
    that are not ordered the level at which they part is enough: whatever is ordered after one of
    them, other than the flow of that access itself, is ordered after all.
    """

    def __init__(self) -> None:
        self._readers: dict[tuple[Cells, tuple[int, ...]], Turns] = {}
        self._writers: dict[tuple[Cells, tuple[int, ...]], Turns] = {}
        self._updaters: dict[tuple[Cells, tuple[int, ...]], Turns] = {}  # atomic ones

    def clear(self) -> None:
        """Forget everything: what follows is ordered after all of it."""
        self._readers.clear()
        self._writers.clear()
        self._updaters.clear()

    def read(
        self, cells: Cells, index: tuple[int, ...], turns: Turns, heard: Heard | None = None
    ) -> None:
        """Note a read: it must be ordered after the last write."""
        place = cells, cells.place(index)
        if _meeting(self._writers.get(place, ()), turns, heard) is not None:
            raise self._race(cells, index, "written by one iteration or thread, read by another")
        if self._updaters and _meeting(self._updaters.get(place, ()), turns) is not None:
            raise self._race(cells, index, "updated by one iteration or thread, read by another")
        self._readers[place] = _joined(self._readers.get(place, ()), turns)

    def write(
        self, cells: Cells, index: tuple[int, ...], turns: Turns, heard: Heard | None = None
    ) -> None:
        """Note a write: it must be ordered after the last write and all reads since."""
        place = cells, cells.place(index)
        if _meeting(self._writers.get(place, ()), turns, heard) is not None:
            raise self._race(cells, index, "written by two iterations or threads")
        if _meeting(self._readers.get(place, ()), turns, heard) is not None:
            raise self._race(cells, index, "read by one iteration or thread, written by another")
        if self._updaters and _meeting(self._updaters.pop(place, ()), turns) is not None:
            raise self._race(cells, index, "updated by one iteration or thread, written by another")
        self._readers.pop(place, None)
        self._writers[place] = turns

    def update(self, cells: Cells, index: tuple[int, ...], turns: Turns) -> None:
        """Note an atomic update: it must be ordered after other accesses, but not after updates."""
        place = cells, cells.place(index)
        if _meeting(self._writers.get(place, ()), turns) is not None:
            raise self._race(cells, index, "written by one iteration or thread, updated by another")
        if _meeting(self._readers.get(place, ()), turns) is not None:
            raise self._race(cells, index, "read by one iteration or thread, updated by another")
        self._updaters[place] = _joined(self._updaters.get(place, ()), turns)

    def _race(self, cells: Cells, index: tuple[int, ...], what: str) -> InternalError:
        return InternalError(f"race: {cells._element(index)} is {what} without a barrier between")
