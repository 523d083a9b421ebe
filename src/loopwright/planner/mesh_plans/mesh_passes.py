"""Passes over matrices for a mesh: nests that use the same elements run while these are near.

A nest of two loops that uses matrices as A[r][c] and vectors of r or of c reads a matrix once.
Nests that follow each other and have a matrix in common read it together: cores take blocks of rows
(or of columns), and all nests use a box of the matrix before the next one comes. Sums along the
loop that cores take are gathered apart by each of them, where their order is free (PartialSums),
and added up in the order of the blocks afterwards. Where it is not free, cores hand them on, part
by part, from strip to strip of rows (HandOn).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import ceil, prod

from loopwright.analysis.reductions import reductions
from loopwright.analysis.scratchpad_boxes import accesses_in
from loopwright.analysis.size_estimates import average_trips, bounded_sizes, likely_sizes
from loopwright.ir.access_names import NamedAccess, named_accesses
from loopwright.ir.expr import Const, Var
from loopwright.ir.islkit import isl, isl_integer
from loopwright.ir.mesh_machine import MeshMachine
from loopwright.ir.program import Program, Statement
from loopwright.ir.schedule import Schedule
from loopwright.ir.schedule_tree import (
    Band,
    Leaf,
    Node,
    bands,
    in_sequence,
    moved_by,
    nodes_of,
    perfect_nest,
    statements_in,
)
from loopwright.ir.schedule_tree import Sequence as InOrder
from loopwright.ir.visit import fresh_name
from loopwright.lazy_dataclass import dataclass
from loopwright.planner.draft import Draft
from loopwright.planner.mesh_plans.mesh_handed_sizes import handed_sizes, may_hand_on
from loopwright.planner.mesh_plans.mesh_pass_sizes import PassSizes, PassWork, pass_sizes
from loopwright.planner.mesh_plans.mesh_tiles import box_bytes
from loopwright.transform.hand_on import HandOn
from loopwright.transform.mesh_mapping import MapToMesh
from loopwright.transform.partial_sums import PartialSums
from loopwright.transform.reschedule import Reschedule, tree_text
from loopwright.transform.stage_box import StageBox
from loopwright.transform.step import Step

__all__ = ["plan_mesh_passes"]

_MOST_SHAPES = 3  # of a pass that are tried
# Of a core for an instance of a statement, boxes in its scratchpad; of sums along vectors.
_CYCLES, _SUM_CYCLES = 7.5, 2.0
_Parts = list[tuple[frozenset[str], Node]]


@dataclass(frozen=True, slots=True)
class _Nest:
    """A nest of two loops around one statement, which uses matrices and vectors only."""

    statement: str
    row: str  # the iterators
    column: str
    loops: tuple[str, str]  # names for the loops of rows and of columns
    matrices: frozenset[str]
    target: str  # the vector that is summed up; "" for a nest that writes a matrix
    is_row_sum: bool  # of those: an element belongs to a row
    is_free: bool  # the order of the sum is

    @property
    def is_vector(self) -> bool:
        """Whether elements that are summed up side by side lie so."""
        return bool(self.target) and not self.is_row_sum


@dataclass(frozen=True, slots=True)
class _Pass:
    steps: tuple[Step, ...]
    boxes: tuple[StageBox, ...]
    cycles: float


def plan_mesh_passes(
    schedule: Schedule,
    machine: MeshMachine,
    shape: tuple[int, int],
    room: int,
    boxes: list[StageBox],
) -> tuple[Step, ...]:
    """The steps of passes up to their mapping, where nests stand one behind another.

    Their boxes are added to `boxes`: those are taken when all loops have their marks.
    """
    passes = _Passes(Draft(schedule), machine, shape, room)
    passes.rows_first()
    waiting = passes.nests()
    while waiting:
        found, count = passes.next(waiting)
        waiting = waiting[count:]
        if found is not None and passes.draft.take(*found.steps):
            boxes += found.boxes
    return tuple(passes.draft.steps)


@dataclass(slots=True)
class _Passes:
    draft: Draft
    machine: MeshMachine
    shape: tuple[int, int]
    room: int

    def nests(self) -> list[_Nest | None]:
        """The parts of the program in their order; None for one that is no nest of a matrix."""
        program = self.draft.schedule.program
        free = {r.statement: r for r in reductions(program)}
        found: list[_Nest | None] = []
        _, parts = _place(nodes_of(self.draft.schedule))
        for _, node in parts:
            nest = _nest_of(program, node)
            if nest is not None and nest.target:
                own = free.get(nest.statement)
                gathered = nest.column if nest.is_row_sum else nest.row
                if own is None or gathered not in own.loops:
                    nest = None
                elif own.is_reorderable:
                    nest = replace(nest, is_free=True)
            found.append(nest)
        return found

    def rows_first(self) -> None:
        """Passes by rows before neighbours by columns, where neither needs the other.

        Columns are for a few cores, whose rows would come last while all others wait.
        """
        program = self.draft.schedule.program
        around, parts = _place(nodes_of(self.draft.schedule))
        nests = self.nests()
        for at, (one, other) in enumerate(pairwise(nests)):
            if one is None or other is None or not other.is_row_sum or not one.is_vector:
                continue
            if one.is_free or not one.matrices & other.matrices:
                continue
            swapped = [*parts[:at], parts[at + 1], parts[at], *parts[at + 2 :]]
            tree = _inside(around, in_sequence(program, swapped))
            self.draft.take(Reschedule(tree_text(self.draft.schedule.tree.get_domain(), tree)))
            return

    def next(self, waiting: Sequence[_Nest | None]) -> tuple[_Pass | None, int]:
        """The pass of the first nests, with how many these are."""
        group: list[_Nest] = []
        for nest in waiting:
            shared = frozenset().union(*(one.matrices for one in group))
            if nest is None or (group and not nest.matrices & shared):
                break
            group.append(nest)
        for count in range(len(group), 0, -1):
            some = group[:count]
            if not any(nest.target for nest in some):
                continue
            found = self._pass(some)
            if found is not None and (count == 1 or found.cycles < self._apart(some)):
                return found, count
        return None, 1

    def _apart(self, group: Sequence[_Nest]) -> float:
        """About the cycles of nests one by one."""
        total = 0.0
        for nest in group:
            found = self._offered([nest])
            total += found[0].cycles if found else float("inf")
        return total

    def _offered(self, group: Sequence[_Nest]) -> list[PassSizes]:
        """Sizes of the shapes that a pass can have, as far as sums tell."""
        sums = [nest for nest in group if nest.target]
        ways = []
        if all(nest.is_row_sum or nest.is_free for nest in sums):
            ways.append(True)
        if not any(nest.is_row_sum for nest in sums):
            ways.append(False)
        cores = self.shape[0] * self.shape[1]
        offered: list[PassSizes] = []
        for is_by_rows in ways:
            work = self._work(group, is_by_rows=is_by_rows)
            if work is not None:
                offered += pass_sizes(work, self.machine, cores, self.room, [is_by_rows])
        # Sums of columns that keep their order, in one pass with sums of rows.
        has_both = any(nest.is_row_sum for nest in sums) and any(
            nest.is_vector and not nest.is_free for nest in sums
        )
        if has_both and may_hand_on(self.machine, self.shape):
            work = self._work(group, is_by_rows=True)
            if work is not None:
                offered += handed_sizes(work, self.machine, cores, self.room)
        return sorted(offered, key=lambda sizes: sizes.cycles)

    def _work(self, group: Sequence[_Nest], *, is_by_rows: bool) -> PassWork | None:
        """What the nests of a pass move, for the model."""
        program = self.draft.schedule.program
        sizes = likely_sizes(program)
        trips = average_trips(program, sizes)
        rows = ceil(max(trips[nest.statement][nest.row] for nest in group))
        columns = ceil(max(trips[nest.statement][nest.column] for nest in group))
        moved: dict[tuple[str, str], set[bool]] = {}
        apart: set[str] = set()
        for nest in group:
            for one in named_accesses(program.statement(nest.statement)):
                if not one.access.index:
                    continue
                array = one.access.array
                if array == nest.target and not nest.is_row_sum and is_by_rows:
                    apart.add(array)
                    continue
                moved.setdefault((array, _kind(nest, one)), set()).add(one.is_write)
        names = {array for array, _ in moved} | apart
        element = {program.array(name).dtype.bytes for name in names}
        if min(rows, columns) < 1 or len(element) > 1:
            return None
        ways: dict[str, list[int]] = {"matrix": [], "row": [], "column": []}
        for (_, kind), used in moved.items():
            ways[kind].append(len(used))
        matrices = {name for nest in group for name in nest.matrices}
        return PassWork(
            rows,
            columns,
            element.pop(),
            tuple(ways["matrix"]),
            tuple(ways["row"]),
            tuple(ways["column"]),
            len(apart),
            sum(_SUM_CYCLES if nest.is_vector else _CYCLES for nest in group),
            set(program.params) == set(bounded_sizes(program)),
            all(program.array(name).shape[-1] == Const(columns) for name in matrices),
        )

    def _pass(self, group: Sequence[_Nest]) -> _Pass | None:
        """The fastest pass that is legal, with a box for every access."""
        for sizes in self._offered(group)[:_MOST_SHAPES]:
            found = self._taken(group, sizes)
            if found is not None:
                return found
        return None

    def _taken(self, group: Sequence[_Nest], sizes: PassSizes) -> _Pass | None:
        """A pass of some sizes; None where it is illegal."""
        sums: list[Step] = []
        if sizes.is_by_rows and not sizes.part:
            sums = [
                PartialSums(nest.statement, nest.row, sizes.row_block)
                for nest in group
                if nest.target and not nest.is_row_sum
            ]
        before: Schedule | None = self.draft.schedule
        ends: list[tuple[str, str]] = []
        for count in range(len(sums)):
            before = self.draft.reach(*sums[: count + 1])
            if before is None:
                return None
            start, total = before.program.statements[-2:]
            ends.append((start.name, total.name))
        assert before is not None
        tree, loops = _Tree(before, group, sizes, ends).built()
        order = Reschedule(tree_text(before.tree.get_domain(), tree))
        mapping: Step = MapToMesh(loops["mapped"], "mesh", *self.shape)
        if sizes.part:
            arrays = tuple(nest.target for nest in group if nest.is_vector)
            parts = tuple(loops[nest.statement] for nest in group if nest.is_vector)
            mapping = HandOn(loops["mapped"], arrays, parts, *self.shape)
        steps = [*sums, order, mapping]
        after = self.draft.reach(*steps)
        if after is None:
            return None
        boxes = _boxes(after, group, loops, sizes)
        staged = self.draft.reach(*steps, *boxes)
        if staged is None:
            return None
        size_of = {array.name: array.dtype.bytes for array in staged.program.arrays}
        used = (box_bytes(prod(b.memory), size_of[b.array], b.buffers) for b in staged.boxes)
        if sum(used) > self.room:
            return None
        return _Pass(tuple(steps), tuple(boxes), sizes.cycles)


def _place(root: Node) -> tuple[tuple[Band, ...], _Parts]:
    """Loops around all of a program, and its parts inside of them, with their statements."""
    match root:
        case InOrder(filters=filters):
            return (), [(statements_in(b.instances), b.child) for b in filters]
        case Band():
            around = perfect_nest(root)
            if isinstance(around[-1].child, InOrder):
                return around, _place(around[-1].child)[1]
            return (), [(root.statements, root)]
    return (), []


def _inside(around: Sequence[Band], node: Node) -> Node:
    """A node in loops."""
    for band in reversed(around):
        node = replace(band, child=node)
    return node


def _nest_of(program: Program, node: Node) -> _Nest | None:
    """Two loops around one statement of matrices and vectors, if a node is that."""
    if not isinstance(node, Band) or len(node.statements) != 1:
        return None
    nest = perfect_nest(node)
    (name,) = node.statements
    statement = program.statement(name)
    if len(nest) != 2 or not isinstance(nest[-1].child, Leaf):
        return None
    loop_of = {moved_by(band, program).get(name): band.loop for band in nest}
    found = [one.access for one in named_accesses(statement) if one.access.index]
    orders = {one.index for one in found if len(one.index) == 2}
    if len(orders) != 1 or len(loop_of) != 2:
        return None
    (order,) = orders
    if {entry.name for entry in order if isinstance(entry, Var)} != set(loop_of):
        return None
    row, column = (entry.name for entry in order if isinstance(entry, Var))
    vectors = {(Var(row),), (Var(column),)}
    if any(len(one.index) > 2 or (len(one.index) == 1 and one.index not in vectors)
           for one in found) or not _is_rectangle(statement, (row, column)):  # fmt: skip
        return None
    write = statement.write.index
    if not write:
        return None
    return _Nest(
        name,
        row,
        column,
        (loop_of[row], loop_of[column]),
        frozenset(one.array for one in found if len(one.index) == 2),
        statement.write.array if len(write) == 1 else "",
        write == (Var(row),),
        False,
    )


def _is_rectangle(statement: Statement, iterators: Sequence[str]) -> bool:
    """Whether the two loops of a nest do not bound each other."""
    domain = whole = statement.domain
    for iterator in iterators:
        at = statement.iterators.index(iterator)
        side = domain.project_out(isl.dim_type.set, at, 1).insert_dims(isl.dim_type.set, at, 1)
        side = side.set_tuple_name(domain.get_tuple_name())
        whole = side if iterator == iterators[0] else whole.intersect(side)
    return bool(whole.is_subset(domain))


def _kind(nest: _Nest, one: NamedAccess) -> str:
    """What an access of a nest moves with."""
    if len(one.access.index) == 2:
        return "matrix"
    return "row" if one.access.index == (Var(nest.row),) else "column"


@dataclass(frozen=True, slots=True)
class _Tree:
    """The order of a program with a pass in it."""

    schedule: Schedule
    group: Sequence[_Nest]
    sizes: PassSizes
    ends: Sequence[tuple[str, str]]  # of sums apart: what begins them, and what adds them up

    def built(self) -> tuple[Node, dict[str, str]]:
        """The whole tree, and the names of the loops of the pass."""
        root, program = nodes_of(self.schedule), self.schedule.program
        taken = {band.loop for band in bands(root)} | set(program.params)
        row, column = self.group[0].loops
        loops: dict[str, str] = {}
        for word, wish in (("row", f"{row}_t"), ("column", f"{column}_t"), ("strip", f"{row}_s")):
            loops[word] = fresh_name(wish, taken)
            taken.add(loops[word])
        sizes = self.sizes
        for nest in self.group:
            if sizes.part and nest.is_vector:
                loops[nest.statement] = fresh_name(f"{nest.loops[1]}_p", taken)
                taken.add(loops[nest.statement])
        loops["mapped"] = loops["row" if sizes.is_by_rows else "column"]
        if not sizes.row_block:
            loops["row"] = loops["column"]
        if not sizes.column_block:
            loops["column"] = loops["row"]
        names = {nest.statement for nest in self.group}
        starts = [start for start, _ in self.ends]
        last = {total for _, total in self.ends}
        parts: _Parts = []
        totals: _Parts = []
        at = -1
        around, before = _place(root)
        for statements, node in before:
            if statements & names:
                at = len(parts) if at < 0 else at
            elif statements & last and isinstance(node, Band):
                totals.append((statements, _elements_first(node)))
            elif not statements & set(starts):
                parts.append((statements, node))
        nests = frozenset(names | set(starts))
        parts[at:at] = [(nests, self._nests(loops, starts)), *totals]
        return _inside(around, in_sequence(program, parts)), loops

    def _nests(self, loops: Mapping[str, str], starts: Sequence[str]) -> Node:
        """The loops of the pass."""
        program, sizes, group = self.schedule.program, self.sizes, self.group
        inner: _Parts = []
        for nest in group:
            row, column = nest.loops
            node: Node = self._loop(column, {nest.statement: (nest.column, 1, 1)}, Leaf())
            if sizes.strip > 1:
                node = self._loop(row, {nest.statement: (nest.row, 1, 1)}, node)
            if sizes.part and nest.is_vector:
                over = {nest.statement: (nest.column, 1, sizes.part)}
                node = self._loop(loops[nest.statement], over, node)
            inner.append((frozenset({nest.statement}), node))
        if sizes.part:
            return self._in_turn(loops, in_sequence(program, inner))
        rows = {nest.statement: (nest.row, 1, sizes.strip) for nest in group}
        found: Node = self._loop(loops["strip"], rows, in_sequence(program, inner))
        columns = {nest.statement: nest.column for nest in group}
        for name in starts:
            # Iterators of a start are the number of the block, then the element's subscript.
            columns[name] = program.statement(name).iterators[1]
        if starts:
            names = frozenset(nest.statement for nest in group)
            taken = {band.loop for band in bands(nodes_of(self.schedule))}
            taken |= set(loops.values())
            heads: _Parts = []
            for name in starts:
                loop = fresh_name(columns[name], taken)
                taken.add(loop)
                heads.append(
                    (frozenset({name}), self._loop(loop, {name: (columns[name], 1, 1)}, Leaf()))
                )
            found = in_sequence(program, [*heads, (names, found)])
        cuts = []
        if sizes.column_block:
            over = {name: (word, 1, sizes.column_block) for name, word in columns.items()}
            cuts.append(("column", over))
        if sizes.row_block:
            over = {nest.statement: (nest.row, 1, sizes.row_block) for nest in group}
            for name in starts:
                over[name] = (program.statement(name).iterators[0], sizes.row_block, 1)
            cuts.insert(len(cuts) if sizes.is_by_rows else 0, ("row", over))
        for word, over in cuts:
            found = self._loop(loops[word], over, found)
        return found

    def _in_turn(self, loops: Mapping[str, str], nests: Node) -> Node:
        """Strips of rows that cores take in turn, for each block of columns."""
        sizes = self.sizes
        rows = {nest.statement: (nest.row, 1, sizes.strip) for nest in self.group}
        found: Node = self._loop(loops["row"], rows, nests)
        if sizes.column_block:
            over = {nest.statement: (nest.column, 1, sizes.column_block) for nest in self.group}
            found = self._loop(loops["column"], over, found)
        return found

    def _loop(self, name: str, over: Mapping[str, tuple[str, int, int]], child: Node) -> Band:
        """A loop whose value is, for each statement, `factor` times an iterator, in strips."""
        program = self.schedule.program
        total: isl.UnionPwAff | None = None
        for word, (iterator, factor, size) in over.items():
            statement = program.statement(word)
            space = isl.LocalSpace.from_space(statement.domain.get_space())
            at = statement.iterators.index(iterator)
            value = isl.Aff.var_on_domain(space, isl.dim_type.set, at)
            value = value.scale_val(isl_integer(factor))
            if size > 1:
                count = isl_integer(size)
                value = value.scale_down_val(count).floor().scale_val(count)
            one = isl.UnionPwAff.from_pw_aff(isl.PwAff.from_aff(value))
            total = one if total is None else total.union_add(one)
        assert total is not None
        whole = isl.MultiUnionPwAff.from_union_pw_aff(total)
        return Band(name, whole.set_tuple_name(isl.dim_type.set, name), child)


def _elements_first(node: Band) -> Node:
    """Two loops over blocks and elements, those over elements outermost."""
    blocks, elements = perfect_nest(node)
    inner = Band(blocks.loop, blocks.partial, elements.child)
    return Band(elements.loop, elements.partial, inner)


def _boxes(
    schedule: Schedule, group: Sequence[_Nest], loops: Mapping[str, str], sizes: PassSizes
) -> list[StageBox]:
    """A box for what the nests of a pass access of each array, at the loop that changes it."""
    program = schedule.program
    nests = {nest.statement: nest for nest in group}
    mapped = next(b for b in bands(nodes_of(schedule)) if b.loop == loops["mapped"])
    found: dict[tuple[str, str], list[str]] = {}
    last: dict[tuple[str, str], list[str]] = {}
    for array in program.arrays:
        if not array.rank:
            continue
        for one in accesses_in(program, mapped, array.name):
            kind = "column"  # of partial sums, too
            if one.statement in nests and not _has_division(one):
                kind = _kind(nests[one.statement], one)
            if sizes.part:
                nest = nests[one.statement]
                is_handed = nest.is_vector and array.name == nest.target
                loop = loops[nest.statement if is_handed else "mapped"]
                # What is the same in all strips comes first, and stays.
                boxes = found if kind == "column" and not is_handed else last
                boxes.setdefault((array.name, loop), []).append(one.name)
                continue
            loop = loops["strip" if kind == "matrix" else kind]
            found.setdefault((array.name, loop), []).append(one.name)
    found |= last
    return [
        StageBox(array, loop, tuple(names), sizes.buffers if loop == loops["strip"] else 1)
        for (array, loop), names in found.items()
    ]


def _has_division(one: NamedAccess) -> bool:
    """Whether a subscript is the number of a block."""
    return any(not isinstance(entry, Var) for entry in one.access.index)
