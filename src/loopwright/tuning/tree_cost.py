"""What a loop tree costs as quick code compiles it: a closed form over its loops and the machine.

For every nest the plan of its code (quick_plan) is made, and its iterations are counted exactly,
tails and all. The loops of a dimension are a mixed radix, so the points left to a loop are one of
few numbers, and how often each occurs is known for every dimension by itself. With

    operations   vector operations of straight-line code: fused multiply-adds, or those of the value
    loads        operands of straight-line code, each once: one vector, one broadcast element, or
                 the elements of a gather one by one; and blocks of sums that are come back to
    stores       blocks of sums, elements of assignments
    instructions all of them, with the pointers and counters of the loops
    chain        steps of the longest sum in straight-line code, one after the other

a nest takes

    cycles = max(operations, loads and stores, instructions, chain) by what the machine starts a
             cycle
           + loops and blocks that begin and end
           + sum over caches of lines that enter * cycles of a line from the level behind

A cache keeps the lines of loops from depth d on where all that one run of them touches fits; the
loop around d then brings in each line once, and loops further out bring them in again. Calls
repeat: what the whole tree touches stays in every cache that holds it.

All numbers of the machine are the machine model's. The model's own are named below.
"""

from __future__ import annotations

from math import log2, prod
from typing import Any

from loopwright.ir.loops import Mark
from loopwright.ir.machine import Machine
from loopwright.lazy_dataclass import dataclass
from loopwright.memo import BoundedCache, IdentityMap
from loopwright.planner.cost.cache_misses import clashing_share, lost_share, read_rate
from loopwright.tuning.loop_tree import LoopTree, TreeNest, TreeStatement
from loopwright.tuning.nest_facts import StatementFacts, bytes_of, code_plan, facts_of, quick_nest
from loopwright.tuning.quick_plan import CodePlan

__all__ = [
    "NestCost",
    "TreeCost",
    "TreeCostModel",
    "bound_seconds",
    "model_of",
    "predict",
    "predict_seconds",
]

_COPIED_AT_ONCE = 8  # vectors that are copied without a loop
_MOST_KEPT = 20_000  # costs of nests that are remembered
_LOOP_INSTRUCTIONS = 2.0  # counter and branch of an iteration; pointers come on top
_UNHIDDEN = 0.25  # share of a block's first and last latencies that no other block hides
_NEAR, _FAR = 0.3, 1.2  # shares of a line's cycles that are waited for, in a row and in its first
_ALIGNED = 16  # bytes; of what malloc gives and NumPy uses
_UNKNOWN_HZ = 1e9  # clock of machines whose clock nobody knows: times are then nanoseconds a cycle


@dataclass(frozen=True, slots=True)
class NestCost:
    """The parts of a nest's cost; cycles are of one core."""

    cycles: float  # all of it
    arithmetic: float  # cycles of vector operations, with inserts of gathers
    memory: float  # cycles of loads and stores, all of them in the nearest cache
    issue: float  # cycles of instructions of all kinds
    chain: float  # cycles of sums that wait for themselves
    overhead: float  # cycles of loops and blocks that begin and end
    copying: float  # cycles of packing
    filling: float  # cycles of zeroing the sums
    traffic: float  # cycles of lines that enter caches
    misses: tuple[float, ...]  # lines that enter each cache, nearest first
    operations: float  # vector operations
    loads: float
    stores: float
    packed: float  # bytes that are copied to buffers
    waste: float  # share of lanes that remainders leave empty, 0 to 1
    registers: int  # vector registers that hold sums
    inserts: float  # elements of gathers and of scattered stores
    lanes: int  # of the code; 1: scalar
    is_dot: bool  # lanes are partial sums of one element
    accumulators: int  # partial sums of each vector
    body: float  # vector operations of straight-line code


@dataclass(frozen=True, slots=True)
class TreeCost:
    """What a call of a tree's code costs."""

    seconds: float
    cycles: float
    nests: tuple[NestCost, ...]

    @property
    def loads_per_operation(self) -> float:
        """Loads for one vector operation, over all nests."""
        return sum(n.loads for n in self.nests) / max(1.0, sum(n.operations for n in self.nests))


def predict(tree: LoopTree, machine: Machine, threads: int = 1) -> TreeCost:
    """The cost of a tree on a machine, in parts."""
    return model_of(machine).cost(tree, threads)


