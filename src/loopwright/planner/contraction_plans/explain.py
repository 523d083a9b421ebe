"""A plan in words: what was chosen for a contraction, and what the model expects of it."""

from __future__ import annotations

import math

from loopwright.ir.kernel_variant import Algorithm, KernelVariant, Packing
from loopwright.ir.machine import Machine
from loopwright.ir.passed_nan import number_operator
from loopwright.log import log
from loopwright.lower.contraction_nests.launch import launch
from loopwright.planner.contraction_plans.analytical import Choice

__all__ = ["explain_choice", "log_plan"]

_ALGORITHMS = {
    Algorithm.PRODUCT: "register tiles over packed panels",
    Algorithm.ROWS: "dot products, vectors along the reduction",
    Algorithm.COLUMNS: "columns, several steps of the reduction at a time",
    Algorithm.ELEMENTS: "element by element, no reduction",
}
_PACKINGS = {
    Packing.DIRECT: "read in place",
    Packing.ALONG_TILE: "packed along its runs",
    Packing.BY_PANEL: "packed along its runs, panel by panel",
    Packing.BY_TILE: "packed along its runs by the first tile of a panel",
    Packing.ALONG_P: "packed through a transposition",
    Packing.GATHER: "packed element by element",
    Packing.WALK_TILE: "packed in the order of memory",
    Packing.WALK_P: "packed in the order of memory, along the reduction",
    Packing.ANY: "read element by element",
    Packing.STRIDED: "read element by element, by its stride",
}


def explain_choice(choice: Choice, machine: Machine) -> str:
    """A few lines on the variant, the blocks, the threads and the predicted time."""
    variant, algebra = choice.variant, choice.kernel.algebra
    mc, nc, kc = choice.blocks
    g, m, n, k = choice.shape.sizes
    plus = number_operator(algebra.plus) or algebra.plus
    lines = [
        f"contraction of {g} x ({m} x {k}) by ({k} x {n}): {_ALGORITHMS[variant.algorithm]}",
        f"  operators: {_word(plus)} over {_word(algebra.times)}, sums in {algebra.accumulator}",
    ]
    if variant.algorithm is Algorithm.PRODUCT:
        lines += [
            f"  register tile: {variant.rows} x {variant.columns} ({variant.vectors} vectors of "
            f"{variant.lanes}), {variant.unroll} steps at a time, "
            f"left by {variant.broadcast.value}",
            f"  blocks: M_c {mc}, N_c {nc}, K_c {kc}",
            f"  left: {_PACKINGS[variant.left_packing]}; right: {_PACKINGS[variant.right_packing]}"
            + ("; exchanged" if variant.swapped else ""),
        ]
    size = launch(variant, choice.blocks, choice.shape).table_bytes
    if size:
        lines.append(f"  offset tables: {size:,} bytes")
    lines.append(f"  threads: {_threads(variant, choice.threads)}")
    if not math.isnan(choice.cycles):
        lines.append(f"  predicted: {_time(choice, machine)}")
    return "\n".join(lines)


def _word(operator: object) -> str:
    return operator if isinstance(operator, str) else "a user's function"


def _threads(variant: KernelVariant, threads: int) -> str:
    return (
        "1" if variant.parallel == "none" else f"{threads}, sharing out the loop {variant.parallel}"
    )


def _time(choice: Choice, machine: Machine) -> str:
    cycles = f"{choice.cycles:.3g} cycles"
    if machine.frequency_hz is None:
        return cycles
    seconds = choice.cycles / machine.frequency_hz
    rate = 2 * math.prod(choice.shape.sizes) / seconds / 1e9
    return f"{cycles}, {seconds * 1e3:.3g} ms, {rate:.3g} Gop/s"


# -- plans of contractions in the log, one line each ----------------------------------------------


def log_plan(what: str, choice: Choice, machine: Machine) -> None:
    """Tell the plan of a contraction, if plans are asked for."""

    def text() -> str:
        # lazy: only those who log need it
        from loopwright.planner.contraction_plans.explain import explain_choice

        lines = explain_choice(choice, machine).splitlines()
        return f"{what}: {'; '.join(line.strip() for line in lines)}"

    log("plan", text)
