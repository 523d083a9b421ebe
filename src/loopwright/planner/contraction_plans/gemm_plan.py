"""Planning a product: register tile, packing, blocks and the parallel loop of algorithm 6."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from loopwright.ir.contraction_shape import (
    MOST_TABLE_BYTES,
    ContractionShape,
    Dim,
    has_runs,
)
from loopwright.ir.dtypes import DTYPES
from loopwright.ir.kernel_check import unsupported
from loopwright.ir.kernel_variant import (
    Algebra,
    Algorithm,
    Broadcast,
    ContractionKernel,
    Initial,
    KernelVariant,
    Packing,
)
from loopwright.ir.machine import Machine
from loopwright.lazy_dataclass import dataclass
from loopwright.lower.contraction_nests.launch import is_nearest, misfit, places, walk_bytes
from loopwright.planner.contraction_plans.choice import Choice, even_block, operator_names
from loopwright.planner.contraction_plans.gemm_model import GemmBlocks, gemm_blocks, largest_tile
from loopwright.planner.contraction_plans.thin_products import TileLimits, is_thin, thin_tiles

__all__ = ["dot_group", "dot_tile", "plan_inner_product", "plan_product"]

# Blocks that each thread gets of the loop that is shared out, where they stay large enough: others
# take those of a thread that is late.
_MOST_ROW_BLOCKS = 4
_LEAST_ROWS = 64  # of a block of i: a panel of right that comes from L3 is used that often
# The same where panels of right pass by each row of tiles anew, so that small blocks cost nothing.
_MOST_TILE_BLOCKS, _LEAST_TILES = 16, 6
_LEAST_PANEL = 1 << 17  # multiply-adds of a panel that threads take by itself
_MOST_COLUMN_BLOCKS = 2  # four cost 2 to 5%: narrow blocks of right are packed slowly (N1)
# Columns of a packed block inside a program: more cost memory and gain less than 1%.
_MOST_COLUMNS = 1024
# Predicted gain above which a thin tile is taken: the closed form is wrong by a tenth in two of
# three cases (standard deviation, log2: 0.14).
_LEAST_GAIN = 1.1
_PADDED = 0.01  # share of columns beyond the product above which another tile may be better
_MOST_COMPLEX_ROWS = 16
_ROWS_AHEAD = 8  # steps by which rows of right in place are prefetched; 4 to 16 are alike (N1)


@lru_cache(maxsize=256)
def _blocks(machine: Machine, plus: str, times: str, dtype: str) -> GemmBlocks:
    return gemm_blocks(machine, plus, times, dtype)


@dataclass(frozen=True, slots=True)
class _Tile:
    """The register tile and how it is fed."""

    rows: int
    vectors: int
    lanes: int
    broadcast: Broadcast
    unroll: int
    ahead: int  # steps by which the streaming panel is prefetched
    group: int  # steps per dot instruction
    left: Packing
    right: Packing
    flipped: bool = False  # see KernelVariant

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def plan_product(
    shape: ContractionShape, algebra: Algebra, machine: Machine, threads: int, lanes: int
) -> Choice:
    """Tile, packing, blocks and parallel loop of algorithm 6 for one shape."""
    expected = _expected(algebra)
    cost = machine.vmma(*operator_names(expected), algebra.accumulator.name)
    rate = cost.per_cycle * lanes
    tile = _tile(shape, expected, machine, lanes)
    guarded = _is_guarded(algebra, machine, tile)
    if tile.left is not Packing.DIRECT:
        tile = replace(tile, rows=max(1, tile.rows - _registers_of_extremes(expected, machine)))

    def planned(tile: _Tile) -> Choice:
        parallel, shares = _parallel(shape, machine, threads, rate, tile)
        if parallel != "i" and _may_pack_by_tile(shape, expected, machine, tile):
            tile = replace(tile, right=Packing.BY_TILE)
        blocks = _block_sizes(shape, expected, machine, tile, (parallel, shares))
        variant = replace(
            _variant(tile, shape),
            parallel=parallel,
            guarded=guarded,
            runs=has_runs(shape.j, "out", lanes),
        )
        variant = replace(variant, strided=places(variant, shape))
        cycles = math.prod(shape.sizes) / rate / shares
        return Choice(ContractionKernel(algebra, variant), blocks, shape, shares, cycles)

    choice = planned(tile)
    _, m, n, _ = shape.sizes
    if guarded or tile.group > 1 or not is_thin(m, n, tile.rows, tile.columns):
        return choice
    others = [planned(other) for other in _thin_tiles(shape, expected, machine, tile)]
    return _cheapest(choice, others, machine)


def _thin_tiles(
    shape: ContractionShape, algebra: Algebra, machine: Machine, tile: _Tile
) -> Iterator[_Tile]:
    """Tiles as flat or as narrow as the product, with what is used once read in place."""
    _, m, n, _ = shape.sizes
    cost = machine.vmma(*operator_names(algebra), algebra.accumulator.name)
    broadcasts = tile.broadcast is Broadcast.LOAD and cost.fused
    in_place = _is_line_of_steps(shape, algebra) and (cost.by_element or broadcasts)
    right_in_place = in_place and _is_line_of_columns(shape)
    is_ragged = algebra.initial is Initial.ZERO
    given = tile.lanes, machine.vector_registers, tile.broadcast
    parts = 2 if algebra.accumulator.is_complex else 1
    limits = TileLimits(*given, in_place, right_in_place, is_ragged, parts)
    right = tile.right
    if right is Packing.DIRECT:  # a tile of another width may not divide the columns
        right = _packing(shape.j, shape.p, "right", tile.lanes, True, _near(algebra, machine))
    for rows, vectors, is_direct in thin_tiles(m, n, tile.rows, tile.columns, limits):
        other = replace(tile, rows=rows, vectors=vectors, right=right)
        if in_place:
            unroll = tile.lanes if tile.broadcast is Broadcast.LANE else tile.unroll
            other = replace(other, ahead=0, unroll=unroll, left=Packing.DIRECT)
        if is_direct:
            other = replace(other, right=Packing.DIRECT, ahead=_ROWS_AHEAD)
        if other != tile:
            yield other


def _cheapest(choice: Choice, others: Sequence[Choice], machine: Machine) -> Choice:
    """The choice itself, or one that the closed form thinks faster beyond its error."""
    fitting = [x for x in others if not unsupported(x.kernel) and not misfit(x.kernel, x.shape)]
    if not fitting:
        return choice
    # lazy: few products are thin
    from loopwright.planner.contraction_plans.contraction_cost import choice_cycles

    cycles = [choice_cycles(x, machine) for x in fitting]
    least = min(cycles)
    is_better = choice_cycles(choice, machine) > _LEAST_GAIN * least
    return fitting[cycles.index(least)] if is_better else choice


def _variant(tile: _Tile, shape: ContractionShape) -> KernelVariant:
    return KernelVariant(
        Algorithm.PRODUCT,
        tile.rows,
        tile.vectors,
        tile.lanes,
        tile.left,
        tile.right,
        swapped=shape.swapped,
        broadcast=tile.broadcast,
        unroll=tile.unroll,
        ahead=tile.ahead,
        group=tile.group,
        flipped=tile.flipped,
    )


def plan_inner_product(
    shape: ContractionShape, algebra: Algebra, machine: Machine, lanes: int
) -> tuple[KernelVariant, tuple[int, int, int]]:
    """Variant and blocks of algorithm 6 inside a larger nest, on operands that are always packed.

    Sizes of the shape are what is expected: blocks are cut to the true ones at run time.
    """
    tile = _packed_tile(shape, algebra, machine, lanes)
    if tile.flipped:
        # Turned signs need sums of columns, which have no place in a nest: bytes are widened.
        wide = replace(algebra, left=DTYPES["int16"], right=DTYPES["int16"])
        tile = _packed_tile(shape, wide, machine, lanes)
    mc, nc, kc = _block_sizes(shape, algebra, machine, tile, ("none", 1))
    # Walks need tables of the launch; what is read for each block of columns is packed once more.
    left, right = (
        Packing.GATHER if packing in (Packing.WALK_TILE, Packing.WALK_P) else packing
        for packing in (tile.left, tile.right)
    )
    variant = _variant(replace(tile, left=left, right=right), shape)
    return variant, (mc, min(nc, _MOST_COLUMNS // tile.columns * tile.columns), kc)


def _tile(shape: ContractionShape, algebra: Algebra, machine: Machine, lanes: int) -> _Tile:
    """The tile of the model, or a flatter one that reads left in place where that pays."""
    cost = machine.vmma(*operator_names(algebra), algebra.accumulator.name)
    packed = _packed_tile(shape, algebra, machine, lanes)
    broadcasts = packed.broadcast is Broadcast.LOAD and cost.fused and packed.group == 1
    columns = packed.columns if broadcasts else 4 * lanes
    fits = _fits_in_place(shape, algebra, machine, columns)
    if not fits or not (cost.by_element or broadcasts):
        return packed
    if broadcasts:
        right = packed.right
        if _right_in_place(shape, algebra, machine, columns):
            right = Packing.DIRECT
        rows = _even_rows(shape.sizes[1], packed.rows)
        return replace(packed, rows=rows, ahead=0, left=Packing.DIRECT, right=right)
    rows, vectors = _tile_in_place(machine.vector_registers)
    if _right_in_place(shape, algebra, machine, vectors * lanes):
        return _Tile(
            rows, vectors, lanes, Broadcast.LANE, lanes, 0, 1, Packing.DIRECT, Packing.DIRECT
        )
    right = _packing(shape.j, shape.p, "right", lanes, True, _near(algebra, machine))
    # Two vectors of steps per row: measured best from 64 to 384 rows, both precisions (N1).
    return _Tile(rows, vectors, lanes, Broadcast.LANE, 2 * lanes, 0, 1, Packing.DIRECT, right)


def _may_pack_by_tile(
    shape: ContractionShape, algebra: Algebra, machine: Machine, tile: _Tile
) -> bool:
    """Whether the first tile of a panel of right fills it: one block of rows uses the panel.

    Lines that two panels share are read for both, with all of left in between: all three arrays
    stay in L2 (275 x 245 x 265 in float64 do not, and lost 4%; N1).

    A vector packed beside arithmetic costs 1.2 cycles, in a pass of its own 1.75 (N1). Where
    elements of left are loaded into all lanes, tiles have many rows with a pointer each: beside the
    runs of right LLVM spills in the innermost loop, 4% in the mean of 4,400 products (SPR).
    """
    is_in_place = tile.left is Packing.DIRECT and tile.broadcast is Broadcast.LANE
    _, m, n, k = shape.sizes
    fits = (m * k + k * n + m * n) * algebra.accumulator.bytes <= machine.cache(2).size
    return is_in_place and tile.right is Packing.BY_PANEL and fits


def _near(algebra: Algebra, machine: Machine) -> int:
    """Elements of an operand that stay in cache while it is packed."""
    return 4 * machine.cache(2).size // max(algebra.left.bytes, algebra.right.bytes)


def _packed_tile(shape: ContractionShape, algebra: Algebra, machine: Machine, lanes: int) -> _Tile:
    """The tile of the model over packed operands."""
    plus, times = operator_names(algebra)
    dtype = algebra.accumulator
    cost = machine.vmma(plus, times, dtype.name)
    blocks = _blocks(machine, plus, times, dtype.name)
    rows, vectors = blocks.m_r, max(1, blocks.n_r // lanes)
    near = _near(algebra, machine)
    right = _packing(shape.j, shape.p, "right", lanes, True, near)
    broadcast = Broadcast.LANE if cost.by_element else Broadcast.LOAD
    if not cost.by_element and machine.isa == "aarch64":
        # ARM broadcasts by an instruction of the vector pipes, which the operators need.
        broadcast = Broadcast.REPLICATED
        rows, vectors = _replicated_tile(machine.vector_registers, lanes, *shape.sizes[1:3])
    unroll = 4 if cost.fused else 2
    if dtype.is_complex:
        rows, vectors = _complex_tile(machine.vector_registers, lanes, broadcast)
        unroll = 2 if broadcast is Broadcast.LOAD and cost.fused else 1
    group, flipped = dot_group(algebra, machine)
    if group > 1:
        rows, vectors, broadcast, unroll = dot_tile(machine, group)
        # Packing reads runs of as many bytes as a vector holds, or as a row of the tile.
        run = min(group, vectors) * lanes
        right = _packing(shape.j, shape.p, "right", run, True, near)
    left = _packing(shape.i, shape.p, "left", lanes, rows % lanes == 0, near)
    return _Tile(rows, vectors, lanes, broadcast, unroll, 32, group, left, right, flipped)


def _even_rows(m: int, rows: int) -> int:
    """Rows of tiles that share `m` rows evenly, not many fewer than `rows`."""
    even = -(-m // -(-m // rows))
    return even if even >= rows - 2 else rows


def _fits_in_place(
    shape: ContractionShape, algebra: Algebra, machine: Machine, columns: int
) -> bool:
    """Whether left is best read where it lies: its rows run along p and all of it stays in L2."""
    _, m, _, k = shape.sizes
    dtype = algebra.accumulator
    if not _is_line_of_steps(shape, algebra):
        return False
    l1, l2 = machine.cache(1).size, machine.cache(2).size
    panel = k * columns * dtype.bytes
    return m * k * dtype.bytes <= l2 * 3 // 4 and panel <= l1 // 2


def _is_line_of_steps(shape: ContractionShape, algebra: Algebra) -> bool:
    """Whether rows of left are runs along p in the type of the sums, so that vectors read them."""
    dtype = algebra.accumulator
    plain = algebra.left == algebra.right == dtype and not algebra.scaled and not dtype.is_complex
    return plain and len(shape.p) == 1 and shape.p[0].left == 1


def _is_line_of_columns(shape: ContractionShape) -> bool:
    """Whether rows of right are runs along j, one after another."""
    is_line = len(shape.j) == 1 and shape.j[0].right == 1
    return is_line and len(shape.p) == 1 and shape.p[0].right >= 0


def _right_in_place(
    shape: ContractionShape, algebra: Algebra, machine: Machine, columns: int
) -> bool:
    """Whether right needs no packing either: whole tiles, and all of it stays in L1."""
    _, _, n, k = shape.sizes
    fits = n * k * algebra.right.bytes <= machine.cache(1).size * 5 // 8
    return _is_line_of_columns(shape) and fits and n % columns == 0


def _tile_in_place(registers: int) -> tuple[int, int]:
    """Rows and vectors when each row of left takes two registers of steps."""
    vectors = 4
    return max(1, (registers - 2 - vectors) // (vectors + 2)), vectors


def _block_sizes(
    shape: ContractionShape,
    algebra: Algebra,
    machine: Machine,
    tile: _Tile,
    shared: tuple[str, int],
) -> tuple[int, int, int]:
    """M_c, N_c and K_c: the model's, cut to even shares of the sizes at hand."""
    _, m, n, k = shape.sizes
    size = max(algebra.left.bytes, algebra.right.bytes)
    if tile.group > 1:
        size = algebra.accumulator.bytes // tile.group  # as packed
    l1, l2 = machine.cache(1).size, machine.cache(2).size
    blocks = _blocks(machine, *operator_names(algebra), algebra.accumulator.name)
    copies = tile.lanes if tile.broadcast is Broadcast.REPLICATED else 1
    panel = l1 // 2
    if tile.broadcast is Broadcast.LOAD:
        # A large second cache feeds tiles as well as the first does: longer panels mean fewer
        # passes over out. Measured, Emerald Rapids: 64 KiB gain 9 to 13% on 24, all types.
        panel = max(panel, min(l1 * 4 // 3, l2 // 32))
    kc = panel // (tile.columns * size)
    if copies > 1:
        # The replicated panel of left is the one that stays in L1.
        kc = l1 * 3 // 4 // ((tile.rows * copies + tile.columns) * size)
    # Sums of a wider type must not pass through out before they are complete.
    if tile.left is Packing.DIRECT or algebra.accumulator != algebra.out:
        kc = k
    # Panels a quarter longer cost less than another pass over out (measured, N1).
    unit = tile.unroll * tile.group
    if len(shape.p) > 1 and Packing.ALONG_P in (tile.left, tile.right):
        unit = math.lcm(unit, tile.lanes)  # a block begins where a vector of a run may begin
    kc = even_block(k, kc, unit, stretch=1.25)
    # Where panels of right come from the second cache, they and out need room beside left.
    room = l2 * 3 // 4 if panel == l1 // 2 else l2 // 4
    mc = m if tile.left is Packing.DIRECT else room // (kc * size * copies)
    nc = blocks.n_c
    parallel, shares = shared
    if m <= mc and parallel != "i":
        # Left is one block, so that short blocks of right cost next to nothing: what was packed is
        # read again while it is near.
        nc = min(nc, l2 // (kc * size))
    is_one_panel = parallel != "j" or m * k * tile.columns >= _LEAST_PANEL
    if tile.right is Packing.BY_TILE and is_one_panel:
        # A panel stays in L1 from its first tile to its last, and pushes nothing else out: the
        # innermost loops of 64 to 256 rows run at 8.04 cycles of 8, with wide blocks at 8.18 (N1).
        # Threads that take turns at panels have even shares: 83 x 197 x 197 on two gains 18%.
        nc = tile.columns
    over_i = shares * _row_pieces(m // shares, tile) if parallel == "i" else 1
    over_j = shares if parallel == "j" else 1
    if parallel == "j" and tile.left is Packing.DIRECT:
        # Where left is packed, every block of columns packs it once more.
        over_j *= _pieces(n // shares, 2 * tile.columns, _MOST_COLUMN_BLOCKS)
    mc = even_block(m, mc, tile.rows, shares=over_i)
    if parallel == "i":
        mc = _balanced_rows(m, mc, tile, shares)
    return mc, even_block(n, nc, tile.columns, shares=over_j), kc


def _row_pieces(share: int, tile: _Tile) -> int:
    """Blocks of rows that the share of one thread is cut into."""
    if tile.broadcast is Broadcast.REPLICATED:
        return _pieces(share, _LEAST_TILES * tile.rows, _MOST_TILE_BLOCKS)
    return _pieces(share, _LEAST_ROWS, _MOST_ROW_BLOCKS)


def _balanced_rows(m: int, block: int, tile: _Tile, shares: int) -> int:
    """A block of at most `block` rows with which the thread that has most rows has fewest.

    Whole tiles make the last block short: of 2,000 rows in blocks of 128 one thread of two gets
    1,024, in blocks of 100 both get 1,000. Blocks down to half the size are tried, and one that is
    smaller has to gain more than 1 in 256, since each is packed by itself.
    """

    def load(rows: int) -> int:
        return math.ceil(math.ceil(m / rows) / shares) * rows

    best = block
    for rows in range(block - tile.rows, block // 2, -tile.rows):
        if load(rows) * 256 < load(best) * 255:
            best = rows
    return best


def _pieces(share: int, least: int, most: int) -> int:
    """Blocks that the share of one thread is cut into, none of them below `least`."""
    return max(1, min(most, share // least))


def _expected(algebra: Algebra) -> Algebra:
    """What the loop computes that most data take (operand_scan): its cost is planned."""
    return replace(algebra, times="add") if _has_absorbing_sums(algebra) else algebra


def _has_absorbing_sums(algebra: Algebra) -> bool:
    """Whether scanning integers may replace absorbing sums by saturating ones.

    Unsigned types saturate only as they are.
    """
    absorbs = algebra.times in ("add_top", "add_bottom") and algebra.accumulator.kind == "i"
    return absorbs and _is_uniform(algebra)


def _is_uniform(algebra: Algebra) -> bool:
    """Whether packed elements are those of the operands, in the type of the sums."""
    alike = algebra.left == algebra.right == algebra.accumulator == algebra.out
    return alike and not algebra.scaled


def _is_guarded(algebra: Algebra, machine: Machine, tile: _Tile) -> bool:
    """Whether the operands are worth a scan: for signed integers where an end absorbs.

    So are minima and maxima of floats where x86 has AVX512DQ: it takes seven instructions for exact
    ones, and one for those that prefer numbers to NaN. What out holds must not be scaled.
    """
    if Packing.DIRECT in (tile.left, tile.right):
        return False
    if _has_absorbing_sums(algebra):
        return True
    extreme = algebra.plus in ("min", "max") and algebra.times in ("add", "mul", "min", "max")
    wide = algebra.accumulator.name in ("float32", "float64") and _is_uniform(algebra)
    begins = algebra.initial is not Initial.SCALED
    return extreme and wide and begins and "avx512dq" in machine.features


def _registers_of_extremes(algebra: Algebra, machine: Machine) -> int:
    """Registers that exact minima and maxima of floats take beside those of the model, in rows.

    With AVX-512 tiles leave no more than the model asks for, and LLVM spilled sums in the innermost
    loop: the blends of NaN take another register, and signs one more where they are not moved to
    masks by an instruction of AVX512DQ.
    """
    is_extreme = algebra.plus in ("min", "max") and algebra.accumulator.is_float
    if not is_extreme or "avx512f" not in machine.features:
        return 0
    return 1 if "avx512dq" in machine.features else 2


def _replicated_tile(registers: int, lanes: int, m: int, n: int) -> tuple[int, int]:
    """Rows and vectors where every element of left is a vector load, as those of right are.

    The tile with the most updates per load, r*v / (r + v), that leaves room for the products on
    their way: six registers more than the operands need (measured, N1: 20 sums beat 24). Of tiles
    with as many, such as 4 x 5 and 5 x 4, the widest, unless `_PADDED` and more of the columns that
    it computes are not there; then that which covers `m` x `n` with the fewest elements, columns
    before rows (n = 128, float32, N1: [/,max] 3%, [+,max] 5%).
    """
    fitting = [
        (r, v) for r in range(1, registers) for v in range(1, 9) if r * v + v + 7 <= registers
    ]
    if not fitting:
        return 1, 1

    def ratio(tile: tuple[int, int]) -> float:
        return tile[0] * tile[1] / sum(tile)

    def padding(tile: tuple[int, int]) -> tuple[int, int, int]:
        high, wide = (
            -(-size // unit) * unit for size, unit in ((m, tile[0]), (n, tile[1] * lanes))
        )
        return high * wide, wide, -tile[1]

    best = max(fitting, key=lambda tile: (ratio(tile), tile[1]))
    if padding(best)[1] < (1 + _PADDED) * n:
        return best
    return min((tile for tile in fitting if ratio(tile) == ratio(best)), key=padding)


def _complex_tile(registers: int, lanes: int, broadcast: Broadcast) -> tuple[int, int]:
    """Rows and vectors of the complex tile with the most updates for each element that is loaded.

    Where lanes of vectors of left are used, rows fill these.
    """
    limits = TileLimits(lanes, registers, broadcast, False, False, False, parts=2)
    unit = 1 if broadcast is Broadcast.LOAD else lanes
    best = (1, 1)
    for vectors in range(1, 5):
        for rows in range(unit, _MOST_COMPLEX_ROWS + 1, unit):
            better = rows * vectors * (best[0] + best[1] * lanes) > best[0] * best[1] * (
                rows + vectors * lanes
            )
            if better and limits.fits(rows, vectors):
                best = (rows, vectors)
    return best


def _packing(
    tile: tuple[Dim, ...],
    p: tuple[Dim, ...],
    operand: str,
    lanes: int,
    aligned: bool,
    near: int,
) -> Packing:
    """How an operand is packed: along runs of its tile loop or of p, else by elements.

    Up to `near` elements stay in cache meanwhile, so that the order along the tile's loop does not
    matter; steps are taken in the order of memory.
    """
    elements = math.prod(d.extent for d in (*tile, *p))
    if has_runs(tile, operand, lanes) and (aligned or len(tile) == 1):
        apart = abs(getattr(tile[-2], operand)) if len(tile) > 1 else 0
        is_nearer = p and apart > min(abs(getattr(d, operand)) for d in p)
        # Half of L2 is read in any order as fast, and panels are then written in order: 2 to 5% of
        # products of 64 to 256 (measured, N1); at twice as much, 2% slower.
        return Packing.BY_PANEL if is_nearer or 8 * elements <= near else Packing.ALONG_TILE
    if has_runs(p, operand, lanes):
        return Packing.ALONG_P
    is_far = elements > near
    if is_far and is_nearest(tile, p, operand) and walk_bytes(tile) <= MOST_TABLE_BYTES:
        return Packing.WALK_TILE
    # What lies in L2 is near enough in any order of steps, and panels are then written in order.
    is_small = 4 * elements <= near
    steps = [abs(getattr(d, operand)) for d in p]
    is_in_order = steps == sorted(steps, reverse=True)
    is_long = walk_bytes(p) > MOST_TABLE_BYTES
    return Packing.GATHER if is_small or is_in_order or is_long else Packing.WALK_P


def _parallel(
    shape: ContractionShape, machine: Machine, threads: int, rate: float, tile: _Tile
) -> tuple[str, int]:
    """The loop with the best F(L) = N_O / (C_PAR + cycles), and how many shares it gets."""
    if threads == 1:
        return "none", 1
    g, m, n, k = shape.sizes
    work = g * m * n * k / rate
    best, found = work, ("none", 1)
    start = machine.parallel_cost.cycles(threads)
    # Threads that share the blocks of i meet at two barriers for each packed block of right; those
    # that share the blocks of j pack the whole of left each, an element per cycle.
    again = 0 if tile.left is Packing.DIRECT else g * m * k * (threads - 1) / threads
    loops = (
        ("batch", g, start),
        ("i", m // tile.rows, 2 * start),
        ("j", n // tile.columns, start + again),
    )
    for name, units, extra in loops:
        if units < threads:
            continue
        cycles = extra + work * -(-units // threads) / units
        if cycles < best:
            best, found = cycles, (name, threads)
    return found


# -- sums of products of narrow integers by instructions that add several products at once --------


def dot_group(algebra: Algebra, machine: Machine) -> tuple[int, bool]:
    """Steps per instruction, and whether the sign bits of left are turned for it.

    Sums of 32 bits take four bytes at once where the machine has dot products of bytes: on ARM of
    one kind, on x86 of one signed and one unsigned factor. Elsewhere they take two 16-bit integers,
    which bytes are widened to. Without either, one.
    """
    sums = algebra.accumulator.is_integer and algebra.accumulator.bits == 32
    plain = algebra.plus == "add" and algebra.times == "mul" and not algebra.scaled
    types = {algebra.left.name, algebra.right.name}
    if not (sums and plain and types <= {"int8", "uint8", "int16"}):
        return 1, False
    is_x86 = machine.isa == "x86_64"
    if "int16" not in types and machine.fused("dot", "int8") is not None:
        alike = len(types) == 1
        if alike or is_x86:
            return 4, alike and is_x86
    return (2 if machine.fused("dot", "int16") is not None else 1), False


def dot_tile(machine: Machine, group: int) -> tuple[int, int, Broadcast, int]:
    """Rows, vectors, broadcast and steps at a time of a tile of dot instructions."""
    if machine.isa == "aarch64":
        # A group of left is a lane of a register.
        return machine.lanes(32), 4, Broadcast.LANE, 4
    cost = machine.fused("dot", "int8" if group == 4 else "int16")
    assert cost is not None
    plain = machine.processor("add", "mul", "int32")
    fused = cost.instructions == 1
    latency, rate = cost.accumulate, cost.per_cycle
    tile = largest_tile(replace(plain, latency=latency, per_cycle=rate, fused=fused))
    # LLVM takes chains of vpdpwssd apart, into products and sums of their own, which halves their
    # rate: one step at a time there is none.
    unroll = 2 if not fused else 4 if group == 4 else 1
    return tile.m_r, tile.n_r // plain.lanes, Broadcast.LOAD, unroll
