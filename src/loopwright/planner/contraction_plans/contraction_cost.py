"""What a contraction costs as a kernel variant: a closed form over tile, packing, blocks, threads.

Algorithm 6 (theory 1, section 3) over G x M x N x K runs tiles of M_r x N_r, K_c steps each:

    tiles * steps * max(multiply-adds, loads, instructions, latency of a step)    innermost loop
  + tiles * (elements of out that are read and written, latency to begin and end)
  + elements packed * cycles of an element, by the way they are packed
  + lines that panels of left and right, and out, bring into caches

Tiles at the edges cost what whole ones do. Right is packed once, left once for every block of
columns. Dot products (algorithm 8), columns (algorithm 7) and single elements read each operand
once, and wait for memory or arithmetic, whichever takes longer. Threads share the blocks of one
loop; the thread with the most of them is counted, and opening the region.

Numbers are the machine model's; those below are the closed form's own.
"""

from __future__ import annotations

import math

from loopwright.ir.contraction_shape import Dim
from loopwright.ir.kernel_variant import Algorithm, Broadcast, Initial, Packing
from loopwright.ir.machine import Machine
from loopwright.planner.contraction_plans.choice import Choice, operator_names
from loopwright.planner.cost.cache_misses import clashing_share, lost_share, read_rate

__all__ = ["choice_cycles", "choice_seconds"]

_NEAR, _FAR = 0.25, 1.0  # shares of a line's cycles that are waited for, in rows and across them
_FETCHED = 0.5  # of them where the panel is prefetched
_LOOP = 3.0  # instructions of an iteration beside its work
_HALF = 1.15  # times the cycles of half a tile that goes by single steps
_ELEMENT = 2.0  # cycles of an element of out at the edge, by way of memory
_TILE = 24.0  # cycles to begin and end a tile: pointers, branches, the last sums
_BLOCK = 200.0  # cycles to begin and end a block
# Cycles of one packed element beyond its load and store, in instructions of the element's vector.
_PACKED = {
    Packing.DIRECT: 0.0,
    Packing.ALONG_TILE: 2.0,
    Packing.BY_PANEL: 2.0,
    Packing.BY_TILE: 1.0,
    Packing.ALONG_P: 4.0,
}
_PARTLY = 1.5  # cycles of a step whose column of left fills its last vector in part
_ANY = 3.0  # cycles of an element whose place comes from tables
_SPILL = 0.8  # cycles of a register too many, in every step
_SINGLY = 1.5  # cycles of an element that is packed by itself
_UNKNOWN_HZ = 1e9  # see tree_cost


def choice_seconds(choice: Choice, machine: Machine) -> float:
    """Seconds of one run with operands in the nearest caches that hold them."""
    return choice_cycles(choice, machine) / (machine.frequency_hz or _UNKNOWN_HZ)


def choice_cycles(choice: Choice, machine: Machine) -> float:
    """Cycles of one run."""
    if choice.variant.algorithm is Algorithm.PRODUCT:
        return _Product(choice, machine).cycles()
    return _streamed(choice, machine)


