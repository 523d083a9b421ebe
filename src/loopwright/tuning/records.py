"""Records of measured plans: a log of JSON lines, kept apart from the cache of kernels.

    {"format": 1, "program": ..., "machine": ..., "sizes": [...], "threads": 1, "dtype": ...,
     "plan": {...}, "construction": {...}, "seconds": ..., "base_seconds": ..., "is_faster": ...,
     "when": ..., "is_cold": true, "is_raced": true, "by_compiler": true}

A line is keyed by what is computed, where, and on how much: no file of the compiler is part of the
key, so that an upgrade keeps the log. Lines are only added, each by one write under a lock; lines
that are damaged, half written or of another format are passed over and counted. A plan that is read
here is proven like any other before it runs: a line can make code slow, never wrong.

Nothing but the standard library is imported: a call that finds no record pays for one `stat`.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from loopwright import options
from loopwright.diagnostics import UsageError
from loopwright.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from loopwright.ir.contraction_shape import ContractionShape
    from loopwright.ir.kernel_variant import Algebra
    from loopwright.ir.machine import Machine

__all__ = [
    "FORMAT",
    "Key",
    "Log",
    "Record",
    "best_of",
    "contraction_key",
    "log_of_user",
    "machine_text",
    "program_key",
]

FORMAT = 1
_FILE = "tuning.jsonl"
_MOST_LINE = 1 << 20  # characters: a longer line is no record of ours
_BEGINNING, _SEPARATOR = b'{"format": ', b', "plan": '  # of what a line says of its key


@dataclass(frozen=True, slots=True)
class Key:
    """What a plan was measured for."""

    program: str  # the text of what is computed, or a hash of it
    machine: str  # see `machine_text`
    sizes: tuple[int, ...]  # extents and strides, or parameters, as the program orders them
    threads: int
    dtype: str  # of the sums, for people


@dataclass(frozen=True, slots=True)
class Record:
    """One plan that was measured beside the construction."""

    key: Key
    plan: Mapping[str, Any]  # as Plan.to_json gives it
    construction: Mapping[str, Any]  # the plan that it was measured against
    seconds: float  # the fastest run
    base_seconds: float  # the fastest run of the construction, in the same process
    is_faster: bool  # beyond the noise of that run, in a second measurement
    when: str  # ISO 8601, UTC
    is_cold: bool = False  # caches were flushed before each run
    is_raced: bool = False  # by calls of the user, see calls/source_race
    by_compiler: bool = False  # the C compiler's code of the plan, see calls/compiler_code

    @property
    def gain(self) -> float:
        """How many times as fast as the construction it was."""
        return self.base_seconds / self.seconds

    def to_json(self) -> dict[str, Any]:
        """The record as the data of one line."""
        return {
            **_key_json(self.key),
            "plan": dict(self.plan),
            "construction": dict(self.construction),
            "seconds": self.seconds,
            "base_seconds": self.base_seconds,
            "is_faster": self.is_faster,
            "when": self.when,
            **({"is_cold": True} if self.is_cold else {}),
            **({"is_raced": True} if self.is_raced else {}),
            **({"by_compiler": True} if self.by_compiler else {}),
        }

    @classmethod
    def from_json(cls, data: object) -> Record | None:
        """The record that a line holds; None for anything else."""
        match data:
            case {
                "format": int(found),
                "program": str(program),
                "machine": str(machine),
                "sizes": list(sizes),
                "threads": int(threads),
                "dtype": str(dtype),
                "plan": dict(plan),
                "construction": dict(construction),
                "seconds": float(seconds),
                "base_seconds": float(base),
                "is_faster": bool(is_faster),
                "when": str(when),
                **rest,
            } if found == FORMAT and all(type(size) is int for size in sizes):
                times = (seconds, base)
                if not all(math.isfinite(x) and x > 0 for x in times):
                    return None
                key = Key(program, machine, tuple(sizes), threads, dtype)
                ways = (rest.get(x) is True for x in ("is_cold", "is_raced", "by_compiler"))
                return cls(key, plan, construction, seconds, base, is_faster, when, *ways)
        return None


class Log:
    """The records of one file. Safe for several threads and processes.

    A line begins with its key, always in the same words, so that the lines of a key are found
    without reading what the others say: of 100,000 lines in a tenth of a second.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = str(path)
        self._lock = threading.Lock()
        self._index = _Index()
        self._parsed: dict[Key, tuple[Record, ...]] = {}
        self.damaged = 0  # lines that were passed over when all were read

    def best(self, key: Key) -> Record | None:
        """The record of the greatest gain among those that were faster; None: there is none."""
        return best_of(self.of(key))

    def of(self, key: Key) -> tuple[Record, ...]:
        """Every record of a key, in the order of the log."""
        if self.is_empty():
            return ()
        with self._lock:
            try:
                with self.path.open("rb") as file:
                    if self._index.refresh(file):
                        self._parsed = {}
                    found = self._parsed.get(key)
                    if found is None:
                        lines = map(_record, self._index.lines(file, _head(key)))
                        found = tuple(x for x in lines if x is not None and x.key == key)
                        self._parsed[key] = found
            except OSError:
                return ()
        return found

    def __iter__(self) -> Iterator[Record]:
        found: list[Record] = []
        damaged = 0
        try:
            with self.path.open("rb") as file:
                for line in file:
                    record = _record(line)
                    damaged += bool(line.strip()) and record is None
                    found += [] if record is None else [record]
        except OSError:
            found, damaged = [], 0
        self.damaged = damaged
        by_key: dict[Key, list[Record]] = {}
        for record in found:
            by_key.setdefault(record.key, []).append(record)
        return iter([record for records in by_key.values() for record in records])

    def is_empty(self) -> bool:
        """Whether there is no file, or nothing in it: one `stat`."""
        try:
            return os.stat(self._name).st_size == 0
        except OSError:
            return True

    def add(self, records: Iterable[Record]) -> bool:
        """Append records; False where the file cannot be written, which loses them."""
        import json  # lazy: a call without records does without

        text = "".join(json.dumps(record.to_json()) + "\n" for record in records)
        if not text:
            return True
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
            handle = os.open(self.path, flags, 0o600)
        except OSError:
            return False
        try:
            _locked(handle)
            size = os.fstat(handle).st_size
            data = _after(handle) + text.encode()
            if os.write(handle, data) == len(data):
                return True
            os.ftruncate(handle, size)  # the disk is full: half a record is none
            return False
        except OSError:
            return False
        finally:
            os.close(handle)  # with which the lock ends

    def export(self) -> str:
        """All records as the text that `take` reads."""
        import json  # lazy: likewise

        return "".join(json.dumps(record.to_json()) + "\n" for record in self)

    def take(self, text: str) -> tuple[int, int]:
        """Append the records of exported text that are not here; how many, and how many are none.

        Whether a plan is legal is proven when it is used; that it is a plan at all, here.
        """
        # lazy: plans load isl
        from loopwright.transform.plan import Plan

        known = {(record.key, str(record.plan), record.when) for record in self}
        taken, refused = [], 0
        for line in text.splitlines():
            record = _record(line)
            try:
                if record is not None:
                    Plan.from_json(record.plan)
                    Plan.from_json(record.construction)
            except UsageError:
                record = None
            if record is None:
                refused += bool(line.strip())
            elif (record.key, str(record.plan), record.when) not in known:
                taken.append(record)
        if not self.add(taken):
            raise UsageError("the records cannot be written", found=str(self.path))
        return len(taken), refused


