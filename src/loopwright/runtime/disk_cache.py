"""The disk cache of compiled objects: private, authenticated, atomic, bounded.

An entry is one file named by the hash of everything its contents depend on:

    magic, HMAC-SHA256 of the rest, length of the header, header (JSON), object code

Loading a file means executing it, so nothing is trusted: the directory must belong to this user
and be closed to others, and the HMAC is keyed by a secret file only this user can read. A file
that is damaged, foreign or of another key is ignored and rebuilt. Failures to write are silent:
the loss of an entry costs only time.

Entries whose bytes together exceed the limit are removed, the least recently used first; the time
of a file is that of its last use. Other processes lose nothing: they read entries whole, and a file
that is open stays. A process looks at all files when it first writes, then after every sixteenth
of the limit that it has written: several processes may exceed the limit by so much each.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from loopwright import options
from loopwright.lazy_dataclass import dataclass

__all__ = ["CacheState", "DiskCache", "Entry", "disk_cache", "without_disk_cache"]

_MAGIC = b"loopwright1\n"
_SECRET = "secret"
_SUFFIX = ".lwo"
_NEW = ".new-"  # begins the names of files that are being written
_UNFINISHED = 3600 * 10**9  # nanoseconds after which such a file has no writer any more
_LOOKS = 16  # parts of the limit: a process looks at all files once for each that it writes
_unseen: dict[str, int] = {}  # bytes written since that look, by directory
_TAG_BYTES = 32
_MOST_BYTES = 256 << 20  # of an entry
_PLAIN = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"))


@dataclass(frozen=True, slots=True)
class Entry:
    """Object code and the header that describes it."""

    header: dict[str, Any]
    code: bytes


@dataclass(frozen=True, slots=True)
class CacheState:
    """What `loopwright cache` reports."""

    directory: str
    usable: bool
    reason: str  # why it is not usable
    entries: int
    bytes: int
    limit: int
    oldest: int | None  # nanoseconds since 1970: the entry used longest ago
    damaged: int  # entries that would be ignored


class DiskCache:
    """Entries in one directory. Methods never raise for the state of the disk."""

    def __init__(self, directory: Path, limit: int | None = None) -> None:
        self.directory = directory
        self.limit = options.current().cache_limit if limit is None else limit  # in bytes

    def get(self, key: str) -> Entry | None:
        """The entry stored under `key`, or None."""
        secret = self._secret(create=False)
        if secret is None:
            return None
        path = self._path(key)
        entry = self._read(path, key, secret)
        if entry is not None:
            with suppress(OSError):  # another process has removed it, or the disk is read-only
                os.utime(path, follow_symlinks=False)
        return entry

    def put(self, key: str, entry: Entry) -> bool:
        """Store an entry; True when it is on disk. Readers see it whole or not at all."""
        secret = self._secret(create=True)
        if secret is None:
            return False
        header = json.dumps(entry.header, sort_keys=True).encode()
        rest = len(header).to_bytes(4, "little") + header + entry.code
        data = _MAGIC + _tag(secret, key, rest) + rest
        if not self._write(self._path(key), data):
            return False
        self._count_in(len(data))
        return True

    def _count_in(self, written: int) -> None:
        """Keep to the limit after `written` bytes."""
        place = str(self.directory)
        before = _unseen.get(place)
        _unseen[place] = (before or 0) + written
        if before is None or _unseen[place] >= self.limit // _LOOKS:
            _unseen[place] = 0
            self._trim()

    def _trim(self) -> None:
        """Remove what is beyond the limit and a little more, and what writers have left behind."""
        files = sorted(self._own_files())
        total = sum(size for _, _, size in files)
        most = self.limit if total <= self.limit else self.limit - self.limit // _LOOKS
        late = time.time_ns() - _UNFINISHED
        for used, name, size in files:
            is_being_written = name.startswith(_NEW) and used >= late
            is_left_behind = name.startswith(_NEW) and used < late
            if is_left_behind or (total > most and not is_being_written):
                _remove(self.directory / name)
                total -= size

    def clear(self) -> int:
        """Remove all entries, leftovers and a secret of no use; the number of files removed."""
        removed = 0
        unusable = [self.directory / _SECRET] if self._has_bad_secret() else []
        for path in [*self._files(), *unusable]:
            try:
                path.unlink()
                removed += 1
            except OSError:
                continue
        return removed

    def remove(self, *keys: str) -> None:
        """Remove a cache that holds these entries only, and its directory.

        To list a directory takes a file that is open, and there may be no more of them.
        """
        for path in (*map(self._path, keys), self.directory / _SECRET):
            _remove(path)
        with suppress(OSError):
            os.rmdir(self.directory)

    def state(self) -> CacheState:
        """Count entries and try each one's authentication."""
        reason = self._refusal()
        if not reason and self._has_bad_secret():
            reason = "its secret is damaged or open to others"
        secret = self._secret(create=False)
        entries = damaged = 0
        for path in self._files():
            if path.suffix != _SUFFIX:
                continue
            entries += 1
            if secret is None or self._read(path, path.stem, secret) is None:
                damaged += 1
        files = self._own_files()
        size = sum(size for _, _, size in files)
        oldest = min((used for used, _, _ in files), default=None)
        where = str(self.directory), not reason, reason
        return CacheState(*where, entries, size, self.limit, oldest, damaged)

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}{_SUFFIX}"

    def _files(self) -> Iterator[Path]:
        try:
            names = sorted(os.listdir(self.directory))
        except OSError:
            return
        for name in names:
            if name.endswith(_SUFFIX) or name.startswith(_NEW):
                yield self.directory / name

    def _own_files(self) -> list[tuple[int, str, int]]:
        """Time of the last use in nanoseconds, name and bytes of each file that a cache wrote."""
        found = []
        with suppress(OSError), os.scandir(self.directory) as entries:
            for entry in entries:
                if not entry.name.endswith(_SUFFIX) and not entry.name.startswith(_NEW):
                    continue
                with suppress(OSError):  # removed meanwhile
                    facts = entry.stat(follow_symlinks=False)
                    if _is_mine(facts):
                        found.append((facts.st_mtime_ns, entry.name, facts.st_size))
        return found

    def _refusal(self) -> str:
        """Why the directory must not be used; empty when it may."""
        try:
            found = os.lstat(self.directory)
        except FileNotFoundError:
            return ""
        except OSError as error:
            return error.strerror or str(error)
        if not stat.S_ISDIR(found.st_mode):
            return "is not a directory"
        if hasattr(os, "getuid") and found.st_uid != os.getuid():
            return "belongs to another user"
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return "can be written by others"
        if any(map(_lets_others_rename, self.directory.parents)):
            return "lies in a folder that others can write"
        return ""

    def _has_bad_secret(self) -> bool:
        """Whether a secret is there that must not be used."""
        path = self.directory / _SECRET
        return os.path.lexists(path) and _private_file(path) is None

    def _secret(self, create: bool) -> bytes | None:
        """The key of the HMAC, made on first use; None when the cache cannot be used."""
        if self._refusal():
            return None
        path = self.directory / _SECRET
        secret = _private_file(path)
        if secret is not None or not create:
            return secret
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            return None
        if self._refusal():
            return None
        self._write(path, os.urandom(32), replace=False)
        return _private_file(path)

    def _read(self, path: Path, key: str, secret: bytes) -> Entry | None:
        data = _own_file(path, 0o022, _MOST_BYTES)
        if data is None:
            return None
        start = len(_MAGIC) + _TAG_BYTES
        tag, rest = data[len(_MAGIC) : start], data[start:]
        if data[: len(_MAGIC)] != _MAGIC or not hmac.compare_digest(tag, _tag(secret, key, rest)):
            return None
        length = int.from_bytes(rest[:4], "little")
        return Entry(json.loads(rest[4 : 4 + length]), rest[4 + length :])

    def _write(self, path: Path, data: bytes, replace: bool = True) -> bool:
        """Write to a new file, then give it its name in one step."""
        temporary = self.directory / f"{_NEW}{os.getpid()}-{os.urandom(8).hex()}"
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if replace:
                os.replace(temporary, path)
            else:
                # A link fails when the name exists: the first of two processes wins.
                os.link(temporary, path)
                os.unlink(temporary)
        except OSError:
            _remove(temporary)
            return False
        return True


