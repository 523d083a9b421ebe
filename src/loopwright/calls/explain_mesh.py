"""A region on a mesh of cores, explained: its schedule trees, scratchpad, DMA and predicted time.

Trees are those of isl, one after each stage: as written, ordered, tiled, mapped, staged. A `mark`
node says which cores run the iterations of the band below it; below an `extension` node there are
requests beside statements: boxes that are brought in and put back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import prod

from loopwright.analysis.size_estimates import average_trips, bounded_sizes, likely_sizes
from loopwright.backends.athread.athread_module import MeshFunction
from loopwright.backends.c_text.c_syntax import c_type
from loopwright.calls.explain_c import as_written
from loopwright.calls.mesh_prediction import team_of_function
from loopwright.calls.overlap_test import pair_lines
from loopwright.calls.splice import Optimised, optimise_region
from loopwright.diagnostics import IllegalStep
from loopwright.frontends.c import CFile, CRegion
from loopwright.ir.expr import Const
from loopwright.ir.islkit import functions_in, inside
from loopwright.ir.loops import Alloc, Block, For, If, Let, Space, Stmt
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.mesh_program import scratchpad_need, scratchpad_part
from loopwright.ir.program import Program
from loopwright.ir.schedule import Schedule, StagedBox
from loopwright.ir.schedule_tree import Band, Leaf, Node, nodes_of, statements_in
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.ir.text import schedule_text
from loopwright.machines.dma_model import DmaRequest, request_service_cycles
from loopwright.machines.mesh_timeline import MeshPrediction, TeamRun, each_event, predict_teams
from loopwright.planner.mesh_plans.mesh_dry_run import ARGUMENTS
from loopwright.planner.mesh_plans.mesh_room import scratchpad_room
from loopwright.planner.mesh_plans.mesh_stencils import stencil_prices
from loopwright.planner.mesh_plans.mesh_work import DataDependent
from loopwright.planner.planners import Planner
from loopwright.tables import table_lines
from loopwright.transform.plan import apply_steps, initial_schedule
from loopwright.transform.step import Step

__all__ = ["explain_on_mesh", "prediction_lines", "stages_of"]

_ORDER, _TILES, _MAPPING, _BOXES = "order", "tiles", "mapping", "boxes"
_STAGES = (_ORDER, _TILES, _MAPPING, _BOXES)
_KINDS = {
    _TILES: frozenset({"tile", "tile_within", "strip_mine", "fuse"}),
    _MAPPING: frozenset({"map_to_mesh"}),
    _BOXES: frozenset({"stage_box", "share_box"}),
}
_SHAPES = 2  # of requests of an array, most frequent first, that have a line of their own
_MOST_INSTANCES = 1e10  # of statements, at sizes that are guessed: seconds of a core group


def explain_on_mesh(
    file: CFile,
    region: CRegion,
    machine: MeshMachine,
    planner: Planner,
    sizes: Mapping[str, int],
    *,
    default: int | None = None,
    reassoc: bool,
) -> str:
    """The report of one region.

    Parameters have the values in `sizes`, others the default, or where there is none likely ones.
    """
    found = optimise_region(file, region, planner, machine, target="athread", reassoc=reassoc)
    lines = [*as_written(found), *pair_lines(found.overlap)]
    if found.mesh is None:
        return "\n".join([*lines, f"  stays on the host: {found.reason}"])
    before: list[str] = []
    for name, steps, schedule in stages_of(found):
        tree = list(_tree(schedule))
        lines.append(f"  schedule tree, {name}")
        lines += (f"    -- {step}" for step in steps)
        lines += (f"    {line}" for line in (tree if tree != before else ["unchanged"]))
        before = tree
    lines += (f"  {line}" for line in _time_tiles(found, machine))
    lines.append(f"  LDM: {_of_scratchpad(found.mesh, machine)}")
    lines += (f"    {line}" for line in _scratchpad(found.mesh, machine))
    given = _values(found, sizes, default)
    at = ", ".join(f"{name} = {given[name]}" for name in found.mesh.host.given)
    try:
        team = team_of_function(found.mesh, given, machine)
    except DataDependent as error:
        return "\n".join([*lines, f"  no prediction: the work depends on data ({error})"])
    lines.append(f"  DMA{f', {at}' if at else ''}")
    lines += (f"    {line}" for line in _requests(team, machine))
    lines.append(f"  predicted for {machine.name}")
    lines += (f"    {line}" for line in prediction_lines(predict_teams(machine, [team])))
    return "\n".join(lines)


def _values(found: Optimised, sizes: Mapping[str, int], default: int | None) -> dict[str, int]:
    """The integers that a caller passes; of guesses so small ones that the work is some seconds."""
    assert found.mesh is not None
    given, program = found.mesh.host.given, found.program
    if default is not None:
        return {name: sizes.get(name, default) for name in given}
    values = dict.fromkeys(given, 1) | likely_sizes(program) | dict(sizes)
    guessed = set(program.params) - set(bounded_sizes(program)) - set(sizes)
    while _instances(program, values) > _MOST_INSTANCES and any(values[n] > 1 for n in guessed):
        values |= {name: max(1, values[name] // 2) for name in guessed}
    return {name: values[name] for name in given}


def _instances(program: Program, sizes: Mapping[str, int]) -> float:
    return sum(prod(trips.values()) for trips in average_trips(program, sizes).values())


def prediction_lines(found: MeshPrediction) -> list[str]:
    """Time, rate, and what takes the time, in lines."""
    name, share = found.bound
    return [
        f"{found.cycles:.0f} cycles, {1e3 * found.seconds:.3f} ms",
        f"{found.flops_per_second / 1e9:.2f} GFLOPS, {found.share_of_peak:.2%} of the peak",
        f"bound by {name} ({share:.0%} of the time)",
    ]


# -- stages ---------------------------------------------------------------------------------------


def stages_of(found: Optimised) -> Iterator[tuple[str, tuple[Step, ...], Schedule]]:
    """The schedules that a plan goes through: the name of a stage, its steps, what it leaves.

    Steps about different nests are brought together, tiles first, where that makes no difference.
    """
    schedule = initial_schedule(found.program)
    yield "as written", (), schedule
    steps = list(found.plan)
    for name, group in _together(steps, schedule, found.schedule):
        schedule = apply_steps(schedule, group)
        yield f"after {name}", group, schedule


def _together(
    steps: Sequence[Step], before: Schedule, after: Schedule
) -> list[tuple[str, tuple[Step, ...]]]:
    kinds = list(map(_kind, steps))
    stages = [(n, tuple(s for s, k in zip(steps, kinds, strict=True) if k == n)) for n in _STAGES]
    try:
        last = before
        for _, group in stages:
            last = apply_steps(last, group)
        if schedule_text(last) == schedule_text(after):
            return [(name, group) for name, group in stages if group]
    except IllegalStep:
        pass
    runs: list[tuple[str, tuple[Step, ...]]] = []
    for step, kind in zip(steps, kinds, strict=True):
        if runs and runs[-1][0] == kind:
            runs[-1] = kind, (*runs[-1][1], step)
        else:
            runs.append((kind, (step,)))
    return runs


def _kind(step: Step) -> str:
    return next((stage for stage, kinds in _KINDS.items() if step.kind in kinds), _ORDER)


# -- trees ----------------------------------------------------------------------------------------


def _tree(schedule: Schedule) -> Iterator[str]:
    names = ", ".join(s.name for s in schedule.program.statements)
    yield f"domain {names}"
    yield from _node(nodes_of(schedule), schedule, "  ")


def _node(node: Node, schedule: Schedule, margin: str) -> Iterator[str]:
    inner = margin + "  "
    match node:
        case Leaf():
            return
        case InOrder(filters=filters):
            yield f"{margin}sequence"
            for branch in filters:
                yield f"{inner}filter {', '.join(sorted(statements_in(branch.instances)))}"
                yield from _node(branch.child, schedule, inner + "  ")
        case Band(loop=loop):
            axis = schedule.axis(loop)
            if axis is not None and schedule.mesh is not None:
                cores = dict(schedule.factors).get(loop, 0)
                yield f'{margin}mark "{axis.value}", {cores} cores'
                margin, inner = inner, inner + "  "
            yield f"{margin}band {loop}: {_function(node)}"
            panels = [b.panel for b in schedule.boxes if b.panel is not None]
            boxes = [box for box in (*panels, *schedule.boxes) if box.loop == loop]
            if not boxes:
                yield from _node(node.child, schedule, inner)
                return
            yield f"{inner}extension {', '.join(dict.fromkeys(box.array for box in boxes))}"
            yield f"{inner}  sequence"
            parts = inner + "    "
            yield from (f"{parts}filter {_way(b)} {_box(b)}" for b in boxes if b.is_brought_in)
            yield f"{parts}filter {', '.join(sorted(node.statements))}"
            yield from _node(node.child, schedule, parts + "  ")
            yield from (f"{parts}filter {_end(b)} {_box(b)}" for b in boxes if b.is_put_back)


def _way(box: StagedBox) -> str:
    """How a core comes by a box: by DMA, by its part of a panel, or by what others give it."""
    if box.panel is not None and box.axis is not None:
        return f"receive along the {box.axis.value}"
    if box.handed_on:
        return "get or take over"
    return "get" if box.parts == 1 else f"get one of {box.parts} parts of"


def _end(box: StagedBox) -> str:
    return "hand on or put" if box.handed_on else "put"


def _box(box: StagedBox) -> str:
    """`A, 16 x 4, the next one ahead`."""
    ahead = ", the next one ahead" if box.buffers > 1 else ""
    return f"{box.array}, {' x '.join(map(str, box.extents))}{ahead}"


def _function(band: Band) -> str:
    """What orders the iterations, with the statements that have the same function."""
    found: dict[str, list[str]] = {}
    for at in range(len(band.partial)):
        for piece in functions_in(band.partial.get_union_pw_aff(at)):
            name, _, value = inside(piece).partition(" -> ")
            text = value.strip("[]").removeprefix("(").removesuffix(")")
            found.setdefault(text, []).append(name.partition("[")[0])
    parts = [f"{text} of {', '.join(sorted(names))}" for text, names in sorted(found.items())]
    return "; ".join(parts) if len(parts) > 1 else next(iter(found))


# -- stencils -------------------------------------------------------------------------------------


def _time_tiles(found: Optimised, machine: MeshMachine) -> Iterator[str]:
    """How a stencil is tiled in time, and what the planner's model says of the other ways."""
    schedule = found.schedule
    tiles, shape = schedule.time_tiles, schedule.mesh
    if tiles is None or shape is None:
        return
    yield f"stencil: {tiles}"
    if (stream := tiles.stream) is not None:
        names = [own.name for own in tiles.stencil.statements]
        late = zip(names, stream.delays, strict=True)
        planes = ", ".join(f"{name} plane p - {delay} - {stream.rate} t" for name, delay in late)
        yield f"  at position p step t computes: {planes}"
        windows = [f"{g.name} {stream.window(g.name, tiles.steps)}" for g in stream.grids]
        yield f"  planes in the LDM: {', '.join(windows)}"
    yield "  cycles of a time step by the planner's model, likely sizes:"
    room = scratchpad_room(machine)
    for cycles, other in stencil_prices(schedule.program, machine, shape, room):
        yield f"    {cycles:.0f}: {'a sweep for each statement' if other is None else other}"


