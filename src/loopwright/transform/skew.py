"""Skew: run several iterations of a loop together, each one some rows behind the one before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import islpy as isl

from loopwright.diagnostics import UsageError
from loopwright.ir.islkit import context
from loopwright.ir.loops import Mark
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Filter,
    Node,
    Sequence,
    bands,
    map_bands,
    read_tree,
    rename_band,
    sequence,
)
from loopwright.ir.walk import fresh_name
from loopwright.transform.legal import find_band, open_bands, reordered, require_unmarked
from loopwright.transform.step import Step, refuse
from loopwright.transform.tile import strips_of
from loopwright.transform.unroll_jam import sunk

__all__ = ["Skew", "parts_of"]


@dataclass(frozen=True, slots=True)
class Skew(Step):
    """Run `block` iterations of a loop together, as waves that roll over the rows of its body.

    rewrite:  for t: (for i: S(t, i)); (for j: T(t, j))
              ->  for t_t step block: for t_w: for t in [t_t, t_t + block):
                    S(t, t_w - slope * t - shifts[0]); T(t, t_w - slope * t - shifts[1])
              with a width W: t_w in steps of W, and the W rows from there on side by side in the
              innermost loops of each part
    needs:    the loop's body is a row of loops, or of parts that belong to row 0
    refuses:  IllegalStep with the reversed dependence

    What a wave wrote lies in cache when the next iterations of t read it, so that memory is passed
    over once for `block` iterations.
    """

    kind: ClassVar[str] = "skew"

    loop: str
    slope: int  # rows by which each iteration of the loop stays behind the one before
    shifts: tuple[int, ...]  # rows by which each part of the body stays behind
    rows: tuple[int, ...]  # for each part: 1 when its outermost loop counts rows, 0 for row 0
    block: int  # iterations of the loop that run together
    width: int = 1  # rows of a wave

    def __post_init__(self) -> None:
        if min(self.block, self.width) < 1 or self.slope < 0 or len(self.shifts) != len(self.rows):
            raise UsageError(
                "skew takes a slope, a block, a width and two numbers for each part", str(self)
            )
        if not set(self.rows) <= {0, 1}:
            raise UsageError("skew takes rows of 0 and 1", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        root = read_tree(schedule.tree)
        band = find_band(self, schedule, root, self.loop)
        parts = parts_of(band)
        counted = [p.child for p, is_row in zip(parts, self.rows, strict=False) if is_row]
        if len(parts) != len(self.rows) or not all(isinstance(c, Band) for c in counted):
            refuse(self, f"the body of loop '{self.loop}' has other parts")
        gone = [child.loop for child in counted if isinstance(child, Band)]
        require_unmarked(self, schedule, [self.loop, *gone])
        for array, loop in schedule.private:
            if loop in gone:
                refuse(self, f"loop '{loop}' has its own copies of '{array}'")
        taken = {other.loop for other in bands(root)}
        changed, copies = self._skewed(band, parts, taken)
        root = map_bands(root, lambda b: changed if b.loop == self.loop else b)
        after = reordered(self, schedule, root)
        marks = tuple((name, Mark.UNROLL) for name in copies)
        factors = tuple((name, self.width) for name in copies)
        return replace(after, marks=(*after.marks, *marks), factors=(*after.factors, *factors))

    def _skewed(
        self, band: Band, parts: tuple[Filter, ...], taken: set[str]
    ) -> tuple[Node, tuple[str, ...]]:
        """The waves in place of `band`, and the loops over the rows of one wave."""
        name = fresh_name(f"{self.loop}_w", taken)
        slope = isl.Val.int_from_si(context(), self.slope)
        time = band.partial.get_union_pw_aff(0).scale_val(slope)
        wave: isl.UnionPwAff | None = None
        bodies: list[Filter] = []
        copies: tuple[str, ...] = ()
        for part, is_row, shift in zip(parts, self.rows, self.shifts, strict=True):
            here = part.instances.universe()
            row = _constant(here, shift)
            body = part.child
            if is_row:
                assert isinstance(body, Band)
                row = row.add(body.partial.get_union_pw_aff(0))
                if self.width > 1:
                    body, own = sunk(body, body.child, here, taken | {name, *copies})
                    copies += own
                else:
                    body = body.child
            row = row.add(time.intersect_domain(here))
            wave = row if wave is None else wave.union_add(row)
            bodies.append(replace(part, child=body))
        assert wave is not None
        partial = isl.MultiUnionPwAff.from_union_pw_aff(wave)
        partial = partial.set_tuple_name(isl.dim_type.set, name)
        inner = replace(band, child=sequence(bodies))
        strips = strips_of(band, self.block, taken | {name, *copies})
        waves = Band(name, partial, inner)
        if self.width > 1:
            waves = rename_band(strips_of(waves, self.width, taken), name)
        return replace(strips, child=waves), copies

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Skew]:
        for band in open_bands(schedule):
            parts = parts_of(band)
            rows = tuple(int(isinstance(part.child, Band)) for part in parts)
            if any(rows):
                steps = tuple(range(len(parts)))
                yield cls(band.loop, 1, (0,) * len(parts), rows, 4)
                yield cls(band.loop, 2, steps, rows, 3)
                yield cls(band.loop, len(parts), steps, rows, 2)


def parts_of(band: Band) -> tuple[Filter, ...]:
    """The parts of a loop's body, in order; a body that is no sequence is one part."""
    if isinstance(band.child, Sequence):
        return band.child.filters
    return (Filter(band.partial.domain(), band.child),)


def _constant(domain: isl.UnionSet, value: int) -> isl.UnionPwAff:
    return isl.UnionPwAff.val_on_domain(domain, isl.Val.int_from_si(context(), value))
