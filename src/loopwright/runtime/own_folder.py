"""Folders for the files of one call, which only this user can read."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["own_folder"]


@contextmanager
def own_folder(prefix: str = "loopwright-") -> Iterator[Path]:
    """Make a folder for the files of one call; remove it with them afterwards.

    Removing one that tempfile makes raises where no more files can be opened, since it is listed
    for that. This one is held open for as long as it is needed, so that it can be listed then.
    """
    folder = tempfile.mkdtemp(prefix=prefix)
    try:
        reserve = os.open(folder, os.O_RDONLY)
    except OSError:
        os.rmdir(folder)
        raise
    try:
        yield Path(folder)
    finally:
        os.close(reserve)
        with suppress(OSError):
            for name in os.listdir(folder):
                os.unlink(os.path.join(folder, name))
        try:
            os.rmdir(folder)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