# -- scratchpad and DMA ---------------------------------------------------------------------------


def _of_scratchpad(function: MeshFunction, machine: MeshMachine) -> str:
    need = scratchpad_need(function.program.body)
    rest = machine.scratchpad_bytes - need
    return (
        f"{need} of {machine.scratchpad_bytes} bytes for boxes, {rest} for the stack and counters"
    )


def _scratchpad(function: MeshFunction, machine: MeshMachine) -> list[str]:
    """Who takes which bytes; boxes of different nests may lie in the same place."""
    rows = [("from", "to", "box", "elements")]
    for alloc, offset in _allocations(function.program.body, 0):
        shape = " x ".join(str(int(x.value.real)) for x in alloc.shape if isinstance(x, Const))
        end = offset + scratchpad_part(alloc)
        kind = c_type(alloc.buffer.dtype)
        rows.append((str(offset), str(end), alloc.buffer.name, f"{shape} {kind}"))
    return table_lines(rows)


def _allocations(stmt: Stmt, offset: int) -> Iterator[tuple[Alloc, int]]:
    match stmt:
        case Alloc(buffer=buffer, body=body):
            if buffer.space is Space.SCRATCHPAD:
                yield stmt, offset
                offset += scratchpad_part(stmt)
            yield from _allocations(body, offset)
        case Block(body=children):
            for child in children:
                yield from _allocations(child, offset)
        case For(body=body) | Let(body=body):
            yield from _allocations(body, offset)
        case If(body=body, orelse=orelse):
            yield from _allocations(body, offset)
            if orelse is not None:
                yield from _allocations(orelse, offset)


