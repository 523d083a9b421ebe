"""Sums of rows are fused with their products where the machine adds as quickly then."""

import numpy as np
import pytest

from loopwright.ir.loops import LoopNest
from loopwright.machines.load import load_machine
from loopwright.sparse.convert_tensor import convert
from loopwright.sparse.executors.row_loops import split_fma_chains
from loopwright.sparse.executors.sparse_einsum import compile_kernel


def nest_of(format: str, dtype: str = "float64") -> LoopNest:
    tensor = convert(np.eye(6, dtype=dtype), format)
    return compile_kernel("ij,j->i", tensor, np.ones(6, dtype)).executor._code.nest()


@pytest.mark.parametrize(
    ("machine", "fuses"), [("neoverse-n1", True), ("sapphirerapids", False), ("zen4", False)]
)
def test_rows(machine: str, fuses: bool) -> None:
    nest = split_fma_chains(nest_of("csr"), load_machine(machine))
    assert nest.fuses == fuses


def test_several_sums_and_other_numbers_stay_fused() -> None:
    slow = load_machine("sapphirerapids")
    assert split_fma_chains(nest_of("bcsr(3,3)"), slow).fuses
    assert split_fma_chains(nest_of("csr", "int64"), slow).fuses
