"""The corpus keeps its promises: it compiles in every mode, stays in bounds, and bits agree."""

import ctypes
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drawn import drawn
from kernels.build import bind, link, system_compiler
from kernels.corpus import (
    CONSTANT,
    KERNELS,
    SYMBOLIC,
    Kernel,
    Mode,
    arrays_of,
    differences,
    fresh,
    make_inputs,
    write_source,
)

HERE = next(iter(KERNELS.values())).path.parent
STRICT = ("-std=c99", "-Wall", "-Wno-unknown-pragmas", "-Werror")
PLAIN = ("-O1", "-ffp-contract=off")
ROOM = 3  # by which extents exceed sizes where that is tested

needs_compiler = pytest.mark.skipif(system_compiler() is None, reason="there is no C compiler")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sources")


def build(
    kernels: Iterable[Kernel],
    folder: Path,
    mode: Mode,
    room: int = 0,
    dtype: str | None = None,
    flags: tuple[str, ...] = PLAIN,
) -> ctypes.CDLL:
    """All kernels for MINI in one library, by one call of the compiler."""
    sources = [
        write_source(k, folder, dtype=dtype, mode=mode, extents=extents(k, room)) for k in kernels
    ]
    return link([system_compiler() or "", *STRICT, *flags], sources)


def extents(kernel: Kernel, room: int = 0) -> dict[str, int]:
    return {name: size + room for name, size in kernel.at("MINI").items()}


def run(
    library: ctypes.CDLL, kernel: Kernel, inputs: Mapping[str, Any], dtype: str | None = None
) -> dict[str, Any]:
    """The arrays after all functions of the kernel ran on copies of `inputs`, one after another."""
    copies = fresh(dict(inputs))
    for function in (kernel.function, *kernel.also):
        bind(library, kernel, dtype, function)(*copies.values())
    return arrays_of(copies)


@cache
def plain(folder: Path) -> ctypes.CDLL:
    """All kernels for any sizes."""
    return build(KERNELS.values(), folder, SYMBOLIC.with_restrict())


def wrong_against_plain(library: ctypes.CDLL, kernels: Iterable[Kernel], folder: Path) -> list[str]:
    """Where a library gives other bits than the plain one."""
    return [
        line
        for kernel in kernels
        for inputs in [make_inputs(kernel, kernel.at("MINI"))]
        for line in differences(
            kernel,
            run(library, kernel, inputs),
            run(plain(folder), kernel, inputs),
            same_order=True,
        )
    ]


def test_manifest_and_files_agree() -> None:
    assert {path.stem for path in HERE.glob("*.c")} == set(KERNELS)
    nasty = [name for name, kernel in KERNELS.items() if kernel.kind == "nasty"]
    assert len(nasty) == 15
    assert all(name.startswith("nasty_") for name in nasty)
    assert len(KERNELS) == 45


@needs_compiler
def test_constant_extents_larger_than_the_sizes(folder: Path) -> None:
    """The corner holds what arrays of just the size hold; nothing is written around it."""
    kernels = drawn(KERNELS.values(), 2, 1)
    library = build(kernels, folder, CONSTANT, room=ROOM)
    wrong = []
    for kernel in kernels:
        tiny = [kernel.square(value) for value in (0, 1, 2)]
        for sizes in (kernel.at("MINI"), *tiny):
            large = {name: max(n + ROOM, extents(kernel, ROOM)[name]) for name, n in sizes.items()}
            inputs = make_inputs(kernel, sizes, extents=large)
            corners = {a.name: tuple(map(slice, a.extents(sizes))) for a in kernel.arrays}
            tight = {
                name: value[corners[name]].copy() if name in corners else value
                for name, value in inputs.items()
            }
            expected = arrays_of(fresh(inputs))
            for name, value in run(plain(folder), kernel, tight).items():
                expected[name][corners[name]] = value
            found = run(library, kernel, inputs)
            wrong += differences(kernel, found, expected, same_order=True)
    assert wrong == []


@needs_compiler
@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", ["double", "float", "int"])
def test_element_types(dtype: str, folder: Path) -> None:
    """Every type a kernel allows compiles without a warning, and exact data keep it finite."""
    kernels = drawn((k for k in KERNELS.values() if dtype in k.dtypes[1:]), 2)
    library = build(kernels, folder, SYMBOLIC, dtype=dtype)
    for kernel in kernels:
        inputs = make_inputs(kernel, kernel.at("MINI"), dtype)
        after = run(library, kernel, inputs, dtype)
        assert all(np.all(np.isfinite(value)) for value in after.values()), kernel.name


@needs_compiler
def test_roles(folder: Path) -> None:
    """Arrays that are `in` stay, those that are `out` do not show what they held before."""
    for kernel in KERNELS.values():
        if kernel.also:
            continue  # the roles are those of all functions together
        inputs = make_inputs(kernel, kernel.at("MINI"))
        after = run(plain(folder), kernel, inputs)
        out = {array.name for array in kernel.arrays if array.role == "out"}
        other = {k: v + v.dtype.type(1) if k in out else v for k, v in inputs.items()}
        assert differences(kernel, run(plain(folder), kernel, other), after) == []
        for array in kernel.arrays:
            changed = not np.array_equal(after[array.name], inputs[array.name])
            assert changed == (array.role != "in"), f"{kernel.name}: {array.name}"


@needs_compiler
def test_ordered_data_give_the_same_bits_contracted_or_not(folder: Path) -> None:
    ordered = drawn((kernel for kernel in KERNELS.values() if kernel.bits == "ordered"), 2)
    flags = ("-O2", "-march=native", "-ffp-contract=fast")
    library = build(ordered, folder, CONSTANT, flags=flags)
    assert wrong_against_plain(library, ordered, folder) == []


def test_differences_in_words() -> None:
    gemm, adi = KERNELS["gemm"], KERNELS["adi"]
    right = {"C": np.array([[1.0, 2.0], [np.nan, 4.0]])}
    assert differences(gemm, right, right) == []
    near = {"C": right["C"] * (1 + 1e-13)}
    assert differences(adi, near, right) == []
    told = "gemm: C: 2 of 4 differ, first [0, 0]: 1.5, expected 1.0"
    found = {"C": np.array([[1.5, 2.0], [np.nan, 5.0]])}
    assert differences(gemm, found, right) == [told]
    assert differences(gemm, {"C": np.ones((1, 2))}, right) == [
        "gemm: C: float64(1, 2), expected float64(2, 2)"
    ]
    assert len(differences(adi, {"C": np.zeros((2, 2))}, right)) == 1