class _Here(threading.local):
    """State of the calling thread."""

    without = 0  # how many blocks of without_disk_cache it is in


_here = _Here()


def disk_cache() -> DiskCache | None:
    """The cache the options ask for; None when it is switched off, or in this thread for now."""
    if not options.current().cache or _here.without:
        return None
    return DiskCache(options.cache_dir())


@contextmanager
def without_disk_cache() -> Iterator[None]:
    """Neither read nor write the disk cache in the calling thread until the block ends."""
    _here.without += 1
    try:
        yield
    finally:
        _here.without -= 1


def _tag(secret: bytes, key: str, rest: bytes) -> bytes:
    return hmac.new(secret, key.encode() + b"\0" + rest, hashlib.sha256).digest()


def _private_file(path: Path) -> bytes | None:
    """The secret, if it is a file of this user without access for others."""
    secret = _own_file(path, 0o077, 32)
    return secret if secret is not None and len(secret) == 32 else None


def _own_file(path: Path, closed: int, most: int) -> bytes | None:
    """What a regular file of this user holds, `closed` to others, of at most `most` bytes.

    Nothing else is opened to be read: a fifo would hang, a link lead to a device without an end.
    """
    try:
        handle = os.open(path, os.O_RDONLY | _PLAIN)
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(file.fileno())
            if not _is_mine(found) or found.st_mode & closed or found.st_size > most:
                return None
            data = file.read(most + 1)
    except OSError:
        return None
    return data if len(data) <= most else None


def _is_mine(facts: os.stat_result) -> bool:
    """Whether this is a regular file of this user."""
    mine = not hasattr(os, "getuid") or facts.st_uid == os.getuid()
    return mine and stat.S_ISREG(facts.st_mode)


def _lets_others_rename(folder: Path) -> bool:
    """Whether other users may rename entries of `folder`."""
    try:
        mode = os.stat(folder).st_mode
    except OSError:
        return False
    return bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX


def _remove(path: Path) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