def bound_seconds(tree: LoopTree, machine: Machine) -> float:
    """The roofline: no order of loops takes less than its arithmetic, or than its data take.

    Data come from the nearest cache that holds all arrays, else from memory.
    """
    return model_of(machine).bound(tree)


def _bound(model: TreeCostModel, tree: LoopTree) -> float:
    machine, work = model.machine, 0.0
    for nest in tree.nests:
        facts = model.facts(tree, nest.statement)
        points = prod(extent for _, extent in facts.dims)
        work += points * facts.operation / machine.lanes(facts.dtypes[0].bits)
    total = float(sum(bytes_of(array) for array in tree.arrays))
    levels = [k for k, cache in enumerate(machine.caches) if total <= cache.size]
    rate = read_rate(machine, levels[0] if levels else len(machine.caches))
    return max(work, total / rate) / model.hz


def predict_seconds(tree: LoopTree, machine: Machine, threads: int = 1) -> float:
    """Seconds of a call."""
    return model_of(machine).cost(tree, threads).seconds


_models: IdentityMap[Machine, TreeCostModel] = IdentityMap()


def model_of(machine: Machine) -> TreeCostModel:
    """The model of a machine, with what it remembers."""
    found = _models.get(machine)
    if found is None:
        found = _models[machine] = TreeCostModel(machine)
    return found


