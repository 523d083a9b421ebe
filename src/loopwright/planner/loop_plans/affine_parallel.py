"""Which loops to share out to threads.

Of every nest the outermost loop whose iterations are independent. Where it is an inner one, strips
of it are moved outside if that is legal, so that threads meet once and not in every iteration of
the loops around; nests that follow go along in the same strips. Where iterations only meet in sums
of free order, threads gather sums of their own (PartialSums). Where two loops may be interchanged,
but none is free, tiles of them go to threads in waves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from loopwright.analysis.reductions import Reduction, reductions
from loopwright.analysis.size_estimates import band_trips, likely_trips, references
from loopwright.ir.expr import Var
from loopwright.ir.islkit import isl
from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.ir.schedule_tree import (
    Band,
    Leaf,
    Node,
    bands,
    map_bands,
    moved_by,
    nodes_of,
    path_to,
    perfect_nest,
    wavefront,
)
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.ir.visit import fresh_name, names
from loopwright.planner.cost.loop_steps import loop_steps
from loopwright.planner.draft import Draft
from loopwright.planner.loop_plans.block_waves import take_block_waves
from loopwright.planner.loop_plans.gathered_strips import take_gathered_strips
from loopwright.planner.loop_plans.independent_parts import part_off, strip_size
from loopwright.planner.loop_plans.jammed_tiles import rows_beside
from loopwright.planner.loop_plans.moved_strips import take_moved
from loopwright.planner.loop_plans.short_loops import unrolled_inside
from loopwright.planner.loop_plans.wavefronts import (
    COLUMNS,
    ROWS,
    by_diagonals,
    columns_of,
    has_one_loop,
)
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_fusion import Distribute, Fuse
from loopwright.transform.loop_marks import Parallel, ParallelChunks
from loopwright.transform.partial_sums import PartialSums
from loopwright.transform.privatize import Privatize
from loopwright.transform.reschedule import Reschedule, tree_text
from loopwright.transform.schedule_legality import fixed_loops, open_bands
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine, Tile

__all__ = ["mark_parallel"]

# Serial loops that may stand around a parallel one: each of their iterations costs a barrier.
_MOST_SERIAL = 1
_FEW = 8  # iterations of a loop that does not count among them
_IDLE = 1.2  # times the iterations of such a loop: rounds of all threads that are too many for it
_WORTH = 16  # times the cost of a barrier: work that a parallel loop inside another one must have
_WORTH_BESIDE = 2  # likewise, of one beside another parallel loop: threads meet there anyway
_STRIP = 16  # iterations that stay together where loops are cut, as many as two lines hold
_FEW_LINES = 8  # of a loop whose strips are shorter than a line of its shortest elements
_FEW_STRIPS = 32  # of a loop whose strips are to be shorter, a line, for threads to get the same
_PARTS = 2  # that each thread gets of them: rows need not be longer than caches like (deriche)
_LONG_STRIP = 4096  # iterations of a loop in two parts whose length is not known
_WIDE = 64  # columns that stay together where rows are read again by a loop that gathers
_BLOCKS = 16  # sums that each thread gathers apart, so that all are done at about the same time
_MOST_TILE = 64  # iterations of each loop of a tile
_MOST_ROW = 1024  # of an innermost loop (measured, N1: rows of 32 take twice as long)
_PER_WAVE = 2  # tiles that each thread has on most waves
# Columns of a tile that is a strip of rows taken by diagonals, which start and end with few lanes.
_STRIP_LENGTH = 4 * COLUMNS
_LEAST_BLOCK = 64  # iterations that share a sum
_LEAST_WORK = 1 << 16  # cycles that are enough for fewer of them
_MOST_BLOCK = 256  # likewise, of a loop whose length is not known: short ones have several blocks
_UNIT = 8  # likewise a multiple of this, so that unrolled loops fit in
_LINE = 8  # cycles to fetch a line that nobody else needs, from L2 or L3 with others in flight


def mark_parallel(draft: Draft, machine: Machine, *, text: bool = False) -> None:
    """Mark a loop of every nest that may be parallel and is worth it; `text`: for C compilers."""
    _Sharing(draft, machine, is_text=text).node(nodes_of(draft.schedule), ())


@dataclass(slots=True)
class _Sharing:
    draft: Draft
    machine: Machine
    trips: dict[str, dict[str, float]] = field(default_factory=dict)
    strips: ParallelChunks | None = None  # of the nest before, to be marked
    short: dict[str, bool] = field(default_factory=dict)  # loop -> what is inside is to be unrolled
    worth: float = _WORTH
    is_text: bool = False

    def __post_init__(self) -> None:
        self.trips = self.draft.schedule.analyses.get(likely_trips)

    def node(self, node: Node, outer: tuple[Band, ...]) -> None:
        match node:
            case Leaf():
                return
            case InOrder(filters=filters):
                for at, branch in enumerate(filters):
                    if not self._goes_along(branch.child):
                        self._mark_strips()
                        later = [other.child for other in filters[at + 1 :]]
                        if not self._goes_ahead(branch.child, later, outer):
                            self.node(branch.child, outer)
                self._mark_strips()
                if outer:
                    self._beside([branch.child for branch in filters], outer)
            case Band():
                self._band(node, outer)
                if not outer:
                    self._mark_strips()

    def _band(self, band: Band, outer: tuple[Band, ...]) -> None:
        if not self._is_open(band) or self._is_unrolled(band):
            return
        is_done = self._is_worth_it(band, outer) and (
            self._inside_few(band, outer)
            or self._alone(band)
            or (self._cuts_rows(band) and self._in_parts(band, outer))
            or self._outside(band)
            or self._gathered(band, outer)
            or self._in_parts(band, outer)
            or self._in_waves(band, outer)
            or self._parted(band, outer)
        )
        long = [other for other in outer if self._count(other) > _FEW]
        if not is_done and (len(long) < _MOST_SERIAL or self._count(band) <= _FEW):
            self.node(band.child, (*outer, band))
        if not is_done and not outer and not band.statements & self._shared():
            self._in_block_waves(band)

    def _beside(self, parts: Sequence[Node], outer: tuple[Band, ...]) -> None:
        """Short loops beside those that threads share.

        Threads meet after them in any case, and what one thread alone has written in them would
        have to come from its cache to those of the others.
        """
        shared = self._shared()
        alone = [x for x in parts if isinstance(x, Band) and not x.statements & shared]
        if len(alone) == len(parts) or not shared & frozenset().union(*map(_inside, parts)):
            return
        self.worth = _WORTH_BESIDE
        for part in alone:
            self._band(part, outer)
            self._mark_strips()
        self.worth = _WORTH

    def _shared(self) -> frozenset[str]:
        """The statements of loops that threads share."""
        schedule = self.draft.schedule
        marked = (b for b in bands(nodes_of(schedule)) if schedule.mark(b.loop) is Mark.PARALLEL)
        return frozenset().union(*(band.statements for band in marked))

    # -- ways -------------------------------------------------------------------------------------

    def _inside_few(self, band: Band, outer: tuple[Band, ...]) -> bool:
        """Loops inside one of so few iterations that they leave threads without work.

        Taken where all that is inside goes to threads: of three planes one thread of two has two.
        """
        count, threads = self._count(band), max(2, self.machine.cores)
        rounds = math.ceil(count / threads)
        if not 1 < count <= _FEW or rounds * threads <= _IDLE * count:
            return False
        before = self.draft.schedule, list(self.draft.steps)
        self.node(band.child, (*outer, band))
        self._mark_strips()
        if band.statements <= self._shared():
            return True
        self.draft.schedule, self.draft.steps = before
        return False

    def _alone(self, band: Band) -> bool:
        """The loop itself, or strips of it where it is to keep its vectors and may be cut."""
        if self.draft.reach(Parallel(band.loop)) is not None:
            copies: Sequence[Step] = ()
        else:
            copies = self.draft.copies(band)
            if not copies or self.draft.reach(*copies, Parallel(band.loop)) is None:
                return False
        if not self._is_innermost(band) or band.loop in fixed_loops(self.draft.schedule):
            return self.draft.take(*copies, Parallel(band.loop))
        if self._count(band) < 2 * _STRIP:
            return False
        cut = StripMine(band.loop, self._strip(band))
        return self.draft.take(*copies, cut, self._share(self._new_loop(*copies, cut)))

    def _outside(self, band: Band) -> bool:
        """A loop further inside, moved around the others, in strips if it is an innermost one."""
        run = self._nested(band)
        for at, inner in enumerate(run[1:], 1):
            around = tuple(other.loop for other in run[:at])
            if not self._is_innermost(inner):
                size, parts = self._strip(inner), _PARTS * max(2, self.machine.cores)
                if take_moved(self.draft, self.machine, inner.loop, around, size, parts):
                    return True
                continue
            if self._count(inner) < 2 * _STRIP:
                continue
            loop, steps = self._strips(inner, around)
            share = self._share(loop)
            if self.draft.reach(*steps, share) is None:
                steps = (*self.draft.copies(inner), *steps)
            if self.draft.reach(*steps, share) is not None:
                self.draft.take(*steps)
                self.strips = share
                return True
        return False

    def _gathered(self, band: Band, outer: tuple[Band, ...]) -> bool:
        """Strips of the elements that the loop and a long one inside scatter into, or of rows."""
        run = self._nested(band)
        inside = [(x, self._count(x) >= 2 * _STRIP) for x in run[1:]]
        return not outer and take_gathered_strips(self.draft, self.machine, band, inside)

    def _goes_along(self, node: Node) -> bool:
        """Whether a nest is taken in the strips of the one before it.

        Its data then stay with their thread, and threads meet once after both.
        """
        if self.strips is None or not isinstance(node, Band):
            return False
        run = self._nested(node)
        if not run or not self._is_innermost(run[-1]):
            return False
        loop, steps = self._strips(run[-1], tuple(other.loop for other in run[:-1]))
        together = (*steps, Fuse(self.strips.loop, loop))
        if self.draft.reach(*together, self.strips) is None:
            together = (*self.draft.copies(run[-1]), *together)
        if self.draft.reach(*together, self.strips) is None:
            return False
        return self.draft.take(*together)

    def _goes_ahead(self, node: Node, later: Sequence[Node], outer: tuple[Band, ...]) -> bool:
        """Whether strips of a single loop inside others are taken, for the next nest to go along.

        Alone it may not be worth meeting for; a loop that one thread runs costs a meeting, too.
        """
        if not outer or not isinstance(node, Band) or self._is_worth_it(node, outer):
            return False
        following = next(iter(later), None)
        if not isinstance(following, Band) or not self._is_worth_it(following, outer):
            return False
        is_cut = self._is_innermost(node) and bool(self._nested(node))
        if not is_cut or self._count(node) < 2 * _STRIP:
            return False
        loop, steps = self._strips(node, ())
        share = self._share(loop)
        if self.draft.reach(*steps, share) is None:
            return False
        before = self.draft.schedule, list(self.draft.steps)
        self.draft.take(*steps)
        self.strips = share
        alone = self.draft.schedule, list(self.draft.steps)
        is_together = self._goes_along(following)
        self.draft.schedule, self.draft.steps = alone if is_together else before
        self.strips = share if is_together else None
        return is_together

    def _mark_strips(self) -> None:
        """Give the strips made last to threads, now that nothing else goes along with them."""
        if self.strips is not None:
            self.draft.take(self.strips)
            self.strips = None

    def _strips(self, band: Band, around: tuple[str, ...]) -> tuple[str, tuple[Step, ...]]:
        """The loop over strips of a loop, and steps that move it around others."""
        cut = StripMine(band.loop, self._strip(band))
        loop = self._new_loop(cut)
        return loop, (cut, Interchange((loop, *around))) if around else (cut,)

    def _strip(self, band: Band) -> int:
        """Iterations that stay together: whole lines of all that a loop writes."""
        program = self.draft.schedule.program
        written = [program.statement(name).write.dtype.bytes for name in band.statements]
        line = self.machine.cache(1).line // min(written)
        if self._is_known(band) and self._count(band) >= _FEW_STRIPS * _STRIP:
            return max(_STRIP, line)
        if self._count(band) >= _FEW_LINES * line:
            return line
        return min(_STRIP, self.machine.cache(1).line // max(written))

    def _share(self, loop: str) -> ParallelChunks:
        return ParallelChunks(loop, _PARTS * max(2, self.machine.cores))

    def _in_parts(self, band: Band, outer: tuple[Band, ...]) -> bool:
        """The loop with sums of its own for every block of iterations."""
        if self._is_innermost(band):
            return False
        program = self.draft.schedule.program
        moved = moved_by(band, program)
        known = self.draft.schedule.analyses.get(reductions)
        found = [r for r in known if r.statement in band.statements]
        found = [r for r in found if r.is_reorderable and moved.get(r.statement) in r.loops]
        if not found or any(_follows(r, moved[r.statement]) for r in found):
            return False
        copies = self.draft.copies(band)
        own = {step.array for step in copies} | {name for name, _ in self.draft.schedule.private}
        gathered = {r.element.array: r for r in found if r.element.array not in own}
        if not gathered or any(self._extent(r, outer) > 1 for r in gathered.values()):
            return False
        # Tiles in waves need no copies and no second pass over them (measured, ranks by counting).
        writing = [program.statement(name).write.array for name in band.statements]
        is_shared = any(writing.count(array) > 1 for array in gathered)
        if (copies or is_shared) and self._in_waves(band, outer):
            return True
        size = self._even_block(band)
        sums = [PartialSums(r.statement, moved[r.statement], size) for r in gathered.values()]
        cut = StripMine(band.loop, size)
        if self.draft.reach(*copies, *sums, cut) is None:
            return False
        steps = (*copies, *sums, cut)
        return self.draft.take(*steps, Parallel(self._new_loop(*steps)))

    def _parted(self, band: Band, outer: tuple[Band, ...]) -> bool:
        """The part of the loop that is independent, in strips that pay for meeting after each."""
        count = self._count(band)
        is_known = self._is_known(band)
        size = strip_size(self.draft, self.machine, band, self.trips, is_known=is_known)
        once = self._work(band, outer) / max(1.0, count)
        if once * min(size, count) < _WORTH * self._barrier():
            return False
        cut = size if count > 2 * size else 0
        # A loop whose length nobody knows may be longer than is likely, and its rows shorter.
        longest = 0 if is_known else _LONG_STRIP
        if not part_off(
            self.draft, self.machine, band, lambda names: self._work_of(names, outer), cut, longest
        ):
            return False
        self._share_rest(band.statements, outer, min(1.0, (cut or _LONG_STRIP) / count))
        return True

    def _share_rest(self, names: frozenset[str], outer: tuple[Band, ...], part: float) -> None:
        """Columns of the loop that is left of a parted one, behind which threads meet anyway.

        It gathers in order along its iterations, often sums for each column; `part` of them run
        between two meetings.
        """
        rest = names - self._shared()
        found = (b for b in bands(nodes_of(self.draft.schedule)) if b.statements <= rest)
        left = next(found, None)
        if left is None or not self._is_open(left) or self._is_unrolled(left):
            return
        run = self._nested(left)
        is_worth_it = part * self._work(left, outer) >= _WORTH * self._barrier()
        if is_worth_it and len(run) > 1 and self._is_innermost(run[-1]):
            cut = StripMine(run[-1].loop, _WIDE)
            loop = self._new_loop(cut)
            around = (other.loop for other in run[:-1])
            self.draft.take(cut, Interchange((loop, *around)), self._share(loop))

    def _extent(self, found: Reduction, outer: tuple[Band, ...]) -> int:
        """Dimensions of the elements that a reduction gathers while loops around stand still."""
        program = self.draft.schedule.program
        still = {Var(moved_by(other, program).get(found.statement, "")) for other in outer}
        return sum(entry not in still for entry in found.element.index)

    def _cuts_rows(self, band: Band) -> bool:
        """Whether strips of the innermost loop would part rows that are written.

        Two cores that write to the same rows fetch each other's lines ahead (measured, N1: a matrix
        updated in two halves by columns takes as long as by one core, by rows half of it).
        """
        program = self.draft.schedule.program
        inner = [b for b in bands(band) if self._is_innermost(b) and not self._is_unrolled(b)]
        for other in inner:
            for name, iterator in moved_by(other, program).items():
                written = program.statement(name).write.index
                if len(written) > 1 and iterator in names(written[-1]):
                    return True
        return False

    def _in_waves(self, band: Band, outer: tuple[Band, ...]) -> bool:
        """Tiles of two loops that may be interchanged: those of one wave do not know each other.

        With T and U the numbers of tiles, instances depend on no larger T and no larger U, so that
        tiles of equal T + U are independent.
        """
        run = self._nested(band)
        if outer:
            return False
        return any(self._waves_of(run, at) for at in range(1, len(run))) or self._parted_waves(band)

    def _in_block_waves(self, band: Band) -> None:
        """Blocks of the loop and an iterator of loops inside, which need not be directly inside.

        The last resort: meeting in every iteration costs less where a loop inside has the work
        (measured, N1: RNA folding by spans takes 1.35 times as long in blocks).
        """
        count = self._count(band)
        if self._work(band, ()) >= count * _WORTH * self._barrier():
            take_block_waves(self.draft, band, count)

    def _parted_waves(self, band: Band) -> bool:
        """Waves of the loop inside a loop, parted from single statements beside it.

            for i: a[i, 0] = f(i); for j: a[i, j] = g(a[i - 1, j], a[i, j - 1])
        ->  for i: a[i, 0] = f(i)
            for i: for j: a[i, j] = g(a[i - 1, j], a[i, j - 1])      in waves

        By tiles a row of such a recurrence that comes from memory takes a sixth longer on one
        thread (measured, N1: summed areas); prices know (planner/plan_choice).
        """
        if not isinstance(band.child, InOrder) or not has_one_loop(band.child):
            return False
        before = self.draft.schedule, list(self.draft.steps)
        if self.draft.take(Distribute(band.loop)):
            for part in list(bands(nodes_of(self.draft.schedule))):
                is_part = part.statements < band.statements and isinstance(part.child, Band)
                if is_part and self._in_waves(part, ()):
                    return True
        self.draft.schedule, self.draft.steps = before
        return False

    def _waves_of(self, run: Sequence[Band], at: int) -> bool:
        """Tiles of the outermost loop and another one, with the loops between them inside."""
        first, second = run[0], run[at]
        if min(self._count(first), self._count(second)) < 4 * _STRIP or _are_strips(first, second):
            return False
        between = tuple(other.loop for other in run[1:at])
        near = [Interchange((second.loop, *between))] if between else []
        back = [Interchange((*between, second.loop))] if between else []
        height = self._tile(first)
        width = _MOST_TILE if between else self._row(second)
        width = max(height, width // height * height)
        strips = by_diagonals(self.draft, self.machine, first)
        if strips:
            height, width = ROWS, max(_STRIP_LENGTH, columns_of(self.machine))
        tile = Tile((first.loop, second.loop), (height, width))
        # Scalars tie the iterations of a recurrence together.
        copies = [step for step in strips if isinstance(step, Privatize)]
        after = self.draft.reach(*copies, *near, tile)
        if after is None:
            return False
        known = {other.loop for other in bands(nodes_of(self.draft.schedule))}
        root = nodes_of(after)
        rows, columns = (other for other in bands(root) if other.loop not in known)
        name = fresh_name(f"{rows.loop}_w", known | {rows.loop})
        wave = wavefront(rows, columns, name, factor=width // height)
        changed = map_bands(root, lambda other: wave if other.loop == rows.loop else other)
        order = Reschedule(tree_text(after.tree.get_domain(), changed))
        steps = (*copies, *near, tile, order, *back, Parallel(rows.loop))
        beside: Sequence[Step] = ()
        if self.is_text and not strips and not between:
            beside = rows_beside(self.draft.schedule, self.machine, first)
        return self.draft.take(*steps, *beside) or self.draft.take(*steps)

    # -- numbers ----------------------------------------------------------------------------------

    def _is_worth_it(self, band: Band, outer: tuple[Band, ...]) -> bool:
        return not outer or self._work(band, outer) >= self.worth * self._barrier()

    def _work(self, band: Band, outer: tuple[Band, ...]) -> float:
        """About how many cycles one run of a loop takes, one for each instance of a statement.

        Accesses that walk from line to line cost more.
        """
        return self._work_of(band.statements, outer)

    def _work_of(self, names: frozenset[str], outer: tuple[Band, ...]) -> float:
        program = self.draft.schedule.program
        fixed = [moved_by(other, program) for other in outer]
        total = 0.0
        for name in names:
            known = {found.get(name) for found in fixed}
            inside = {x: n for x, n in self.trips.get(name, {}).items() if x not in known}
            instances = math.prod(inside.values())
            walks = references(program.statement(name))
            lines = (walk.lines(inside, self.machine.cache(1).line) for walk in walks)
            total += instances + _LINE * sum(n for n in lines if n >= instances > 1)
        return total

    def _barrier(self) -> float:
        return self.machine.parallel_cost.cycles(max(2, self.machine.cores))

    def _block(self, band: Band, least: int = _LEAST_BLOCK) -> int:
        """Iterations that share a sum: a power of two, so that smaller blocks fit into it."""
        share = self._count(band) / (_BLOCKS * max(2, self.machine.cores))
        return max(least, 1 << max(0, math.floor(math.log2(max(1.0, share)))))

    def _fewest(self, band: Band) -> int:
        """The fewest iterations that are worth a sum of their own."""
        work = max(1.0, self._work(band, (band,)))
        return max(
            _UNIT, min(_LEAST_BLOCK, 1 << math.ceil(math.log2(max(1.0, _LEAST_WORK / work))))
        )

    def _even_block(self, band: Band) -> int:
        """As `_block`, up to twice as much, so that threads get the same, in few blocks."""
        count, threads = self._count(band), max(2, self.machine.cores)
        least = self._block(band, self._fewest(band))
        if not self._is_known(band):
            return min(least, _MOST_BLOCK)

        def most(size: int) -> float:
            """Iterations of the thread that gets the most."""
            return size * math.ceil(math.ceil(count / size) / threads)

        return min(range(least, 2 * least, _UNIT), key=lambda size: (most(size), -size))

    def _is_known(self, band: Band) -> bool:
        """Whether the number of iterations of a loop does not depend on parameters."""
        domains = [self.draft.schedule.program.statement(name).domain for name in band.statements]
        params = isl.dim_type.param
        return not any(d.involves_dims(params, 0, d.dim(params)) for d in domains)

    def _count(self, band: Band) -> float:
        """Iterations of a loop at likely sizes."""
        return band_trips(band, self.draft.schedule.program, self.trips)

    def _tile(self, band: Band) -> int:
        """Iterations of a tile: few enough for all threads to have several on most waves."""
        return min(_MOST_TILE, max(_STRIP, self._block(band) // 2))

    def _row(self, band: Band) -> int:
        """Iterations of the inner loop of a tile: of an innermost one, long rows start seldom.

        They are as long as leaves all threads several tiles on most waves.
        """
        if not self._is_innermost(band):
            return self._tile(band)
        share = self._count(band) / (_PER_WAVE * max(2, self.machine.cores))
        longest = min(_MOST_ROW, _STRIP * math.floor(share / _STRIP))
        return max(self._tile(band), longest)

    def _new_loop(self, *steps: Step) -> str:
        """The loop that a cut makes."""
        loop = self.draft.loop_made(*steps)
        assert loop is not None, "a loop cut into strips keeps its order"
        return loop

    def _nested(self, band: Band) -> list[Band]:
        """`band` and the loops directly inside each other below it that steps may move.

        Loops of contractions, copies of unrolled ones, and outer loops in vectors with all inside
        them belong to what was planned before.
        """
        opened = {other.loop for other in open_bands(self.draft.schedule)}
        opened -= fixed_loops(self.draft.schedule)
        run = takewhile(lambda inner: inner.loop in opened, perfect_nest(band))
        return [inner for inner in run if not self._is_unrolled(inner)]

    def _is_open(self, band: Band) -> bool:
        return any(other.loop == band.loop for other in open_bands(self.draft.schedule))

    def _is_unrolled(self, band: Band) -> bool:
        return self.draft.schedule.mark(band.loop) is Mark.UNROLL

    def _is_innermost(self, band: Band) -> bool:
        """Whether a loop holds no loops but unrolled ones, and short ones that will be.

        Strips of the outermost loop need no vectors: threads share it as it is.
        """
        if all(self._is_unrolled(inner) for inner in bands(band.child)):
            return True
        if band.loop not in self.short:
            path = path_to(nodes_of(self.draft.schedule), band.loop)
            is_long = self._count(band) >= 2 * _STRIP
            self.short[band.loop] = is_long and bool(unrolled_inside(self.draft, path))
        return self.short[band.loop]


def _follows(found: Reduction, iterator: str) -> bool:
    """Whether a loop moves the element that a reduction gathers into.

    Each iteration gathers a few of all elements then, of which every block would have a copy.
    """
    return any(iterator in names(entry) for entry in found.element.index)


def _inside(node: Node) -> frozenset[str]:
    """The statements of the loops of a subtree."""
    return frozenset().union(*(band.statements for band in bands(node)))


def _are_strips(first: Band, second: Band) -> bool:
    """Whether a loop goes through strips of another one: of one loop there are no waves."""
    inner = loop_steps(second)
    return all(
        set(inner[name].positions) <= set(step.positions)
        for name, step in loop_steps(first).items()
        if name in inner
    )
