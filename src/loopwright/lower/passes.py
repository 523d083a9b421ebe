"""Schedule -> LoopNest: isl's loops, then the passes of PASSES in order.

A pass is a pure function LoopNest -> LoopNest; its docstring shows the rewrite. Under
LOOPWRIGHT_CHECK=1 the nest is checked after each pass, and LOOPWRIGHT_DUMP=loops:PASS prints it
after the pass of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

from loopwright import options
from loopwright.diagnostics import InternalError, UsageError
from loopwright.ir.check import SeenLoops, check_nest
from loopwright.ir.closure import GridClosure
from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.gpu_machine import MOST_BLOCKS
from loopwright.ir.loops import Block, Copy, For, Let, LoopNest, Mark, MeshBroadcast, Stmt
from loopwright.ir.program import Array
from loopwright.ir.schedule import (
    DroppedCopy,
    JoinedReduction,
    Schedule,
    ScheduledContraction,
    StagedArray,
)
from loopwright.ir.text import nest_text
from loopwright.ir.visit import constant_trips, rebuild, substitute
from loopwright.lazy_dataclass import dataclass
from loopwright.log import dump
from loopwright.lower.absorb_zeros import absorb_zeros
from loopwright.lower.astgen import GeneratedLoops, generate_loops
from loopwright.lower.contraction_nests.contraction_kernel import kernel_of, lower_contraction
from loopwright.lower.contraction_nests.contraction_nest import insert_contractions
from loopwright.lower.contraction_nests.panels_ahead import panels_ahead
from loopwright.lower.drop_copies import drop_copies
from loopwright.lower.grid_nests.grid_closure import lower_grid_closure
from loopwright.lower.grid_nests.grid_time_tiles import lower_grid_time_tiles
from loopwright.lower.grid_nests.map_to_grid import map_to_grid
from loopwright.lower.grid_nests.stage_arrays import stage_arrays
from loopwright.lower.hoist_copies import hoist_copies
from loopwright.lower.insert_prefetches import insert_prefetches
from loopwright.lower.mesh_nests.keep_own_parts import keep_own_parts
from loopwright.lower.mesh_nests.map_to_mesh import COLUMN, ROW, is_mapped_to_mesh, map_to_mesh
from loopwright.lower.mesh_nests.overlap_boxes import overlap_boxes
from loopwright.lower.mesh_nests.register_tiles import register_tiles
from loopwright.lower.mesh_nests.scale_parts import scale_parts
from loopwright.lower.mesh_nests.transpose_parts import transpose_parts
from loopwright.lower.short_regions import enough_work, share_where_worth
from loopwright.lower.simplify import simplify, simplify_divisions
from loopwright.lower.skip_idle_loops import skip_idle_loops
from loopwright.lower.tiles.diagonal_strips import diagonals
from loopwright.lower.tiles.lower_closure import lower_closure
from loopwright.lower.tiles.lower_time_tiles import lower_time_tiles
from loopwright.lower.tiles.separate_full_tiles import separate_full_tiles
from loopwright.lower.tiles.stream_time_tiles import stream_time_tiles
from loopwright.lower.tiles.whole_strips import whole_strips
from loopwright.lower.values.mirrored_updates import update_in_pairs
from loopwright.lower.values.name_compared import name_compared
from loopwright.lower.values.narrow_selections import narrow_selections
from loopwright.lower.values.predictive_commoning import predictive_commoning
from loopwright.lower.values.promote_registers import promote_registers, promote_scalars
from loopwright.lower.vectorize import peel_for_alignment, unroll, vectorize
from loopwright.lower.vectorize_outer import vectorize_outer
from loopwright.lower.work_distribution import (
    balance_triangles,
    coarsen_parallel_loops,
    lower_to_spmd,
)
from loopwright.time_limit import require_time

__all__ = [
    "PASSES",
    "LoopDecisions",
    "Pass",
    "lower_plainly",
    "lower_schedule",
    "nest_before",
    "run_passes",
]


@dataclass(frozen=True, slots=True)
class LoopDecisions:
    """What a Schedule has decided about the loops of its nest; loops are named by variable."""

    factors: Mapping[str, int] = field(default_factory=dict)  # lanes, copies or chunks of a loop
    # Lanes and copies of outer loops that are taken in vectors.
    outer: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    # Of loops taken in strips of rows: the loop inside, the rows and the diagonals of a block.
    diagonals: Mapping[str, tuple[str, int, int]] = field(default_factory=dict)
    promoted: Sequence[tuple[str, str]] = ()  # (statement, loop): its elements live in registers
    prefetch_distances: Mapping[str, int] = field(default_factory=dict)  # in iterations
    # Of loops with parallel ones inside: whether threads share those.
    worth: Mapping[str, Expr] = field(default_factory=dict)
    arrays: Sequence[Array] = ()  # of the program
    joined: Sequence[JoinedReduction] = ()  # over variables of the nest
    staged: Sequence[StagedArray] = ()  # over variables of the nest
    mesh: tuple[int, int] | None = None  # rows and columns of cores
    in_place: Sequence[DroppedCopy] = ()  # copies that cores do without
    rings: Sequence[str] = ()  # memory of two boxes of a mapped loop
    # What stands for a contraction in the nest, until it is inserted.
    contractions: Mapping[str, ScheduledContraction] = field(default_factory=dict)

    @classmethod
    def of(cls, schedule: Schedule, loops: GeneratedLoops) -> LoopDecisions:
        """The decisions of a schedule; those about loops that isl has left out have no effect."""
        names = loops.variables
        return cls(
            factors={names[loop]: factor for loop, factor in schedule.factors if loop in names},
            outer={names[x]: (n, c) for x, n, c in schedule.outer_vectors if x in names},
            diagonals={
                names[x]: (names[y], rows, columns)
                for x, y, rows, columns in schedule.diagonals
                if x in names and y in names
            },
            promoted=[(name, names[loop]) for name, loop in schedule.promoted if loop in names],
            prefetch_distances={names[loop]: n for loop, n in schedule.prefetched if loop in names},
            worth=enough_work(
                loops.nest, {names[loop]: n for loop, n in schedule.shared_from if loop in names}
            ),
            arrays=schedule.program.arrays,
            staged=[_renamed(one, names) for one in schedule.staged if one.loop in names],
            mesh=schedule.mesh,
            in_place=schedule.in_place,
            rings=loops.rings,
            joined=[_joined(one, names) for one in schedule.joined if one.lanes in names],
            contractions=loops.contractions,
        )


def _renamed(staged: StagedArray, names: Mapping[str, str]) -> StagedArray:
    """What is staged, with the variables of the nest for the loops of the schedule."""
    values: dict[str, Expr] = {
        name: Var(names[loop]) for name, loop in staged.variables if loop in names
    }
    lower = tuple(substitute(low, values) for low in staged.lower)
    return replace(staged, loop=names[staged.loop], lower=lower)


def _joined(joined: JoinedReduction, names: Mapping[str, str]) -> JoinedReduction:
    """A reduction that threads join, with the variables of the nest for loops of the schedule.

    A loop that isl has left out has one iteration, so that the lanes gather by themselves.
    """
    values: dict[str, Expr] = {
        name: Var(names[loop]) for name, loop in joined.variables if loop in names
    }
    lanes = names[joined.lanes]
    element = tuple(substitute(entry, values) for entry in joined.element)
    return replace(joined, loop=names.get(joined.loop, lanes), lanes=lanes, element=element)


@dataclass(frozen=True, slots=True)
class Pass:
    """A rewrite of nests, and which of the schedule's decisions it carries out."""

    rewrite: Callable[..., LoopNest]  # of the nest and the arguments
    arguments: Callable[[LoopDecisions], tuple[object, ...]] = lambda decisions: ()
    is_needed: Callable[[LoopDecisions], bool] = lambda decisions: True

    @property
    def name(self) -> str:
        """The name of the rewrite, as LOOPWRIGHT_DUMP=loops:NAME spells it."""
        return self.rewrite.__name__

    def __call__(self, nest: LoopNest, decisions: LoopDecisions) -> LoopNest:
        if not self.is_needed(decisions):
            return nest
        return self.rewrite(nest, *self.arguments(decisions))


