"""Text files of numbers as blocks of whole lines, and files that appear whole or not at all."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias

from loopwright.diagnostics import UsageError

__all__ = ["BLOCK", "Progress", "line_blocks", "replacing"]

Progress: TypeAlias = Callable[[int, int], None]  # (bytes of the file done, bytes of the file)

BLOCK = 1 << 20  # bytes parsed at a time: long enough for NumPy, within most caches
_LONGEST_LINE = 1 << 20  # a file without line ends must not be read into memory as one line
_GZIP = b"\x1f\x8b"


def line_blocks(
    path: str | os.PathLike[str], *, block: int = BLOCK, progress: Progress | None = None
) -> Iterator[bytes]:
    """Yield the bytes of a plain or gzip file in blocks that end with a line; memory is bounded.

    The file may be a pipe, which does not know its size: `progress` is not called then.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as raw:
            size = os.fstat(raw.fileno()).st_size
            tell = progress if raw.seekable() else None
            head = raw.read(len(_GZIP))
            text = _Unread(head, raw)
            packed = gzip.GzipFile(fileobj=text) if head == _GZIP else None  # type: ignore[call-overload]
            for found in _blocks(packed or text, name, block):
                if tell is not None:
                    tell(min(raw.tell(), size), size)
                yield found
            if tell is not None:
                tell(size, size)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(
            f"{name}: the packed file is damaged or was cut off",
            found=str(error),
            hint="fetch the file again and compare its size",
        ) from error
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror or error}") from error


class _Readable(Protocol):
    def read(self, count: int, /) -> bytes: ...


class _Unread:
    """A file with the bytes that were read of it put back; seeking would do, but not in a pipe."""

    def __init__(self, first: bytes, rest: BinaryIO) -> None:
        self._first = first
        self._rest = rest

    def read(self, count: int, /) -> bytes:
        """Return the next `count` bytes, fewer at the end."""
        taken, self._first = self._first[:count], self._first[count:]
        return taken + self._rest.read(count - len(taken))


def _blocks(text: _Readable, name: str, block: int) -> Iterator[bytes]:
    rest = b""
    while found := text.read(block):
        end = found.rfind(b"\n") + 1
        if end:
            yield rest + found[:end]
            rest = found[end:]
        else:
            rest += found
        if len(rest) > max(_LONGEST_LINE, block):
            raise UsageError(
                f"{name}: a line is longer than {_LONGEST_LINE} bytes",
                hint="see that it is a text file with line ends",
            )
    if rest:
        yield rest


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file to write that takes the place of `path` when the block ends without an error.

    What is written stands in a temporary file beside the target until then, so that no reader and
    no interrupted run ever sees half a file. The new file has the permissions of the one that it
    replaces; a link stays, and what it points at is replaced; a pipe or a device is written to as
    it is. A name that ends with .gz is packed.
    """
    name = os.fspath(path)
    is_packed = name.endswith(".gz")
    try:
        before = _status(name)
        if before is not None and not stat.S_ISREG(before.st_mode):
            with open(name, "wb") as whole, _packing(whole, is_packed) as file:
                yield file
            return
        with _beside(Path(os.path.realpath(name)), before) as raw, _packing(raw, is_packed) as file:
            yield file
    except OSError as error:
        raise UsageError(f"{name}: cannot be written: {error.strerror or error}") from error


def _status(name: str) -> os.stat_result | None:
    """What is known of a file, or of what a link leads to; None where there is none."""
    try:
        return os.stat(name)
    except FileNotFoundError:
        return None


@contextmanager
def _beside(target: Path, before: os.stat_result | None) -> Iterator[BinaryIO]:
    waiting = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(6).hex()}")
    # A new file asks for what the user's umask allows. One that takes the place of another is
    # private until it has the permissions of that one: nobody else may read it meanwhile.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    handle = os.open(waiting, flags, 0o666 if before is None else 0o600)
    try:
        with os.fdopen(handle, "wb") as raw:
            if before is not None:
                os.fchmod(handle, before.st_mode & 0o777)
            yield raw
            raw.flush()
            os.fsync(handle)
        os.replace(waiting, target)
    except BaseException:
        waiting.unlink(missing_ok=True)
        raise


@contextmanager
def _packing(raw: BinaryIO, is_packed: bool) -> Iterator[BinaryIO]:
    if not is_packed:
        yield raw
        return
    # Without a name and a time in it, equal contents give equal bytes.
    with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
        buffer = io.BufferedWriter(packed)
        yield buffer
        buffer.flush()
