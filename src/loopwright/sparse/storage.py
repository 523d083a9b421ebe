"""Files of tensors by the ending of their names: .mtx, .tns (both also .gz) and .npz."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from loopwright.diagnostics import UsageError

from . import archive, frostt, matrix_market
from .convert import as_tensor
from .files import Progress
from .tensor import SparseTensor

__all__ = ["ENDINGS", "check_ending", "read_tensor", "write_tensor"]


class _Read(Protocol):
    def __call__(
        self, path: str | os.PathLike[str], *, finite: bool, progress: Progress | None
    ) -> SparseTensor: ...


class _Write(Protocol):
    def __call__(
        self,
        path: str | os.PathLike[str],
        matrix: SparseTensor,
        /,
        *,
        finite: bool,
        progress: Progress | None,
    ) -> None: ...


def _load(path: str | os.PathLike[str], *, finite: bool, progress: Progress | None) -> SparseTensor:
    return archive.load(path)


def _save(
    path: str | os.PathLike[str],
    matrix: SparseTensor,
    /,
    *,
    finite: bool,
    progress: Progress | None,
) -> None:
    archive.save(path, matrix)


# (reader, writer, whether the format of a tensor is kept)
ENDINGS: Mapping[str, tuple[_Read, _Write, bool]] = MappingProxyType(
    {
        ".mtx": (matrix_market.read, matrix_market.write, False),
        ".mtx.gz": (matrix_market.read, matrix_market.write, False),
        ".tns": (frostt.read, frostt.write, False),
        ".tns.gz": (frostt.read, frostt.write, False),
        ".npz": (_load, _save, True),
    }
)


def check_ending(path: str | os.PathLike[str]) -> str:
    """The ending of a name that says what is in the file."""
    name = os.fsdecode(path)
    for ending in ENDINGS:
        if name.lower().endswith(ending):
            return ending
    raise UsageError(
        f"{name}: the ending does not say what the file holds",
        hint=f"name it {', '.join('*' + ending for ending in ENDINGS)}",
    )


def read_tensor(
    path: str | os.PathLike[str], *, finite: bool = True, progress: Progress | None = None
) -> SparseTensor:
    """Read a file as its ending says; text files give coordinates, symmetric ones expanded."""
    read = ENDINGS[check_ending(path)][0]
    return read(os.fsdecode(path), finite=finite, progress=progress)


def write_tensor(
    path: str | os.PathLike[str],
    tensor: Any,
    *,
    finite: bool = True,
    progress: Progress | None = None,
) -> None:
    """Write a file as its ending says; only .npz keeps the format, others store coordinates.

    Takes what `convert` takes; zeros of a dense array are not written.
    """
    write = ENDINGS[check_ending(path)][1]
    write(os.fsdecode(path), as_tensor(tensor), finite=finite, progress=progress)
