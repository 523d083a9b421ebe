"""The nests of all four kinds, small enough to read; `python <this file>` writes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopwright.ir.kernel_variant import Algorithm, ContractionKernel, Packing
from loopwright.ir.text import nest_text
from loopwright.lower.contraction_nests.contraction_kernel import lower_contraction
from loopwright.lower.simplify import simplify
from lower.contractions import kernel_of, ring

FOLDER = Path(__file__).parent / "golden"
P = Packing
MIN_PLUS = ring("min", "add", "int32")
KERNELS: dict[str, ContractionKernel] = {
    "product": kernel_of(  # tables for j
        Algorithm.PRODUCT,
        MIN_PLUS,
        (1, 1, 1),
        left_packing=P.DIRECT,
        right_packing=P.ANY,
        strided="gip",
    ),
    "rows": kernel_of(  # two loops of i, counted by division
        Algorithm.ROWS,
        MIN_PLUS,
        (1, 1, 2),
        left_packing=P.DIRECT,
        right_packing=P.DIRECT,
        strided="giijp",
    ),
    "columns": kernel_of(
        Algorithm.COLUMNS, MIN_PLUS, (1, 1, 2), right_packing=P.DIRECT, strided="gijp"
    ),
    "elements": kernel_of(  # tables
        Algorithm.ELEMENTS, MIN_PLUS, (1, 1, 2), left_packing=P.DIRECT, right_packing=P.ALONG_TILE
    ),
}


def text(name: str) -> str:
    return nest_text(simplify(lower_contraction(KERNELS[name], name))) + "\n"


@pytest.mark.parametrize("name", KERNELS)
def test_nest(name: str) -> None:
    found = text(name)
    assert found == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert len(found.splitlines()) <= 40


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in KERNELS:
        (FOLDER / f"{each}.txt").write_text(text(each), encoding="utf-8")
