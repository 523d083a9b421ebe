"""Which loop of a matrix product or matrix-vector product to run in parallel.

F(L) = N_O / (C_PAR + C_W*C_R)                                                            [3.1]

N_O: operations of one run of loop L; C_PAR: cycles to open a parallel region; C_W*C_R: cycles of L
when its iterations are shared by T threads. F(L) * C_R is the predicted speed of the whole nest,
as the loops around L repeat numerator and denominator alike. The estimates are those of theory 1,
section 6; the terms for races between threads (R) are the seed's measured rule.

One correction of ours: a block is never wider than the matrix.
"""

from __future__ import annotations

import math
from dataclasses import replace

from loopwright.ir.machine import Machine, Processor
from loopwright.lazy_dataclass import dataclass
from loopwright.planner.contraction_plans.gemm_model import ceiling
from loopwright.planner.contraction_plans.gemv_model import (
    GemvBlocks,
    TransposedGemvBlocks,
    four_lines_cycles,
    gemv_blocks,
    transposed_block_cycles,
    transposed_gemv_blocks,
    transposed_gemv_blocks_in_l1,
)

__all__ = [
    "LoopEstimate",
    "gemm_parallel_loop",
    "gemv_estimates",
    "parallel_loop",
    "transposed_gemv_estimates",
]

_L1_FORM_EXTRA = 1 / 5  # the seed's X = delta*N_c*M / (5*N_b*M_c): what the L1 form loses
_MARGIN = 1.2  # how far a loop that reopens its region per block, or the L2 form, must be ahead
_NEARLY = 0.99  # estimates this near count as equal
_OUTER = ("j_c", "i_c")


@dataclass(frozen=True, slots=True)
class LoopEstimate:
    """The prediction for running one loop in parallel."""

    loop: str  # j_c, i_c, j_b, i_b or j_r
    form: str  # "L2" or "L1": where the reused vector stays
    operations: float  # N_O
    region_cycles: float  # C_PAR
    work_cycles: float  # C_W * C_R
    blocks: GemvBlocks | TransposedGemvBlocks  # the sizes the estimate holds for

    @property
    def ops_per_cycle(self) -> float:
        """F(L), operations per cycle of the whole nest."""
        return self.operations / (self.region_cycles + self.work_cycles)


def parallel_loop(estimates: tuple[LoopEstimate, ...], threads: int) -> LoopEstimate:
    """The loop to run in parallel: the largest F, with a margin where F is known to flatter.

    The inner loops open a region per block, so that an error of C_PAR counts thousands of times:
    one of them must promise 1.2 times the best of j_c and i_c. Several threads disturb each other
    in a shared L2, which no term of F sees: the L1 form of a loop is taken unless the L2 form
    promises 1.2 times as much. Of loops within one per cent the outermost wins. With this the
    choices are those of the seed's tables 4.24 and 4.25; the largest F alone differs from them in
    five places (see the tests).
    """
    outer = _largest([e for e in estimates if e.loop in _OUTER])
    twins = [e for e in estimates if e.loop == outer.loop and e.form == "L1"]
    if threads > 1 and twins and twins[0].ops_per_cycle * _MARGIN >= outer.ops_per_cycle:
        outer = twins[0]
    inner = _largest([e for e in estimates if e.loop not in _OUTER])
    return inner if inner.ops_per_cycle > _MARGIN * outer.ops_per_cycle else outer


def _largest(estimates: list[LoopEstimate]) -> LoopEstimate:
    """The largest F; of nearly equal ones the first, as the outermost loop comes first."""
    most = max(e.ops_per_cycle for e in estimates)
    return next(e for e in estimates if e.ops_per_cycle >= _NEARLY * most)


