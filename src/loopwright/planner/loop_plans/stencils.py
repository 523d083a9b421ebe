"""Time tiling: programs that pass over large arrays again and again take several passes at once.

A loop of passes (time) whose rows depend on neighbouring rows only is skewed (`transform/skew`):
a wave rolls over the rows and takes `block` passes along, so that memory is read once for all of
them. The block is as large as the rows in use fit into a cache near to the core. Waves are two rows
wide: rows side by side share what they load. Threads share tiles of waves and passes
(`shared_waves`). Where rows are recurrences, passes of one wave overlap. Where rows are single
elements, a wave has as many of them as fit into L1, in one loop.
"""

from __future__ import annotations

from dataclasses import replace

from loopwright.analysis.dependences import known_dependences
from loopwright.analysis.size_estimates import (
    all_row_bytes,
    band_trips,
    bytes_of,
    likely_sizes,
    likely_trips,
)
from loopwright.diagnostics import IllegalStep
from loopwright.ir.expr import Binary, Expr, Var
from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program, Role, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    bands,
    directions,
    moved_by,
    nodes_of,
    path_to,
    perfect_nest,
)
from loopwright.ir.visit import names, walk
from loopwright.planner.cost.streams import crowding
from loopwright.planner.draft import Draft
from loopwright.planner.loop_plans.shared_waves import take_shared_waves
from loopwright.planner.loop_plans.vector_width import begins_at_lines, strip_of
from loopwright.planner.region_work import least_shared
from loopwright.transform.band_dependences import among, carries
from loopwright.transform.interchange import Interchange
from loopwright.transform.loop_marks import Align, Parallel, ShareFrom
from loopwright.transform.scalar_expansion import ExpandScalar, expandable_loops
from loopwright.transform.schedule_legality import open_bands
from loopwright.transform.skew import MOST_SIDE_BY_SIDE, Skew, parts_of, smallest_skew
from loopwright.transform.step import Step
from loopwright.transform.tiling import StripMine

__all__ = ["plan_alignment", "plan_stencils"]

_MOST_PASSES = 16  # beyond, the ramps at both ends of a wave cost more than is saved
_FEW_PASSES = 4  # fewer do not pay when the next cache would hold more
_MOST_STATEMENTS = 16  # of passes with scalars: what isl answers in time
_WIDTH = 2  # rows side by side; more gain nothing (measured, Neoverse N1)
# Passes that are in work at once where rows are recurrences: as many as hide their latency.
_CHAINS = 8
# Of elements that are worth it: among bytes the many iterations before the first whole vector, and
# loads between them, cost more (measured, N1: windows of bytes take 5% longer).
_LEAST_BITS = 32
_GAIN_OF_WHOLE_STORES = 0.08  # of the time of a loop that reads neighbours
# Of waves of elements that threads share: elements of a wave, passes of a block and of a tile. A
# tile takes some microseconds (measured, Sapphire Rapids: lattices of 12,000 and 17,000 prices).
_SHARED_WIDTH, _SHARED_PASSES, _PASSES_OF_TILE = 512, 64, 8
_EVEN = 64  # elements: waves of single elements are a multiple, for whole vectors and lines


def plan_stencils(schedule: Schedule, machine: Machine, *, parallel: bool) -> tuple[Step, ...]:
    """Steps that skew every outermost loop of passes over rows, if that pays."""
    draft = Draft(schedule)
    for loop in _element_loops(schedule):
        _take_element_waves(draft, machine, loop, parallel=parallel)
    for loop in _time_loops(schedule):
        is_taken = _take_waves(draft, machine, loop, parallel=parallel)
        if not is_taken:
            # Scalars of inner iterations tie all passes together, unless each has its own.
            trial = Draft(draft.schedule)
            band = path_to(nodes_of(trial.schedule), loop)[-1]
            copies = trial.copies(band) if len(band.statements) <= _MOST_STATEMENTS else []
            is_free = copies and trial.take(*copies)
            if is_free and _take_waves(trial, machine, loop, parallel=parallel):
                draft.take(*trial.steps)
    return tuple(draft.steps)


