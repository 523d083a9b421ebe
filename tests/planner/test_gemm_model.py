"""Block sizes of the matrix product: the seed's printed numbers, and the larger register tile."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.ir.machine import Cache, Processor
from loopwright.machines import load_machine, machine_names
from loopwright.planner.contraction_plans.gemm_model import (
    TileRule,
    gemm_blocks,
    largest_tile,
    printed_tile,
    tile_registers,
)

L1 = Cache(1, 32 << 10, 8, 64)
L2 = Cache(2, 256 << 10, 8, 64)


def processor(lanes: int, latency: float, per_cycle: float, registers: int = 16) -> Processor:
    """The hypothetical processor with the numbers of table 4.2."""
    return Processor(
        element_bytes=8,
        registers=registers,
        lanes=lanes,
        latency=latency,
        per_cycle=per_cycle,
        load_latency=4,
        add_latency=3,
        l1=L1,
        l2=L2,
        prefetches_per_cycle=2,
        prefetch_latency=300,
        loads_per_cycle=2,
        fused=True,
        by_element=False,
    )


# platform, N_VEC, L_VFMA as measured, N_VFMA -> M_r, N_r by [1.1, 1.2].
@pytest.mark.parametrize(
    ("lanes", "latency", "per_cycle", "tile"),
    [
        pytest.param(4, 8, 1, (4, 8), id="sandy-bridge"),
        pytest.param(4, 4, 2, (4, 8), id="kaby-lake"),
        pytest.param(8, 6, 2, (6, 16), id="xeon-phi"),
        pytest.param(2, 5.5, 2, (4, 6), id="power8"),
        pytest.param(2, 9, 0.5, (3, 4), id="x-gene1"),
        pytest.param(4, 5, 2, (5, 8), id="xeon-e5"),
    ],
)
def test_printed_tile_of_table_4_2(
    lanes: int, latency: float, per_cycle: float, tile: tuple[int, int]
) -> None:
    found = printed_tile(processor(lanes, latency, per_cycle))
    assert (found.m_r, found.n_r) == tile
    assert found.m_r * found.n_r >= lanes * latency * per_cycle


# Section 4.2.2 of the seed prints the share of vector registers that (M_r*N_r + N_r)/N_VEC is, with
# the raised latencies in brackets of table 4.2: platform, N_VEC, L, N, N_REG, M_r, N_r, per cent.
REGISTER_SHARES = [
    pytest.param(4, 6, 2, 16, (6, 8), 87.5, id="kaby-lake-double"),
    pytest.param(4, 8, 1, 16, (4, 8), 62.5, id="sandy-bridge-double"),
    pytest.param(2, 36, 0.5, 32, (6, 6), 65.62, id="arm-double"),
    pytest.param(8, 6, 2, 16, (6, 16), 87.5, id="kaby-lake-float"),
    pytest.param(4, 12, 2, 64, (8, 12), 42.18, id="power8-float"),
    pytest.param(8, 8, 1, 16, (8, 8), 56.25, id="sandy-bridge-float"),
    pytest.param(4, 36, 0.5, 32, (6, 12), 65.62, id="arm-float"),
]


@pytest.mark.parametrize(
    ("lanes", "latency", "per_cycle", "registers", "tile", "percent"), REGISTER_SHARES
)
def test_register_shares_the_seed_prints(
    lanes: int,
    latency: float,
    per_cycle: float,
    registers: int,
    tile: tuple[int, int],
    percent: float,
) -> None:
    found = printed_tile(processor(lanes, latency, per_cycle, registers))
    assert (found.m_r, found.n_r) == tile
    used = (found.m_r * found.n_r + found.n_r) / lanes
    assert 100 * used / registers == pytest.approx(percent, abs=0.01)


# The tiles of hand-written kernels for these machines, as everybody's libraries have them.
@pytest.mark.parametrize(
    ("name", "dtype", "tile"),
    [
        ("neoverse-n1", "float64", (6, 8)),
        ("neoverse-n1", "float32", (8, 12)),
        ("kaby-lake-i7-7700", "float64", (6, 8)),
        ("kaby-lake-i7-7700", "float32", (6, 16)),
        ("zen3", "float64", (6, 8)),
        ("zen3", "float32", (6, 16)),
        ("skylake-avx512", "float64", (14, 16)),
        ("skylake-avx512", "float32", (14, 32)),
    ],
)
def test_largest_tiles(name: str, dtype: str, tile: tuple[int, int]) -> None:
    machine = load_machine(name)
    found = gemm_blocks(machine, "add", "mul", dtype)
    assert (found.m_r, found.n_r) == tile
    assert found.m_c % found.m_r == 0


@given(
    lanes=st.sampled_from([1, 2, 4, 8, 16, 32]),
    latency=st.sampled_from([1, 2, 4, 5.5, 9, 36]),
    per_cycle=st.sampled_from([0.05, 0.5, 1, 2, 4]),
    registers=st.sampled_from([8, 16, 32, 64]),
    by_element=st.booleans(),
    fused=st.booleans(),
)
def test_tiles_are_sound(
    lanes: int, latency: float, per_cycle: float, registers: int, by_element: bool, fused: bool
) -> None:
    """Whole vectors and within the registers; the printed tile fills the pipes."""
    machine = replace(
        processor(lanes, latency, per_cycle, registers), by_element=by_element, fused=fused
    )
    tile, small = largest_tile(machine), printed_tile(machine)
    assert tile.n_r % lanes == 0
    assert small.n_r % lanes == 0
    assert small.m_r * small.n_r >= machine.gamma - 1e-6
    if (tile.m_r, tile.n_r) != (1, lanes):
        assert tile_registers(tile, machine) <= registers


@given(
    lanes=st.sampled_from([2, 4, 8, 16]),
    latency=st.sampled_from([2, 4, 5.5, 9]),
    per_cycle=st.sampled_from([0.5, 1, 2]),
    registers=st.sampled_from([16, 32, 64]),
)
def test_no_better_tile_exists(
    lanes: int, latency: float, per_cycle: float, registers: int
) -> None:
    """The rule, said again: registers, pipes, loads; then the ratio."""
    machine = processor(lanes, latency, per_cycle, registers)
    ratios = [
        m_r * vectors * lanes / (m_r + vectors * lanes)
        for m_r in range(1, registers)
        for vectors in range(1, registers)
        if m_r * vectors + vectors + 1 <= registers
        and m_r * vectors * lanes >= machine.gamma
        and m_r + vectors <= m_r * vectors
        and (m_r + vectors) / 2 <= m_r * vectors / per_cycle
    ]
    if ratios:
        assert largest_tile(machine).ratio == pytest.approx(max(ratios))


@given(
    name=st.sampled_from(machine_names()),
    dtype=st.sampled_from(["float16", "float32", "float64", "int8", "int16", "int32", "int64"]),
    pair=st.sampled_from([("add", "mul"), ("min", "add"), ("max", "min"), ("or", "and")]),
    rule=st.sampled_from(list(TileRule)),
)
def test_blocks_fit_the_caches(
    name: str, dtype: str, pair: tuple[str, str], rule: TileRule
) -> None:
    machine = load_machine(name)
    found = gemm_blocks(machine, *pair, dtype, rule=rule)
    size = int(dtype.lstrip("floatin")) // 8
    assert min(found.m_r, found.n_r, found.k_c, found.m_c, found.n_c) >= 1
    assert found.n_c % found.n_r == 0
    assert found.m_r * found.k_c * size <= machine.cache(1).size
    assert found.m_c * found.k_c * size <= machine.cache(2).size
