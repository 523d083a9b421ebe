"""Block sizes of the matrix product: the seed's printed numbers, and the larger register tile."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.ir.machine import Cache, Processor
from loopwright.machines import load_machine, machine_names
from loopwright.planner.contraction_plans.gemm_model import (
    GemmBlocks,
    MicroTile,
    TileRule,
    block_columns,
    block_depth,
    block_rows,
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


def test_register_count_of_kaby_lake_is_misprinted() -> None:
    """The seed prints (8*6 + 8)/4 = 12 registers; it is 14, and 14 of 16 are the printed 87.5%."""
    tile = printed_tile(processor(4, 6, 2))
    assert (tile.m_r * tile.n_r + tile.n_r) / 4 == 14
    assert 14 / 16 == 0.875


def test_register_share_of_power8_is_misprinted() -> None:
    """The seed prints 48.43% for POWER8 in double; its formula gives 28 of 64, that is 43.75%.

    48.43% is 31 of 64, (M_r*N_r + N_r + M_r)/N_VEC: there alone a column of A is counted too.
    """
    tile = printed_tile(processor(2, 12, 2, 64))
    assert (tile.m_r, tile.n_r) == (6, 8)
    assert (tile.m_r * tile.n_r + tile.n_r) / 2 / 64 == 0.4375
    assert (tile.m_r * tile.n_r + tile.n_r + tile.m_r) / 2 / 64 == pytest.approx(0.4843, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # K_c = C_Ar*N_L1*C_L1/(M_r*8) with C_Ar = floor((W_L1 - 1)/(1 + N_r/M_r)), by hand
        ("sandy-bridge-i7-3820", (4, 8, 2 * 4096 // 32, 96)),
        ("kaby-lake-i7-7700", (4, 8, 256, 96)),
        ("xeon-phi-7210", (6, 16, 4096 // 48, 1349)),
        ("power8", (4, 6, 2 * 8192 // 32, 96)),
        ("x-gene1", (3, 4, 3 * 4096 // 24, 48)),
        ("xeon-e5-2630-v4", (5, 8, 2 * 4096 // 40, 120)),
    ],
)
def test_printed_blocks_of_the_platforms(name: str, expected: tuple[int, int, int, int]) -> None:
    found = gemm_blocks(load_machine(name), "add", "mul", "float64", rule=TileRule.PRINTED)
    assert (found.m_r, found.n_r, found.k_c, found.m_c) == expected


def test_panels_of_the_printed_rule_fit_l1() -> None:
    """[1.3]: A_r fills whole lines of every set; [1.6]: A_r, B_r and a line of C fit the ways."""
    tile = MicroTile(4, 8)
    k_c = block_depth(tile, L1, 8)
    lines_a = tile.m_r * k_c * 8 / L1.way_bytes
    lines_b = tile.n_r * k_c * 8 / L1.way_bytes
    assert lines_a == 2
    assert lines_b == tile.n_r / tile.m_r * lines_a
    assert lines_a + math.ceil(lines_b) <= L1.ways - 1


def test_few_ways_share_lines() -> None:
    """K10 has two ways: the printed floor((2 - 1)/(1 + N_r/M_r)) is 0, no K_c at all."""
    l1 = Cache(1, 64 << 10, 2, 64)
    assert block_depth(MicroTile(4, 4), l1, 8) == (64 << 10) // 2 // 2 // (4 * 8)
    assert block_depth(MicroTile(4, 4), Cache(1, 8 << 10, 1, 64), 8) == (8 << 10) // 2 // (4 * 8)


def test_rows_and_columns() -> None:
    assert block_rows(256, L2, 8) == 6 * (256 << 10) // (256 * 8 * 8)
    assert block_rows(256, Cache(2, 1 << 20, 2, 64), 8) == (1 << 19) // (256 * 8)
    assert block_columns(256, 8, 4 << 20, 8) == (4 << 20) // (256 * 8 * 8) * 8
    assert block_columns(256, 8, 1, 8) == 8, "one register tile at least"


def test_columns_without_a_third_cache() -> None:
    """The seed's implementation: 256 register tiles where B_c has no cache of its own."""
    assert gemm_blocks(load_machine("core-e5450"), "add", "mul", "float64").n_c == 256 * 4
    given = gemm_blocks(load_machine("core-e5450"), "add", "mul", "float64", b_bytes=1 << 20)
    assert given.n_c == (1 << 20) // (given.k_c * 8 * given.n_r) * given.n_r


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


def test_unfused_step_keeps_registers_for_products() -> None:
    fused = processor(4, 4, 2)
    unfused = replace(fused, fused=False)
    tile = MicroTile(6, 8)
    assert tile_registers(tile, fused) == 12 + 2 + 1
    assert tile_registers(tile, unfused) == 12 + 2 + 1 + 3
    assert tile_registers(tile, replace(fused, by_element=True)) == 12 + 2 + 2


def test_all_blocks_of_neoverse_n1() -> None:
    assert gemm_blocks(load_machine("neoverse-n1"), "add", "mul", "float32") == GemmBlocks(
        m_r=8, n_r=12, k_c=682, m_c=288, n_c=6144, registers=29
    )


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