def _take_waves(draft: Draft, machine: Machine, loop: str, *, parallel: bool) -> bool:
    """Skew a loop of passes, if that pays."""
    # Rows that depend on each other within a pass cannot go side by side.
    for width in (_WIDTH, 1):
        match _passes(draft.schedule, machine, loop, width, parallel=parallel):
            case (Skew() as skew,) if parallel:
                if take_shared_waves(draft, skew):
                    return True
            case (_, *_) as found if draft.take(*found):
                return True
    return False


def _time_loops(schedule: Schedule) -> list[str]:
    """Outermost loops around rows of at least one more loop."""
    inner: set[str] = set()
    found = []
    for band in open_bands(schedule):
        if band.loop in inner:
            continue
        below = list(bands(band.child))
        inner.update(other.loop for other in below)
        has_rows = any(isinstance(other.child, Band) for other in below)
        if has_rows and _comes_again(schedule, band) and _hands_on(schedule, band):
            found.append(band.loop)
    return found


def _hands_on(schedule: Schedule, band: Band) -> bool:
    """Whether values go from one iteration of a loop to others: nothing else makes it one of time.

    Scalars of an iteration, though all iterations write them, hand nothing on.
    """
    flow = schedule.analyses.derive(known_dependences).flow
    return carries(among(flow, band.statements), band)


def _comes_again(schedule: Schedule, band: Band) -> bool:
    """Whether iterations of a loop write the same elements again, those of some array at least.

    A loop that moves on to other elements everywhere passes over each of them once.
    """
    program = schedule.program
    moving = moved_by(band, program)
    for name in band.statements:
        index = program.statement(name).write.index
        if not any(moving.get(name) in names(entry) and _is_plain(entry) for entry in index):
            return True
    return False


def _is_plain(entry: Expr) -> bool:
    """Whether a subscript is without remainders, which bring elements back."""
    return not any(isinstance(x, Binary) and x.op in ("mod", "floordiv") for x in walk(entry))


def _element_loops(schedule: Schedule) -> list[str]:
    """Outermost loops around loops that hold no others."""
    found: list[str] = []
    inner: set[str] = set()
    for band in open_bands(schedule):
        if band.loop in inner:
            continue
        below = list(bands(band.child))
        inner.update(other.loop for other in below)
        children = [part.child for part in parts_of(band)]
        is_flat = len(below) == len(children) and all(isinstance(x, Band) for x in children)
        if below and is_flat:
            found.append(band.loop)
    return found


def _take_element_waves(draft: Draft, machine: Machine, loop: str, *, parallel: bool) -> None:
    """Waves over passes of elements, where the arrays lie beyond the first cache.

    What a pass reads of elements behind its own is what the pass before has left (lattices of
    option prices), or rows are independent (jacobi-1d). Half as many elements as fit into L1 take
    all passes of a block before the next ones come (measured, Sapphire Rapids, arrays in L2: 1.2 to
    1.6 times as fast; Neoverse N1, jacobi-1d beyond L2: 1.1). Threads share independent rows pass
    by pass, and other waves in tiles.
    """
    program = draft.schedule.program
    arrays = [array for array in program.arrays if array.rank == 1]
    sizes = likely_sizes(program)
    if sum(bytes_of(array, sizes) for array in arrays) <= machine.cache(2).size:
        return
    trial = Draft(draft.schedule)
    band = path_to(nodes_of(trial.schedule), loop)[-1]
    is_free = _are_independent(trial.schedule, band)
    if not is_free:
        # Scalars of an iteration tie its row together, unless each element has its own.
        for array in program.arrays:
            if array.role is Role.LOCAL and not array.rank:
                rows = expandable_loops(trial.schedule.analyses, array.name)
                if rows:
                    trial.take(ExpandScalar(array.name, rows[-1:]))
        if not _hands_nothing_on(trial.schedule, path_to(nodes_of(trial.schedule), loop)[-1]):
            return
    skew = smallest_skew(trial.schedule, loop, 2 * _MOST_PASSES, apart=False)
    if skew is None or skew.slope == 0 or not all(skew.rows):
        return
    element = sum(array.dtype.bytes for array in arrays)
    width = machine.cache(1).size // 2 // element // _EVEN * _EVEN
    if width <= MOST_SIDE_BY_SIDE:
        return
    if not parallel:
        is_taken = trial.take(replace(skew, width=width))
    else:
        shared = replace(skew, width=min(width, _SHARED_WIDTH), block=_SHARED_PASSES)
        is_taken = not is_free and take_shared_waves(trial, shared, _PASSES_OF_TILE)
        if is_taken:
            outer = path_to(nodes_of(trial.schedule), loop)[0].loop
            # Tiles start together and end together: no margin is lost to late threads.
            trial.take(ShareFrom(outer, least_shared(trial.schedule, machine, margin=4)))
    if is_taken:
        draft.take(*trial.steps)