def _requests(team: TeamRun, machine: MeshMachine) -> list[str]:
    """For each array the requests of all cores; rarer shapes, those of borders, are one line."""
    counts: dict[tuple[str, str], Counter[DmaRequest]] = {}
    for events in team.cores.values():
        for event, times in each_event(events):
            if (r := event.request) is not None and event.place != ARGUMENTS:
                kind = "put" if r.is_put else "get" if r.receivers == 1 else "broadcast"
                same = DmaRequest(r.blocks, r.block_bytes, r.gap, r.is_put, 0, r.receivers)
                counts.setdefault((event.place, kind), Counter())[same] += times
    rows = [("array", "", "times", "blocks", "bytes", "gap", "MB", "GB/s")]
    for (array, kind), shapes in sorted(counts.items()):
        ordered = shapes.most_common()
        for request, times in ordered[:_SHAPES]:
            shape = (str(request.blocks), str(request.block_bytes), str(request.gap))
            rows.append((array, kind, str(times), *shape, *_moved([(request, times)], machine)))
        if rest := ordered[_SHAPES:]:
            times = sum(count for _, count in rest)
            other = ("other", "", "")
            rows.append((array, kind, str(times), *other, *_moved(rest, machine)))
    total = [pair for shapes in counts.values() for pair in shapes.items()]
    times = sum(count for _, count in total)
    rows.append(("all", "", str(times), "", "", "", *_moved(total, machine)))
    return table_lines(rows, numbers=True)


def _moved(shapes: Sequence[tuple[DmaRequest, int]], machine: MeshMachine) -> tuple[str, str]:
    """Megabytes that requests move, and the rate of the queue for them."""
    size = sum(request.bytes * times for request, times in shapes)
    cycles = sum(request_service_cycles(machine, request) * times for request, times in shapes)
    rate = size / cycles * machine.frequency_hz / 1e9 if cycles else 0.0
    return f"{size / 1e6:.2f}", f"{rate:.1f}"