# Simplification comes after each pass that leaves bounds or guards to decide.
_SIMPLIFY = Pass(simplify)
_LOWER_TO_SPMD = Pass(lower_to_spmd)
_MAP_TO_MESH = Pass(map_to_mesh, lambda decisions: (decisions.mesh,))

PASSES = (
    _SIMPLIFY,
    Pass(coarsen_parallel_loops, lambda decisions: (decisions.factors,)),
    Pass(separate_full_tiles, lambda decisions: (decisions.factors,)),
    _SIMPLIFY,
    Pass(simplify_divisions),
    # Elements and scalars are promoted while unrolled loops still have their own extents.
    Pass(promote_registers, lambda decisions: (decisions.promoted,)),
    _SIMPLIFY,
    Pass(promote_scalars),
    Pass(diagonals, lambda d: (d.diagonals,), lambda d: bool(d.diagonals)),
    Pass(whole_strips),
    Pass(vectorize_outer, lambda d: (d.outer,), lambda d: bool(d.outer)),
    Pass(vectorize, lambda decisions: (decisions.factors,)),
    Pass(unroll, lambda decisions: (decisions.factors,)),
    Pass(update_in_pairs),
    Pass(peel_for_alignment, lambda decisions: (decisions.factors, decisions.arrays)),
    Pass(insert_prefetches, lambda decisions: (decisions.prefetch_distances,)),
    # Without copies of an outer loop LLVM finds the recurrences of a row by itself.
    Pass(predictive_commoning, is_needed=lambda decisions: bool(decisions.factors)),
    Pass(skip_idle_loops),
    _SIMPLIFY,
    Pass(narrow_selections),
    Pass(name_compared),
    Pass(balance_triangles),
    Pass(absorb_zeros, lambda decisions: (decisions.contractions,)),
    # Contractions come last: none of the passes above has anything to do in them.
    Pass(insert_contractions, lambda decisions: (decisions.contractions,)),
    Pass(share_where_worth, lambda d: (d.worth,), lambda d: bool(d.worth)),
    _LOWER_TO_SPMD,
    _MAP_TO_MESH,
    Pass(map_to_grid, lambda decisions: (decisions.factors, MOST_BLOCKS, decisions.joined)),
    Pass(stage_arrays, lambda decisions: (decisions.staged, decisions.arrays)),
)
# Cores of a mesh: accesses go to scratchpads already, and loops stay as people read them.
_MESH_PASSES = (
    _SIMPLIFY,
    Pass(simplify_divisions),
    Pass(promote_scalars),
    Pass(drop_copies, lambda d: (d.in_place,), lambda d: bool(d.in_place)),
    _MAP_TO_MESH,
    _SIMPLIFY,
    Pass(hoist_copies),
    Pass(
        overlap_boxes, lambda decisions: (decisions.rings,), lambda decisions: bool(decisions.rings)
    ),
    Pass(scale_parts),
    Pass(keep_own_parts),
    Pass(transpose_parts),
    Pass(register_tiles),
    Pass(panels_ahead, lambda decisions: (decisions.in_place,)),
    _SIMPLIFY,
)
# A blocked closure is written out to its last vector already.
_CLOSURE_PASSES = (_SIMPLIFY, _LOWER_TO_SPMD)


