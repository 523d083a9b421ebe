"""Tables of nests, by LLVM and as C text beside the interpreter: lanes, memory, threads, leaves.

A row of `nests/NAME.txt` is a title behind `#` and a nest over the arguments above it; where it
says `any type`, numbers of every kind may stand for its floats.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from backends.c_compiled import compile_c, needs_cc
from backends.compiled import assert_compiled, assert_same_bits
from drawn import in_all
from loopwright.backends.c_text.c_dialect import OPENMP, C
from loopwright.backends.c_text.c_module import emit_c
from loopwright.ir.interpret import interpret_nest
from loopwright.ir.loops import For, LoopNest, Mark
from loopwright.ir.visit import statements
from nest_text import read_expr, read_nest

FOLDER = Path(__file__).parent / "nests"
# The values of n for each table, and how many threads run it.
TABLES = {
    "vectors": ((3,), (1,)),
    "memory": ((5,), (1,)),
    "threads": ((0, 1, 2, 17), (1, 2, 3)),
    "leaves": ((6,), (1,)),
}
OTHERS = ("float32", "complex64", "complex128", "int8", "bool")
PLACES = [3, 0, 2, 1, 7, 5, 4, 6] * 2
SIGNS = [1.0, -1.0, 0.25, -0.5, 2.0, 0.0]


@dataclass(frozen=True)
class Row:
    table: str
    title: str
    text: str
    is_of_any_type: bool

    def __str__(self) -> str:
        return f"{self.table}: {self.title}"

    def nest(self, dtype: str = "float64") -> LoopNest:
        return read_nest(self.text.replace("float64", dtype))


@cache
def rows() -> tuple[Row, ...]:
    return tuple(row for table in TABLES for row in _rows(table))


def _rows(table: str) -> Iterator[Row]:
    head = ""
    for part in re.split(r"\n\n+", (FOLDER / f"{table}.txt").read_text().strip()):
        if part.startswith("nest "):
            head = part
            continue
        title, body = part.removeprefix("# ").split("\n", 1)
        words, _, kind = title.partition(" | ")
        inside = "\n".join("    " + line for line in body.splitlines())
        yield Row(table, words, f"{head}\n{inside}", bool(kind))


def arrays(nest: LoopNest, table: str) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for buffer in nest.buffers:
        dtype = buffer.dtype
        numbers = np.arange(128) * (2 - 1j if dtype.is_complex else 2)
        if buffer.writable:
            numbers = np.zeros(128)
        elif buffer.name == "k":
            numbers = np.array(PLACES)
        elif table == "leaves":
            numbers = np.array(SIGNS)
        found[buffer.name] = numbers.astype(dtype.numpy)
    return found


def scalars(nest: LoopNest, n: int) -> dict[str, int]:
    return {name: n if name == "n" else 1 for name in nest.scalars}


@pytest.mark.drawn(2)
@pytest.mark.parametrize("row", rows(), ids=str)
def test_machine_code(row: Row) -> None:
    sizes, threads = TABLES[row.table]
    nest = row.nest()
    for n in sizes:
        if threads != (1,):  # to see races
            interpret_nest(nest, arrays(nest, row.table), scalars(nest, n), threads=2)
        assert_compiled(nest, arrays(nest, row.table), scalars(nest, n), threads)


@pytest.mark.drawn(16)
@pytest.mark.parametrize("row", [row for row in rows() if row.is_of_any_type], ids=str)
@pytest.mark.parametrize("dtype", OTHERS)
def test_other_types(dtype: str, row: Row) -> None:
    nest = row.nest(dtype)
    (n, *_), _ = TABLES[row.table]
    assert_compiled(nest, arrays(nest, row.table), scalars(nest, n))


@needs_cc
def test_c_text() -> None:
    """Nests of one thread, from one file for the compiler."""
    taken = [row for row in rows() if in_all() or row.table == "leaves" or len(row.title) % 4 == 0]
    nests = [row.nest() for row in taken]
    for row, nest, run in zip(taken, nests, compile_c(nests), strict=True):
        if any(isinstance(x, For) and x.mark is Mark.PARALLEL for x in statements(nest.body)):
            continue
        for n in TABLES[row.table][0]:
            found, wanted = arrays(nest, row.table), arrays(nest, row.table)
            run(found, scalars(nest, n))
            interpret_nest(nest, wanted, scalars(nest, n))
            for name, array in wanted.items():
                assert_same_bits(found[name], array, (str(row), name))


def printed() -> Iterator[tuple[str, str, str]]:
    """How a nest is printed (dialect, extents, flag), its text, and its C text."""
    for part in (FOLDER / "printed.txt").read_text().split("=====\n"):
        title, rest = part.split("\n", 1)
        yield title.removeprefix("# "), *rest.split("->\n", 1)


@pytest.mark.parametrize(("title", "text", "expected"), list(printed()))
def test_printed(title: str, text: str, expected: str) -> None:
    _, dialect, extents, *flags = title.split(" | ")
    shapes = {
        name: tuple(read_expr(x) for x in shape.split(", "))
        for name, shape in re.findall(r"(\w+)\[(.*?)\]", extents)
    }
    nest = replace(read_nest(text), reassoc="reassoc" in flags)
    assert emit_c(nest, {"c": C, "openmp": OPENMP}[dialect], shapes=shapes).text == expected
