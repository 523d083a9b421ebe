"""The report of an einsum's path: which pairs are contracted, at what predicted cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from loopwright import semirings
from loopwright.calls.product import Scaling, planned
from loopwright.frontends.einsum import Subscripts, parse_subscripts
from loopwright.ir.dtypes import dtype_of
from loopwright.machines.host import host
from loopwright.runtime.arguments import Array, as_operand

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
    threads: int = 1,
) -> tuple[list[Any], str]:
    """The order in which `einsum` contracts its operands, and a printable report.

    The path is numpy.einsum_path's (left to right where times does not commute); the report adds
    the time the processor model predicts and the bytes of every intermediate.
    """
    arrays = [as_operand(x, f"operand {k}") for k, x in enumerate(operands)]
    names = parse_subscripts(subscripts, tuple(a.ndim for a in arrays))
    ring = semirings.semiring(semiring)
    if ring.commutative or len(arrays) < 3:
        path = list(np.einsum_path(names.text, *arrays, optimize="greedy")[0])
    else:
        path = ["einsum_path", *([(0, 1)] * (len(arrays) - 1))]
    terms = list(names.operands)
    rows = []
    for step in path[1:]:
        chosen = sorted(step)
        pair = [terms[k] for k in chosen], [arrays[k] for k in chosen]
        for k in reversed(chosen):
            del terms[k], arrays[k]
        out = _kept(pair[0], terms, names.out)
        rows.append(_row(Subscripts(tuple(pair[0]), out), pair[1], ring, threads))
        extents = dict(zip("".join(pair[0]), (n for a in pair[1] for n in a.shape), strict=True))
        place = 0 if not ring.commutative else len(terms)
        terms.insert(place, out)
        # Only shape and dtype matter from here on: a broadcast element costs no memory.
        one = np.zeros((), np.result_type(*pair[1]))
        arrays.insert(place, np.broadcast_to(one, tuple(extents[c] for c in out)))
    return path, _report(names, rows, dtype_of(np.result_type(*map(np.asarray, operands))).bytes)


def _kept(pair: list[str], rest: list[str], out: str) -> str:
    if not rest:
        return out
    needed = set(out).union(*rest)
    return "".join(dict.fromkeys(c for c in "".join(pair) if c in needed))


def _row(names: Subscripts, arrays: list[Array], ring: semirings.Semiring, threads: int) -> _Row:
    extents = dict(zip("".join(names.operands), (n for a in arrays for n in a.shape), strict=True))
    shape = tuple(extents[c] for c in names.out)
    points = math.prod(extents.values())
    dtype = dtype_of(np.result_type(*arrays))
    seconds = None
    clock = host().frequency_hz
    if points and len(arrays) <= 2 and clock:
        # Untouched memory is not allocated by the system: only the strides of `out` are read.
        out = np.empty(shape, dtype.numpy)
        choice = planned(names, tuple(arrays), out, ring, dtype, Scaling(), threads)
        seconds = choice.cycles / clock
    return _Row(len(extents), names.text, 2 * points, math.prod(shape), seconds)


def _report(names: Subscripts, rows: list[_Row], size: int) -> str:
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