class _Product:
    """Counts of algorithm 6."""

    def __init__(self, choice: Choice, machine: Machine) -> None:
        self.choice, self.machine = choice, machine
        self.variant = choice.variant
        algebra = choice.kernel.algebra
        self.algebra = algebra
        self.left, self.right = choice.kernel.left.bytes, choice.kernel.right.bytes
        if self.variant.left_packing is not Packing.DIRECT:
            self.left = choice.kernel.packed_left.bytes
        if self.variant.right_packing is not Packing.DIRECT:
            self.right = choice.kernel.packed_right.bytes
        self.batch, self.m, self.n, self.k = choice.shape.sizes
        mc, nc, kc = choice.blocks
        self.mc, self.nc = min(mc or self.m, self.m), min(nc or self.n, self.n)
        self.kc = min(kc or self.k, self.k)
        self.rows, self.columns = self.variant.rows, max(1, self.variant.columns)
        self.step = machine.vmma(*operator_names(algebra), algebra.accumulator.name)
        self.line = machine.caches[0].line

    def cycles(self) -> float:
        depth = math.ceil(self.k / self.kc)
        rows = self._tiles(self.m, self.mc, self.rows)
        tiles = rows * self._tiles(self.n, self.nc, self.columns)
        inner = self._full_tiles() * self.k * self._step_cycles()
        edges = tiles * depth * self._tile_cycles(depth) + rows * depth * self._edge_cycles(depth)
        begun = _TILE if self.variant.right_packing is Packing.BY_TILE else _BLOCK
        blocks = depth * math.ceil(self.n / self.nc) * math.ceil(self.m / self.mc) * begun
        work = inner + edges + blocks + self._packing() + self._traffic(depth)
        return self._shared(work * self.batch)

    def _tiles(self, total: int, block: int, unit: int) -> int:
        whole, rest = divmod(total, block)
        return whole * math.ceil(block / unit) + math.ceil(rest / unit)

    def _full_tiles(self) -> float:
        """Tiles by their innermost loops: one at an edge computes no more than half of its rows or
        columns where that does, a step at a time (lower/contraction_nests/tile)."""
        variant = self.variant
        found = []
        for total, unit, half in (
            (self.m, self.rows, (variant.rows + 1) // 2 if variant.rows >= 4 else 0),
            (self.n, self.columns, (variant.vectors + 1) // 2 * variant.lanes),
        ):
            whole, rest = divmod(total, unit)
            is_half = 0 < rest <= half < unit
            share = half / unit * _HALF if is_half else math.ceil(rest / unit)
            found.append(whole + min(1.0, share))
        return found[0] * found[1]

    def _edge_cycles(self, depth: int) -> float:
        """Cycles of the elements of one tile that are written singly at the right edge."""
        variant = self.variant
        half = (variant.vectors + 1) // 2 * variant.lanes
        rest = self.n % self.columns
        if rest in (0, half) or not variant.runs or variant.right_packing is Packing.DIRECT:
            return 0.0
        is_read = depth > 1 or self.algebra.initial is not Initial.ZERO
        return self.rows * rest * _ELEMENT * (1 + is_read)

    def _step_cycles(self) -> float:
        """Cycles of one step of p in a whole tile."""
        machine, variant = self.machine, self.variant
        lanes = max(1, variant.lanes)
        updates = self.rows * variant.vectors / variant.group
        by_lane = variant.broadcast is Broadcast.LANE
        from_left = self.rows / lanes if by_lane else float(self.rows)
        loads = (variant.vectors + from_left) / variant.group
        if variant.right_packing is Packing.ANY:
            loads += variant.vectors * lanes
        overhead = _LOOP / (variant.unroll * variant.group)
        if variant.ahead and variant.right_packing is Packing.DIRECT:
            overhead += self.columns * self.right / self.line + 1
        elif variant.ahead:
            overhead += (self.rows * self.left + self.columns * self.right) / self.line
        arithmetic = updates / self.step.per_cycle
        if variant.broadcast is Broadcast.LOAD and machine.isa == "aarch64":
            arithmetic += self.rows / self.step.per_cycle / 2
        if by_lane and variant.left_packing is not Packing.DIRECT and self.rows % lanes:
            arithmetic += _PARTLY
        accesses = loads / machine.loads_per_cycle
        issue = (updates * self.step.instructions + loads + overhead) / machine.issue_width
        chain = self.step.chain / variant.group
        spilled = self._spilled()
        parts = (arithmetic, accesses + spilled, issue + spilled, chain)
        return float(sum(part**4 for part in parts) ** 0.25)

    def _spilled(self) -> float:
        """Cycles of registers that a step has to write away and read again."""
        variant = self.variant
        needed = self.rows * variant.vectors + variant.vectors + 1
        if variant.left_packing is Packing.DIRECT and variant.broadcast is Broadcast.LANE:
            # Each row has its steps at hand.
            needed += self.rows * max(1, variant.unroll // max(1, variant.lanes))
        return max(0.0, _SPILL * (needed - (self.machine.vector_registers or 16)))

    def _tile_cycles(self, depth: int) -> float:
        """Cycles of a tile of out: its elements, the first and the last latencies."""
        machine, variant = self.machine, self.variant
        vectors = self.rows * variant.vectors
        accesses = vectors if variant.runs else vectors * variant.lanes * 2
        is_read = depth > 1 or self.algebra.initial is not Initial.ZERO
        moved = accesses * (1.0 / machine.stores_per_cycle + is_read / machine.loads_per_cycle)
        return moved + _TILE + self.step.latency + machine.load_latency

    def _packing(self) -> float:
        """Cycles of packing both operands."""
        variant = self.variant
        copies = variant.lanes if variant.broadcast is Broadcast.REPLICATED else 1
        left = self._packed(variant.left_packing, self.m * self.k, self.choice.shape.i, "left")
        right = self._packed(variant.right_packing, self.k * self.n, self.choice.shape.j, "right")
        is_one_block = self.m <= self.mc and self.k <= self.kc
        times = 1 if is_one_block else math.ceil(self.n / self.nc)
        return left * times * (1 + copies) / 2 + right

    def _packed(
        self, packing: Packing, elements: int, dims: tuple[Dim, ...], operand: str
    ) -> float:
        if packing in (Packing.DIRECT, Packing.ANY):
            return 0.0
        lanes = max(1, self.variant.lanes)
        rate = _PACKED.get(packing)
        if rate is None:
            return elements * _SINGLY
        if packing is Packing.ALONG_P:
            rate = max(rate, 2 * math.log2(lanes))  # as many shuffles as a transposition has stages
        # A panel that is not whole is filled by single elements.
        width, total = (self.rows, self.m) if operand == "left" else (self.columns, self.n)
        singly = total % width / total if packing is not Packing.ALONG_P else 0.0
        by_vectors = (1 - singly) / lanes * (rate / self.machine.loads_per_cycle + 0.5)
        return elements * (by_vectors + singly)

    def _traffic(self, depth: int) -> float:
        """Cycles of lines that panels and out bring into caches, for the whole of one product."""
        caches = self.machine.caches
        panel = self.kc * self.columns * self.right
        strip = self.kc * self.rows * self.left
        out = self.m * self.n * self.algebra.out.bytes
        left_block = min(self.mc, self.m) * self.kc * self.left
        right_block = min(self.nc, self.n) * self.kc * self.right
        total = self.m * self.k * self.left + self.k * self.n * self.right + out
        column_tiles = self._tiles(self.n, self.nc, self.columns)
        row_tiles = self._tiles(self.m, self.mc, self.rows)
        cycles = 0.0
        for level, cache in enumerate(caches):
            if not lost_share(total / cache.size):
                break
            each = self.line / read_rate(self.machine, level + 1)
            cycles += each * self._source_lines(level)
            # Left is read again for every tile of columns, from its block.
            lost = lost_share((left_block + panel + strip) / cache.size)
            lines = self.m * self.k * self.left / self.line * lost * (column_tiles - 1)
            cycles += lines * each * _NEAR * (_FETCHED if self.variant.ahead else 1.0)
            # A panel of right is read again for every tile of rows.
            lost = lost_share((panel + 2 * strip) / cache.size)
            lost = max(lost, self._right_clash(level))
            again = lost * (row_tiles - 1)
            if lost_share((right_block + strip) / cache.size):
                again = max(again, math.ceil(self.m / self.mc) - 1)
            lines = self.k * self.n * self.right / self.line * again
            cycles += lines * each * _NEAR
            cycles += depth * out / self.line * each * _FAR / 2
        return cycles

    def _right_clash(self, level: int) -> float:
        """The part of a panel of right that is lost because its rows begin at few sets."""
        shape = self.choice.shape
        if self.variant.right_packing is not Packing.DIRECT or not shape.p:
            return 0.0
        stride = abs(shape.p[-1].right) * self.right
        # A row of left and of out for each row of right: a quarter more.
        return clashing_share(self.kc + self.kc // 4, stride, self.machine.caches[level])

    def _source_lines(self, level: int) -> float:
        """Lines of both operands that come from behind a cache once, by what is waited for."""
        cache = self.machine.caches[level]
        total = 0.0
        for operand in ("left", "right"):
            is_left = operand == "left"
            size = self.choice.kernel.left.bytes if is_left else self.choice.kernel.right.bytes
            elements = self.k * (self.m if is_left else self.n)
            lost = lost_share(elements * size / cache.size)
            total += lost * elements * size / self.line * self._exposed(operand, level)
        return total

    def _exposed(self, operand: str, level: int) -> float:
        """The share of a line's cycles that is waited for when an operand is first read.

        What is read along a tile comes in rows as long as the tile is wide; what lies in place may
        clash in the sets of a cache.
        """
        variant, shape = self.variant, self.choice.shape
        is_left = operand == "left"
        packing = variant.left_packing if is_left else variant.right_packing
        size = self.left if is_left else self.right
        if packing in (Packing.ALONG_TILE, Packing.BY_PANEL, Packing.BY_TILE):
            width = (self.rows if is_left else self.columns) * size
            return _NEAR + (_FAR - _NEAR) * min(1.0, self.line / (2 * width))
        if packing is not Packing.DIRECT or not shape.p:
            return _NEAR
        across = shape.i if is_left else shape.p
        stride = abs(getattr(across[-1], operand)) * size if across else 0
        if stride <= self.line:
            return _NEAR
        rows = self.rows if is_left else min(self.kc, self.k)
        cache = self.machine.caches[level]
        if is_left:
            return _NEAR + (_FAR - _NEAR) * clashing_share(rows, stride, cache)
        # Panels of right that are no wider than a line share lines, and meet them again where the
        # rows of one panel stay; each row is a new stream unless it is prefetched.
        shared = min(1.0, self.line / (self.columns * size))
        again = shared * lost_share(rows * self.line / cache.size)
        far = max(clashing_share(rows, stride, cache), 0.1 if variant.ahead else 0.7)
        return (_NEAR + (_FAR - _NEAR) * far) * (1 + again)

    def _shared(self, work: float) -> float:
        """Cycles of the thread that has most of the work."""
        threads = self.choice.threads
        if threads <= 1 or self.variant.parallel == "none":
            return work
        units = {
            "i": math.ceil(self.m / self.mc),
            "j": math.ceil(self.n / self.nc),
            "batch": self.batch,
        }[self.variant.parallel]
        share = math.ceil(units / min(units, threads)) / units
        regions = 1 if self.variant.parallel == "batch" else self.batch
        return work * share + regions * self.machine.parallel_cost.cycles(threads)


def _streamed(choice: Choice, machine: Machine) -> float:
    """Cycles of algorithms that read each operand about once."""
    variant, algebra = choice.variant, choice.kernel.algebra
    batch, m, n, k = choice.shape.sizes
    step = machine.vmma(*operator_names(algebra), algebra.accumulator.name)
    lanes = max(1, variant.lanes)
    points = batch * m * n * k
    vectors = points / lanes
    chains = max(1, variant.rows * variant.vectors)
    arithmetic = vectors * max(1 / step.per_cycle, step.chain / chains)
    left, right = choice.kernel.left.bytes, choice.kernel.right.bytes
    operands = 1 if algebra.times == "first" else 2
    loads = vectors * (1.0 + (operands - 1.0) / variant.rows)
    for packing in (variant.left_packing, variant.right_packing)[:operands]:
        if packing is Packing.ANY and lanes > 1 and variant.algorithm is Algorithm.ROWS:
            loads += vectors * lanes
    if variant.algorithm is Algorithm.ELEMENTS:
        loads += vectors
    elif variant.algorithm is Algorithm.COLUMNS:
        loads += 2 * vectors / variant.rows  # out is read and written for every group of steps
    issue = (loads + vectors * step.instructions) / machine.issue_width
    issue += vectors / max(1, variant.vectors * variant.unroll) * _LOOP / machine.issue_width
    ends = batch * m * _TILE * (variant.vectors / 4) if variant.algorithm is Algorithm.ROWS else 0.0
    data = batch * float(m * k * left + k * n * right + m * n * algebra.out.bytes)
    if variant.algorithm is Algorithm.ELEMENTS:
        data = batch * m * n * float(left + (operands - 1) * right + 2 * algebra.out.bytes)
    level = next((x for x, c in enumerate(machine.caches) if data <= c.size), len(machine.caches))
    moved = data / read_rate(machine, level) * (1.0 if variant.ahead else 1.1)
    work = max(arithmetic, loads / machine.loads_per_cycle, issue) + ends
    if lanes == 1 and Packing.ANY in (variant.left_packing, variant.right_packing):
        work += points * _ANY * (1 + 2 / variant.rows)
    cycles = max(work, moved) + 0.25 * min(work, moved)
    threads = choice.threads
    if threads <= 1 or variant.parallel == "none":
        return cycles
    return cycles / threads + machine.parallel_cost.cycles(threads)
