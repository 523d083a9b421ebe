"""Rows of memory that an innermost loop goes through side by side.

Processors fetch the lines of a row before they are asked for, of so many rows at a time; and rows
that begin at the same set of a cache share its ways. Where a loop goes through more, its lines come
late, or go before all of them was used. Cycles for a line, measured on a Neoverse N1:

    rows                        8      14     16     20     24     32
    from the last cache         4.8    6.1    7.8    8.8    11     13
    from memory                 9.6    10     13     19     27     29
    of one set, from L2         10     22     26     25     33     36

Cores that write whole lines without reading them first do so as long as stores follow each other in
one row. Rows beyond the caches that are written side by side take longer, by cycles for a line:

    rows                        1      2      4
    from memory                 10     13     18
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from loopwright.ir.expr import Const, Var
from loopwright.ir.machine import Cache, Machine
from loopwright.ir.program import Access, Array, Program
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.linear_forms import LinearForm, linear

__all__ = [
    "MOST_STREAMS",
    "WRITES_WHOLE_LINES",
    "Stream",
    "clashing",
    "crowding",
    "extra_write_cycles",
    "streams_of",
]

MOST_STREAMS = 14
WRITES_WHOLE_LINES = frozenset({"aarch64"})  # instruction sets of cores that do, all we know of
_BESIDE = 2.5  # cycles for a line that is written, by every row more that is written beside its own
_LEAST_RANK = 2  # single rows of arrays do not meet
_LATEST = 3.0  # times as long: lines that are not fetched ahead
_AGAIN = 4.0  # times as long: lines that are fetched again for every vector

# How often each statement is repeated along its iterators.
Copies = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Stream:
    """A row of an array: what its subscripts but the last are, and where the last one begins."""

    array: str
    rows: tuple[LinearForm, ...]
    last: LinearForm


def streams_of(program: Program, names: Iterable[str], copies: Copies) -> frozenset[Stream]:
    """The rows that an iteration of an innermost loop over some statements is in."""
    first: dict[tuple[object, ...], Stream] = {}
    for name in names:
        statement = program.statement(name)
        repeated = {x: round(n) for x, n in copies.get(name, {}).items() if n > 1}
        for access in dict.fromkeys((statement.write, *statement.reads)):
            for stream in _repeated(access, repeated):
                # Neighbours within a row are one stream.
                key = (stream.array, stream.rows, stream.last.terms)
                first.setdefault(key, stream)
    return frozenset(first.values())


def _repeated(access: Access, copies: Mapping[str, int]) -> Iterable[Stream]:
    if not access.index:
        return
    *rows, last = map(linear, access.index)
    found = {tuple(rows)}
    for iterator, count in copies.items():
        found = {
            tuple(form + LinearForm((), dict(form.terms).get(Var(iterator), 0) * k) for form in row)
            for row in found
            for k in range(count)
        }
    for row in found:
        yield Stream(access.array, row, last)


def extra_write_cycles(machine: Machine, size: float, rows: int) -> float:
    """Cycles for a line of an array of `size` bytes that is written with others, `rows` in all."""
    if machine.isa not in WRITES_WHOLE_LINES or size <= machine.caches[-1].size:
        return 0.0
    return _BESIDE * (rows - 1)


def crowding(program: Program, machine: Machine, names: Iterable[str], copies: Copies) -> float:
    """How many times as long the lines of an innermost loop take as those of a few rows."""
    streams = streams_of(program, names, copies)
    late = min(_LATEST, (len(streams) / MOST_STREAMS) ** 2)
    near = machine.caches[0]
    over = clashing(program, streams, near) / near.ways - 1.0
    again = 1.0 + (_AGAIN - 1.0) * min(1.0, max(0.0, over) / (_AGAIN / 2 - 0.5))
    return max(1.0, late, again)


def clashing(program: Program, streams: Iterable[Stream], cache: Cache) -> int:
    """The most rows that are in the same set of a cache at a time.

    Counted are arrays of known extents whose size is a multiple of what fills one way: wherever the
    first of them begins, those after it do so at the same set, or a page of the allocator later.
    """
    found: Counter[object] = Counter()
    for stream in streams:
        whole, *pitches = _pitches(program.array(stream.array)) or [1]
        if len(pitches) < _LEAST_RANK or whole % cache.way_bytes:
            continue
        offset, moving = 0, Counter[object]()
        for form, pitch in zip((*stream.rows, stream.last), pitches, strict=True):
            offset += form.constant * pitch
            for atom, factor in form.terms:
                moving[atom] += factor * pitch
        rates = frozenset((atom, rate % cache.way_bytes) for atom, rate in moving.items())
        found[rates, offset % cache.way_bytes // cache.line] += 1
    return max(found.values(), default=0)


def _pitches(array: Array) -> list[int] | None:
    """Bytes of an array, and from one index to the next by dimension; None where unknown."""
    found = [array.dtype.bytes]
    for extent in reversed(array.shape):
        if not isinstance(extent, Const) or not isinstance(extent.value, int):
            return None
        found.insert(0, found[0] * extent.value)
    return found
