"""ThreadMapping: which block, and which thread of it, executes each statement instance of a kernel.

A block here is what one privatisation lasts for: the instances that agree in all block coordinates,
those of the grid and those of the host's loops around the launch. In the words of Likhoded and
Paliashchuk (2018): a block V_b has r_z iterations of loop z, a thread of it r_{z,2}, and the loops
with r_{z,2} < r_z are the thread loops Z_s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from loopwright.diagnostics import UsageError
from loopwright.ir.expr import Const, Expr, Var
from loopwright.ir.islkit import affine_map, context, isl, maps_in, sets_in
from loopwright.ir.loops import Mark
from loopwright.ir.program import Program, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import Band, Leaf, Node, bands, nodes_of
from loopwright.ir.schedule_tree import Sequence as Parts
from loopwright.ir.visit import fresh_name
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "AXES",
    "LoopTile",
    "ThreadMapping",
    "scheduled_mappings",
    "statements_of",
    "tiled_mapping",
]

AXES = ("x", "y", "z")  # of threads, the fastest first: lanes of a warp lie along x, then y, then z

_IN, _OUT, _PARAM, _SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.param, isl.dim_type.set


@dataclass(frozen=True, slots=True)
class ThreadMapping:
    """The instances of one kernel, each with its block, its thread in the block, and its time."""

    kernel: str
    coordinates: tuple[str, ...]  # names of the block coordinates, none of them a parameter
    axes: tuple[str, ...]  # axis of each thread coordinate, in the order of AXES
    shape: tuple[int | None, ...]  # threads of a block along each axis; None: no constant bound
    blocks: isl.UnionMap  # { S[i] -> kernel[block coordinates] }, on the kernel's instances only
    threads: isl.UnionMap  # { S[i] -> [thread coordinates] }, from 0 in each block
    times: isl.UnionMap  # { S[i] -> [sequential coordinates] }; threads in step agree in them

    def instances(self, where: isl.Set | None = None) -> dict[str, isl.Set]:
        """`[params, coordinates] -> { S[i] : block(S[i]) = coordinates }`, by statement.

        `where` restricts parameters and block coordinates: `[i_b, k_b] -> { : i_b != k_b }`.
        """
        found: dict[str, isl.Set] = {}
        for part in maps_in(self.blocks):
            count = part.dim(_PARAM)
            fixed = part.move_dims(_PARAM, count, _OUT, 0, len(self.coordinates))
            for at, name in enumerate(self.coordinates):
                fixed = fixed.set_dim_name(_PARAM, count + at, name)
            inside = fixed.domain()
            inside = inside if where is None else inside.intersect_params(where)
            name = part.get_tuple_name(_IN)
            found[name] = found[name].union(inside) if name in found else inside
        return dict(sorted(found.items()))

    def thread_of(self, statement: str) -> isl.Map:
        """`{ S[i] -> [thread coordinates] }` of one statement."""
        found = [part for part in maps_in(self.threads) if part.get_tuple_name(_IN) == statement]
        return reduce(isl.Map.union, found)


# -- from tile sizes ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoopTile:
    """How the iterations of one loop are shared out: r = `block`, r_2 = `thread`.

    Of the iteration v = value - origin, floor(v / r) is the block coordinate and
    floor((v mod r) / r_2) the thread coordinate.
    """

    loop: str
    block: int | None = None  # consecutive iterations of one block; None: all are in one block
    thread: int | None = None  # consecutive iterations of one thread; None: all of the block
    axis: str = ""  # of the thread coordinate; "" where the threads do not divide the loop
    origin: int = 0  # value of the loop at its first iteration

    def __post_init__(self) -> None:
        if (self.thread is None) != (self.axis == "") or self.axis not in ("", *AXES):
            hint = f"one of {', '.join(AXES)}"
            raise UsageError("threads divide a loop along an axis", str(self), hint)
        if any(size is not None and size < 1 for size in (self.block, self.thread)):
            raise UsageError("tiles have sizes of at least 1", str(self))

    @property
    def block_coordinate(self) -> Expr | None:
        return None if self.block is None else self._value // self.block

    @property
    def thread_coordinate(self) -> Expr | None:
        return None if self.thread is None else self._in_block // self.thread

    @property
    def time(self) -> Expr:
        """The iteration counted from the first one of the thread, or of the block."""
        return self._in_block if self.thread is None else self._in_block % self.thread

    @property
    def _value(self) -> Expr:
        return Var(self.loop) - self.origin if self.origin else Var(self.loop)

    @property
    def _in_block(self) -> Expr:
        return self._value if self.block is None else self._value % self.block


def tiled_mapping(
    program: Program,
    tiles: Iterable[LoopTile],
    *,
    statements: Sequence[str] = (),
    kernel: str = "block",
) -> ThreadMapping:
    """The mapping of a set of statements (default: all) that have the tiled loops in common.

    Loops without a tile run as a whole in every thread. Statement sets with blocks of their own
    have a mapping each.
    """
    tiles = tuple(tiles)
    chosen = [s for s in program.statements if not statements or s.name in statements]
    for statement in chosen:
        missing = [tile.loop for tile in tiles if tile.loop not in statement.iterators]
        if missing:
            message = f"statement {statement.name} is in no loop '{missing[0]}'"
            raise UsageError(message, hint="a set of statements shares the loops that are tiled")
    by_axis: dict[str, LoopTile] = {}
    for tile in (tile for tile in tiles if tile.axis):
        first = by_axis.setdefault(tile.axis, tile)
        if first is not tile:
            found = f"loops '{first.loop}' and '{tile.loop}' along {tile.axis}"
            raise UsageError("two loops are divided along one axis", found)
    axes = tuple(axis for axis in AXES if axis in by_axis)
    taken = set(program.params)
    names = tuple(fresh_name(f"{t.loop}_b", taken) for t in tiles if t.block is not None)
    block = [t.block_coordinate for t in tiles]
    thread = [by_axis[axis].thread_coordinate for axis in axes]
    time = {t.loop: t.time for t in tiles}
    empty = isl.UnionMap.empty(program.context.get_space())
    blocks = threads = times = empty
    for statement in chosen:
        domain = statement.domain.intersect_params(program.context)
        blocks = blocks.union(_function(domain, kernel, [x for x in block if x is not None]))
        threads = threads.union(_function(domain, "", [x for x in thread if x is not None]))
        order = [time.get(name, Var(name)) for name in statement.iterators]
        times = times.union(_function(domain, "", order))
    return ThreadMapping(kernel, names, axes, _shape(threads, len(axes)), blocks, threads, times)


def _function(domain: isl.Set, name: str, outputs: Sequence[Expr]) -> isl.UnionMap:
    found = affine_map(domain, name or "_", outputs)
    return isl.UnionMap.from_map(found if name else found.reset_tuple_id(_OUT))


def _shape(threads: isl.UnionMap, rank: int) -> tuple[int | None, ...]:
    """One more than the largest value of each thread coordinate, over all parameters."""
    found: list[int | None] = []
    parts = [part for part in sets_in(threads.range()) if not part.is_empty()]
    for at in range(rank):
        largest = [part.dim_max_val(at) for part in parts]
        known = all(value.is_int() for value in largest)
        found.append(max((v.to_python() + 1 for v in largest), default=0) if known else None)
    return tuple(found)


# -- from a schedule ------------------------------------------------------------------------------


def scheduled_mappings(
    schedule: Schedule, axes: Mapping[str, str] | None = None
) -> tuple[ThreadMapping, ...]:
    """The mappings of the kernels of a schedule: of each nest inside outermost block loops.

    Block coordinates are the values of the loops around and of the block loops, which stand
    directly inside each other. A thread coordinate counts the iterations of its loop from the
    first one. `axes` gives the axis of a loop over threads; by default the innermost one around a
    statement has x, the next one y. A statement without a loop along some axis runs in thread 0.
    """
    kernels: list[tuple[list[Band], isl.UnionSet]] = []
    _find_kernels(schedule, nodes_of(schedule), schedule.tree.get_domain(), [], kernels)
    return tuple(_kernel_mapping(schedule, *kernel, axes or {}) for kernel in kernels)


def _find_kernels(
    schedule: Schedule,
    node: Node,
    instances: isl.UnionSet,
    around: list[Band],
    found: list[tuple[list[Band], isl.UnionSet]],
) -> None:
    """Append the loops from the root to the last block loop of every kernel, and its instances."""
    match node:
        case Band() if schedule.mark(node.loop) is Mark.BLOCK:
            path = [*around, node]
            while isinstance(path[-1].child, Band) and _is(schedule, path[-1].child, Mark.BLOCK):
                path.append(path[-1].child)
            found.append((path, instances))
        case Band():
            _find_kernels(schedule, node.child, instances, [*around, node], found)
        case Parts(filters=filters):
            for part in filters:
                inside = instances.intersect(part.instances)
                _find_kernels(schedule, part.child, inside, around, found)


def _is(schedule: Schedule, band: Band, mark: Mark) -> bool:
    return schedule.mark(band.loop) is mark


@dataclass(frozen=True, slots=True)
class _Nest:
    """The loops of a kernel around one leaf of its tree, outermost first."""

    loops: tuple[Band, ...]
    instances: isl.UnionSet

    def values(self, count: int) -> isl.UnionMap:
        """`{ S[i] -> [values of the first loops] }`."""
        found = isl.UnionMap.from_domain(self.instances)
        found = found.apply_range(_to_nothing(found.range()))
        for band in self.loops[:count]:
            function = isl.UnionMap.from_multi_union_pw_aff(band.partial)
            found = found.flat_range_product(function.intersect_domain(self.instances))
        return found


def _to_nothing(instances: isl.UnionSet) -> isl.UnionMap:
    """`{ S[i] -> [] }`."""
    nowhere = isl.Set.universe(isl.Space.set_alloc(context(), 0, 0))
    return isl.UnionMap.from_domain_and_range(instances, isl.UnionSet.from_set(nowhere))


def _nests(node: Node, instances: isl.UnionSet, around: tuple[Band, ...]) -> list[_Nest]:
    match node:
        case Leaf():
            return [_Nest(around, instances)]
        case Band(child=child):
            return _nests(child, instances, (*around, node))
        case Parts(filters=filters):
            parts = [(part.child, instances.intersect(part.instances)) for part in filters]
            return [nest for child, inside in parts for nest in _nests(child, inside, around)]


def _kernel_mapping(
    schedule: Schedule, path: list[Band], instances: isl.UnionSet, axes: Mapping[str, str]
) -> ThreadMapping:
    program = schedule.program
    kernel = next(band.loop for band in path if _is(schedule, band, Mark.BLOCK))
    instances = instances.intersect_params(program.context)
    deeper = [b.loop for b in bands(path[-1].child) if _is(schedule, b, Mark.BLOCK)]
    if deeper:
        message = f"block loop '{deeper[0]}' does not stand directly inside '{path[-1].loop}'"
        raise UsageError(message, hint="block loops of a kernel are nested perfectly")
    taken = set(program.params)
    names: list[str] = []
    for band in path:
        names.append(fresh_name(band.loop, taken))
        taken.add(names[-1])
    nests = _nests(path[-1].child, instances, tuple(path))
    along = [_thread_axes(schedule, nest, axes) for nest in nests]
    used = tuple(axis for axis in AXES if any(axis in found for found in along))
    values = _loop_values(nests)
    empty = isl.UnionMap.empty(program.context.get_space())
    blocks = threads = times = empty
    for nest, found in zip(nests, along, strict=True):
        block = nest.values(len(path))
        for part in maps_in(block):
            named = part.set_tuple_name(_OUT, kernel)
            blocks = blocks.union(isl.UnionMap.from_map(named))
        thread = time = nest.values(0)
        for axis in used:
            thread = thread.flat_range_product(_counted(nest, found.get(axis), values))
        first = min(found.values(), default=len(nest.loops))
        for at in range(len(path), len(nest.loops)):
            if at not in found.values():
                # Loops outside those of threads have the same value in all of them.
                function = _value(nest, at) if at < first else _counted(nest, at, values)
                time = time.flat_range_product(function)
        threads, times = threads.union(thread), times.union(time)
    threads = threads.coalesce()
    shape = _shape(threads, len(used))
    return ThreadMapping(kernel, tuple(names), used, shape, blocks, threads, times.coalesce())


def _thread_axes(schedule: Schedule, nest: _Nest, axes: Mapping[str, str]) -> dict[str, int]:
    """The position in a nest of the loop over threads along each axis."""
    places = [k for k, band in enumerate(nest.loops) if _is(schedule, band, Mark.THREAD)]
    free = [axis for axis in AXES if axis not in axes.values()]
    found: dict[str, int] = {}
    for place in reversed(places):
        loop = nest.loops[place].loop
        axis = axes[loop] if loop in axes else free.pop(0) if free else ""
        if axis not in AXES or axis in found:
            message = f"the loop '{loop}' over threads has no axis of its own"
            raise UsageError(message, axis, f"one of {', '.join(AXES)} for each")
        found[axis] = place
    return found


def _value(nest: _Nest, at: int) -> isl.UnionMap:
    """`{ S[i] -> [value of the loop at a position] }`."""
    function = isl.UnionMap.from_multi_union_pw_aff(nest.loops[at].partial)
    return nest.values(0).flat_range_product(function.intersect_domain(nest.instances))


def _loop_values(nests: Sequence[_Nest]) -> dict[str, isl.UnionMap]:
    """By loop: `{ [values of the loops around] -> [its values] }`, of all statements inside."""
    found: dict[str, isl.UnionMap] = {}
    for nest in nests:
        for at, band in enumerate(nest.loops):
            taken = nest.values(at).reverse().apply_range(_value(nest, at))
            found[band.loop] = found[band.loop].union(taken) if band.loop in found else taken
    return found


def _counted(nest: _Nest, at: int | None, values: Mapping[str, isl.UnionMap]) -> isl.UnionMap:
    """`{ S[i] -> [iterations of a loop before this one] }`; zero where there is no such loop.

    (value - start) / step, where start is the least value in this execution of the loop.
    """
    if at is None:
        zero = isl.Map.from_domain_and_range(
            isl.Set.universe(isl.Space.set_alloc(context(), 0, 0)),
            isl.Set.read_from_str(context(), "{ [0] }"),
        )
        return nest.values(0).apply_range(isl.UnionMap.from_map(zero))
    start = nest.values(at).apply_range(values[nest.loops[at].loop].lexmin())
    both = _value(nest, at).flat_range_product(start)
    minus = isl.UnionMap.read_from_str(context(), "{ [v, s] -> [v - s] }")
    offset = both.apply_range(minus)
    strides = [part.get_stride(0).to_python() for part in sets_in(offset.range())]
    step = min(strides, default=1)
    if step > 1:
        scaled = affine_map(_line(), "_", [Var("v") // Const(step)]).reset_tuple_id(_OUT)
        offset = offset.apply_range(isl.UnionMap.from_map(scaled))
    return offset.coalesce()


def _line() -> isl.Set:
    return isl.Set.read_from_str(context(), "{ [v] }")


def statements_of(program: Program, mapping: ThreadMapping) -> tuple[Statement, ...]:
    """The statements that have instances in the kernel, in source order."""
    names = {part.get_tuple_name(_IN) for part in maps_in(mapping.blocks)}
    return tuple(s for s in program.statements if s.name in names)
