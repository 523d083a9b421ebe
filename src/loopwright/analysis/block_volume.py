"""How many array elements a block brings in and takes out per operation, and a ranking by it.

The seed's references [3, 4] (Likhoded, Paliashchuk 2015 and 2016) rank block sizes by the volume of
communication. Here the footprints of a block are exact sets, counted at given problem sizes:

    in    elements that some instance reads and no earlier instance of the block has written
    out   elements that the block writes; of local arrays, those that other blocks read

`EstimatedVolume` is for planners that try many shapes: boxes around accesses in place of sets.

An r x r x r block of Floyd-Warshall brings in 3 r^2 elements and takes out r^2, for r^3 operations:
the volume per operation is 4 / r.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from loopwright.analysis.size_estimates import coefficients
from loopwright.analysis.thread_mapping import LoopTile, ThreadMapping, tiled_mapping
from loopwright.diagnostics import UsageError
from loopwright.ir.evaluate import evaluate
from loopwright.ir.expr import Expr
from loopwright.ir.islkit import affine_map, context, isl, isl_integer, maps_in, sets_in
from loopwright.ir.program import Program, Role
from loopwright.ir.visit import names
from loopwright.lazy_dataclass import dataclass

__all__ = [
    "BlockVolume",
    "EstimatedVolume",
    "RankedBlock",
    "block_volume",
    "rank_block_sizes",
]

_IN, _PARAM, _SET = isl.dim_type.in_, isl.dim_type.param, isl.dim_type.set


@dataclass(frozen=True, slots=True)
class BlockVolume:
    """What one block moves, and what it computes."""

    block: tuple[int, ...]  # its coordinates
    arrays: tuple[tuple[str, int, int], ...]  # (array, elements in, elements out)
    operations: int  # instances
    bytes_moved: int
    footprint_bytes: int  # of all elements that the block accesses

    @property
    def elements(self) -> int:
        """Elements brought in and taken out."""
        return sum(inward + outward for _, inward, outward in self.arrays)

    @property
    def per_operation(self) -> Fraction:
        return Fraction(self.elements, self.operations)

    @property
    def bytes_per_operation(self) -> Fraction:
        return Fraction(self.bytes_moved, self.operations)


@dataclass(frozen=True, slots=True)
class RankedBlock:
    """A candidate of block sizes with its volume."""

    sizes: tuple[int, ...]  # iterations of each loop in one block
    volume: BlockVolume


def rank_block_sizes(
    program: Program,
    loops: Sequence[str],
    candidates: Iterable[Sequence[int]],
    sizes: Mapping[str, int],
    *,
    statements: Sequence[str] = (),
    most_bytes: int | None = None,
) -> tuple[RankedBlock, ...]:
    """Block sizes of some loops, those that move the fewest bytes per operation first.

    Candidates whose block accesses more than `most_bytes` are left out. Among equals the one with
    the smaller footprint comes first.
    """
    found: list[RankedBlock] = []
    for candidate in candidates:
        if len(candidate) != len(loops):
            raise UsageError("a candidate has one size for each loop", str(tuple(candidate)))
        tiles = [LoopTile(loop, size) for loop, size in zip(loops, candidate, strict=True)]
        mapping = tiled_mapping(program, tiles, statements=statements)
        volume = block_volume(program, mapping, sizes)
        if most_bytes is None or volume.footprint_bytes <= most_bytes:
            found.append(RankedBlock(tuple(candidate), volume))
    return tuple(sorted(found, key=_merit))


def _merit(block: RankedBlock) -> tuple[Fraction, int, tuple[int, ...]]:
    return block.volume.bytes_per_operation, block.volume.footprint_bytes, block.sizes


def block_volume(
    program: Program,
    mapping: ThreadMapping,
    sizes: Mapping[str, int],
    block: Sequence[int] | None = None,
) -> BlockVolume:
    """The volume of one block of a kernel, for parameters of the given sizes.

    By default of a block in general position: coordinate k of m at k / (m + 1) of its range, given
    those before it, so that blocks on diagonals, which are few, are not taken for typical ones.
    """
    blocks = _fixed(mapping.blocks, sizes)
    chosen = _general_block(blocks) if block is None else tuple(block)
    instances = blocks.intersect_range(_point(blocks.range(), chosen)).domain()
    operations = _count(instances)
    if not operations:
        raise UsageError("the block has no instances", str(chosen))
    reads, writes = _accesses(program, sizes)
    inside_reads, inside_writes = (x.intersect_domain(instances) for x in (reads, writes))
    brought = _exposed(program, inside_reads, inside_writes)
    taken = inside_writes.range()
    used = inside_reads.range().union(taken)
    elsewhere = reads.subtract_domain(instances).range()
    counts: list[tuple[str, int, int]] = []
    moved = footprint = 0
    for array in program.arrays:
        own = _elements(used, array.name)
        if not _count(own):
            continue
        out = _elements(taken, array.name)
        if array.role is Role.LOCAL:
            out = out.intersect(elsewhere)
        inward, outward = _count(_elements(brought, array.name)), _count(out)
        counts.append((array.name, inward, outward))
        moved += array.dtype.bytes * (inward + outward)
        footprint += array.dtype.bytes * _count(own)
    return BlockVolume(chosen, tuple(counts), operations, moved, footprint)


class EstimatedVolume:
    """About what a block of some statements moves, for many shapes of it: boxes in place of sets.

    Accesses of an array that differ in constants only make up a box; those that move otherwise, and
    reads and writes, are counted apart. Blocks and rows of arrays begin with a sector of memory.
    """

    def __init__(self, program: Program, statements: Iterable[str]) -> None:
        self._boxes: dict[tuple[object, ...], list[tuple[str, list[Subscript]]]] = {}
        for name in sorted(statements):
            statement = program.statement(name)
            accesses = [(access, False) for access in statement.reads] + [(statement.write, True)]
            for access, is_write in accesses:
                index = [subscript_of(entry) for entry in access.index]
                factors = tuple(entry.factors for entry in index)
                key = access.dtype.bytes, access.array, is_write, factors
                self._boxes.setdefault(key, []).append((name, index))

    def bytes_moved(self, trips: Mapping[str, Mapping[str, float]], sector: int = 1) -> float:
        """Bytes that a block loads and stores, in sectors of so many bytes.

        `trips` are the iterations in one block of the loops of each statement; loops that are
        missing have one.
        """
        total = 0.0
        for (size, *_), accesses in self._boxes.items():
            assert isinstance(size, int)
            spans: list[_Span] = []
            for name, index in accesses:
                own = [entry.span(trips.get(name, {})) for entry in index]
                spans = [a | b for a, b in zip(spans, own, strict=True)] if spans else own
            moved = spans[-1].sectors(size, sector) if spans else float(max(size, sector))
            for span in spans[:-1]:
                moved *= span.count
            total += moved
        return total


@dataclass(frozen=True, slots=True)
class Subscript:
    """A sum of multiples of variables and a constant."""

    start: int
    factors: tuple[tuple[str, int], ...]

    def span(self, trips: Mapping[str, float]) -> _Span:
        moved = [(abs(c), trips[x] - 1) for x, c in self.factors if trips.get(x, 1.0) > 1]
        length = sum(c * count for c, count in moved)
        return _Span(self.start, self.start + length, min((c for c, _ in moved), default=1))


def subscript_of(entry: Expr) -> Subscript:
    """An affine expression as its value where all variables are zero, and their factors."""
    start = int(evaluate(entry, dict.fromkeys(names(entry), 0), {}))
    return Subscript(start, coefficients(entry))


@dataclass(frozen=True, slots=True)
class _Span:
    """The values of a subscript in a block, counted from where all variables are zero."""

    low: int
    high: float
    step: int  # between neighbouring values

    def __or__(self, other: _Span) -> _Span:
        step = 1 if self.low != other.low else min(self.step, other.step)
        return _Span(min(self.low, other.low), max(self.high, other.high), step)

    @property
    def count(self) -> float:
        return (self.high - self.low) // self.step + 1

    def sectors(self, size: int, sector: int) -> float:
        """Bytes of the sectors that elements of so many bytes lie in."""
        if sector <= size:
            return size * self.count
        first, last = self.low * size // sector, ((self.high + 1) * size - 1) // sector
        return sector * min(self.count, last - first + 1)


def _accesses(program: Program, sizes: Mapping[str, int]) -> tuple[isl.UnionMap, isl.UnionMap]:
    """`{ S[i] -> A[e] }` of all reads and of all writes."""
    reads = writes = isl.UnionMap.empty(program.context.get_space())
    for statement in program.statements:
        written = affine_map(statement.domain, statement.write.array, statement.write.index)
        writes = writes.union(isl.UnionMap.from_map(written))
        for access in statement.reads:
            read = affine_map(statement.domain, access.array, access.index)
            reads = reads.union(isl.UnionMap.from_map(read))
    return _fixed(reads, sizes), _fixed(writes, sizes)


def _exposed(program: Program, reads: isl.UnionMap, writes: isl.UnionMap) -> isl.UnionSet:
    """Elements that some instance reads before any other one of the block writes them.

    By the order of the source: a schedule that is legal keeps the order of a write and a read.
    """
    time = program.schedule.get_map()
    read_time = time.intersect_domain(reads.domain())
    write_time = time.intersect_domain(writes.domain())
    earlier = read_time.lex_gt_union_map(write_time)  # { reader -> writer : it runs before }
    return reads.subtract(earlier.apply_range(writes)).range()


def _general_block(blocks: isl.UnionMap) -> tuple[int, ...]:
    """The coordinates of a block that has instances, none of them a simple function of another."""
    parts = sets_in(blocks.range())
    if not parts or blocks.is_empty():
        raise UsageError("the kernel has no instances for these sizes")
    (coordinates,) = parts
    rank = coordinates.dim(_SET)
    for at in range(rank):
        low, high = (
            x.to_python() for x in (coordinates.dim_min_val(at), coordinates.dim_max_val(at))
        )
        wish = low + (high - low) * (at + 1) // (rank + 1)
        upper = coordinates.lower_bound_val(_SET, at, isl_integer(wish))
        value = upper.dim_min_val(at)
        coordinates = coordinates.fix_val(_SET, at, value)
    point = coordinates.sample_point()
    return tuple(point.get_coordinate_val(_SET, k).to_python() for k in range(rank))


def _point(coordinates: isl.UnionSet, values: Sequence[int]) -> isl.UnionSet:
    (part,) = sets_in(coordinates)
    point = isl.Set.universe(part.get_space())
    for at, value in enumerate(values):
        point = point.fix_val(_SET, at, isl_integer(value))
    return isl.UnionSet.from_set(point)


def _elements(union: isl.UnionSet, array: str) -> isl.UnionSet:
    kept = isl.UnionSet.empty(union.get_space())
    for part in sets_in(union):
        if part.get_tuple_name() == array:
            kept = kept.union(isl.UnionSet.from_set(part))
    return kept


def _count(union: isl.UnionSet) -> int:
    """The number of points of a finite union set that depends on no parameter."""
    # isl counts nothing where a set has parameters, even unused ones.
    parts = (part.project_out_all_params() for part in sets_in(union))
    return sum(int(part.count_val().to_python()) for part in parts)


def _fixed(relation: isl.UnionMap, sizes: Mapping[str, int]) -> isl.UnionMap:
    """A relation with all parameters replaced by numbers."""
    found = isl.UnionMap.empty(isl.Space.params_alloc(context(), 0))
    for part in maps_in(relation):
        for at in reversed(range(part.dim(_PARAM))):
            name = part.get_dim_name(_PARAM, at) or ""
            if name not in sizes:
                raise UsageError(f"parameter {name} has no value")
            number = isl_integer(sizes[name])
            part = part.fix_val(_PARAM, at, number).project_out(_PARAM, at, 1)
        found = found.union(isl.UnionMap.from_map(part))
    return found