class TreeCostModel:
    """Costs of trees on one machine; costs of nests are remembered."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.hz = machine.frequency_hz or _UNKNOWN_HZ
        # Edits keep statements and arrays, so that these are known by their identity; the second
        # item of a value keeps them alive.
        self._known: dict[tuple[int, int, bool], tuple[StatementFacts, Any]] = {}
        self._facts: dict[Any, StatementFacts] = {}
        # Costs of nests by identity (with what keeps them alive), and by the loops of their code:
        # those of one dimension that follow each other are one there.
        self._nests: dict[tuple[int, int], tuple[NestCost, TreeNest]] = {}
        self._costs: dict[Any, NestCost] = {}
        self._bounds = BoundedCache[tuple[int, ...], tuple[float, Any]](4096)
        # Cycles to bring a line into each cache from what lies behind it.
        self.line_cycles = tuple(
            cache.line / read_rate(machine, level + 1) for level, cache in enumerate(machine.caches)
        )

    def cost(self, tree: LoopTree, threads: int = 1) -> TreeCost:
        """The cost of a call."""
        nests = tuple([self.nest_cost(tree, nest) for nest in tree.nests])
        cycles = 0.0
        for nest, cost in zip(tree.nests, nests, strict=True):
            outer = nest.loops[0] if nest.loops else None
            if threads > 1 and outer is not None and outer.mark is Mark.PARALLEL:
                used = min(threads, outer.trips)
                share = -(-outer.trips // used) / outer.trips
                cycles += cost.cycles * share + self.machine.parallel_cost.cycles(threads)
            else:
                cycles += cost.cycles
        return TreeCost(cycles / self.hz, cycles, nests)

    def bound(self, tree: LoopTree) -> float:
        """`bound_seconds`; edits keep statements and arrays, so it is known by their identity."""
        kept = (tree.arrays, *(nest.statement for nest in tree.nests))
        key = tuple(map(id, kept))
        known = self._bounds.get(key)
        if known is None:
            known = self._bounds[key] = _bound(self, tree), kept
        return known[0]

    def facts(self, tree: LoopTree, statement: TreeStatement) -> StatementFacts:
        """What loops do not change about a statement of a tree."""
        identity = (id(statement), id(tree.arrays), tree.reassoc)
        known = self._known.get(identity)
        if known is not None:
            return known[0]
        if len(self._known) >= _MOST_KEPT:
            self.forget()
        key = (statement, tree.arrays, tree.reassoc)
        found = self._facts.get(key)
        if found is None:
            found = self._facts[key] = facts_of(tree, statement, self.machine)
        self._known[identity] = found, (statement, tree.arrays)
        return found

    def nest_cost(self, tree: LoopTree, nest: TreeNest) -> NestCost:
        """The cost of a nest of a tree."""
        facts = self.facts(tree, nest.statement)
        known = self._nests.get((id(nest), id(facts)))
        if known is not None:
            return known[0]
        if len(self._nests) >= _MOST_KEPT:
            self._forget_costs()
        seen = quick_nest(nest, self.machine)
        key = (id(facts), seen.loops, seen.accumulators)
        found = self._costs.get(key)
        if found is None:
            plan = code_plan(seen, facts, self.machine)
            found = self._costs[key] = _NestCounts(self, seen, facts, plan).cost()
        self._nests[id(nest), id(facts)] = found, nest
        return found

    def _forget_costs(self) -> None:
        self._nests.clear()
        self._costs.clear()

    def forget(self) -> None:
        """Forget all costs: what is asked next takes as long as the first time."""
        self._known.clear()
        self._facts.clear()
        self._forget_costs()


# -- counts ------------------------------------------------------------------------------------


class _NestCounts:
    """Counts what the code of one nest does."""

    def __init__(
        self,
        model: TreeCostModel,
        nest: TreeNest,
        facts: StatementFacts,
        plan: CodePlan,
    ) -> None:
        self.model, self.machine = model, model.machine
        self.nest, self.facts, self.plan = nest, facts, plan
        self.packed = {access: depth for depth, x in enumerate(plan.levels) for access in x.packs}
        self._count()

    def _count(self) -> None:
        """Iterations of every dimension in front of each depth, and vectors of the whole."""
        plan = self.plan
        left: dict[str, dict[int, int]] = {name: {extent: 1} for name, extent in self.facts.dims}
        done = dict.fromkeys(left, 1)
        self.before = [done]  # before[d][dim]: iterations of the loops of dim in front of depth d
        for depth, level in enumerate(plan.levels):
            after: dict[int, int] = {}
            for points, times in left[level.dim].items():
                full, rest = divmod(points, level.step)
                if depth == plan.vector:
                    wide, narrow = divmod(full, plan.lanes)
                    full = wide + narrow.bit_count()
                if full:
                    after[level.step] = after.get(level.step, 0) + full * times
                if rest:
                    after[rest] = after.get(rest, 0) + times
            left[level.dim] = after
            done = {**done, level.dim: sum(after.values())}
            self.before.append(done)
        self._runs = [prod(counts.values()) for counts in self.before]

    def runs(self, depth: int) -> int:
        """How often the loops from `depth` on are begun."""
        return self._runs[depth]

    def cost(self) -> NestCost:
        facts, plan, machine = self.facts, self.plan, self.machine
        total, at_body = self.before[-1], self.before[plan.body]
        operations = float(prod(total.values()))
        lanes = plan.lanes
        extents = dict(facts.dims)
        points = prod(extents.values())
        waste = 1.0 - points / (operations * lanes) if lanes > 1 else 0.0
        loads = inserts = crossing = 0.0
        for access in range(1, len(facts.moves)):
            moves = facts.moves[access]
            count = float(prod(n if moves[d] else at_body[d] for d, n in total.items()))
            lane_move = plan.levels[plan.vector].coefs[access] if plan.levels else 0
            if lanes > 1 and lane_move not in (0, 1):
                inserts += count * lanes
                count *= lanes
            elif lanes > 1 and lane_move == 1 and access not in self.packed:
                crossing += count * self._crossing(access)
            loads += count
        stores, summed, opened = self._blocks(operations)
        lane_move = plan.levels[plan.vector].coefs[0] if plan.levels else 1
        width = lanes if lanes > 1 and not plan.is_dot and lane_move != 1 else 1
        stored = stores * width
        loaded = stored if facts.accumulates and self._is_resumed() else 0.0
        if width > 1:
            inserts += stored + loaded
        blocks, spilled = self._spilled(operations)
        arithmetic = operations * facts.operation + (inserts + summed) * facts.simple
        loads += loaded + spilled
        stored += spilled
        loops, overhead = self._loops(opened)
        instructions = operations * facts.instructions + inserts + summed + loads + stored + loops
        packed, copying = self._packing()
        filled = self._fill()
        reached = loads + crossing + stored
        memory = max(reached / machine.loads_per_cycle, stored / machine.stores_per_cycle)
        issue = instructions / machine.issue_width
        chain = self._chain()
        misses, traffic = self._misses()
        work = sum(part**3 for part in (arithmetic, memory, issue, chain)) ** (1 / 3)
        cycles = work + overhead + traffic + copying + filled
        return NestCost(
            cycles,
            arithmetic,
            memory,
            issue,
            chain,
            overhead,
            copying,
            filled,
            traffic,
            misses,
            operations,
            loads,
            stored,
            packed,
            waste,
            blocks,
            inserts,
            lanes,
            plan.is_dot,
            plan.accumulators,
            operations / max(1, self.runs(plan.body)),
        )

    def _crossing(self, access: int) -> float:
        """The share of an access's vectors that lie in two lines, each of which is read.

        Arrays begin anywhere between lines but at multiples of _ALIGNED, as allocators give them.
        """
        size = self.plan.lanes * self.facts.sizes[access]
        return min(1.0, size / self.machine.caches[0].line) if size > _ALIGNED else 0.0

    def _is_resumed(self) -> bool:
        """Whether blocks of sums are left and come back to."""
        outer = self.plan.levels[: self.plan.registers]
        return any(not level.is_written and level.trips > 1 for level in outer)

    def _blocks(self, operations: float) -> tuple[float, float, float]:
        """Stores of all blocks, vector operations that combine sums, and how often one begins."""
        facts, plan = self.facts, self.plan
        if not facts.accumulates:
            return operations, 0.0, 0.0
        total, here = self.before[-1], self.before[plan.registers]
        stores = float(prod(n if d in facts.written else here[d] for d, n in total.items()))
        summed = stores * (plan.accumulators - 1)
        if plan.is_dot and plan.lanes > 1:
            summed += stores * 2 * log2(plan.lanes)
        return stores, summed, float(self.runs(plan.registers))

    def _spilled(self, operations: float) -> tuple[int, float]:
        """Registers of the block, and loads of sums that did not fit."""
        plan = self.plan
        if not self.facts.accumulates or not plan.levels:
            return 0, 0.0
        blocks = plan.accumulators * prod(
            plan.units(k)
            for k in range(plan.registers, len(plan.levels))
            if plan.levels[k].is_written
        )
        room = self.machine.vector_registers - 4
        share = max(0.0, 1.0 - room / blocks)
        steps = prod(x.trips for x in plan.levels[plan.registers :] if not x.is_written)
        return blocks, operations * share * (1 + 1 / steps)

    def _loops(self, opened: float) -> tuple[float, float]:
        """Of loops that are not unrolled: instructions of counters, branches and pointers; and
        latencies that nothing hides where blocks and loops begin.
        """
        plan = self.plan
        latency = self.machine.load_latency + self.facts.latency
        instructions, overhead = 0.0, opened * latency * _UNHIDDEN
        for depth, level in enumerate(plan.levels[: plan.body]):
            if level.trips == 1 or (depth >= plan.registers and level.is_written):
                continue
            moving = len(level.coefs) - level.coefs.count(0)
            instructions += self._runs[depth + 1] * (_LOOP_INSTRUCTIONS + moving)
            overhead += self._runs[depth]
        return instructions, overhead

    def _chain(self) -> float:
        """Cycles of straight-line code whose sums wait for their last step."""
        facts, plan = self.facts, self.plan
        if not facts.accumulates or not plan.levels:
            return 0.0
        here, total = self.before[plan.body], self.before[-1]
        steps = prod(total[d] / here[d] for d in total if d not in facts.written)
        return self.runs(plan.body) * steps / plan.accumulators * facts.latency

    def _fill(self) -> float:
        """Cycles to zero the sums that blocks come back to."""
        if not (self.facts.accumulates and self._is_resumed()):
            return 0.0
        vectors = self.facts.bytes / self.machine.vector_bytes
        return vectors / self.machine.stores_per_cycle

    # -- caches -----------------------------------------------------------------------------------

    def _misses(self) -> tuple[tuple[float, ...], float]:
        """Lines that enter each cache, and the cycles that takes.

        Seen from the body outwards: an access of the loops from d on brings in its lines once where
        the loops inside keep what they touch, else as often as they run; in between, a mixture.
        """
        caches, plan = self.machine.caches, self.plan
        found = [0.0] * len(caches)
        lost_between = [lost_share(self.facts.total / cache.size) for cache in caches]
        if not any(lost_between):
            return tuple(found), 0.0  # all arrays stay from call to call
        line = caches[0].line
        touched = [self._touched(depth, line) for depth in range(plan.body + 1)]
        taken = [line * sum(lines for lines, _, _ in row) for row in touched]
        runs = [self.runs(depth) for depth in range(plan.body + 1)]
        exposed = [self._exposed(access) for access in range(len(self.facts.moves))]
        cycles = 0.0
        for level, cache in enumerate(caches):
            if not lost_between[level]:
                break
            lost = [lost_share(size / cache.size) for size in taken]
            for access in range(len(self.facts.moves)):
                is_block = access == 0 and self.facts.accumulates
                first = plan.registers if is_block else plan.body
                lines = touched[first][access][0]
                for depth in range(first - 1, -1, -1):
                    once, _, _ = touched[depth][access]
                    _, rows, stride = touched[depth + 1][access]
                    again = max(lost[depth + 1], clashing_share(rows, stride, cache))
                    if again:
                        often = lines * runs[depth + 1] / runs[depth]
                        once += again * max(0.0, often - once)
                    lines = once
                lines *= lost_between[level]
                found[level] += lines
                cycles += lines * exposed[access] * self.model.line_cycles[level]
        return tuple(found), cycles

    def _exposed(self, access: int) -> float:
        """The share of a line's cycles that is waited for.

        Lines that follow each other in memory are fetched before they are asked for; the first of
        every row is not.
        """
        line = self.machine.caches[0].line
        run = size = self.facts.sizes[access]
        for level in reversed(self.plan.levels):
            move = abs(level.coefs[access]) * size
            if move == 0 or level.trips == 1:
                continue
            if move > max(run, line):
                return _NEAR + (_FAR - _NEAR) * min(1.0, line / run)
            run = max(run, move * level.trips)
        return _NEAR

    def _touched(self, depth: int, line: int) -> list[tuple[float, int, int]]:
        """Of each access of the loops from `depth` on: lines, rows they lie in, their distance."""
        points = dict.fromkeys(self.before[0], 1)
        for level in self.plan.levels[depth:]:
            reach = level.step * level.trips
            if reach > points[level.dim]:
                points[level.dim] = reach
        for dim, extent in self.facts.dims:
            if points[dim] > extent:
                points[dim] = extent
        found = []
        sizes, packs = self.facts.sizes, self.packed
        for access, moving in enumerate(self.facts.moving):
            size = sizes[access]
            packed = packs.get(access, depth + 1) if packs else depth + 1
            if depth > packed:
                elements = prod(points[d] for _, d in moving)
                found.append((max(1.0, elements * size / line), 1, 0))
                continue
            rows, run, stride = 1, size, 0
            for move, dim in moving:
                count = points[dim]
                if count == 1:
                    continue
                if move <= run or move <= line:
                    run += move * (count - 1)
                else:
                    rows *= count
                    stride = stride or move
            lines = rows * _lines(run, stride, line)
            if depth == packed:  # the source and the buffer
                lines += prod(points[d] for _, d in moving) * size / line
            found.append((lines, rows, stride))
        return found

    def _packing(self) -> tuple[float, float]:
        """Bytes that are copied to buffers, and cycles of that."""
        total = cycles = 0.0
        loops, facts, machine = self.nest.loops, self.facts, self.machine
        runs = 1
        for depth, loop in enumerate(loops):
            for operand in loop.packs:
                used = facts.used[operand]
                depths = [k for k in range(depth, len(loops)) if loops[k].dim in used]
                elements = prod(loops[k].trips for k in depths)
                inner = depths[-1] if depths else depth
                dtype = facts.dtypes[operand + 1]
                lanes = machine.lanes(dtype.bits)
                while lanes > loops[inner].trips:
                    lanes //= 2
                vectors = elements / max(lanes, 1)
                move = facts.moves[operand + 1][loops[inner].dim] * self.nest.steps[inner]
                copied = 2 * vectors / machine.loads_per_cycle
                if move != 1 and lanes > 1:
                    accesses = (elements + vectors) / machine.loads_per_cycle
                    copied = max(accesses, elements * facts.simple)
                bodies = vectors / _COPIED_AT_ONCE
                if bodies > 1:
                    copied += bodies * machine.issue_width + machine.load_latency
                cycles += runs * copied
                total += runs * elements * dtype.bytes
            runs *= loop.trips
        return total, cycles


def _lines(run: int, stride: int, line: int) -> float:
    """Lines of a row of contiguous bytes; rows that begin anywhere may reach into one more."""
    if run <= line and line % run == 0:
        return 1.0
    return run / line + (0.0 if stride % line == 0 else 0.5)
