"""Text files of numbers as blocks of whole lines, and files that appear whole or not at all."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias

from loopwright.diagnostics import UsageError

__all__ = ["BLOCK", "Progress", "line_blocks", "replacing"]

Progress: TypeAlias = Callable[[int, int], None]  # (bytes of the file done, bytes of the file)

BLOCK = 1 << 20  # bytes parsed at a time: long enough for NumPy, within most caches
_LONGEST_LINE = 1 << 20  # a file without line ends must not be read into memory as one line
_GZIP = b"\x1f\x8b"


def line_blocks(
    path: str | os.PathLike[str], *, block: int = BLOCK, progress: Progress | None = None
) -> Iterator[bytes]:
    """Yield the bytes of a plain or gzip file in blocks that end with a line; memory is bounded."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as raw:
            size = os.fstat(raw.fileno()).st_size
            is_packed = raw.read(2) == _GZIP
            raw.seek(0)
            text: BinaryIO = gzip.GzipFile(fileobj=raw) if is_packed else raw  # type: ignore[assignment]
            for found in _blocks(text, name, block):
                if progress is not None:
                    progress(min(raw.tell(), size), size)
                yield found
            if progress is not None:
                progress(size, size)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(
            f"{name}: the packed file is damaged or was cut off",
            found=str(error),
            hint="fetch the file again and compare its size",
        ) from error
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror or error}") from error


def _blocks(text: BinaryIO, name: str, block: int) -> Iterator[bytes]:
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
    no interrupted run ever meets half a file. A name that ends with .gz is packed.
    """
    target = Path(path)
    waiting = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(6).hex()}")
    try:
        # The mode asks for what the user's umask allows; tempfile would keep the file private.
        handle = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        raise UsageError(f"{target}: cannot be written: {error.strerror or error}") from error
    try:
        with os.fdopen(handle, "wb") as raw:
            if target.suffix == ".gz":
                # Without a name and a time in it, equal contents give equal bytes.
                with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
                    buffer = io.BufferedWriter(packed)
                    yield buffer
                    buffer.flush()
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(waiting, target)
    except BaseException:
        waiting.unlink(missing_ok=True)
        raise
