"""Files of tensors by the ending of their names: .mtx, .tns (both also .gz) and .npz."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from loopwright.diagnostics import UsageError

from . import archive, frostt, matrix_market
from .convert import as_tensor
from .files import Progress
from .format import Format
from .handover import frozen_tensor
from .tensor import SparseTensor

__all__ = ["ENDINGS", "check_ending", "read_tensor", "write_tensor"]


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


def _load(
    path: str | os.PathLike[str],
    *,
    finite: bool,
    progress: Progress | None,
    format: str | Format | None = None,
) -> SparseTensor:
    return archive.load(path, format)


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
ENDINGS: Mapping[str, tuple[Callable[..., SparseTensor], _Write, bool]] = MappingProxyType(
    {
        ".mtx": (matrix_market.read, matrix_market.write, False),
        ".mtx.gz": (matrix_market.read, matrix_market.write, False),
        ".tns": (frostt.read, frostt.write, False),
        ".tns.gz": (frostt.read, frostt.write, False),
        ".npz": (_load, _save, True),
    }
)

# What readers take beyond what all take, and the endings of the files that are read so.
_OPTIONS = {"format": (".npz",), "base": (".tns", ".tns.gz"), "shape": (".tns", ".tns.gz")}


def check_ending(path: str | os.PathLike[str], kind: str | None = None) -> str:
    """The ending of a name that says what is in the file; `kind` is one that stands in for it."""
    name = os.fsdecode(path) if kind is None else "." + kind.removeprefix(".")
    for ending in ENDINGS:
        if name.lower().endswith(ending):
            return ending
    raise UsageError(
        f"{name}: the ending does not say what the file holds",
        hint=f"name it {', '.join('*' + ending for ending in ENDINGS)}"
        "; of a pipe, tell its kind (kind='mtx', --kind mtx on the command line)",
    )


def read_tensor(
    path: str | os.PathLike[str],
    *,
    kind: str | None = None,
    format: str | Format | None = None,
    shape: Sequence[int] | None = None,
    base: int | None = None,
    finite: bool = True,
    progress: Progress | None = None,
) -> SparseTensor:
    """Read a file as its ending says; text files give coordinates, symmetric ones expanded.

    `kind` stands in for the ending ("mtx", "tns" or "npz") where the name has none, as that of a
    pipe. `format` is the format of your own that a .npz file was written with; `shape` and `base`
    are the sizes of a .tns file and the number that its indices count from. `finite` refuses nan
    and inf in text files. Index arrays are read-only.
    """
    ending = check_ending(path, kind)
    name = os.fsdecode(path)
    given = {"format": format, "shape": shape, "base": base}
    options = {option: value for option, value in given.items() if value is not None}
    for option in options:
        if ending not in _OPTIONS[option]:
            raise UsageError(
                f"{name}: '{option}' says nothing about {ending} files",
                hint=f"it is for *{_OPTIONS[option][0]}; leave it out",
            )
    return frozen_tensor(ENDINGS[ending][0](name, finite=finite, progress=progress, **options))


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
