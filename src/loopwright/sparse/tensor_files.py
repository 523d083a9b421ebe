"""Files of tensors by the ending of their names: .mtx, .tns (both also .gz) and .npz.

A .npz file holds the arrays of a tensor of any format by name, and its descriptor as JSON text.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, BinaryIO, Protocol

import numpy as np

from loopwright.diagnostics import UsageError

from . import frostt, matrix_market
from .bridge import from_scipy, load_scipy
from .convert_tensor import as_tensor
from .files import Progress, replacing
from .format import Format
from .formats import BUILT_IN, find
from .handover import frozen_tensor
from .tensor import SparseTensor, sparse_tensor

__all__ = ["ENDINGS", "check_ending", "load", "read_tensor", "save", "write_tensor"]

_NOTE = "loopwright"  # the member that holds the text
_PREFIX = "index."
_VERSION = 1
_OWN = "in Python, read_tensor(path, format=...) takes the Format that it was written with"


def save(path: str | os.PathLike[str], tensor: SparseTensor) -> None:
    """Write a tensor; equal tensors give equal bytes, and the file appears when it is complete."""
    note = {
        "version": _VERSION,
        "format": tensor.format.name,
        "descriptor": str(tensor.format),
        "shape": tensor.shape,
        "symbols": dict(tensor.symbols),
    }
    text = np.frombuffer(json.dumps(note).encode(), np.uint8)
    arrays = {_PREFIX + name: array for name, array in tensor.arrays.items()}
    members: dict[str, Any] = {_NOTE: text, **arrays, "values": tensor.values}
    if tensor.dtype.hasobject:
        raise UsageError(f"{os.fspath(path)}: values of type object cannot be stored")
    with replacing(path) as file:
        np.savez(file, **members)


def load(
    path: str | os.PathLike[str], format: str | Format | None = None, *, check: bool = True
) -> SparseTensor:
    """Read a tensor that `save` or scipy's save_npz wrote; `check` validates every index.

    A format that is not built in must be passed; it is compared with the one the file was
    written with.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as raw:
            file = raw if raw.seekable() else io.BytesIO(raw.read())
            with zipfile.ZipFile(file):
                pass  # NumPy would take other files for arrays, or for pickled objects
            file.seek(0)
            with np.load(file, allow_pickle=False) as members:
                if _NOTE not in members:
                    return _foreign(name, file, set(members.files), check)
                note = json.loads(bytes(members[_NOTE]))
                arrays = {
                    key.removeprefix(_PREFIX): members[key]
                    for key in members.files
                    if key.startswith(_PREFIX)
                }
                values = members["values"]
    except FileNotFoundError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from error
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, UsageError):
            raise
        hint = "fetch or write it again"
        raise UsageError(f"{name}: not a sound .npz file", str(error), hint) from error
    if not _is_note(note):
        hint = "write it again with this version of loopwright"
        message = f"{name}: the note in the file is damaged, or of another version"
        raise UsageError(message, str(note)[:200], hint)
    tensor = _made(name, note, arrays, values, format)
    return tensor.check() if check else tensor


def _is_note(note: Any) -> bool:
    """Whether a text is one that `save` writes, in the types of its parts."""
    match note:
        case {
            "version": version,
            "format": str(),
            "descriptor": str(),
            "shape": list(shape),
            "symbols": dict(symbols),
        }:
            sizes = [*shape, *symbols.values()]
            return version == _VERSION and all(type(x) is int and abs(x) < 1 << 63 for x in sizes)
    return False


def _made(
    name: str, note: Any, arrays: dict[str, Any], values: Any, format: str | Format | None
) -> SparseTensor:
    written = note["format"]
    if format is None and written.split("(")[0] not in BUILT_IN:
        raise UsageError(f"{name}: unknown format '{written}' in the file", hint=_OWN)
    descriptor = find(written if format is None else format, len(note["shape"]))
    if str(descriptor) != note["descriptor"]:
        raise UsageError(
            f"{name}: the format {written} has changed since the file was written",
            hint=_OWN,
        )
    return sparse_tensor(descriptor, note["shape"], arrays, values, symbols=note["symbols"])


def _foreign(name: str, file: BinaryIO, members: set[str], check: bool) -> SparseTensor:
    if not {"format", "shape", "data"} <= members:
        hint = "it was written neither by loopwright nor by scipy"
        raise UsageError(f"{name}: no sparse tensor is in the file", ", ".join(members), hint)
    file.seek(0)
    tensor = from_scipy(load_scipy(file))
    return tensor.check() if check else tensor


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
    return load(path, format)


def _save(
    path: str | os.PathLike[str],
    matrix: SparseTensor,
    /,
    *,
    finite: bool,
    progress: Progress | None,
) -> None:
    save(path, matrix)


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