def _are_independent(schedule: Schedule, band: Band) -> bool:
    """Whether threads could share every row of a pass."""
    for row in bands(band.child):
        try:
            Parallel(row.loop).apply(schedule)
        except IllegalStep:
            return False
    return True


def _hands_nothing_on(schedule: Schedule, band: Band) -> bool:
    """Whether no element of a pass needs, or overwrites, what the same pass made of another one.

    Vectors read all that they need before they store.
    """
    known = schedule.analyses.derive(known_dependences)
    pairs = among(known.flow.union(known.output), band.statements)
    of_pass = pairs.eq_at_multi_union_pw_aff(band.partial)
    return not any(carries(among(of_pass, row.statements), row) for row in bands(band.child))


def _passes(
    schedule: Schedule, machine: Machine, loop: str, width: int, *, parallel: bool
) -> tuple[Step, ...]:
    """Waves over several passes of a loop, of at most `width` rows each."""
    skew = smallest_skew(schedule, loop, _MOST_PASSES, apart=False)
    if skew is None or skew.slope == 0:
        return ()
    chains = _is_recurrence(schedule, loop)
    is_wide = not chains and _shares_rows(schedule, loop)
    width = width if is_wide and not _crowds(schedule, machine, skew, width) else 1
    block = _near(schedule.program, machine, skew, width)
    if block < _FEW_PASSES:
        if parallel and not chains:
            return ()  # threads that share passes over memory gain more than by the last cache
        block = max(block, _far(schedule.program, machine, skew, width))
    if block < 2 or not _has_many_rows(schedule, skew, block):
        return ()
    if chains:
        apart = smallest_skew(schedule, loop, _even(block), apart=True, width=width)
        if apart is not None:
            return _side_by_side(schedule, apart, parallel=parallel)
    return (replace(skew, block=block, width=width),)


def _has_many_rows(schedule: Schedule, skew: Skew, block: int) -> bool:
    """Whether a pass has so many rows that a wave is longer than its ramps at both ends."""
    program = schedule.program
    trips = schedule.analyses.get(likely_trips)
    parts = parts_of(path_to(nodes_of(schedule), skew.loop)[-1])
    rows = [p.child for p, is_row in zip(parts, skew.rows, strict=True) if is_row]
    most = max(band_trips(row, program, trips) for row in rows if isinstance(row, Band))
    return most > skew.slope * block


def _even(block: int) -> int:
    """Passes that two threads share out evenly."""
    return block - block % 2


