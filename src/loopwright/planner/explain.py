"""A plan in words: what was chosen for a contraction, and what the model expects of it."""

from __future__ import annotations

import math

from loopwright.ir.form import Form, Kind, Packing
from loopwright.ir.machine import Machine
from loopwright.planner.analytical import Choice

__all__ = ["explain_choice"]

_ALGORITHMS = {
    Kind.PRODUCT: "register tiles over packed panels",
    Kind.ROWS: "dot products, vectors along the reduction",
    Kind.COLUMNS: "columns, several steps of the reduction at a time",
    Kind.ELEMENTS: "element by element, no reduction",
}
_PACKINGS = {
    Packing.DIRECT: "read in place",
    Packing.ALONG_TILE: "packed along its runs",
    Packing.BY_PANEL: "packed along its runs, panel by panel",
    Packing.ALONG_P: "packed through a transposition",
    Packing.GATHER: "packed element by element",
    Packing.WALK_TILE: "packed in the order of memory",
    Packing.WALK_P: "packed in the order of memory, along the reduction",
    Packing.ANY: "read element by element",
}


def explain_choice(choice: Choice, machine: Machine) -> str:
    """A few lines on the form, the blocks, the threads and the predicted time."""
    form, values = choice.form, choice.values
    g, m, n, k = choice.shape.sizes
    lines = [
        f"contraction of {g} x ({m} x {k}) by ({k} x {n}): {_ALGORITHMS[form.kind]}",
        f"  operators: {_word(form.plus)} over {_word(form.times)}, sums in {form.accumulator}",
    ]
    if form.kind is Kind.PRODUCT:
        lines += [
            f"  register tile: {form.rows} x {form.columns} ({form.vectors} vectors of "
            f"{form.lanes}), {form.unroll} steps at a time, left by {form.feed.value}",
            f"  blocks: M_c {values['mc']}, N_c {values['nc']}, K_c {values['kc']}",
            f"  left: {_PACKINGS[form.left_packing]}; right: {_PACKINGS[form.right_packing]}"
            + ("; exchanged" if choice.shape.swapped else ""),
        ]
    lines.append(f"  threads: {_threads(form, choice.threads)}")
    lines.append(f"  predicted: {_time(choice, machine)}")
    return "\n".join(lines)


def _word(operator: object) -> str:
    return operator if isinstance(operator, str) else "a user's function"


def _threads(form: Form, threads: int) -> str:
    return "1" if form.parallel == "none" else f"{threads}, sharing out the loop {form.parallel}"


def _time(choice: Choice, machine: Machine) -> str:
    cycles = f"{choice.cycles:.3g} cycles"
    if machine.frequency_hz is None:
        return cycles
    seconds = choice.cycles / machine.frequency_hz
    rate = 2 * math.prod(choice.shape.sizes) / seconds / 1e9
    return f"{cycles}, {seconds * 1e3:.3g} ms, {rate:.3g} Gop/s"