def lower_schedule(schedule: Schedule) -> LoopNest:
    """The loop nest of a schedule.

    Of a whole contraction it is that of its kernel, by offset tables: see contraction_parts for
    what stands around it, and launch for its arguments (both in contraction_nests). With a parallel
    loop in it the nest is for any number of threads that enter it together; without one it is for
    one thread. Vector loops have constant extent and hold stores and lets only.
    """
    return replace(_lowered(schedule), registers=schedule.registers)


def _lowered(schedule: Schedule) -> LoopNest:
    if schedule.closure is not None:
        if isinstance(schedule.closure, GridClosure):
            nest = lower_grid_closure(schedule.program, schedule.closure)
            return run_passes(nest, LoopDecisions(), (_SIMPLIFY,))
        nest = lower_closure(schedule.program, schedule.closure)
        return run_passes(nest, LoopDecisions(), _CLOSURE_PASSES)
    if schedule.time_tiles is not None and schedule.time_tiles.threads is not None:
        nest = lower_grid_time_tiles(schedule.program, schedule.time_tiles)
        return run_passes(nest, LoopDecisions(), (_SIMPLIFY,))
    if schedule.time_tiles is not None:
        is_streamed = schedule.time_tiles.stream is not None
        write = stream_time_tiles if is_streamed else lower_time_tiles
        nest = write(schedule.program, schedule.time_tiles)
        return run_passes(nest, LoopDecisions(mesh=schedule.mesh), _MESH_PASSES)
    whole = schedule.whole_contraction
    if whole is not None and whole.grid is not None:
        raise UsageError(
            f"'{schedule.program.name}' as a whole is a kernel of einsum",
            found=str(whole.grid),
            hint="lw.einsum(..., plan=plan) on arrays of a device",
        )
    if whole is not None:
        return lower_contraction(kernel_of(whole, schedule.program), schedule.program.name)
    loops = generate_loops(schedule)
    passes = PASSES if schedule.mesh is None else _MESH_PASSES
    return run_passes(loops.nest, LoopDecisions.of(schedule, loops), passes)


