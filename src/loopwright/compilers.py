"""Where the C compiler of the system lies: one search for those who preprocess and who compile."""

from __future__ import annotations

import os
import shutil

__all__ = ["CANDIDATES", "compiler_path"]

CANDIDATES = ("cc", "gcc", "clang")


def compiler_path(name: str | None = None) -> str | None:
    """The absolute path of the compiler `name`, or of the first candidate that is installed.

    None where there is no such program.
    """
    paths = map(shutil.which, CANDIDATES if name is None else (name,))
    found = next((path for path in paths if path is not None), None)
    return None if found is None else os.path.abspath(found)