def _near(program: Program, machine: Machine, skew: Skew, width: int) -> int:
    """Passes whose rows fit into L2; 1 where whole arrays do."""
    arrays = [array for array in program.arrays if array.rank > 1]
    sizes = likely_sizes(program)
    if sum(bytes_of(array, sizes) for array in arrays) <= machine.cache(2).size:
        return 1
    return _fitting(program, skew, machine.cache(2).size * 3 // 4, width)


def _far(program: Program, machine: Machine, skew: Skew, width: int) -> int:
    """Passes whose rows fit into half of the last cache."""
    return _fitting(program, skew, machine.caches[-1].size // 2, width)


def _fitting(program: Program, skew: Skew, room: int, width: int) -> int:
    row = all_row_bytes(program)
    return min(_MOST_PASSES, (room // row - max(skew.shifts) - 1 - width) // skew.slope)


def _shares_rows(schedule: Schedule, loop: str) -> bool:
    """Whether statements read an array in several rows, which neighbouring rows read too."""
    band = path_to(nodes_of(schedule), loop)[-1]
    for name in band.statements:
        rows = {(a.array, a.index[0]) for a in schedule.program.statement(name).reads if a.index}
        if len(rows) > len({array for array, _ in rows}):
            return True
    return False


def _crowds(schedule: Schedule, machine: Machine, skew: Skew, width: int) -> bool:
    """Whether innermost loops go through too many rows at a time where rows run side by side."""
    program = schedule.program
    for part, is_row in zip(
        parts_of(path_to(nodes_of(schedule), skew.loop)[-1]), skew.rows, strict=True
    ):
        rows = part.child
        if not is_row or not isinstance(rows, Band):
            continue
        moving = moved_by(rows, program)
        copies = {name: {moving[name]: float(width)} for name in moving}
        for band in bands(rows):
            is_innermost = not any(True for _ in bands(band.child))
            if is_innermost and crowding(program, machine, band.statements, copies) > 1.0:
                return True
    return False


def _is_recurrence(schedule: Schedule, loop: str) -> bool:
    """Whether the loop's body is one nest whose innermost loop depends on itself."""
    band = path_to(nodes_of(schedule), loop)[-1]
    nest = perfect_nest(band)
    if any(True for _ in bands(nest[-1].child)):
        return False
    try:
        Parallel(nest[-1].loop).apply(schedule)
    except IllegalStep:
        return True
    return False


def _side_by_side(schedule: Schedule, skew: Skew, *, parallel: bool) -> tuple[Step, ...]:
    """Passes of a wave are independent: those of recurrences overlap in a core's pipelines."""
    loop = skew.loop
    inner = perfect_nest(path_to(nodes_of(schedule), loop)[-1])[2:]
    order = Interchange((*(band.loop for band in inner), loop))
    if not parallel:
        return skew, order
    share = max(2, min(_CHAINS, skew.block // 2))
    return skew, StripMine(loop, share), Parallel(f"{loop}_t_2"), order


def plan_alignment(schedule: Schedule, machine: Machine, *, parallel: bool) -> tuple[Step, ...]:
    """Let simd loops that read neighbours, or begin between vectors, store whole vectors.

    Some of their accesses lie across vectors in any case, or all of them by as much. Loads do so at
    little cost, stores not: jacobi-2d gains 8% (measured, Neoverse N1), a share of the trips /
    lanes vectors of a loop; blurs of seven rows that begin between vectors gain 15%. The iterations
    up to the first whole vector, lanes / 2 in the mean, run one by one. Vectors of more than 16
    bytes begin where arrays need not: loops of whole lines are cut by addresses (vector_width).
    """
    if begins_at_lines(machine):
        return ()
    steps: list[Step] = []
    program = schedule.program
    trips = schedule.analyses.get(likely_trips)
    for band in open_bands(schedule):
        if schedule.mark(band.loop) is not Mark.SIMD or band.loop in dict(schedule.factors):
            continue
        stores = [x for x in band.statements if program.statement(x).write.index]
        lanes = min((_lanes_beside(program, machine, band, x) for x in stores), default=0)
        count = min(band_trips(band, program, trips), strip_of(schedule, band))
        vectors = count / max(1, lanes)
        if lanes > 1 and _GAIN_OF_WHOLE_STORES * vectors > lanes / 2:
            steps.append(Align(band.loop, lanes))
    return tuple(steps)


def _lanes_beside(program: Program, machine: Machine, band: Band, name: str) -> int:
    """The lanes of a statement that writes along a loop across vectors; else 0.

    Because it reads neighbours along it, or begins between two vectors.
    """
    statement = program.statement(name)
    along = directions(band).get(name)
    if along is None or along[1] != 1 or statement.write.dtype.bits < _LEAST_BITS:
        return 0
    iterator = statement.iterators[along[0]]
    *outer, last = statement.write.index
    if last != Var(iterator) or any(iterator in names(index) for index in outer):
        return 0
    places: dict[str, set[Expr]] = {}
    for access in statement.reads:
        if access.index and iterator in names(access.index[-1]):
            places.setdefault(access.array, set()).add(access.index[-1])
    lanes = machine.lanes(statement.write.dtype.bits)
    if max(map(len, places.values()), default=0) < 2 and not _starts_between(
        statement, along[0], lanes
    ):
        return 0
    return lanes


def _starts_between(statement: Statement, at: int, lanes: int) -> bool:
    """Whether the first iteration of a loop lies between two vectors of a row.

    All accesses then lie across vectors where rows begin with whole ones.
    """
    first = statement.domain.dim_min_val(at)
    return bool(first.is_int()) and first.to_python() % max(1, lanes) != 0
