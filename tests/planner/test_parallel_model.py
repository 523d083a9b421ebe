"""Which loop runs in parallel: tables 4.24 and 4.25 of the seed, and where F alone differs."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.machines import load_machine, machine_names
from loopwright.planner.contraction_plans.parallel_model import (
    LoopEstimate,
    gemm_parallel_loop,
    gemv_estimates,
    parallel_loop,
    transposed_gemv_estimates,
)

N = 25600
CASES = [("core-e5450", threads) for threads in (1, 2, 4, 8)]
CASES += [("broadwell-e5-2697-v4", threads) for threads in (1, 2, 4, 8, 16, 32, 36)]


def transposed(name: str, threads: int) -> tuple[LoopEstimate, ...]:
    machine = load_machine(name)
    processor = machine.processor("add", "mul", "float64")
    cost = machine.parallel_cost.cycles(threads)
    return transposed_gemv_estimates(processor, N, N, threads, cost)


def plain(name: str, threads: int) -> tuple[LoopEstimate, ...]:
    machine = load_machine(name)
    processor = machine.processor("add", "mul", "float64")
    return gemv_estimates(processor, N, N, threads, machine.parallel_cost.cycles(threads))


@pytest.mark.parametrize(("name", "threads"), CASES)
def test_transposed_product(name: str, threads: int) -> None:
    """y = A^T x: j_c, in its L1 form from two threads up."""
    found = parallel_loop(transposed(name, threads), threads)
    assert (found.loop, found.form) == ("j_c", "L2" if threads == 1 else "L1")


@pytest.mark.parametrize(("name", "threads"), CASES)
def test_plain_product(name: str, threads: int) -> None:
    """y = A x: i_c, but j_c for one thread on Core."""
    expected = "j_c" if (name, threads) == ("core-e5450", 1) else "i_c"
    assert parallel_loop(plain(name, threads), threads).loop == expected


def test_estimates_by_hand() -> None:
    """Every formula of section 6 on Broadwell with 4 threads: delta = 102, R = 8*5 = 40."""
    found = {(e.loop, e.form): e for e in transposed("broadwell-e5-2697-v4", 4)}
    delta = 25 + 7 * (7 + 4)
    assert delta == 102
    assert {e.region_cycles for e in found.values()} == {4779}
    j_c = found["j_c", "L2"]
    assert j_c.operations == 2 * N * N
    assert j_c.work_cycles == pytest.approx(2 * delta * 4096 * N / (56 * 7))
    assert found["j_c", "L1"].work_cycles == pytest.approx(
        13 * (delta * 512 * N / (56 * 7)) * (1 + 1 / 5)
    )
    i_c = found["i_c", "L2"]
    assert i_c.operations == 2 * 4096 * N
    assert i_c.work_cycles == pytest.approx(math.ceil(N / 28) * (delta + 7 * 40) * 4096 / 56)
    assert found["j_b", "L2"].operations == 2 * 4096 * 7
    assert found["j_b", "L2"].work_cycles == math.ceil(4096 / (56 * 4)) * delta
    assert found["i_b", "L2"].operations == 2 * 56 * 7
    assert found["i_b", "L2"].work_cycles == 2 * (7 + 40 + 5)
    assert (found["j_r", "L2"].operations, found["j_r", "L2"].work_cycles) == (112, 2)


def test_matrix_product() -> None:
    """Loop i where L2 belongs to one core, j_c where cores share it (Xeon Phi, Core)."""
    assert gemm_parallel_loop(load_machine("neoverse-n1")) == "i"
    assert gemm_parallel_loop(load_machine("broadwell-e5-2697-v4")) == "i", "hyper-threads share"
    assert gemm_parallel_loop(load_machine("xeon-phi-7210")) == "j_c"
    assert gemm_parallel_loop(load_machine("core-e5450")) == "j_c"


@given(
    name=st.sampled_from(machine_names()),
    rows=st.integers(1, 5000),
    columns=st.integers(1, 5000),
    threads=st.integers(1, 64),
)
def test_estimates_are_positive_and_one_is_chosen(
    name: str, rows: int, columns: int, threads: int
) -> None:
    machine = load_machine(name)
    processor = machine.processor("min", "add", "float32")
    cost = machine.parallel_cost.cycles(threads)
    for function in (transposed_gemv_estimates, gemv_estimates):
        estimates = function(processor, rows, columns, threads, cost)
        assert all(e.ops_per_cycle > 0 for e in estimates)
        assert parallel_loop(estimates, threads) in estimates