def transposed_gemv_estimates(
    processor: Processor, rows: int, columns: int, threads: int, region_cycles: float
) -> tuple[LoopEstimate, ...]:
    """F for every loop of algorithm 7, y = A^T x plus y with A of `rows` x `columns`.

    With delta the cycles of an iteration of j_b and R = sqrt(T)*T*L_VMMA:
      j_c:  2*N*M,     ceil(N/(N_c*T)) * delta*N_c*M/(N_b*M_c)
      i_c:  2*N_c*M,   ceil(M/(M_c*T)) * (delta + M_c*R)*N_c/N_b
      j_b:  2*N_c*M_c, ceil(N_c/(N_b*T)) * delta         (the seed drops delta in print)
      i_b:  2*N_b*M_c, ceil(M_c/T) * (ceil(N_b/(N_VEC*N_VMMA)) + R + L_VMMA)
      j_r:  2*N_b,     ceil(ceil(N_b/(N_VMMA*N_VEC)) / T)
    and for j_c with y in L1, cycles ceil(N/(N_c*T)) * (1 + 1/5) * delta*N_c*M/(N_b*M_c).
    """
    blocks = _within(transposed_gemv_blocks(processor), columns)
    in_l1 = _within(transposed_gemv_blocks_in_l1(processor), columns)
    n_b, m_c, n_c = blocks.n_b, blocks.m_c, blocks.n_c
    delta = transposed_block_cycles(processor, m_c, n_b)
    race = _growth(threads) * processor.latency
    steps = ceiling(n_b / (processor.lanes * processor.per_cycle))

    def estimate(loop: str, operations: float, work: float) -> LoopEstimate:
        return LoopEstimate(loop, "L2", operations, region_cycles, work, blocks)

    i_c_cycles = ceiling(rows / (m_c * threads)) * (delta + m_c * race) * n_c / n_b
    i_b_cycles = ceiling(m_c / threads) * (steps + race + processor.latency)
    j_c = estimate(
        "j_c", 2 * columns * rows, _j_c_cycles(processor, blocks, rows, columns, threads)
    )
    l1_cycles = (1 + _L1_FORM_EXTRA) * _j_c_cycles(processor, in_l1, rows, columns, threads)
    return (
        j_c,
        replace(j_c, form="L1", work_cycles=l1_cycles, blocks=in_l1),
        estimate("i_c", 2 * n_c * rows, i_c_cycles),
        estimate("j_b", 2 * n_c * m_c, ceiling(n_c / (n_b * threads)) * delta),
        estimate("i_b", 2 * n_b * m_c, i_b_cycles),
        estimate("j_r", 2 * n_b, ceiling(steps / threads)),
    )


def _within(blocks: TransposedGemvBlocks, columns: int) -> TransposedGemvBlocks:
    n_c = min(blocks.n_c, columns)
    return replace(blocks, n_c=n_c, n_b=min(blocks.n_b, n_c))


def _j_c_cycles(
    processor: Processor, blocks: TransposedGemvBlocks, rows: int, columns: int, threads: int
) -> float:
    delta = transposed_block_cycles(processor, blocks.m_c, blocks.n_b)
    turns = ceiling(columns / (blocks.n_c * threads))
    return turns * delta * blocks.n_c * rows / (blocks.n_b * blocks.m_c)


def gemv_estimates(
    processor: Processor, rows: int, columns: int, threads: int, region_cycles: float
) -> tuple[LoopEstimate, ...]:
    """F for every loop of algorithm 8, y = A x plus y with A of `rows` x `columns`.

    With g = N_r*ceil(4*(M_c + 1)/N_prefetch)/(4*C_L1/S) + ceil(M_c*N_r/(N_VMMA*N_VEC)) + L_VLOAD,
    the cycles of an iteration of j_r, R = sqrt(T)*T*L_VMMA, R2 = sqrt(T)*T*L_VLOAD*M_c*N_r*L_ADD:
      j_c:  (2*N + N_r*N/N_c)*M, ceil(N/(N_c*T)) * (g*N_c/N_r + R2 + M_c*N_r*L_ADD)*M/M_c
      i_c:  (2*N_c + N_r)*M,     ceil(M/(M_c*T)) * (g*N_c/N_r + M_c*N_r*L_ADD)
      j_r:  2*N_c*M_c,           ceil(N_c/(N_r*T)) * (g + R)
    """
    blocks = gemv_blocks(processor)
    blocks = replace(blocks, n_c=min(blocks.n_c, columns))
    n_r, m_c, n_c = blocks.n_r, blocks.m_c, blocks.n_c
    elements = 4 * processor.l1.line / processor.element_bytes
    step = four_lines_cycles(processor, m_c, n_r) * n_r / elements
    reduction = m_c * n_r * processor.add_latency
    race = _growth(threads) * processor.load_latency * reduction

    def estimate(loop: str, operations: float, work: float) -> LoopEstimate:
        return LoopEstimate(loop, "L2", operations, region_cycles, work, blocks)

    row_block = step * n_c / n_r + reduction
    j_c_turns = ceiling(columns / (n_c * threads))
    j_r_turns = ceiling(n_c / (n_r * threads))
    return (
        estimate(
            "j_c",
            (2 * columns + n_r * columns / n_c) * rows,
            j_c_turns * (row_block + race) * rows / m_c,
        ),
        estimate("i_c", (2 * n_c + n_r) * rows, ceiling(rows / (m_c * threads)) * row_block),
        estimate("j_r", 2 * n_c * m_c, j_r_turns * (step + _growth(threads) * processor.latency)),
    )


def _growth(threads: int) -> float:
    """sqrt(T)*T, how races grow with the threads."""
    return math.sqrt(threads) * threads


def gemm_parallel_loop(machine: Machine) -> str:
    """The loop of algorithm 6 to run in parallel: "i" or "j_c".

    Loop i gives each thread its own A_c and keeps it there, which pays when L2 belongs to one core.
    Where cores share an L2, all of them use one A_c from it and j_c, the outermost loop without a
    dependence once A_c and B_c are shared, is the better one.
    """
    hardware_threads_of_a_core = machine.cache(1).shared_by
    return "i" if machine.cache(2).shared_by <= hardware_threads_of_a_core else "j_c"
