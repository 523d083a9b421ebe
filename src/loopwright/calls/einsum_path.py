"""The report of an einsum's path: which pairs are contracted, at what predicted cost."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from loopwright import semirings
from loopwright.calls.einsum_call import EinsumCall, Scaling, extents_of
from loopwright.calls.einsum_contraction import choice_of
from loopwright.calls.einsum_options import checked_path
from loopwright.calls.einsum_order import Order, elements, order_of
from loopwright.calls.einsum_several import MOST_ELEMENTS, block_of
from loopwright.diagnostics import UsageError
from loopwright.frontends.einsum_syntax import EinsumSubscripts, parse_subscripts
from loopwright.ir.dtypes import DTYPES, DType, dtype_of
from loopwright.lazy_dataclass import dataclass
from loopwright.machines.machine_argument import target_machine
from loopwright.runtime.array_arguments import Array, as_operand

__all__ = ["einsum_path"]


@dataclass(frozen=True, slots=True)
class _Row:
    """One contraction of the path."""

    scaling: int  # number of indices
    text: str  # the contraction
    operations: int  # operations of plus and times
    elements: int  # of the result
    seconds: float | None  # predicted; None where the machine's clock rate is not known


def einsum_path(
    subscripts: str,
    *operands: Any,
    semiring: str | semirings.Semiring = "plus_times",
    optimize: Any = "greedy",
    threads: int = 1,
) -> tuple[list[Any], str]:
    """The order in which `einsum` contracts its operands, and a printable report.

    Where times distributes over plus, for the type and the numbers given, the path is the one that
    `optimize` names, as for numpy.einsum_path (left to right where times does not commute). Where
    it does not, no step but the last reduces, and the report says why. It adds the time that the
    processor model predicts and the bytes of every intermediate.
    """
    wanted = checked_path(optimize)
    arrays = tuple(as_operand(x, f"operand {k}") for k, x in enumerate(operands, 1))
    if not arrays:
        raise UsageError("einsum_path needs at least one operand")
    names = parse_subscripts(subscripts, tuple(a.ndim for a in arrays))
    extents = extents_of(names, arrays)
    ring = semirings.semiring(semiring)
    promoted = dtype_of(np.result_type(*arrays))
    accumulator = DTYPES["float32"] if promoted.name == "float16" else promoted
    ring.check_dtype(accumulator)
    if len(arrays) == 1:
        rows = [_row(names, arrays, ring, accumulator, threads)]
        return ["einsum_path", (0,)], _report(names, rows, promoted.bytes)
    if not all(a.size for a in arrays):
        pairs = [(0, 1)] * (len(arrays) - 1)
        return ["einsum_path", *pairs], _report(names, [], promoted.bytes)
    order = order_of(names, arrays, ring, accumulator, wanted)
    rows = _rows(order, arrays, ring, accumulator, threads)
    path = ["einsum_path", *(tuple(sorted(step.pair)) for step in order.steps)]
    notes = _notes(order, extents, names)
    return path, "\n".join([_report(names, rows, promoted.bytes), *notes])


def _rows(
    order: Order,
    arrays: tuple[Array, ...],
    ring: semirings.Semiring,
    accumulator: DType,
    threads: int,
) -> list[_Row]:
    left = list(arrays)
    rows = []
    for step in order.steps:
        pair = left[step.pair[0]], left[step.pair[1]]
        rows.append(_row(step.names, pair, ring, accumulator, threads))
        extents = extents_of(step.names, pair)
        left = [x for place, x in enumerate(left) if place not in step.pair]
        # Only shape and dtype matter from here on: a broadcast element costs no memory.
        one = np.zeros((), accumulator.numpy)
        left.insert(step.place, np.broadcast_to(one, tuple(extents[c] for c in step.names.out)))
    return rows


def _row(
    names: EinsumSubscripts,
    arrays: tuple[Array, ...],
    ring: semirings.Semiring,
    accumulator: DType,
    threads: int,
) -> _Row:
    extents = extents_of(names, arrays)
    shape = tuple(extents[c] for c in names.out)
    points = math.prod(extents.values())
    seconds = None
    machine = target_machine()
    clock = machine.frequency_hz
    if points and clock:
        # Untouched memory is not allocated by the system: only the strides of `out` are read.
        out = np.empty(shape, accumulator.numpy)
        call = EinsumCall(names, arrays, out, ring, accumulator, Scaling(), threads, machine)
        choice = choice_of(call)
        seconds = choice.cycles / clock
    return _Row(len(extents), names.text, 2 * points, math.prod(shape), seconds)


def _notes(order: Order, extents: dict[str, int], names: EinsumSubscripts) -> list[str]:
    """Why nothing is reduced early, and what is done about large intermediate results."""
    if not order.reason:
        return []
    notes = [f"note: only the last step reduces: {order.reason}"]
    cut = block_of(order, extents, names.out)
    if cut is not None:
        size = elements(order.largest(extents), extents)
        notes.append(
            f"note: in blocks of index '{cut[0]}', so that the {size:,} elements of a result "
            f"between are never there at once, but {MOST_ELEMENTS:,} at most"
        )
    return notes


def _report(names: EinsumSubscripts, rows: list[_Row], size: int) -> str:
    head = f"{'scaling':>8}  {'operations':>12}  {'bytes':>12}  {'predicted':>10}  contraction"
    lines = [f"  complete contraction: {names.text}", head, "-" * 78]
    for row in rows:
        time = "" if row.seconds is None else f"{row.seconds * 1e3:.3g} ms"
        lines.append(
            f"{row.scaling:>8}  {row.operations:>12.3e}  {row.elements * size:>12,}  "
            f"{time:>10}  {row.text}"
        )
    total = sum(row.operations for row in rows)
    largest = max((row.elements for row in rows), default=0)
    lines.append(f"total: {total:.3e} operations; largest result: {largest:,} elements")
    return "\n".join(lines)
