"""A plan for any affine program: another order where the model promises more speed, then marks.

1. local scalars are split and spread as far as their values allow
2. for the program without those false dependences a tree is searched (loop_plans/affine_order),
   and outer loops are unrolled into inner ones
3. scalars keep the fewest copies with which that order is legal
4. loops are marked parallel (loop_plans/affine_parallel) and simd, elements are kept in registers
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any

from loopwright.analysis.size_estimates import likely_trips, references
from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.ir.program import Program, Role
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Filter,
    Node,
    bands,
    directions,
    in_sequence,
    moved_by,
    nodes_of,
    path_to,
    perfect_nest,
    sequence,
    statements_in,
)
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.lazy_dataclass import dataclass
from loopwright.planner.cost.affine_cost import CostModel
from loopwright.planner.cost.expanded_bytes import BufferShare, Spread, unique
from loopwright.planner.cost.schedule_cost import schedule_seconds
from loopwright.planner.draft import Draft
from loopwright.planner.loop_plans.affine_order import OrderSearch
from loopwright.planner.loop_plans.affine_parallel import mark_parallel
from loopwright.planner.loop_plans.far_strips import split_by_distances
from loopwright.planner.loop_plans.jammed_loops import jam_loops, total_of_nests
from loopwright.planner.loop_plans.outer_lanes import offers_lanes, take_outer_vectors
from loopwright.planner.loop_plans.pivots import split_at_pivots
from loopwright.planner.loop_plans.register_jams import register_jams
from loopwright.planner.loop_plans.short_loops import is_brief, unroll_short_loops
from loopwright.planner.loop_plans.wavefronts import part_wavefronts, take_diagonals
from loopwright.transform.apply import apply_step
from loopwright.transform.loop_marks import Simd
from loopwright.transform.outer_vectors import runs_alike
from loopwright.transform.register_promotion import PromoteToRegisters
from loopwright.transform.reschedule import Reschedule, tree_text
from loopwright.transform.scalar_expansion import (
    ExpandScalar,
    SplitLiveRanges,
    expandable_loops,
    fewest_expanded_loops,
)
from loopwright.transform.schedule_legality import accessors, open_bands, validity_dependences
from loopwright.transform.step import Step
from loopwright.transform.tiling import Tile

__all__ = [
    "mark_simd",
    "plan_marks",
    "plan_order",
    "promote_to_registers",
    "tile_columns",
]


Pairs = Any  # isl.UnionMap, { S[i] -> T[j] }
_CLEARLY = 0.95  # of the time that the source order takes: an order with buffers must be faster

# Statements of programs whose outer loops are tried in vectors after other orders: the proofs take
# isl's time. Of more statements lanes are tried first, and only where a nest shares a condition.
_MOST_STATEMENTS = 20


def plan_marks(
    schedule: Schedule, machine: Machine, *, parallel: bool, text: bool = False
) -> tuple[Step, ...]:
    """Marks for the loops of `schedule`, in the order they stand in; `text`: for C compilers."""
    draft = Draft(schedule)
    _part_scalars(draft)
    if machine.vector_registers:
        split_at_pivots(draft, parallel=parallel)
        if not text:
            split_by_distances(draft)
        unroll_short_loops(draft, parallel=parallel)
    if parallel:
        mark_parallel(draft, machine, text=text)
        if machine.vector_registers:
            unroll_short_loops(draft, parallel=False)  # in the strips that threads have been given
    else:
        tile_columns(draft)  # threads get tiles in waves
    if machine.vector_registers:
        take_diagonals(draft, machine)
        mark_simd(draft)
    promote_to_registers(draft)
    return tuple(draft.steps)


def _part_scalars(draft: Draft) -> None:
    """A scalar of its own for every loop that uses one name for values of its own.

    Copies for the iterations of one loop would else have to serve the other loops as well.
    """
    innermost = [b for b in bands(nodes_of(draft.schedule)) if not any(bands(b.child))]
    for split in SplitLiveRanges.candidates(draft.schedule):
        users = accessors(draft.schedule.analyses, split.array)
        if not any(users <= band.statements for band in innermost):
            draft.take(split)


def plan_order(
    schedule: Schedule, machine: Machine, *, parallel: bool, text: bool = False
) -> tuple[Step, ...]:
    """Steps to a better order of the loops left open; none when the order they have is good.

    Scalars may be spread over all loops at first. Where an order asks for buffers that take more
    than their share of the caches (cost/expanded_bytes), it is searched again with every scalar
    spread over inner loops only, as far as that share goes, and at last with none spread.
    Recurrences that run by diagonals keep their order, and so do loops that are split at pivots or
    by their distances. `text`: for C compilers, which ask for distances by themselves.
    """
    draft = Draft(schedule)
    kept: frozenset[str] = frozenset()
    if machine.vector_registers:
        kept = part_wavefronts(draft, machine) | split_at_pivots(draft, parallel=parallel)
        kept |= frozenset() if text else split_by_distances(draft)
    order = _other_order(draft.schedule, machine, kept, parallel=parallel, text=text)
    return (*draft.steps, *order)


def _other_order(
    schedule: Schedule, machine: Machine, kept: frozenset[str], *, parallel: bool, text: bool
) -> tuple[Step, ...]:
    """Steps to a better order of all statements but those of `kept`."""
    taken = _taken(schedule) | kept
    splits: list[Step] = []
    private = dict(schedule.private)
    for split in SplitLiveRanges.candidates(schedule):
        if split.array not in private and not accessors(schedule.analyses, split.array) & taken:
            schedule = apply_step(schedule, split)
            splits.append(split)
    most: dict[str, tuple[str, ...]] = {}
    scalars = [a.name for a in schedule.program.arrays if a.role is Role.LOCAL and not a.rank]
    for name in scalars:
        loops = () if name in private else expandable_loops(schedule.analyses, name)
        if loops and not accessors(schedule.analyses, name) & taken:
            most[name] = loops
    share = BufferShare(schedule.program, machine)
    lanes_of = partial(
        _outer_vectors, schedule, machine, most, share, taken, parallel=parallel, text=text
    )

    def with_others(lanes: tuple[Step, ...], own: frozenset[str]) -> tuple[Step, ...]:
        """Lanes beside another order of the other nests, where the price of both is not higher."""
        left = {name: x for name, x in most.items() if not _users(schedule, name) & own}
        others = _best_spread(schedule, machine, left, share, taken | own)[0]
        both = (*others, *lanes)
        is_dear = bool(others) and _is_faster(schedule, machine, share.sizes, lanes, both)
        return lanes if is_dear else both

    is_small = len(schedule.program.statements) <= _MOST_STATEMENTS
    if offers_lanes(schedule, taken):
        # Of many statements the orders take isl longer than lanes of the order that stands there.
        lanes, own = lanes_of(is_free=False, is_ragged=False)
        if own:
            return (*splits, *with_others(lanes, own))
    steps, is_best = _best_spread(schedule, machine, most, share, taken)
    if not any(isinstance(step, Reschedule) for step in steps):
        steps = register_jams(schedule, machine, most, share, taken) or steps
    spreads = any(isinstance(step, ExpandScalar) for step in steps)
    is_other = bool(steps) and not spreads
    if is_small:
        # Vectors along outer loops keep scalars in registers, where another order spreads them.
        # An order that is the best of all, inside of a loop that runs in order, is kept (ludcmp).
        # Where it spreads nothing, its loops are whole: but for those with ends of their own.
        lanes, own = lanes_of(is_free=spreads and is_best, is_ragged=is_other)
        if own:
            found = with_others(lanes, own)
            if not is_other or _is_faster(schedule, machine, share.sizes, found, steps):
                steps = found
    return (*splits, *steps) if steps else ()


def _is_faster(
    schedule: Schedule,
    machine: Machine,
    sizes: dict[str, int],
    steps: tuple[Step, ...],
    than: tuple[Step, ...],
) -> bool:
    """Whether some steps are expected to be clearly better than others."""
    one, other = Draft(schedule), Draft(schedule)
    if not one.take(*steps) or not other.take(*than):
        return False
    price = partial(schedule_seconds, machine=machine, sizes=sizes)
    return price(one.schedule) < _CLEARLY * price(other.schedule)


def _users(schedule: Schedule, name: str) -> frozenset[str]:
    return accessors(schedule.analyses, name)


def _outer_vectors(
    schedule: Schedule,
    machine: Machine,
    most: Spread,
    share: BufferShare,
    taken: frozenset[str],
    *,
    is_free: bool,
    is_ragged: bool,
    parallel: bool,
    text: bool,
) -> tuple[tuple[Step, ...], frozenset[str]]:
    """Steps that take outer loops in vectors, and the statements inside of them.

    Where they are to be `is_free`, no loop around them carries a value; where `is_ragged`, loops
    inside of them have ranges of their own.
    """
    free = schedule
    for name, loops in most.items():
        free = apply_step(free, ExpandScalar(name, loops))
    pairs = free.analyses.derive(validity_dependences).all_
    draft = Draft(schedule)
    own = take_outer_vectors(
        draft,
        machine,
        share.sizes,
        pairs,
        taken,
        is_free=is_free,
        is_ragged=is_ragged,
        parallel=parallel,
        text=text,
    )
    return tuple(draft.steps), own


def _best_spread(
    schedule: Schedule,
    machine: Machine,
    most: Spread,
    share: BufferShare,
    taken: frozenset[str],
) -> tuple[tuple[Step, ...], bool]:
    """Steps to a better order, with the most loops for scalars that the caches have room for.

    And whether scalars had all the loops that they may be spread over.
    """
    for offered in unique((most, share.inner_loops(most), {})):
        steps = _spread_order(schedule, machine, offered, share, taken)
        if steps is not None:
            return steps, offered == most
    return (), False


def _spread_order(
    schedule: Schedule,
    machine: Machine,
    most: Spread,
    share: BufferShare,
    taken: frozenset[str],
) -> tuple[Step, ...] | None:
    """Steps to a better order with scalars spread over no loops but those of `most`.

    None where the buffers would be too large, or the time that they take is not worth it.
    """
    free = schedule
    for name, loops in most.items():
        free = apply_step(free, ExpandScalar(name, loops))
    order = _order(free, machine, share.sizes, taken, most)
    if not order.draft.steps:
        return ()
    tree = order.draft.schedule.tree
    needed = {
        name: fewest_expanded_loops(schedule.analyses, name, loops, tree)
        for name, loops in most.items()
    }
    needed = {name: loops for name, loops in needed.items() if loops}
    if not needed:
        return tuple(order.draft.steps)
    # What is used in one innermost loop alone ends in registers (lower/buffers).
    leaves = [b for b in bands(order.root) if not any(True for _ in bands(b.child))]
    passed_on = [
        name for name in needed if any(_users(schedule, name) <= band.statements for band in leaves)
    ]
    if not share.has_room({name: x for name, x in needed.items() if name not in passed_on}):
        return None
    spreads = tuple(ExpandScalar(name, loops) for name, loops in needed.items())
    spread = schedule
    for step in spreads:
        spread = apply_step(spread, step)
    # In the order of the source scalars stay in registers, and loops are as free as with copies.
    names = order.changed
    before = CostModel(schedule.analyses, machine, share.sizes)
    after = CostModel(spread.analyses, machine, share.sizes, passed_on)
    cost = total_of_nests(after, order.root, names, order.pairs, order.jams)
    if cost > _CLEARLY * total_of_nests(before, nodes_of(schedule), names, order.pairs):
        return None
    return (*spreads, *order.draft.steps)


def _taken(schedule: Schedule) -> frozenset[str]:
    """The statements that other planners have taken."""
    return frozenset(name for made in schedule.contractions for name in made.statements)


@dataclass(frozen=True, slots=True)
class _Order:
    """Another order for a program."""

    draft: Draft
    root: Node  # the tree before loops are unrolled into others
    pairs: Pairs  # of instances that stay in order
    jams: Mapping[str, int]  # loops that are unrolled into others, and how often
    changed: frozenset[str]  # statements of the nests that are not as they were


def _order(
    schedule: Schedule,
    machine: Machine,
    sizes: dict[str, int],
    taken: frozenset[str],
    spread: Collection[str],
) -> _Order:
    """Another order for a program whose scalars are spread."""
    program = schedule.program
    pairs = schedule.analyses.derive(validity_dependences).all_
    model = CostModel(schedule.analyses, machine, sizes, spread)
    search = OrderSearch(program, model)
    draft = Draft(schedule)
    root = nodes_of(schedule)
    parts: list[tuple[frozenset[str], Node]] = []
    is_better = False
    for names, node, is_open in _runs(schedule, model, root, taken):
        found = search.improved(names, model.known.among(pairs, names), node) if is_open else None
        is_better = is_better or found is not None
        parts.append((names, found or node))
    if is_better:
        whole = in_sequence(program, parts) if len(parts) > 1 else parts[0][1]
        draft.take(Reschedule(tree_text(schedule.tree.get_domain(), whole)))
    names = frozenset(s.name for s in program.statements) - taken
    root = nodes_of(draft.schedule)
    jams = jam_loops(draft, model, names, pairs)
    inside = (band.statements & names for band in bands(root) if band.loop in jams)
    changed = names if is_better else frozenset().union(*inside)
    return _Order(draft, root, pairs, jams, changed)


def _runs(
    schedule: Schedule, model: CostModel, root: Node, taken: frozenset[str]
) -> Iterator[tuple[frozenset[str], Node, bool]]:
    """Parts of the program that follow each other, and whether their order is open.

    Each with its statements. Loops that follow no iterator were made by other planners.
    """
    if not isinstance(root, InOrder):
        every = frozenset(s.name for s in schedule.program.statements)
        yield every, root, _is_open(root, every, taken, model)
        return
    run: list[Filter] = []
    for branch in (*root.filters, None):
        if branch is not None and _is_open(
            branch.child, statements_in(branch.instances), taken, model
        ):
            run.append(branch)
            continue
        if run:
            names = frozenset().union(*(statements_in(part.instances) for part in run))
            yield names, sequence(run), True
            run = []
        if branch is not None:
            yield statements_in(branch.instances), branch.child, False


def _is_open(node: Node, names: frozenset[str], taken: frozenset[str], model: CostModel) -> bool:
    if names & taken:
        return False
    return all(model.followed(band).keys() >= band.statements for band in bands(node))


# -- tiles for nests whose innermost loops walk down columns --------------------------------------


# Iterations of both loops of a tile; measured on nussinov (N1): 16 x 64, 32 x 32 and 64 x 64 are
# alike, a sixth faster than no tiles.
_TILE = 64
_LEAST = 4 * _TILE  # iterations of loops that are worth tiles


def tile_columns(draft: Draft) -> None:
    """Tile the two outermost loops of every nest that uses columns again and again."""
    program = draft.schedule.program
    covered: set[str] = set()
    for band in list(open_bands(draft.schedule)):
        if band.loop in covered:
            continue
        covered.update(inner.loop for inner in bands(band))
        run = perfect_nest(band)
        if len(run) == 2 and _walks_columns(program, *run):
            draft.take(Tile((run[0].loop, run[1].loop), (_TILE, _TILE)))


def _walks_columns(program: Program, outer: Band, inner: Band) -> bool:
    """Whether a loop inside two others walks down columns.

    They are neighbours for the outer loop, and the same ones for all iterations of the inner one.
    """
    trips = likely_trips(program)
    around = moved_by(outer, program), moved_by(inner, program)
    for band in bands(inner.child):
        if any(True for _ in bands(band.child)):
            continue
        for name, walking in moved_by(band, program).items():
            first, second = (found.get(name, "") for found in around)
            if min(trips[name].get(x, 0.0) for x in (first, second)) < _LEAST:
                continue
            for reference in references(program.statement(name)):
                steps = [abs(reference.stride(x)) for x in (walking, first, second)]
                if steps[0] > 1 and steps[1:] == [1, 0]:
                    return True
    return False


# -- marks for loops in their final order: independent iterations, elements in registers ----------


def mark_simd(draft: Draft) -> None:
    """Mark every innermost loop of independent iterations, but for those that have next to none."""
    inside = _in_outer_vectors(draft)
    for band in list(open_bands(draft.schedule)):
        is_left = band.loop in inside or is_brief(draft.schedule, band)
        if _is_innermost(draft, band) and not is_left:
            draft.take(*draft.copies(band), Simd(band.loop))


def _in_outer_vectors(draft: Draft) -> frozenset[str]:
    """The loops inside of those that are taken in vectors."""
    taken = {loop for loop, *_ in (*draft.schedule.outer_vectors, *draft.schedule.diagonals)}
    outer = [band for band in bands(nodes_of(draft.schedule)) if band.loop in taken]
    return frozenset(inner.loop for band in outer for inner in bands(band.child))


def _ragged(draft: Draft) -> frozenset[str]:
    """The loops inside of those taken in vectors whose ranges differ by lane.

    To keep an element is to ask whether a loop runs at all, which no branch does for all lanes.
    """
    taken = {loop for loop, *_ in draft.schedule.outer_vectors}
    outer = [band for band in bands(nodes_of(draft.schedule)) if band.loop in taken]
    outer = [band for band in outer if runs_alike(draft.schedule, band)]
    return frozenset(inner.loop for band in outer for inner in bands(band.child))


def _in_diagonals(draft: Draft) -> frozenset[str]:
    """The inner loops of those that are taken by diagonals: their elements are in buffers."""
    return frozenset(inner for _, inner, _, _ in draft.schedule.diagonals)


def promote_to_registers(
    draft: Draft, has_room: Callable[[Band, str], bool] = lambda band, statement: True
) -> None:
    """Promote to registers the elements that statements of innermost loops access alone.

    Those of a statement in a loop, as far as there is room for them.
    """
    inside, in_vectors = _in_diagonals(draft) | _ragged(draft), _in_outer_vectors(draft)
    for band in list(open_bands(draft.schedule)):
        if band.loop in inside:
            continue
        is_first_copy = _is_unrolled(draft, band) and not _is_unrolled(draft, _around(draft, band))
        if is_first_copy or _is_innermost(draft, band):
            for statement in sorted(band.statements):
                if band.loop in in_vectors and _writes_scalar(draft, statement):
                    continue  # lanes of a register already
                if _has_still(draft, band, statement) and has_room(band, statement):
                    draft.take(PromoteToRegisters(statement, band.loop))


def _writes_scalar(draft: Draft, name: str) -> bool:
    program = draft.schedule.program
    array = program.array(program.statement(name).write.array)
    return array.role is Role.LOCAL and not array.rank


def _has_still(draft: Draft, band: Band, name: str) -> bool:
    """Whether a statement touches elements again that backends cannot keep without our proof.

    Those it writes in several iterations, and those of arrays that are written in the loop.
    """
    program = draft.schedule.program
    written = {program.statement(other).write.array for other in band.statements}
    loops = [band, *(b for b in bands(band.child) if _is_unrolled(draft, b))]
    moving = [directions(loop).get(name) for loop in loops]
    iterators = program.statement(name).iterators
    for reference in references(program.statement(name)):
        if reference.array in written:
            strides = [reference.stride(iterators[at[0]]) for at in moving if at is not None]
            if 0 in strides or len(strides) < len(loops):
                return True
    return False


def _is_unrolled(draft: Draft, band: Band | None) -> bool:
    return band is not None and draft.schedule.mark(band.loop) is Mark.UNROLL


def _is_innermost(draft: Draft, band: Band) -> bool:
    """Whether a loop holds no loops but unrolled ones."""
    inner = bands(band.child)
    return not _is_unrolled(draft, band) and all(_is_unrolled(draft, other) for other in inner)


def _around(draft: Draft, band: Band) -> Band | None:
    """The loop that stands directly around another one."""
    path = path_to(nodes_of(draft.schedule), band.loop)
    return path[-2] if len(path) > 1 else None