def lower_plainly(schedule: Schedule) -> LoopNest:
    """The loops of a schedule that has decided nothing, without any pass: they do without."""
    return generate_loops(schedule).nest


def nest_before(schedule: Schedule, name: str) -> tuple[LoopNest, Mapping[str, str]]:
    """The nest that the pass of that name gets, and the variables of the loops of the schedule."""
    loops = generate_loops(schedule)
    at = next(number for number, each in enumerate(PASSES) if each.name == name)
    nest = run_passes(loops.nest, LoopDecisions.of(schedule, loops), PASSES[:at])
    return nest, loops.variables


def run_passes(nest: LoopNest, decisions: LoopDecisions, passes: Sequence[Pass]) -> LoopNest:
    """`nest` after all `passes`, each checked and printed where the options ask for it."""
    _require_known_passes()
    is_checked = options.current().check
    seen = SeenLoops()
    for each in passes:
        require_time()
        before, nest = nest, each(nest, decisions)
        if is_checked and nest != before:
            _check_between_passes(nest, decisions, each.name, seen)
        dump(options.DUMP_AFTER + each.name, partial(nest_text, nest))
    if is_checked:
        check_nest(nest, seen)
    return nest


def _require_known_passes() -> None:
    """Raise UsageError where LOOPWRIGHT_DUMP names a pass that does not exist."""
    known = dict.fromkeys(options.DUMP_AFTER + each.name for each in PASSES)
    for stage in options.current().dump:
        if stage.startswith(options.DUMP_AFTER) and stage not in known:
            raise UsageError(
                f"{options.variable('dump')} names a pass that does not exist",
                found=repr(stage),
                hint=f"one of {', '.join(known)}",
            )


def _check_between_passes(
    nest: LoopNest, decisions: LoopDecisions, name: str, seen: SeenLoops
) -> None:
    """Check a nest that some passes have yet to see.

    Until loops are cut, a mark VECTOR or UNROLL only asks for lanes or copies, whatever the extent
    of the loop. Placeholders of contractions are no statements of a nest yet.
    """

    is_early = decisions.mesh is not None and not is_mapped_to_mesh(nest)

    def visit(stmt: Stmt) -> Stmt:
        match stmt:
            case For(mark=Mark.VECTOR | Mark.UNROLL) if constant_trips(stmt) is None:
                return replace(stmt, mark=Mark.SERIAL)
            case Copy() if decisions.contractions:
                return Block(())
            case MeshBroadcast() if is_early:
                return Block(())
        return stmt

    body = rebuild(nest.body, visit)
    if is_early:  # boxes know the coordinates of their core already
        body = Let(ROW, Const(0), Let(COLUMN, Const(0), body))
    try:
        check_nest(replace(nest, body=body), seen)
    except InternalError as error:
        raise InternalError(f"after the pass {name}: {error.message}", nest_text(nest)) from error
