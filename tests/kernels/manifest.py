"""Kernels in C as data: a manifest.toml read into nouns."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

__all__ = [
    "KERNELS",
    "NUMPY",
    "SIZE_CLASSES",
    "Array",
    "Inputs",
    "Kernel",
    "Sizes",
    "read_manifest",
]

HERE = Path(__file__).parent
SIZE_CLASSES = ("MINI", "SMALL", "LARGE", "XL")
Sizes: TypeAlias = dict[str, int]
Inputs: TypeAlias = dict[str, Any]

# The C types that occur in signatures, by NumPy's one-letter codes: they follow the platform's C.
NUMPY: dict[str, np.dtype[Any]] = {
    "double": np.dtype("d"),
    "float": np.dtype("f"),
    "int": np.dtype("i"),
    "char": np.dtype("b"),
    "unsigned": np.dtype("I"),
    "unsigned char": np.dtype("B"),
    "short": np.dtype("h"),
    "long": np.dtype("l"),
    "unsigned long": np.dtype("L"),
    "unsigned short": np.dtype("H"),
    "int8_t": np.dtype("int8"),
    "uint8_t": np.dtype("uint8"),
    "int16_t": np.dtype("int16"),
    "int32_t": np.dtype("int32"),
}


@dataclass(frozen=True, slots=True)
class Array:
    """An array parameter."""

    name: str
    ctype: str  # a key of NUMPY, or DATA for the element type of the build
    shape: tuple[str, ...]  # formulas in the sizes: names, digits, sums
    role: str  # in: never written; out: written before it is read; inout: anything else

    def extents(self, values: Mapping[str, int]) -> tuple[int, ...]:
        """The shape for given values of the sizes."""
        return tuple(int(_value(formula, values)) for formula in self.shape)

    def dtype(self, data: str) -> np.dtype[Any]:
        """The element type in a build whose DATA is `data`."""
        return NUMPY[data if self.ctype == "DATA" else self.ctype]


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """One entry of a manifest.toml, and the key of what is remembered about it."""

    name: str
    kind: str  # gemm-like, stencil, blas2, solver, other, nasty; a family of tests/wide
    sizes: tuple[str, ...]  # int parameters that are extents or bounds, first in the call
    arrays: tuple[Array, ...]
    flops: str  # operations on elements, as a formula in the sizes
    classes: dict[str, tuple[int, ...]]  # MINI, SMALL, LARGE and for stencils XL
    scalars: dict[str, float | str] = field(default_factory=dict)  # a value, or a formula
    types: dict[str, str] = field(default_factory=dict)  # of scalars that are not DATA
    dtypes: tuple[str, ...] = ("double", "float", "int")  # that DATA may be; first the file's own
    parallel: bool = True  # whether some order runs well on several cores
    # What a legal schedule must give for our inputs. exact: no operation rounds, so bits are equal
    # in any order; ordered: bits are equal as long as sums keep their order, contracted to fma or
    # not; close: bits are equal only without fma too.
    bits: str = "exact"
    data: str = "integers"  # how inputs are made, a name in inputs.MAKERS
    least: dict[str, int] = field(default_factory=dict)  # smallest size that stays in bounds
    also: tuple[str, ...] = ()  # further functions of the file, called alike
    globals: tuple[str, ...] = ()  # arrays of the file that the region uses, as `name[extent]...`
    takes_sizes: bool = True  # else they are constants of the file only, and no parameters
    folder: Path = HERE  # of the file

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.c"

    @property
    def function(self) -> str:
        return "kernel_" + self.name.replace("-", "_")

    @property
    def dtype(self) -> str:
        """The element type of the file as it stands."""
        return self.dtypes[0]

    def at(self, size_class: str) -> Sizes:
        """The sizes of a class."""
        return dict(zip(self.sizes, self.classes[size_class], strict=True))

    def square(self, value: int) -> Sizes:
        """All sizes alike, but none smaller than it may be."""
        return {name: max(value, self.least.get(name, 0)) for name in self.sizes}

    def count_flops(self, sizes: Mapping[str, int]) -> int:
        """Operations on elements, with invariant products taken out of loops."""
        return int(_value(self.flops, sizes))

    def count_bytes(self, sizes: Mapping[str, int], data: str | None = None) -> int:
        """Bytes that cross between memory and a cache that holds everything."""
        total = 0
        for array in self.arrays:
            count = int(np.prod(array.extents(sizes), dtype=np.int64))
            crossings = 2 if array.role == "inout" else 1
            total += crossings * count * array.dtype(data or self.dtype).itemsize
        return total

    def scalar_values(self, sizes: Mapping[str, int], data: str) -> Inputs:
        """The scalar arguments, as NumPy scalars of their C types."""
        return {
            name: NUMPY[self.types.get(name, data)].type(_value(given, sizes))
            for name, given in self.scalars.items()
        }


def _value(formula: float | str, sizes: Mapping[str, int]) -> float:
    """A number, or a formula of the manifest in the names of the sizes."""
    if not isinstance(formula, str):
        return formula
    found: float = eval(formula, {"__builtins__": {}}, dict(sizes))
    return found


def _array(text: str) -> Array:
    """The array that `[type] name[extent]... role` describes."""
    declared, _, role = text.rpartition(" ")
    head, *extents = declared.replace("]", "").split("[")
    ctype, _, name = head.rpartition(" ")
    assert role in ("in", "out", "inout"), text
    return Array(name, ctype or "DATA", tuple(extents), role)


def _kernel(name: str, table: dict[str, Any], folder: Path) -> Kernel:
    rest = {key: value for key, value in table.items() if key not in (*SIZE_CLASSES, "arrays")}
    rest = {key: tuple(value) if isinstance(value, list) else value for key, value in rest.items()}
    classes = {key: tuple(table[key]) for key in SIZE_CLASSES if key in table}
    arrays = tuple(map(_array, table["arrays"]))
    return Kernel(name=name, arrays=arrays, classes=classes, folder=folder, **rest)


def read_manifest(folder: Path) -> dict[str, Kernel]:
    """The kernels of a folder, in the order of its manifest.toml."""
    text = (folder / "manifest.toml").read_text(encoding="utf-8")
    return {name: _kernel(name, table, folder) for name, table in tomllib.loads(text).items()}


KERNELS: dict[str, Kernel] = read_manifest(HERE)
