"""Contract: run a contraction by a kernel in place of its loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from typing import ClassVar

from loopwright.analysis.find_contractions import explain, find_contractions
from loopwright.analysis.inner_contraction import inner_contraction
from loopwright.diagnostics import UsageError
from loopwright.ir.contraction import LOOP_I, LOOP_J, LOOP_P, LOOPS, Contraction, InnerContraction
from loopwright.ir.kernel_check import unsupported
from loopwright.ir.kernel_variant import (
    Algorithm,
    Broadcast,
    ContractionKernel,
    KernelVariant,
    Packing,
)
from loopwright.ir.loops import Mark
from loopwright.ir.schedule import Schedule, ScheduledContraction
from loopwright.ir.schedule_tree import Band, Leaf, bands, nodes_of, perfect_nest
from loopwright.lazy_dataclass import dataclass
from loopwright.transform.schedule_legality import (
    find_band,
    initial_schedule,
    open_bands,
    require_unmarked,
)
from loopwright.transform.step import Step, refuse

__all__ = ["Contract"]

# The loop along which a packing needs runs of unit stride, for left and for right.
_RUNS: dict[Packing, tuple[str | None, str | None]] = {
    Packing.ALONG_TILE: (LOOP_I, LOOP_J),
    Packing.BY_PANEL: (LOOP_I, LOOP_J),
    Packing.ALONG_P: (LOOP_P, LOOP_P),
    Packing.GATHER: (None, None),
}
# What `candidates` offers; `apply` takes any sizes.
_VARIANT = KernelVariant(
    Algorithm.PRODUCT, 4, 4, 2, Packing.GATHER, Packing.GATHER, broadcast=Broadcast.LOAD
)
_BLOCKS = (64, 256, 256)
_MOST_PACKED = 1 << 28  # elements of a packed block: panels are allocated for whole blocks


@dataclass(frozen=True, slots=True)
class Contract(Step):
    """Run a contraction by a kernel: the whole program, or three directly nested loops.

    rewrite:  for i: for j: for p: S: C[i, j] += A[i, p] * B[p, j]
              ->  kernel S(i, j, p): packed blocks, register tiles
    needs:    without loops, the program is one contraction whose loops are as in the source, of
              any number of loops; three loops run over a box whatever the loops around hold, add
              products of two array elements to an element of i and j, and write nothing that they
              read. A variant that keeps several partial sums needs reassociation
    refuses:  IllegalStep with the reason
    """

    kind: ClassVar[str] = "contract"

    loops: tuple[str, ...]  # i, j, p; vectors run along j. (): the whole program
    variants: tuple[KernelVariant, ...]  # for every product of the update
    blocks: tuple[int, ...]  # M_c, N_c, K_c
    shares: int = 1  # parts of i or j for threads, as sizes tell; 1 where the variant says it

    def __post_init__(self) -> None:
        if len(self.loops) not in (0, 3) or len(self.blocks) != 3 or not self.variants:
            raise UsageError(
                "contract takes no loops or the three i, j, p; a variant for each product; three "
                "blocks",
                str(self),
            )
        if min(self.blocks) < 0 or self.shares < 1:
            raise UsageError(
                "contract takes blocks of at least 0 and shares of at least 1", str(self)
            )

    def apply(self, schedule: Schedule) -> Schedule:
        if not schedule.in_registers:
            refuse(self, "its kernel has sums in registers, and elements are kept in memory")
        if schedule.mesh is not None:
            refuse(self, "loops are dealt out to a mesh, whose cores have no such kernels")
        made = self._inner(schedule) if self.loops else self._whole(schedule)
        return replace(schedule, contractions=(*schedule.contractions, made))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Contract]:
        """Every way to see a nest of three loops as a product, packed element by element."""
        for band in open_bands(schedule):
            loops = perfect_nest(band)
            if len(loops) != 3 or not isinstance(loops[-1].child, Leaf):
                continue
            for names in permutations(inner.loop for inner in loops):
                found = inner_contraction(schedule.program, schedule.tree, names)
                if not isinstance(found, str):
                    yield cls(names, (_VARIANT,) * len(found.products), _BLOCKS)

    def __str__(self) -> str:
        loops = f"loops={self.loops!r}" if self.loops else "the whole program"
        how = " and ".join(map(str, dict.fromkeys(self.variants)))
        shares = f", shares={self.shares}" if self.shares > 1 else ""
        return f"{self.kind}({loops}, {how}, blocks={self.blocks!r}{shares})"

    @property
    def _blocks(self) -> tuple[int, int, int]:
        mc, nc, kc = self.blocks
        return mc, nc, kc

    # -- the whole program ------------------------------------------------------------------------

    def _whole(self, schedule: Schedule) -> ScheduledContraction:
        program = schedule.program
        found = schedule.analyses.get(find_contractions)
        if len(found) != 1 or len(found[0].covers) != len(program.statements):
            reasons = "; ".join(explain(program))
            refuse(self, f"'{program.name}' as a whole is no contraction", reasons)
        if schedule.contractions:
            refuse(self, f"{schedule.contractions[0]} runs as a kernel already")
        if len(self.variants) != 1 or self.shares != 1:
            refuse(
                self, "a whole contraction is one product, whose variant names its parallel loop"
            )
        here = list(bands(nodes_of(schedule)))
        require_unmarked(self, schedule, (band.loop for band in here))
        if not _same(here, list(bands(nodes_of(initial_schedule(program))))):
            refuse(self, f"the loops of '{program.name}' were changed by an earlier step")
        self._require_variant(found[0], self.variants[0])
        return ScheduledContraction(found[0], self.variants, self._blocks)

    def _require_variant(self, found: Contraction, variant: KernelVariant) -> None:
        """Refuse a variant that the contraction does not allow.

        Threads share out a bundle of loops of out, each element of which has its own reduction; one
        without loops is a single iteration.
        """
        if variant.streams > 1 and not found.reassoc:
            reduction = f"'{found.plus}' of {found.statement} into {found.out.array}"
            refuse(self, f"the reduction {reduction} keeps its order without reassoc")
        algebra = found.algebra
        reason = None if algebra is None else unsupported(ContractionKernel(algebra, variant))
        if reason is not None:
            refuse(self, reason)

    # -- three loops ------------------------------------------------------------------------------

    def _inner(self, schedule: Schedule) -> ScheduledContraction:
        root = nodes_of(schedule)
        for loop in self.loops:
            find_band(self, schedule, root, loop)
        require_unmarked(self, schedule, self.loops)
        first = self.loops[0]
        around = {b.loop for b in bands(root) if first in {x.loop for x in bands(b.child)}}
        for loop, mark in schedule.marks:
            if self.shares > 1 and mark is Mark.PARALLEL and loop in around:
                refuse(self, f"loop '{loop}' is parallel already; threads are shared out once")
        found = inner_contraction(schedule.program, schedule.tree, self.loops)
        if isinstance(found, str):
            refuse(self, found)
        variants = self._fitted(found)
        return ScheduledContraction(found, variants, self._blocks, self.loops, self.shares)

    def _fitted(self, found: InnerContraction) -> tuple[KernelVariant, ...]:
        """The variants with what follows from the loops: swapped, runs and the parallel loop.

        Refuses those that do not fit the products of the loops, or each other.
        """
        if len(self.variants) != len(found.products):
            refuse(self, f"{len(found.products)} products take a variant each")
        mc, nc, kc = self.blocks
        if min(self.blocks) < 1 or max(mc, nc) * kc > _MOST_PACKED:
            refuse(self, f"packed blocks have from 1 to {_MOST_PACKED:,} elements")
        runs, parallel = found.subscripts.is_run(LOOP_J), "j" if self.shares > 1 else "none"
        fitted = []
        for product, variant in zip(found.products, self.variants, strict=True):
            if variant.algorithm is not Algorithm.PRODUCT or variant.guarded:
                refuse(self, "loops inside a program are contracted by plain products")
            sides = ((product.left, variant.left_packing), (product.right, variant.right_packing))
            for side, (factor, chosen) in enumerate(sides):
                if chosen not in _RUNS:
                    refuse(self, f"loops inside a program do not pack by '{chosen.value}'")
                along = _RUNS[chosen][side]
                if along is not None and not factor.subscripts.is_run(along):
                    place = self.loops[LOOPS.index(along)]
                    refuse(self, f"'{factor.load.array}' has no runs along loop '{place}'")
            made = replace(variant, swapped=product.swapped, runs=runs, parallel=parallel)
            reason = unsupported(ContractionKernel(found.algebra(product), made))
            if reason is not None:
                refuse(self, reason)
            fitted.append(made)
        if len({_unpacked(variant) for variant in fitted}) > 1:
            refuse(self, "the products of an update share the register tile")
        return tuple(fitted)


def _unpacked(variant: KernelVariant) -> KernelVariant:
    """What the products of an update have in common."""
    how = Packing.GATHER
    return replace(variant, left_packing=how, right_packing=how, swapped=False)


def _same(left: list[Band], right: list[Band]) -> bool:
    """Whether two lists of loops are the same in the same order."""
    if [band.loop for band in left] != [band.loop for band in right]:
        return False
    pairs = zip(left, right, strict=True)
    return all(a.partial.plain_is_equal(b.partial) for a, b in pairs)
