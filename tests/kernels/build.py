"""Building kernels of the corpus by a C compiler, and calling them on NumPy arrays.

A build is a copy of the kernel's text below a few #defines, so that whoever reads the file, a C
compiler or ours, sees the same program without options.
"""

from __future__ import annotations

import atexit
import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from kernels.manifest import HERE, NUMPY, Kernel

__all__ = [
    "CONSTANT",
    "LITERAL",
    "MODES",
    "SYMBOLIC",
    "Compiled",
    "Mode",
    "bind",
    "link",
    "system_compiler",
    "write_source",
]

Compiled: TypeAlias = Callable[..., None]
_POINTER = ctypes.c_void_p


@dataclass(frozen=True, slots=True)
class Mode:
    """How extents and bounds are written in a build."""

    name: str
    defines: tuple[str, ...]

    def with_restrict(self) -> Mode:
        """The same with array arguments that are `restrict`."""
        return Mode(f"{self.name}, restrict", (*self.defines, "SOLE_OWNERS"))


CONSTANT = Mode("constant extents", ())  # bounds are the size arguments: at most the extents
SYMBOLIC = Mode("symbolic extents", ("SYMBOLIC_EXTENTS",))  # one build serves all sizes
LITERAL = Mode("literal bounds", ("LITERAL_BOUNDS",))  # the sizes are the extents
MODES = (CONSTANT, SYMBOLIC, LITERAL)


def write_source(
    kernel: Kernel,
    folder: Path,
    *,
    dtype: str | None = None,
    mode: Mode = CONSTANT,
    extents: Mapping[str, int] | None = None,
) -> Path:
    """Write a build as `folder/NAME.c` beside kernel.h; extents are the file's own by default."""
    lines = [f"#define DATA {dtype or kernel.dtype}"]
    lines += [f"#define {name}" for name in mode.defines]
    # The least extent is 1: C has no arrays of no elements.
    lines += [f"#define EXTENT_{name} {max(1, n)}" for name, n in (extents or {}).items()]
    text = kernel.path.read_text(encoding="utf-8")
    place = folder / kernel.path.name
    place.write_text("\n".join([*lines, text]), encoding="utf-8")
    if not (folder / "kernel.h").exists():
        shutil.copy(HERE / "kernel.h", folder)
    return place


@cache
def system_compiler() -> str | None:
    """The command of the system's C compiler; None where there is none."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def link(command: Sequence[str], sources: Iterable[Path]) -> ctypes.CDLL:
    """Compile files into one library by one command and load it."""
    target = _scratch() / f"{next(_numbers)}.so"
    flags = ["-shared", "-fPIC", "-o", str(target), *map(str, sources), "-lm"]
    done = subprocess.run([*command, *flags], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return ctypes.CDLL(str(target))


_numbers = count()


@cache
def _scratch() -> Path:
    """A folder for libraries, which must outlive those who loaded them; gone with the process."""
    folder = tempfile.mkdtemp(prefix="kernels-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def bind(
    library: ctypes.CDLL, kernel: Kernel, dtype: str | None = None, function: str | None = None
) -> Compiled:
    """The kernel in a library as a function of the values of its inputs; arrays change in place."""
    data = dtype or kernel.dtype
    entry = library[function or kernel.function]
    scalars = [_ctype(kernel.types.get(name, data)) for name in kernel.scalars]
    sizes = [ctypes.c_int] * (len(kernel.sizes) if kernel.takes_sizes else 0)
    entry.argtypes = sizes + scalars + [_POINTER] * len(kernel.arrays)
    entry.restype = None

    def call(*values: Any) -> None:
        entry(*[_argument(value) for value in values])

    return call


def _ctype(name: str) -> Any:
    return np.ctypeslib.as_ctypes_type(NUMPY[name])


def _argument(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value.item() if isinstance(value, np.generic) else value
    assert value.flags.c_contiguous
    return value.ctypes.data
