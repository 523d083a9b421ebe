"""Block sizes and prefetch distance of the generalised matrix-vector product.

Numbers in brackets are the equations of the seed (theory 1, section 4).

Algorithm 7, y = A^T x plus y: loops j_c (N_c), i_c (M_c), j_b (N_b) which prefetches M_c x N_b
elements of A at distance D into L1, i_b, j_r (N_r); y(J) stays in registers over i_b.

Algorithm 8, y = A x plus y: loops j_c (N_c), i_c (M_c rows at a time, a vector accumulator each),
j_r (N_r), which prefetches A and x every four lines.
"""

from __future__ import annotations

from loopwright.ir.machine import Processor
from loopwright.lazy_dataclass import dataclass
from loopwright.planner.contraction_plans.gemm_model import ceiling

__all__ = ["GemvBlocks", "TransposedGemvBlocks", "gemv_blocks", "transposed_gemv_blocks"]


@dataclass(frozen=True, slots=True)
class TransposedGemvBlocks:
    """Sizes of algorithm 7, in elements; the distance in iterations of j_b."""

    n_r: int  # columns of one vector step
    n_b: int  # columns of y kept in registers
    m_c: int  # rows of A between two visits to the same part of y
    n_c: int  # columns whose part of y stays in L2
    distance: int  # how many blocks ahead A is prefetched [D]


@dataclass(frozen=True, slots=True)
class GemvBlocks:
    """Sizes of algorithm 8, in elements; the distance in groups of four cache lines."""

    n_r: int  # columns of one step of every row
    m_c: int  # rows taken together
    n_c: int  # columns whose part of x stays in L2
    distance: int  # how many groups ahead A and x are prefetched [D]


def transposed_gemv_blocks(processor: Processor) -> TransposedGemvBlocks:
    """Sizes of algorithm 7, y kept in L2 [2.3 - 2.7].

    N_r = N_VEC                                                                       [2.3]
    N_b = min(max(N_VMMA*L_VMMA*N_VEC, (N_REG - 2)*N_VEC),
              ceil(N_L1*C_L1 / (N_VEC*S_DATA)) * N_VEC)                               [2.4]
    M_c = min(W_L2 - 1, W_L1), N_c = N_L2*C_L2 / S_DATA                               [2.5, 2.6]
    """
    return _transposed(
        processor,
        m_c=max(1, min(processor.l2.ways - 1, processor.l1.ways)),
        n_c=processor.l2.way_bytes // processor.element_bytes,
    )


def transposed_gemv_blocks_in_l1(processor: Processor) -> TransposedGemvBlocks:
    """Sizes of algorithm 7 with y kept in L1, for several threads (theory 1, section 6).

    M_c = W_L1 - 1, N_c = N_L1*C_L1 / S_DATA: no thread disturbs another's y in a shared L2.
    """
    return _transposed(
        processor,
        m_c=max(1, processor.l1.ways - 1),
        n_c=processor.l1.way_bytes // processor.element_bytes,
    )


def _transposed(processor: Processor, *, m_c: int, n_c: int) -> TransposedGemvBlocks:
    lanes = processor.lanes
    in_registers = max(ceiling(processor.gamma / lanes), processor.registers - 2) * lanes
    in_l1 = ceiling(processor.l1.way_bytes / (lanes * processor.element_bytes)) * lanes
    n_b = min(in_registers, in_l1)
    cycles = transposed_block_cycles(processor, m_c, n_b)
    return TransposedGemvBlocks(lanes, n_b, m_c, n_c, ceiling(processor.prefetch_latency / cycles))


def transposed_block_cycles(processor: Processor, m_c: int, n_b: int) -> float:
    """Cycles of one iteration of j_b, which the prefetch distance must cover.

    delta = ceil(M_c*ceil(N_b*S_DATA / C_L1) / N_prefetch)
            + M_c*(ceil(N_b / (N_VEC*N_VMMA)) + L_VLOAD),  D = ceil(L_prefetch / delta)   [2.7]
    """
    lines = ceiling(n_b * processor.element_bytes / processor.l1.line)
    steps = ceiling(n_b / (processor.lanes * processor.per_cycle))
    prefetch = ceiling(m_c * lines / processor.prefetches_per_cycle)
    return prefetch + m_c * (steps + processor.load_latency)


def gemv_blocks(processor: Processor) -> GemvBlocks:
    """Sizes of algorithm 8 [2.8 - 2.12].

    N_r = N_VEC * ceil(N_VMMA*L_VMMA / min(W_L1, W_L2 - 1))                           [2.8]
    M_c = ceil(N_VMMA*L_VMMA*N_VEC / N_r), N_c = N_L2*C_L2 / S_DATA                   [2.9, 2.10]
    D = ceil(L_prefetch / B) with B the cycles of four lines                          [2.12]
    """
    in_flight = processor.per_cycle * processor.latency
    ways = max(1, min(processor.l1.ways, processor.l2.ways - 1))
    n_r = processor.lanes * ceiling(in_flight / ways)
    m_c = ceiling(processor.gamma / n_r)
    n_c = processor.l2.way_bytes // processor.element_bytes
    cycles = four_lines_cycles(processor, m_c, n_r)
    return GemvBlocks(n_r, m_c, n_c, ceiling(processor.prefetch_latency / cycles))


def four_lines_cycles(processor: Processor, m_c: int, n_r: int) -> float:
    """Cycles algorithm 8 takes for four lines of each row.

    B = ceil(4*(M_c + 1) / N_prefetch)
        + (4*C_L1 / S_DATA) * (ceil(M_c*N_r / (N_VMMA*N_VEC)) + L_VLOAD) / N_r            [2.11]
    """
    elements = 4 * processor.l1.line / processor.element_bytes
    steps = ceiling(m_c * n_r / (processor.per_cycle * processor.lanes))
    prefetch = ceiling(4 * (m_c + 1) / processor.prefetches_per_cycle)
    return prefetch + elements * (steps + processor.load_latency) / n_r
