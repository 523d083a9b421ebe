"""Tables of repeated calls: what the native dispatcher finds and runs (see ir/call_dispatch)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import CellType
from typing import Any

import numpy as np

from loopwright.ir.call_dispatch import (
    ARGUMENT,
    CONSTANT,
    GIVE_NONE,
    GIVE_NUMBER,
    GIVE_OBJECT,
    GIVE_SCALAR,
    GIVE_TUPLE,
    GIVE_VIEW,
    IN_PYTHON,
    MOST_OBJECTS,
    MOST_RESULTS,
    MOST_WORDS,
    NEW,
    NEW_STRIDED,
    NO_STATUS,
    NUMBER,
    PROBES,
    PYTHON_NUMBERS,
    RECORD,
    RELEASE,
    TEMPORARY,
)
from loopwright.memo import BoundedCache
from loopwright.runtime.address import Address, data_address
from loopwright.runtime.kernel import BoundKernel

__all__ = ["CallProgram", "CallTable", "Hash", "array_words"]

Array = np.ndarray[Any, np.dtype[Any]]
Words = tuple[int, ...]
Hash = Callable[[Address, int], int]

_ALIGNED = 0x100
_LINE = 128  # bytes from one temporary array to the next are a multiple of


def array_words(array: Array) -> Words:
    """What a signature says of an array."""
    layout = array.ndim | (_ALIGNED if array.flags.aligned else 0)
    return (id(array.dtype), layout, *array.shape, *array.strides)


class CallProgram:
    """What a repeated call does, put together step by step; arguments are known by their places.

    Place 0 is `out`, or nothing.
    """

    def __init__(self) -> None:
        self.kept: list[object] = []  # what words refer to
        self.releases = True  # whether kernels run without the GIL
        self._objects: list[Words] = []
        self._extents: list[tuple[int, Words]] = []  # object, then words it points to
        self._temporaries = 0  # bytes
        self._sizes: list[tuple[int, int]] = []  # of temporaries: object, bytes
        self._kernels: list[tuple[BoundKernel, Words]] = []
        self._written: list[int] = []
        self._apart: list[Words] = []
        self._checks: list[Words] = []
        self._results: list[Words] = []
        self._layouts: list[tuple[int, Words]] = []  # result, then words it points to
        self._status, self._failed = NO_STATUS, 0

    def argument(self, place: int) -> int:
        """The array at a place of the arguments; all of these return the number of an object."""
        return self._add(ARGUMENT, place)

    def constant(self, array: Array) -> int:
        """An array of the program's own."""
        self.kept.append(array)
        return self._add(CONSTANT, id(array))

    def new(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...] | None = None
    ) -> int:
        """An array that is allocated in every call, in the order of C or with these strides."""
        self.kept.append(dtype)
        self._extents.append((len(self._objects), shape + (strides or ())))
        return self._add(NEW if strides is None else NEW_STRIDED, id(dtype), len(shape))

    def temporary(self, size: int) -> int:
        """So many bytes of scratch memory."""
        number = self._add(TEMPORARY, self._temporaries)
        self._temporaries += -(-size // _LINE) * _LINE
        self._sizes.append((number, size))
        return number

    def number(self, place: int, *, single: bool) -> int:
        """The value of a float of Python as an array of one element, in float32 or float64."""
        return self._add(NUMBER, place, int(single))

    def launch(self, kernel: BoundKernel, *objects: int) -> None:
        """Run a kernel on objects."""
        self._kernels.append((kernel, objects))

    def give(self, number: int) -> None:
        """Return an object, a new one of rank 0 as a scalar of NumPy.

        What is given last is the result; nothing given: None.
        """
        kind, _, rank, _ = self._objects[number]
        is_scalar = kind in (NEW, NEW_STRIDED) and not rank
        self._give(GIVE_SCALAR if is_scalar else GIVE_OBJECT, number)

    def give_number(self, number: int, dtype: str) -> None:
        """Return the first element of an object as a number of Python."""
        self._give(GIVE_NUMBER, number, PYTHON_NUMBERS.index(dtype))

    def give_view(
        self, number: int, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> None:
        """Return a view of an object, from so many bytes behind its first element on."""
        self._layouts.append((len(self._results), (offset, *shape, *strides)))
        self._give(GIVE_VIEW, number, len(shape))

    def give_tuple(self, count: int) -> None:
        """Return the last `count` values that were given as one tuple."""
        self._give(GIVE_TUPLE, count)

    def give_none(self) -> None:
        """Return None."""
        self._give(GIVE_NONE)

    def fails(self, number: int, failed: Callable[[Any], None]) -> None:
        """`failed` of an object of int64 raises where its first element is not 0 after a call."""
        self.kept.append(failed)
        self._status, self._failed = number, id(failed)

    def writes(self, place: int) -> None:
        """An argument must be writable."""
        self._written.append(place)

    def apart(self, place: int, array: Array, other: int, other_array: Array) -> None:
        """Two arguments with the layouts of these arrays must lie apart in memory."""
        self._apart.append((place, *_reach(array), other, *_reach(other_array)))

    def watch(self, names: dict[str, Any], name: str, *values: object) -> None:
        """A name must still stand for the same object in a dict; without one, for nothing."""
        name = sys.intern(name)
        self.kept += [names, name, *values]
        self._checks.append((id(names), id(name), *(map(id, values) if values else (0,))))

    def watch_cell(self, cell: CellType, value: object) -> None:
        """A cell of a closure must still hold the same object."""
        self.kept += [cell, value]
        self._checks.append((0, id(cell), id(value)))

    @property
    def fits(self) -> bool:
        """Whether the dispatcher can run it."""
        return len(self._objects) <= MOST_OBJECTS and len(self._results) <= MOST_RESULTS

    @property
    def _needs_team(self) -> bool:
        return any(kernel.threads > 1 for kernel, _ in self._kernels)

    def _in_python(self) -> Callable[..., None]:
        """The kernels as a function of Python of the objects: teams are opened by Python."""
        kernels, kinds = tuple(self._kernels), tuple(self._objects)
        objects = ARGUMENT, CONSTANT, NEW, NEW_STRIDED
        if all(kind in objects for kind, *_ in kinds) and len(kernels) == 1:
            kernel, numbers = kernels[0]
            if numbers == tuple(range(len(kinds))):
                return kernel
        sizes = dict(self._sizes)

        def run(*objects: Any) -> None:
            arrays = [
                np.array(x, np.float32 if b else np.float64)
                if kind == NUMBER
                else np.empty(sizes[number], np.uint8)
                if kind == TEMPORARY
                else x
                for number, (x, (kind, _, b, _)) in enumerate(zip(objects, kinds, strict=True))
            ]
            for kernel, numbers in kernels:
                kernel(*[arrays[number] for number in numbers])

        return run

    def record(self, signature: Words, hashed: int) -> tuple[Array, int]:
        """The words of the record, which own all they refer to, and the scratch bytes of a call."""
        assert self.fits
        head = dict.fromkeys(RECORD, 0)
        del head["signature"]
        words: list[int] = [0] * len(head)
        words += signature
        kernels = [(kernel.words(), kernel, numbers) for kernel, numbers in self._kernels]
        is_team = self._needs_team
        need = max((facts[3] for facts, _, _ in kernels), default=0)
        room = -(-need // _LINE) * _LINE
        head |= {"hash": hashed, "words": len(signature)}
        head |= {"status": self._status, "failed": self._failed}
        head["scratch"] = 0 if is_team else room + self._temporaries
        head["flags"] = IN_PYTHON if is_team else RELEASE * bool(kernels and self.releases)
        function = self._in_python() if is_team else None
        head["function"] = id(function)
        pointers: list[int] = []  # places of words that hold places

        def lay(name: str, first: str, entries: Sequence[Words]) -> int:
            head[name], head[first] = len(entries), len(words)
            for entry in entries:
                words.extend(entry)
            return head[first]

        objects = [self._object(x, room, is_team) for x in self._objects]
        start = lay("objects", "first_object", objects)
        for number, extents in self._extents:
            words[start + 4 * number + 3] = len(words)
            pointers.append(start + 4 * number + 3)
            words += extents
        steps = [(*facts[:3], len(numbers), *numbers) for facts, _, numbers in kernels]
        lay("steps", "first_step", steps)
        lay("written", "first_written", [(place,) for place in self._written])
        lay("apart", "first_apart", self._apart)
        lay("checks", "first_check", self._checks)
        first = lay("results", "first_result", self._results or [(GIVE_NONE, 0, 0, 0)])
        for number, layout in self._layouts:
            words[first + 4 * number + 3] = len(words)
            pointers.append(first + 4 * number + 3)
            words += layout
        words[: len(head)] = head.values()
        pointers += [RECORD[x] for x in head if x.startswith("first_")]
        owner = _Owner(words, (self.kept, function, [kernel for _, kernel, _ in kernels]))
        base = data_address(owner)
        owner[RECORD["owner"]] = id(owner)
        for place in pointers:
            owner[place] = int(base) + 8 * int(owner[place])
        return owner, head["scratch"]

    def _object(self, words: Words, room: int, is_team: bool) -> Words:
        """An object as the record has it, with temporaries after the scratch of kernels."""
        kind, a, b, c = words
        if kind == TEMPORARY:
            # Functions of Python must not see what only stands for an object.
            return (CONSTANT, id(None), 0, 0) if is_team else (kind, a + room, b, c)
        return (ARGUMENT, a, 0, 0) if kind == NUMBER and is_team else words

    def _add(self, *words: int) -> int:
        self._objects.append((*words, *([0] * (4 - len(words)))))
        return len(self._objects) - 1

    def _give(self, *words: int) -> None:
        self._results.append((*words, *([0] * (4 - len(words)))))


class _Owner(np.ndarray[Any, np.dtype[np.int64]]):
    """The words of a record, with what they refer to."""

    kept: object

    def __new__(cls, words: Sequence[int], kept: object) -> _Owner:
        made = np.array(words, dtype=np.int64).view(cls)
        made.kept = kept
        return made


def _reach(array: Array) -> tuple[int, int]:
    """The bytes that an array reaches, from and to, around its first element; it is not empty."""
    steps = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
    return sum(x for x in steps if x < 0), sum(x for x in steps if x > 0) + array.itemsize


class CallTable:
    """Records by signature. The dispatcher reads it whenever it has the GIL.

    There is no lock, which a handler of a signal might find taken by its own thread. Slots are
    emptied before the records they lead to may go; whoever fills one looks afterwards whether the
    record was forgotten meanwhile, and empties it again. So no slot leads to what is freed.
    """

    def __init__(self, hash_of: Hash, most: int) -> None:
        self._hash = hash_of
        self._most = most
        slots = 1 << (4 * most - 1).bit_length()
        self._words = np.zeros(1 + slots, dtype=np.int64)
        self._words[0] = slots - 1
        self.address = data_address(self._words)
        self._records: dict[Words, tuple[Array, int]] = {}  # with the scratch bytes
        self._seen: BoundedCache[Words, bool] = BoundedCache(most)  # whether to make a record

    def __len__(self) -> int:
        return len(self._records)

    def scratch_of(self, signature: Words) -> int | None:
        """The scratch bytes of a known call; None where there is no record of it."""
        found = self._records.get(signature)
        return None if found is None else found[1]

    def is_repeated(self, signature: Words) -> bool:
        """Whether such a call came before and was not refused: only then a record is worth it."""
        known = self._seen.get(signature)
        if known is None:
            self._seen[signature] = True
        return known is True

    def refuse(self, signature: Words) -> None:
        """There is no record of such a call: it is not to be made again and again."""
        self._seen[signature] = False

    def add(self, signature: Words, program: CallProgram) -> int | None:
        """Remember what a call does: the scratch bytes it needs, None where there is no room."""
        if len(signature) > MOST_WORDS or not program.fits:
            return None
        if len(self._records) >= self._most:
            self.forget_older()
        words = np.array(signature, dtype=np.int64)
        hashed = self._hash(data_address(words), len(words))
        record, scratch = program.record(signature, hashed)
        stored, scratch = self._records.setdefault(signature, (record, scratch))
        # Another thread may have been faster: its record must not go, as a slot leads to it.
        if stored is not record or self._place(signature, record):
            return scratch
        self._records.pop(signature, None)
        return None

    def forget_older(self) -> None:
        """Forget the older half of the calls."""
        self._forget(list(self._records.items())[-(-len(self._records) // 2) :])

    def clear(self) -> None:
        """Forget all calls."""
        self._forget([])
        self._seen.clear()

    def _forget(self, kept: list[tuple[Words, tuple[Array, int]]]) -> None:
        """Forget all records but these, which find their places anew."""
        gone = self._records
        self._records = dict(kept)
        self._words[1:] = 0
        for signature, (record, _) in kept:
            self._place(signature, record)
        gone.clear()  # not before their slots are empty

    def _place(self, signature: Words, record: Array) -> bool:
        """Let a slot lead to a record; False when there is none near its hash."""
        slots = len(self._words) - 1
        hashed = int(record[RECORD["hash"]])
        for probe in range(PROBES):
            place = 1 + (hashed + probe) % slots
            if not self._words[place]:
                self._words[place] = int(data_address(record))
                found = self._records.get(signature)
                if found is None or found[0] is not record:
                    self._words[place] = 0
                return True
        return False
