"""What a planner chooses: the form of a kernel, the values of a launch, and the expected cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from loopwright.ir.dtypes import DType
from loopwright.ir.expr import Expr
from loopwright.ir.form import Feed, Form, Initial, Kind, Packing
from loopwright.planner.contraction_shape import ContractionShape, Dim, offsets

__all__ = [
    "Algebra",
    "Choice",
    "even_block",
    "has_runs",
    "make_form",
    "make_launch",
    "operator_names",
]


@dataclass(frozen=True, slots=True)
class Algebra:
    """What is computed, apart from loops and strides."""

    plus: str | Expr
    times: str | Expr
    zero: bool | int | float | complex
    left: DType
    right: DType
    out: DType
    accumulator: DType
    initial: Initial
    scaled: bool  # products are multiplied by alpha
    reassoc: bool  # the reduction may be reordered


@dataclass(frozen=True, slots=True)
class Choice:
    """A kernel's form, the values of one launch, and what the model expects of it."""

    form: Form
    shape: ContractionShape  # arranged
    values: dict[str, int]  # launch values by name
    table: np.ndarray[tuple[int], np.dtype[np.int64]]  # offset tables, one after another
    threads: int
    cycles: float  # predicted, of the slowest thread


def make_form(
    algebra: Algebra,
    shape: ContractionShape,
    kind: Kind,
    tile: tuple[int, int, int],
    packing: tuple[Packing, Packing],
    *,
    feed: Feed = Feed.BROADCAST,
    unroll: int = 1,
    ahead: int = 0,
    parallel: str = "none",
    group: int = 1,
    runs: bool = True,
    flipped: bool = False,
    guarded: bool = False,
    apart: bool = False,
) -> Form:
    left, right = algebra.left, algebra.right
    if shape.swapped:
        left, right = right, left
    rows, vectors, lanes = tile
    return Form(
        kind,
        algebra.plus,
        algebra.times,
        shape.swapped,
        left,
        right,
        algebra.out,
        algebra.accumulator,
        algebra.zero,
        rows,
        vectors,
        lanes,
        unroll,
        *packing,
        feed,
        algebra.initial,
        ahead,
        algebra.scaled,
        parallel,
        group,
        runs,
        flipped,
        apart,
        guarded,
    )


def make_launch(
    form: Form,
    shape: ContractionShape,
    values: dict[str, int],
    tables: tuple[tuple[str, str], ...],
    threads: int,
    cycles: float,
    walks: Mapping[str, np.ndarray[tuple[int], np.dtype[np.int64]]] = MappingProxyType({}),
) -> Choice:
    """Launch values and offset tables: table `left_i` starts at the value of that name."""
    bundles = {"g": shape.batch, "i": shape.i, "j": shape.j, "p": shape.p}
    bases = dict(zip(("left", "right", "out"), shape.bases, strict=True))
    values = dict(values, **dict(zip("GMNK", shape.sizes, strict=True)))
    parts = []
    position = 0
    for bundle, operands in tables:
        for operand in operands.split():
            part = offsets(bundles[bundle], operand)
            if bundle == "g":
                part = part + bases[operand]
            values[f"{operand}_{bundle}"] = position
            parts.append(part)
            position += len(part)
    for name, part in walks.items():
        values[name] = position
        parts.append(part)
        position += len(part)
    return Choice(form, shape, values, np.concatenate(parts), threads, cycles)


def operator_names(algebra: Algebra) -> tuple[str, str]:
    """Operator names for the machine model; expressions of users count as an unfused pair."""
    plus = algebra.plus if isinstance(algebra.plus, str) else "max"
    times = algebra.times if isinstance(algebra.times, str) else "add"
    return plus, "add" if times == "first" else times


def has_runs(dims: tuple[Dim, ...], operand: str, lanes: int) -> bool:
    """Whether vectors at multiples of `lanes` in a bundle are runs of unit stride."""
    if not dims or getattr(dims[-1], operand) != 1:
        return False
    return len(dims) == 1 or dims[-1].extent % lanes == 0


def even_block(total: int, block: int, unit: int, stretch: float = 1.0, shares: int = 1) -> int:
    """A block near `block` (at most `stretch` times it) that divides `total` evenly, in units.

    Each of `shares` threads gets as many blocks as every other.
    """
    count = max(1, math.ceil(total / (max(block, 1) * stretch)))
    count = -(-count // shares) * shares
    share = -(-total // count)
    return -(-share // unit) * unit