class _Index:
    """Where in a file the lines of each key begin."""

    def __init__(self) -> None:
        self._state: tuple[int, int, int] | None = None  # inode, size and time when it was read
        self._end = 0  # of the last whole line that is known
        self._mark = b""  # what stands before it
        self._places: dict[bytes, list[tuple[int, int]]] = {}
        self._others: list[tuple[int, int]] = []  # lines in other words than ours

    def refresh(self, file: IO[bytes]) -> bool:
        """Look at what has come to the file; whether anything has.

        Lines are only added. What is not so is noticed by what stands before the new ones, and the
        whole file is read again.
        """
        found = os.fstat(file.fileno())
        state = (found.st_ino, found.st_size, found.st_mtime_ns)
        if state == self._state:
            return False
        is_longer = self._state is not None and state[0] == self._state[0]
        if not is_longer or self._before(file) != self._mark:
            self._end, self._places, self._others = 0, {}, []
        file.seek(self._end)
        start = self._end
        for line in file:
            where = (start, len(line))
            start += len(line)
            head, separator, _ = line.partition(_SEPARATOR)
            if separator and head.startswith(_BEGINNING):
                self._places.setdefault(head, []).append(where)
            elif line.strip():
                self._others.append(where)
            if line.endswith(b"\n"):
                self._end = start
        # A line that is half written is read again, from its beginning.
        is_whole = start == self._end
        self._mark = self._before(file) if is_whole else b"-"
        self._state = state
        return True

    def _before(self, file: IO[bytes]) -> bytes:
        file.seek(max(0, self._end - 256))
        return file.read(min(256, self._end))

    def lines(self, file: IO[bytes], head: bytes) -> Iterator[bytes]:
        """The lines that begin with a key, then all those that begin in words that are not ours."""
        for start, length in (*self._places.get(head, ()), *self._others):
            file.seek(start)
            yield file.read(length)


