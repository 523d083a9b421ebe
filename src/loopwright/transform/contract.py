"""Steps for contractions: run one as a core of its own, and decide how its loops are blocked.

A core stands for the loops of algorithm 6 of the AOTO dissertation; `lower` writes them. The steps
here replace fields of `Schedule.cores`, each after the checks that its docstring names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from loopwright.analysis.find_contractions import find_contractions
from loopwright.diagnostics import UsageError
from loopwright.ir.contraction import Contraction, LoopRange
from loopwright.ir.schedule import Core, Schedule
from loopwright.ir.schedule_tree import Band, bands, nodes_of
from loopwright.transform.schedule_legality import initial_schedule, require_unmarked
from loopwright.transform.step import Step, refuse

__all__ = [
    "ELEMENTS",
    "BlockBundles",
    "Contract",
    "Pack",
    "ParallelBundle",
    "PrefetchAhead",
    "Reassociate",
    "RegisterTile",
]

OPERANDS = ("left", "right")
ELEMENTS = "elements"  # the loops batch, i and j together: one iteration per element of out
BUNDLES = ("batch", "i", "j", ELEMENTS)
# What `candidates` offers; `apply` takes any size.
BLOCKS = ((64, 256, 256), (128, 1024, 256))
REGISTER_TILES = ((4, 8, 1), (8, 8, 4), (6, 16, 4))
DISTANCES = (1, 4)
STREAMS = (2, 8)


@dataclass(frozen=True, slots=True)
class Contract(Step):
    """Run a contraction as a core instead of by its source loops.

    rewrite:  for i: for j: for p: S: C[i, j] += A[i, p] * B[p, j]
              ->  core S: C[i, j] = sum of A[i, p] * B[p, j] over p
    needs:    `statement` updates a contraction; its loops are as in the source
    refuses:  IllegalStep with the reason
    """

    kind: ClassVar[str] = "contract"

    statement: str  # name of the updating statement

    def apply(self, schedule: Schedule) -> Schedule:
        known = {c.statement: c for c in schedule.analyses.get(find_contractions)}
        if self.statement not in known:
            names = ", ".join(known) or "none"
            refuse(self, f"'{self.statement}' is no contraction; those of the program are {names}")
        found = known[self.statement]
        if any(core.contraction.statement == self.statement for core in schedule.cores):
            refuse(self, f"'{self.statement}' is a core already")
        here = _bands_of(schedule, found)
        require_unmarked(self, schedule, (band.loop for band in here))
        if not _same(here, _bands_of(initial_schedule(schedule.program), found)):
            refuse(self, f"the loops of '{self.statement}' were changed by an earlier step")
        return replace(schedule, cores=(*schedule.cores, Core(found)))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Contract]:
        taken = {core.contraction.statement for core in schedule.cores}
        for found in schedule.analyses.get(find_contractions):
            if found.statement not in taken:
                yield cls(found.statement)


@dataclass(frozen=True, slots=True)
class BlockBundles(Step):
    """Set the block sizes of a core; zero leaves the loop over these blocks out.

    rewrite:  for j: for p: for i: tile(i, j, p)
              ->  for j step N_c: for p step K_c: for i step M_c: for the tiles of the block
    needs:    a core
    refuses:  IllegalStep when there is none
    """

    kind: ClassVar[str] = "block"

    statement: str
    mc: int  # rows of a block of the left operand
    nc: int  # columns of a block of the right operand
    kc: int  # steps of the reduction in a block

    def __post_init__(self) -> None:
        if min(self.mc, self.nc, self.kc) < 0:
            raise UsageError("block takes sizes of at least 0", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        return _with_core(self, schedule, self.statement, blocks=(self.mc, self.nc, self.kc))

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[BlockBundles]:
        for core in schedule.cores:
            yield from (cls(core.contraction.statement, *sizes) for sizes in BLOCKS)


@dataclass(frozen=True, slots=True)
class Pack(Step):
    """Copy the blocks of an operand into the order in which the register tiles read them.

    rewrite:  tiles read A[i, p]
              ->  copy the block of A to packed; tiles read packed
    needs:    a core that has the operand, not packed yet
    refuses:  IllegalStep otherwise
    """

    kind: ClassVar[str] = "pack"

    statement: str
    operand: str  # "left" or "right"

    def __post_init__(self) -> None:
        if self.operand not in OPERANDS:
            raise UsageError("pack takes the operand left or right", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        core = _core(self, schedule, self.statement)
        if self.operand == "right" and core.contraction.right is None:
            refuse(self, f"the contraction {self.statement} has no right operand")
        if self.operand in core.packed:
            refuse(self, f"the {self.operand} operand is packed already")
        return _with_core(self, schedule, self.statement, packed=core.packed | {self.operand})

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Pack]:
        for core in schedule.cores:
            for operand in OPERANDS:
                exists = operand == "left" or core.contraction.right is not None
                if exists and operand not in core.packed:
                    yield cls(core.contraction.statement, operand)


@dataclass(frozen=True, slots=True)
class RegisterTile(Step):
    """Set the tile of results that registers hold, and how often the reduction is unrolled.

    rewrite:  for p: C[i, j] += A[i, p] * B[p, j]
              ->  for p step unroll: C[i .. i + M_r, j .. j + N_r] += ... in registers
    needs:    a core with loops i where M_r > 1, j where N_r > 1, p where unroll > 1
    refuses:  IllegalStep that names the missing bundle
    """

    kind: ClassVar[str] = "register_tile"

    statement: str
    mr: int  # rows, along the bundle i
    nr: int  # columns, along the bundle j
    unroll: int  # steps of the reduction per iteration

    def __post_init__(self) -> None:
        if min(self.mr, self.nr, self.unroll) < 1:
            raise UsageError("register_tile takes sizes of at least 1", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        contraction = _core(self, schedule, self.statement).contraction
        wanted = (("i", self.mr), ("j", self.nr), ("p", self.unroll))
        for bundle, size in wanted:
            if size > 1 and not _bundle(contraction, bundle):
                refuse(self, f"the contraction {self.statement} has no loops {bundle}")
        tile = (self.mr, self.nr)
        return _with_core(self, schedule, self.statement, register_tile=tile, unroll=self.unroll)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[RegisterTile]:
        for core in schedule.cores:
            found = core.contraction
            for mr, nr, unroll in REGISTER_TILES:
                sizes = (mr if found.i else 1, nr if found.j else 1, unroll if found.p else 1)
                yield cls(found.statement, *sizes)


@dataclass(frozen=True, slots=True)
class ParallelBundle(Step):
    """Share the blocks of a bundle of loops out to threads.

    rewrite:  for i step M_c: block(i)
              ->  parallel for i step M_c: block(i)
              for the bundle "elements", the loops batch, i and j as one:
              parallel for e: out[e] = the whole reduction of one element
    needs:    a core that has loops of the bundle; each element of out has its own reduction, so
              that threads write different ones
    refuses:  IllegalStep; for the bundle p it names the reduction
    """

    kind: ClassVar[str] = "parallel_bundle"

    statement: str
    bundle: str  # "batch", "i", "j" or "elements"

    def __post_init__(self) -> None:
        if self.bundle not in (*BUNDLES, "p"):
            raise UsageError("parallel_bundle takes the bundle batch, i, j or elements", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        contraction = _core(self, schedule, self.statement).contraction
        loops = ", ".join(loop.name for loop in _bundle(contraction, self.bundle))
        if not loops:
            refuse(self, f"the contraction {self.statement} has no loops {self.bundle}")
        if self.bundle == "p":
            reduction = f"'{contraction.plus}' of {self.statement} into {contraction.out.array}"
            refuse(self, f"the loops p ({loops}) carry the reduction {reduction}")
        return _with_core(self, schedule, self.statement, parallel=self.bundle)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[ParallelBundle]:
        for core in schedule.cores:
            for bundle in BUNDLES:
                if _bundle(core.contraction, bundle) and core.parallel != bundle:
                    yield cls(core.contraction.statement, bundle)


@dataclass(frozen=True, slots=True)
class Reassociate(Step):
    """Take the steps of a core's reduction in several streams side by side.

    rewrite:  for p in [0, K): C = C plus f(p)
              ->  for q in [0, K / R): C = C plus f(q) plus f(q + K / R) plus ...
              or: for p in [0, K) step R: sums[r] = sums[r] plus f(p + r); C = C plus all sums
    needs:    a core whose reduction may be taken in any order
    refuses:  IllegalStep with the reduction that must keep its order
    """

    kind: ClassVar[str] = "reassociate"

    statement: str
    streams: int  # of steps of the reduction

    def __post_init__(self) -> None:
        if self.streams < 2:
            raise UsageError("reassociate takes two or more streams", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        contraction = _core(self, schedule, self.statement).contraction
        if not contraction.p:
            refuse(self, f"the contraction {self.statement} has no loops p")
        if not contraction.reassoc:
            reduction = f"'{contraction.plus}' of {self.statement} into {contraction.out.array}"
            refuse(self, f"the reduction {reduction} keeps its order without reassoc")
        return _with_core(self, schedule, self.statement, streams=self.streams)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[Reassociate]:
        for core in schedule.cores:
            if core.contraction.p and core.contraction.reassoc:
                yield from (cls(core.contraction.statement, streams) for streams in STREAMS)


@dataclass(frozen=True, slots=True)
class PrefetchAhead(Step):
    """Fetch what the register tile needs some iterations before its use.

    rewrite:  for p: use A[i, p]
              ->  for p: prefetch A[i, p + distance]; use A[i, p]
    needs:    a core
    refuses:  IllegalStep when there is none
    """

    kind: ClassVar[str] = "prefetch_ahead"

    statement: str
    distance: int  # iterations of the innermost block loop; zero for no prefetch

    def __post_init__(self) -> None:
        if self.distance < 0:
            raise UsageError("prefetch_ahead takes a distance of at least 0", str(self))

    def apply(self, schedule: Schedule) -> Schedule:
        return _with_core(self, schedule, self.statement, prefetch=self.distance)

    @classmethod
    def candidates(cls, schedule: Schedule) -> Iterator[PrefetchAhead]:
        for core in schedule.cores:
            yield from (cls(core.contraction.statement, distance) for distance in DISTANCES)


def _core(step: Step, schedule: Schedule, statement: str) -> Core:
    cores = {core.contraction.statement: core for core in schedule.cores}
    if statement not in cores:
        refuse(step, f"'{statement}' is no core; the cores are {', '.join(cores) or 'none'}")
    return cores[statement]


def _with_core(step: Step, schedule: Schedule, statement: str, **changes: Any) -> Schedule:
    """`schedule` with fields of the core of `statement` replaced."""
    old = _core(step, schedule, statement)
    cores = tuple(replace(core, **changes) if core is old else core for core in schedule.cores)
    return replace(schedule, cores=cores)


def _bundle(contraction: Contraction, name: str) -> tuple[LoopRange, ...]:
    bundles = {
        "batch": contraction.batch,
        "i": contraction.i,
        "j": contraction.j,
        "p": contraction.p,
        ELEMENTS: (*contraction.batch, *contraction.i, *contraction.j),
    }
    return bundles[name]


def _bands_of(schedule: Schedule, contraction: Contraction) -> list[Band]:
    """The loops around the statements that the contraction replaces."""
    covers = set(contraction.covers)
    return [band for band in bands(nodes_of(schedule)) if band.statements & covers]


def _same(left: list[Band], right: list[Band]) -> bool:
    """Whether two lists of loops are the same in the same order."""
    if [band.loop for band in left] != [band.loop for band in right]:
        return False
    pairs = zip(left, right, strict=True)
    return all(a.partial.plain_is_equal(b.partial) for a, b in pairs)
