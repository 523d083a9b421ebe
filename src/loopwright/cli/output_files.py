"""Files that commands write: each whole or not at all, those of a folder all or none."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from loopwright.calls.device_files import is_ours
from loopwright.diagnostics import UsageError

__all__ = ["STDOUT", "write_file", "write_folder"]

STDOUT = "-"


def write_file(path: str, content: bytes) -> None:
    """Write a file whole or not at all; a device or a pipe is written to, not replaced."""
    if path == STDOUT:
        sys.stdout.buffer.write(content)
        return
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        try:
            with open(path, "wb") as there:
                there.write(content)
        except OSError as error:
            raise UsageError(f"cannot write '{path}': {error.strerror}") from None
        return
    folder = os.path.dirname(os.path.abspath(path))
    try:
        temporary = _temporary(folder, content)
        try:
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise UsageError(f"cannot write '{path}': {error.strerror}") from None


def write_folder(folder: str, files: Mapping[str, bytes]) -> None:
    """Write files into a folder, which is made where it is not there: all of them or none.

    Raises UsageError before anything is written where a file of that name is the user's: one that
    neither is what would be written nor says that it was generated.
    """
    is_new = not os.path.lexists(folder)
    made: dict[str, str] = {}
    try:
        if is_new:
            os.mkdir(folder)
        try:
            _refuse_foreign(folder, files)
            for name, content in files.items():
                made[name] = _temporary(folder, content)
            for name in files:
                os.replace(made[name], os.path.join(folder, name))
                del made[name]
        except BaseException:
            for temporary in made.values():
                os.unlink(temporary)
            if is_new:
                os.rmdir(folder)
            raise
    except OSError as error:
        raise UsageError(f"cannot write to '{folder}': {error.strerror}") from None


def _refuse_foreign(folder: str, files: Mapping[str, bytes]) -> None:
    foreign = []
    for name, content in files.items():
        path = Path(folder) / name
        if os.path.lexists(path):
            there = path.read_bytes() if path.is_file() else b""
            if there != content and not is_ours(there):
                foreign.append(name)
    if foreign:
        raise UsageError(
            f"'{folder}' holds files that are not generated",
            found=", ".join(foreign),
            hint="another folder, or move them away",
        )


def _temporary(folder: str, content: bytes) -> str:
    """A new file of the folder with the rights that a file opened by its name would have."""
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".loopwright-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
    except BaseException:
        os.unlink(temporary)
        raise
    return temporary