def best_of(records: Iterable[Record]) -> Record | None:
    """The record of the greatest gain among those that were faster; None: there is none.

    Times of cold and of warm caches are not compared: the last search decides which of them count.
    """
    known = list(records)
    faster = [x for x in known if x.is_faster and x.is_cold == known[-1].is_cold]
    return max(faster, key=lambda record: record.gain, default=None)


def _head(key: Key) -> bytes:
    """How a line of a key begins."""
    import json  # lazy: a call without records does without

    return json.dumps(_key_json(key)).encode()[:-1]


def _key_json(key: Key) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "program": key.program,
        "machine": key.machine,
        "sizes": list(key.sizes),
        "threads": key.threads,
        "dtype": key.dtype,
    }


def _record(line: str | bytes) -> Record | None:
    import json  # lazy: a call without records does without

    try:
        return Record.from_json(json.loads(line)) if len(line) <= _MOST_LINE else None
    except (ValueError, RecursionError):
        return None


def _locked(handle: int) -> None:
    """Wait until no other process writes; where there are no such locks, one write has to do."""
    try:
        import fcntl  # lazy: only who writes needs it, and not every system has it
    except ImportError:
        return
    fcntl.flock(handle, fcntl.LOCK_EX)


def _after(handle: int) -> bytes:
    """What ends a line that another process has left half written."""
    size = os.fstat(handle).st_size
    if size == 0:
        return b""
    os.lseek(handle, size - 1, os.SEEK_SET)
    return b"" if os.read(handle, 1) == b"\n" else b"\n"


_logs: dict[str, Log] = {}
_last: tuple[options.Options, Log] | None = None


def log_of_user() -> Log:
    """The log of this user, which `loopwright cache clear` leaves alone."""
    global _last
    asked, last = options.current(), _last
    if last is not None and last[0] is asked:  # to put the path together takes ten times as long
        return last[1]
    place = str(options.data_dir())
    found = _logs.setdefault(place, Log(Path(place) / _FILE))
    _last = asked, found
    return found


def machine_text(machine: Machine) -> str:
    """What names a machine in records: no cost of its model, which a calibration changes."""
    caches = "+".join(str(cache.size) for cache in machine.caches)
    return f"{machine.name} {machine.llvm_cpu} {machine.isa} {machine.vector_bytes} {caches}"


def contraction_key(
    algebra: Algebra, shape: ContractionShape, machine: Machine, threads: int, *, reassoc: bool
) -> Key:
    """The key of a contraction: the algebra, which loops there are, their extents and strides.

    Every front end that finds the same contraction finds the same records.
    """
    loops = "/".join(str(len(dims)) for dims in shape.bundles)
    program = f"contraction {loops}: {algebra!r}{'' if reassoc else ' in order'}"
    dims = [d for bundle in shape.bundles for d in bundle]
    sizes = tuple(x for d in dims for x in (d.extent, d.left, d.right, d.out))
    dtype = algebra.accumulator.name
    return Key(program, machine_text(machine), sizes, threads, dtype)


def program_key(
    program: str,
    params: Mapping[str, int],
    strides: Mapping[str, tuple[int, ...]],
    dtype: str,
    machine: Machine,
    threads: int,
) -> Key:
    """The key of the loops of a function: parameters in their order, then strides by array."""
    steps = [step for name in sorted(strides) for step in strides[name]]
    return Key(program, machine_text(machine), (*params.values(), *steps), threads, dtype)
